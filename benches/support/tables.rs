//! Tables of docs/performance.md, made from the raw lines: medians over rounds, and differences taken within a round,
//! because the machine drifts from one to the next.

use std::fmt::Write;

use super::claim::{Claim, Unit};
use super::raw::{Commits, Line, Quantiles, Reader, Reads, Run};

/// A section on accuracy.
pub fn accuracy(title: &str, about: &str, lines: &[Line]) -> String {
    let mut text = format!("## {title}\n\n{about}\n\n");
    for line in lines {
        if let Line::Run(run) = line {
            conditions(&mut text, run);
        }
    }
    for disk in disks(lines) {
        let reads: Vec<&Reads> = lines.iter().filter_map(|l| reads_of(l, &disk)).collect();
        let commits: Vec<&Commits> = lines.iter().filter_map(|l| commits_of(l, &disk)).collect();
        let _ = write!(text, "\n### {disk}\n");
        if !reads.is_empty() {
            read_table(&mut text, &reads);
            claim_table(&mut text, &read_claims(&reads));
        }
        if !commits.is_empty() {
            commit_table(&mut text, &commits);
            claim_table(&mut text, &[commit_claim(&commits)]);
        }
    }
    text
}

fn conditions(text: &mut String, run: &Run) {
    let Run { commit, date, kernel, cpu, cpus, fio, rounds, seconds, build, awake, policy, load } = run;
    let (flag, awake) = if *awake { (" --awake", "kept from halting") } else { ("", "free to halt") };
    let _ = write!(
        text,
        "`cargo bench --bench accuracy -- --rounds {rounds} --seconds {seconds}{flag} --output FILE`: commit {commit} ({build} build), {date}, Linux {kernel}, \
         {cpus} × {cpu}, {fio}, CPUs {awake}, all readers {policy}, load average {load} before; {rounds} rounds, {seconds} s a turn.\n\
         \n\
         In each round every reader has one turn on the same file and the same CPU: 4 KiB, random, `O_DIRECT`, depth 1; each \
         round is on the next CPU, since how far it is from the disk's interrupt counts for more than all else. *Device* is the \
         block layer's own time from issue to completion, whose stamps are whole microseconds; *added* is the reader's \
         latency minus the device's time, read by read, paired by sector. Figures are medians over the rounds, with the \
         quartiles in brackets, in µs. A claim compares two readers within each round; it holds when the 95 % confidence \
         interval of the median (order statistics, no assumption on the distribution) lies within its bound, and is open \
         when the interval straddles it.\n",
    );
}

fn disks(lines: &[Line]) -> Vec<String> {
    let mut disks: Vec<String> = Vec::new();
    for line in lines {
        let disk = match line {
            Line::Run(_) => continue,
            Line::Reads(reads) => &reads.disk,
            Line::Commits(commits) => &commits.disk,
        };
        if !disks.contains(disk) {
            disks.push(disk.clone());
        }
    }
    disks
}

fn reads_of<'a>(line: &'a Line, disk: &str) -> Option<&'a Reads> {
    if let Line::Reads(reads) = line { (reads.disk == disk).then_some(reads) } else { None }
}

fn commits_of<'a>(line: &'a Line, disk: &str) -> Option<&'a Commits> {
    if let Line::Commits(commits) = line { (commits.disk == disk).then_some(commits) } else { None }
}

fn read_table(text: &mut String, reads: &[&Reads]) {
    text.push_str(
        "\n| reader | reads | latency p50 | p99 | device p50 | p99 | added p50 | p99 | CPU a read |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for reader in Reader::ALL {
        let turns: Vec<&Reads> = reads.iter().copied().filter(|r| r.reader == reader).collect();
        if turns.is_empty() {
            continue;
        }
        let _ = write!(text, "| {} | {} ", reader.title(), turns.iter().map(|t| t.reads).sum::<usize>());
        for of in [|t: &Reads| t.latency, |t: &Reads| t.device, |t: &Reads| t.added] {
            let _ = write!(text, "| {} ", spread(turns.iter().map(|t| of(t).p50 as f64)));
            let _ = write!(text, "| {} ", spread(turns.iter().map(|t| of(t).p99 as f64)));
        }
        let _ = writeln!(text, "| {} |", spread(turns.iter().filter_map(|t| t.cpu_per_read)));
    }
}

