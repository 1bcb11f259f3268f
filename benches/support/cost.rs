//! What a run of the cost bench leaves behind, JSON lines, and the section of docs/performance.md that is made from them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// One line of the raw output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// First line: what was run where.
    Run(Run),
    /// What the daemon cost over a span of time.
    Cost(Cost),
    /// A series of scrapes, one after the other.
    Scrapes(Scrapes),
    /// What the bare operations cost.
    Bare(Bare),
}

/// The same operations at the same pace on the same disks, by threads that do nothing else: no clock, check, book or metric. What
/// they cost, any program pays that asks these disks as often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bare {
    /// Disks, each with a thread that commits and one that reads.
    pub targets: usize,
    /// Length of the span.
    pub seconds: f64,
    /// What the committing threads cost.
    pub commits: Threads,
    /// What the reading threads cost.
    pub reads: Threads,
}

/// What was run where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Of the source, with `+` where it was changed since.
    pub commit: String,
    /// RFC 3339.
    pub date: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the CPU.
    pub cpu: String,
    /// How many of them.
    pub cpus: usize,
    /// `release`, or `dev` where the compiler's checks were on.
    pub build: String,
    /// Processes that wanted to run, mean of the minute before.
    pub load: f64,
}

/// What the daemon cost over a span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How it was configured.
    pub variant: Variant,
    /// How many, each on a disk of its own.
    pub targets: usize,
    /// Length of the span.
    pub seconds: f64,
    /// User and system time of the process and of the kernel's workers in it.
    pub cpu_seconds: f64,
    /// The same by the name of the thread.
    pub by_thread: Vec<Threads>,
    /// Bytes resident at the start of the span.
    pub rss_start: u64,
    /// At its end.
    pub rss_end: u64,
    /// The most that was seen in between.
    pub rss_most: u64,
    /// Threads at the start.
    pub threads_start: usize,
    /// At the end.
    pub threads_end: usize,
    /// Descriptors at the start.
    pub descriptors_start: usize,
    /// At the end.
    pub descriptors_end: usize,
    /// Slots whose run came back.
    pub slots_run: u64,
    /// Slots that were skipped, with the reason.
    pub slots_skipped: u64,
    /// Slots that were missed.
    pub slots_missed: u64,
    /// Reads that we say we issued.
    pub reads: u64,
    /// Reads that the kernel says the disks did.
    pub kernel_reads: u64,
    /// Targets where the two differ.
    pub reads_differ: usize,
    /// Writes that we say we issued.
    pub writes: u64,
    /// Writes that the kernel says the disks did, flushes sent alone among them.
    pub kernel_writes: u64,
    /// Bytes that we say we wrote.
    pub written_bytes: u64,
    /// Bytes that the kernel says the disks wrote.
    pub kernel_written_bytes: u64,
}

/// How the daemon was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// Default intervals and engine.
    Default,
    /// Default intervals, `engine: threads`.
    Threads,
    /// As many runs as an hour has at default intervals, in a twentieth of the time: what the windows of an hour hold.
    Hour,
}

impl Variant {
    const fn title(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Threads => "`engine: threads`",
            Self::Hour => "an hour's runs in 3 minutes",
        }
    }
}

/// The threads of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threads {
    /// The name.
    pub name: String,
    /// How many.
    pub count: usize,
    /// Their CPU time.
    pub cpu_seconds: f64,
    /// How often they went to sleep.
    pub sleeps: u64,
}

/// A series of scrapes, one after the other, over loopback, each on a connection of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scrapes {
    /// Targets in the daemon.
    pub targets: usize,
    /// Since it was ready.
    pub age_seconds: f64,
    /// How many.
    pub scrapes: usize,
    /// Of the last text.
    pub bytes: usize,
    /// Of the last text.
    pub series: usize,
    /// From connect to the last byte, in µs: the least.
    pub least_micros: f64,
    /// The median.
    pub median_micros: f64,
    /// CPU of the daemon for each, in µs, everything that it did meanwhile included.
    pub cpu_micros: f64,
}

/// The lines of a raw file.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let line = |(i, text)| serde_json::from_str(text).map_err(|e| format!("line {}: {e}", i + 1));
    text.lines().enumerate().filter(|(_, text)| !text.is_empty()).map(line).collect()
}

/// Share of one core that all may cost, in percent, and the goal.
const CPU: (f64, f64) = (1.0, 0.5);
/// Resident MiB that all may cost, and the goal.
const RSS: (f64, f64) = (32.0, 24.0);
/// Percent of slots that must be run.
const SLOTS: f64 = 99.0;
/// Milliseconds that a text may take.
const SCRAPE: f64 = 3.0;