fn commit_table(text: &mut String, commits: &[&Commits]) {
    text.push_str(
        "\n| 4 KiB overwrite and fdatasync | commits | write p50 | p99 | sync p50 | p99 |\n\
         |---|--:|--:|--:|--:|--:|\n",
    );
    for fio in [false, true] {
        let turns: Vec<&Commits> = commits.iter().copied().filter(|c| c.fio == fio).collect();
        let title = if fio { "fio, `ioengine=sync`" } else { "diskcanary" };
        let _ = write!(text, "| {title} | {} ", turns.iter().map(|t| t.commits).sum::<usize>());
        for of in [|t: &Commits| t.write, |t: &Commits| t.sync] {
            let _ = write!(text, "| {} ", spread(turns.iter().map(|t| of(t).p50 as f64)));
            let _ = write!(text, "| {} ", spread(turns.iter().map(|t| of(t).p99 as f64)));
        }
        text.push_str("|\n");
    }
}

/// Median and quartiles of nanoseconds, in µs.
pub(super) fn spread(nanos: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = nanos.collect();
    if values.is_empty() {
        return String::new();
    }
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize] / 1e3;
    format!("{:.1} ({:.1}–{:.1})", at(0.5), at(0.25), at(0.75))
}

pub(super) fn claim_table(text: &mut String, claims: &[Claim]) {
    text.push_str("\n| claim | median | 95 % interval | bound | |\n|---|--:|--:|--:|---|\n");
    for claim in claims {
        let _ = writeln!(text, "{}", claim.row());
    }
}

/// One of the quantiles.
type Pick = fn(Quantiles) -> i64;

fn read_claims(reads: &[&Reads]) -> Vec<Claim> {
    let compare = |ours: Reader, theirs: Reader, of: &dyn Fn(&Reads, &Reads) -> f64| -> Vec<f64> {
        let in_round = |round, reader| reads.iter().find(move |r| r.round == round && r.reader == reader);
        let ours = reads.iter().filter(|r| r.reader == ours);
        ours.filter_map(|o| Some(of(o, in_round(o.round, theirs)?))).collect()
    };
    let mut claims = Vec::new();
    let quantiles: [(&str, Pick); 2] = [("p50", |q| q.p50), ("p99", |q| q.p99)];
    for (name, quantile) in quantiles {
        for other in [Reader::FioUring, Reader::FioPsync, Reader::Bare] {
            let difference =
                |ours: &Reads, other: &Reads| (quantile(ours.added) - quantile(other.added)) as f64 / 1e3;
            claims.push(Claim {
                text: format!("{name} of what we add, minus that of {}", other.title()),
                unit: Unit::Micros,
                values: compare(Reader::Ours, other, &difference),
                within: (f64::NEG_INFINITY, 1.0),
            });
        }
    }
    for fio in [Reader::FioUring, Reader::FioPsync] {
        let ratio = |ours: &Reads, fio: &Reads| ours.added.p50 as f64 / fio.added.p50 as f64;
        claims.push(Claim {
            text: format!("p50 of what we add with `wait: spin`, divided by that of {}", fio.title()),
            unit: Unit::Ratio,
            values: compare(Reader::OursSpin, fio, &ratio),
            within: (f64::NEG_INFINITY, 0.8),
        });
    }
    let ratio = |ours: &Reads, bare: &Reads| match (ours.cpu_per_read, bare.cpu_per_read) {
        (Some(ours), Some(bare)) => ours / bare,
        _ => f64::NAN,
    };
    claims.push(Claim {
        text: "CPU of a read, divided by the bare loop's".to_owned(),
        unit: Unit::Ratio,
        values: compare(Reader::Ours, Reader::Bare, &ratio),
        within: (f64::NEG_INFINITY, 3.0),
    });
    claims
}

fn commit_claim(commits: &[&Commits]) -> Claim {
    let fio = |round| commits.iter().find(|c| c.fio && c.round == round);
    let ours = commits.iter().filter(|c| !c.fio);
    Claim {
        text: "p50 of fdatasync, divided by fio's".to_owned(),
        unit: Unit::Ratio,
        values: ours.filter_map(|o| Some(o.sync.p50 as f64 / fio(o.round)?.sync.p50 as f64)).collect(),
        within: (0.9, 1.1),
    }
}