/// A section on cost, under a title and a sentence on the machine's day.
pub fn section(title: &str, about: &str, lines: &[Line]) -> String {
    let mut text = format!("## {title}\n\n{about}\n\n");
    for line in lines {
        if let Line::Run(run) = line {
            conditions(&mut text, run);
        }
    }
    text.push_str("\n| daemon | targets | s | CPU, % of a core | resident MiB: start, end, most | threads | descriptors | ");
    text.push_str("slots run | skipped | missed |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    let costs: Vec<&Cost> =
        lines.iter().filter_map(|l| if let Line::Cost(c) = l { Some(c) } else { None }).collect();
    costs.iter().for_each(|cost| cost_row(&mut text, cost));
    witnesses(&mut text, &costs);
    text.push_str("\nWhere the CPU time went, in the default daemon:\n");
    let default = costs.iter().copied().find(|c| c.variant == Variant::Default);
    if let Some(cost) = default {
        by_thread(&mut text, cost);
    }
    let bare = lines.iter().filter_map(|l| if let Line::Bare(b) = l { Some(b) } else { None }).collect();
    floor(&mut text, default, bare);
    scrape_table(&mut text, &scrapes(lines, true));
    verdicts(&mut text, &costs, &scrapes(lines, false));
    text
}

/// Those of a daemon that probes twenty times as often are no measure of a scrape: its CPU has the probes in it.
fn scrapes(lines: &[Line], hour_too: bool) -> Vec<&Scrapes> {
    let mut probes_hard = false;
    let mut found = Vec::new();
    for line in lines {
        match line {
            Line::Run(_) | Line::Bare(_) => {}
            Line::Cost(cost) => probes_hard = cost.variant == Variant::Hour,
            Line::Scrapes(scrapes) if hour_too || !probes_hard => found.push(scrapes),
            Line::Scrapes(_) => {}
        }
    }
    found
}

fn conditions(text: &mut String, run: &Run) {
    let Run { commit, date, kernel, cpu, cpus, build, load } = run;
    let _ = write!(
        text,
        "`cargo bench --bench cost -- --output docs/data/cost.jsonl`: commit {commit} ({build} build), {date}, Linux {kernel}, \
         {cpus} × {cpu}, load average {load} before.\n\
         \n\
         The daemon probes 20 disks (ext4 on loop devices) at its default intervals, after layout, and is scraped every 15 s. \
         CPU is that of the process by the kernel's count, the workers of its rings included. Read files are of 64 MiB, so that \
         the disks fit; nothing else differs from a daemon without a config. Windows fill for an hour: *{}* shows what they \
         hold then.\n",
        Variant::Hour.title()
    );
}

fn percent(cost: &Cost) -> f64 {
    cost.cpu_seconds / cost.seconds * 100.0
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn run_share(cost: &Cost) -> f64 {
    cost.slots_run as f64 / (cost.slots_run + cost.slots_skipped + cost.slots_missed) as f64 * 100.0
}

fn cost_row(text: &mut String, cost: &Cost) {
    let _ = writeln!(
        text,
        "| {} | {} | {:.0} | {:.2} | {:.1}, {:.1}, {:.1} | {} | {} | {} ({:.2} %) | {} | {} |",
        cost.variant.title(),
        cost.targets,
        cost.seconds,
        percent(cost),
        mib(cost.rss_start),
        mib(cost.rss_end),
        mib(cost.rss_most),
        constant(cost.threads_start, cost.threads_end),
        constant(cost.descriptors_start, cost.descriptors_end),
        cost.slots_run,
        run_share(cost),
        cost.slots_skipped,
        cost.slots_missed,
    );
}

fn constant(start: usize, end: usize) -> String {
    if start == end { start.to_string() } else { format!("{start} → {end}") }
}

fn witnesses(text: &mut String, costs: &[&Cost]) {
    text.push_str(
        "\nThe disks' own counters beside ours, over the same span. The kernel counts a flush that is sent alone as a write \
         too, so a commit of `overwrite` is two of its writes.\n\n\
         | daemon | reads, ours | kernel's | disks where they differ | writes, ours | kernel's | written MiB, ours | kernel's |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for cost in costs {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {:.1} | {:.1} |",
            cost.variant.title(),
            cost.reads,
            cost.kernel_reads,
            cost.reads_differ,
            cost.writes,
            cost.kernel_writes,
            mib(cost.written_bytes),
            mib(cost.kernel_written_bytes),
        );
    }
}

fn by_thread(text: &mut String, cost: &Cost) {
    text.push_str("\n| thread | how many | CPU, % of a core | sleeps a second |\n|---|--:|--:|--:|\n");
    for threads in &cost.by_thread {
        let Threads { name, count, cpu_seconds, sleeps } = threads;
        let (share, rate) = (cpu_seconds / cost.seconds * 100.0, *sleeps as f64 / cost.seconds);
        let _ = writeln!(text, "| `{name}` | {count} | {share:.3} | {rate:.1} |");
    }
}

/// What is the disks' and the machine's, and what is ours.
fn floor(text: &mut String, default: Option<&Cost>, bare: Vec<&Bare>) {
    if bare.is_empty() {
        return;
    }
    text.push_str(
        "\nThe bare operations beside it, before and after: threads that do the same writes, syncs and reads at the same pace on the \
         same disks and nothing else, no clock, check, book or metric. This much any program pays on this machine that asks the \
         disks as often.\n\n\
         | bare | s | commits: CPU, % of a core | sleeps a second | reads: CPU, % of a core | sleeps a second | together |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    let share = |bare: &Bare, threads: &Threads| threads.cpu_seconds / bare.seconds * 100.0;
    let both = |bare: &Bare| share(bare, &bare.commits) + share(bare, &bare.reads);
    for bare in &bare {
        let rate = |threads: &Threads| threads.sleeps as f64 / bare.seconds;
        let _ = writeln!(
            text,
            "| {} disks | {:.0} | {:.3} | {:.1} | {:.3} | {:.1} | {:.3} |",
            bare.targets,
            bare.seconds,
            share(bare, &bare.commits),
            rate(&bare.commits),
            share(bare, &bare.reads),
            rate(&bare.reads),
            both(bare),
        );
    }
    let mean = bare.iter().map(|bare| both(bare)).sum::<f64>() / bare.len() as f64;
    if let Some(cost) = default {
        let times = percent(cost) / mean;
        let _ = writeln!(text, "\nThe default daemon cost {times:.2} times what the bare operations did.");
    }
}

fn scrape_table(text: &mut String, scrapes: &[&Scrapes]) {
    text.push_str(
        "\nScrapes over loopback, each on a connection of its own, from connect to the last byte. Others were at work on the \
         machine, so the daemon's CPU says more than the time that passed. All that the daemon did meanwhile is in it, and in \
         the last row that is an hour's runs in 3 minutes:\n\n\
         | targets | s after ready | series | KiB | least ms | median ms | CPU of the daemon, ms | KiB a target |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for s in scrapes {
        let kib = s.bytes as f64 / 1024.0;
        let _ = writeln!(
            text,
            "| {} | {:.0} | {} | {kib:.0} | {:.2} | {:.2} | {:.2} | {:.1} |",
            s.targets,
            s.age_seconds,
            s.series,
            s.least_micros / 1e3,
            s.median_micros / 1e3,
            s.cpu_micros / 1e3,
            kib / s.targets as f64,
        );
    }
}

fn verdicts(text: &mut String, costs: &[&Cost], scrapes: &[&Scrapes]) {
    text.push_str("\n| claim | measured | bound | goal | |\n|---|--:|--:|--:|---|\n");
    let at_pace: Vec<&Cost> = costs.iter().copied().filter(|c| c.variant != Variant::Hour).collect();
    for cost in &at_pace {
        let name = cost.variant.title();
        claim(text, &format!("CPU, {name}"), percent(cost), "% of a core", CPU);
        let share = run_share(cost);
        let good = cost.slots_missed == 0 && share >= SLOTS;
        let _ = writeln!(
            text,
            "| slots run, {name} | {share:.2} % | ≥ {SLOTS} %, none missed | | {} |",
            if good { "holds" } else { "**does not hold**" }
        );
        let steady = cost.threads_start == cost.threads_end && cost.descriptors_start == cost.descriptors_end;
        let _ = writeln!(
            text,
            "| threads and descriptors, {name} | {}, {} | constant | | {} |",
            constant(cost.threads_start, cost.threads_end),
            constant(cost.descriptors_start, cost.descriptors_end),
            if steady { "holds" } else { "**does not hold**" }
        );
        let _ = writeln!(
            text,
            "| reads, {name} | {} on {} disks differ | exactly the kernel's | | {} |",
            cost.reads_differ,
            cost.targets,
            if cost.reads_differ == 0 { "holds" } else { "**does not hold**" }
        );
    }
    for cost in costs {
        claim(text, &format!("resident, {}", cost.variant.title()), mib(cost.rss_most), "MiB", RSS);
    }
    for s in scrapes {
        let what =
            format!("CPU of a scrape, built and sent, {} targets, after {:.0} s", s.targets, s.age_seconds);
        claim(text, &what, s.cpu_micros / 1e3, "ms", (SCRAPE, SCRAPE));
    }
}

fn claim(text: &mut String, what: &str, measured: f64, unit: &str, (bound, goal): (f64, f64)) {
    let verdict = match measured {
        m if m < goal => "holds, and the goal",
        m if m < bound => "holds",
        _ => "**does not hold**",
    };
    let verdict = if bound == goal && measured < bound { "holds" } else { verdict };
    let _ =
        writeln!(text, "| {what} | {measured:.2} {unit} | < {bound} {unit} | < {goal} {unit} | {verdict} |");
}
