//! `diskcanary sweep PATH`.

mod results;
mod screen;
mod wish;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::look::{self, Look};
use super::probe::{halted, words};
use super::traces::{before, hung, within};
use super::{BAD_CONFIG, Ending};
use crate::config::TargetPlan;
use crate::daemon::{Halt, SweepOnce, Swept, sweep_once};
use crate::probe::layout::{self, Role};
use crate::probe::sweep::{Demand, MEMORY, Pattern, Plan, Preset, Promise, Sweep};
use crate::probe::{Failure, Method, Stage, home};
use crate::report::explain::File;
use crate::report::sweep as report;
use crate::sys::{self, Errno};
use crate::target::{Place, Target};
use crate::units::{Bytes, Span};
use results::ResultFile;
use screen::Screen;
use wish::{FileSize, Seconds, Wish, block_size};

/// More than this is written only when somebody says yes.
const ASK_ABOVE: Bytes = Bytes::gib(10);
/// The file that is worked on, where nothing else is asked for and none is there.
const USUAL_FILE: Bytes = Bytes::gib(1);
/// Columns of a line that nobody tells the width of.
const WIDTH: u16 = 120;

/// Arguments of `sweep`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A directory on the disk, or its block device (which is only read).
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Which cells: a named set (docs/sweeps.md). Without it and without patterns, sizes, depths and jobs, `quick`.
    #[arg(long, value_name = "PRESET", value_parser = words(Preset::ALL, Preset::label))]
    preset: Option<Preset>,

    /// Patterns, parted by commas.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', value_parser = words(Pattern::ALL, Pattern::label))]
    pattern: Vec<Pattern>,

    /// Block sizes, parted by commas; without it the usual one of each pattern.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = block_size)]
    block_size: Vec<u32>,

    /// Operations that each job keeps outstanding, parted by commas.
    #[arg(long, value_name = "DEPTHS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=4096))]
    depth: Vec<u16>,

    /// Threads, or committers of the pattern `commit`, parted by commas.
    #[arg(long, value_name = "JOBS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Vec<u16>,

    /// How long each cell is recorded.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<Seconds>,

    /// How long each cell runs before it is recorded.
    #[arg(long, value_name = "TIME")]
    warm_up: Option<Span>,

    /// How often all of it is done.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: Option<u16>,

    /// How much is worked on: a size, or a multiple of the memory such as `2xRAM`, at most half of what is free. Without it the read
    /// file that is there, else 1GiB.
    #[arg(long, value_name = "SIZE")]
    file_size: Option<FileSize>,

    /// What makes a commit durable, where the patterns commit.
    #[arg(long, value_name = "METHOD", value_parser = words(Method::ALL, Method::label))]
    method: Option<Method>,

    /// What the buffers of a cell may take together; cells of a preset that do not fit are left out.
    #[arg(long, value_name = "SIZE", default_value_t = MEMORY)]
    memory: Bytes,

    /// Write more than 10GiB without being asked.
    #[arg(long)]
    yes: bool,

    /// Write the result as JSON (docs/sweep.schema.json) into FILE; `-` prints it instead of the tables.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the result as one page of HTML into FILE, with charts, to send to somebody.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the cells as comma-separated values into FILE.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// What the product promises, operations per second.
    #[arg(long, value_name = "IOPS", value_parser = clap::value_parser!(u32).range(1..))]
    promised_iops: Option<u32>,

    /// What the product promises, bytes per second.
    #[arg(long, value_name = "SIZE")]
    promised_throughput: Option<Bytes>,

    /// Put the files into this directory, on the same file system, instead of PATH.
    #[arg(long, value_name = "DIRECTORY")]
    probe_dir: Option<PathBuf>,

    /// Leave the file that was worked on for the next time. One that was there before stays in any case.
    #[arg(long)]
    keep: bool,

    /// Give a disk up that does not answer for so long.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Span,
}

/// Files to write, and whether JSON goes to standard output.
struct Outputs {
    json: Option<ResultFile>,
    html: Option<ResultFile>,
    csv: Option<ResultFile>,
    print_json: bool,
}

pub(super) fn command(args: &Args) -> Ending {
    match prepare(args) {
        Ok(ready) => run(args, ready),
        Err(ending) => ending,
    }
}

/// What is known and checked before anything is written.
struct Ready {
    wish: SweepOnce,
    demand: Demand,
    /// How long it takes to lay the files out.
    laying: Duration,
    outputs: Outputs,
    place: Option<Place>,
    before: Option<super::traces::Before>,
}

fn prepare(args: &Args) -> Result<Ready, Ending> {
    let bad = |why: String| Ending { code: BAD_CONFIG, ..Ending::failed(why) };
    let mut plan = wished(args).plan().map_err(bad)?;
    let outputs = outputs(args).map_err(bad)?;
    let (path, probe_dir) = (args.path.clone(), args.probe_dir.clone());
    let look = within(args.timeout.get(), move || look::at_path(&path, probe_dir.as_deref()));
    let (target, place) = match look {
        None => {
            let why = hung("looking at it", args.timeout.get());
            return Err(Ending::failed(format!("{}: {why}", args.path.display())));
        }
        Some(Look::Down(why)) => return Err(Ending::failed(why)),
        Some(Look::Refused(why)) => return Err(bad(why)),
        Some(Look::Device(target)) => (target, None),
        Some(Look::Files(target, place)) => (target, Some(place)),
    };
    if place.is_none() && plan.preset.is_some() {
        plan = plan.for_reads_alone();
        if plan.ladders.is_empty() {
            return Err(bad("this preset only writes, and a block device is only read".to_owned()));
        }
    }
    wish::check(&plan, least_block(&target), args.memory, place.is_none()).map_err(bad)?;
    let promise = Promise {
        iops: args.promised_iops.map(f64::from),
        throughput: args.promised_throughput.map(|bytes| bytes.get() as f64),
        ..Promise::default()
    };
    let mut demand = wish::bound(&mut plan, &promise);
    let before = place.as_ref().and_then(|place| within(args.timeout.get(), before(place.dir.clone())));
    let mut at = target_plan(args);
    if let Some(before) = &before {
        before.use_in(&mut at);
    }
    let file_size = args.file_size.map(|size| size.bytes(sys::host().memory));
    let mut laying = Duration::ZERO;
    if let Some(place) = &place {
        let laid = file(&mut at, file_size, place, args.timeout.get()).map_err(bad)?;
        demand.written_bytes += laid;
        laying = Duration::from_secs(laid / layout::RATE.get());
    }
    let wish =
        SweepOnce { target: at, plan, promise, file_size, memory: args.memory, patience: args.timeout.get() };
    Ok(Ready { wish, demand, laying, outputs, place, before })
}

fn wished(args: &Args) -> Wish {
    Wish {
        preset: args.preset,
        patterns: args.pattern.clone(),
        block_sizes: args.block_size.clone(),
        depths: args.depth.clone(),
        jobs: args.jobs.clone(),
        seconds: args.seconds.map(|seconds| seconds.0),
        warm_up: args.warm_up.map(Span::get),
        rounds: args.rounds,
        method: args.method,
    }
}

fn outputs(args: &Args) -> Result<Outputs, String> {
    let stdout = |path: &&PathBuf| path.as_os_str() == "-";
    if args.html.iter().chain(&args.csv).any(|path| stdout(&path)) {
        return Err(
            "only `--json` prints to standard output; name a file for `--html` and `--csv`".to_owned()
        );
    }
    let file = |path: Option<&PathBuf>| path.map(|path| ResultFile::new(path)).transpose();
    Ok(Outputs {
        print_json: args.json.as_ref().is_some_and(|path| stdout(&path)),
        json: file(args.json.as_ref().filter(|path| !stdout(path)))?,
        html: file(args.html.as_ref())?,
        csv: file(args.csv.as_ref())?,
    })
}

/// What direct I/O must be a multiple of, as far as the device tells beforehand.
fn least_block(target: &Target) -> u32 {
    let own = target.leaves.iter().chain(&target.device).filter_map(|disk| disk.settings.logical_block_size);
    own.filter_map(|size| u32::try_from(size.get()).ok()).max().unwrap_or(512).max(512)
}

fn target_plan(args: &Args) -> TargetPlan {
    // Messages and files name the same path wherever the command was started.
    let path = std::path::absolute(&args.path).unwrap_or_else(|_| args.path.clone());
    let mut plan =
        TargetPlan { probe_dir: args.probe_dir.clone(), commit: None, ..TargetPlan::at("sweep", path) };
    if let Some(read) = &mut plan.read {
        read.file_size = USUAL_FILE;
    }
    plan
}

/// How many bytes laying out takes; what is wrong with the size that is asked for.
fn file(
    plan: &mut TargetPlan,
    wished: Option<Bytes>,
    place: &Place,
    patience: Duration,
) -> Result<u64, String> {
    let looked = |plan: &TargetPlan| {
        let (plan, place) = (plan.clone(), place.clone());
        within(patience, move || look::files(&plan, &place))
    };
    let Some(mut files) = looked(plan) else { return Ok(0) };
    let found = |files: &look::Files| match files.reads {
        Some(File::There(size)) => (size, 0),
        Some(File::Lay(size)) => (size, size.get()),
        _ => (Bytes::new(0), 0),
    };
    let Some(wished) = wished else { return Ok(found(&files).1) };
    if let (Some(File::Lay(size)), Some(read)) = (&files.reads, &mut plan.read)
        && wished != *size
    {
        // The sweep has a file of its own then, and this one is only its ground.
        read.file_size =
            if wished < *size { wished.max(Role::Reads.minimum()) } else { Role::Reads.minimum() };
        files = looked(plan).unwrap_or(files);
    }
    let (size, laid) = found(&files);
    if wished <= size {
        return Ok(laid);
    }
    match files.free {
        Some(free) if wished.get() > free.get() / 2 => Err(format!(
            "`--file-size` is {wished}, and a sweep takes at most half of what is free on the file system, {}",
            Bytes::new(free.get() / 2)
        )),
        _ => Ok(laid + wished.get()),
    }
}

fn run(args: &Args, ready: Ready) -> Ending {
    let Ready { wish, demand, laying, outputs, place, before } = ready;
    announce(args, &wish.plan, &demand, laying + demand.time);
    if demand.written_bytes > ASK_ABOVE.get() && !args.yes {
        if !io::stdin().is_terminal() {
            let why = format!(
                "it would write up to {}; say `--yes` to more than {ASK_ABOVE}, or take fewer cells or less time",
                Bytes::new(demand.written_bytes)
            );
            return Ending { code: BAD_CONFIG, ..Ending::failed(why) };
        }
        if !agreed() {
            return Ending::failed("nothing was written".to_owned());
        }
    }
    let mut screen = Screen::new(demand.time);
    let swept = sweep_once(&wish, &mut |step| screen.show(step));
    screen.clear();
    let left = match (&place, before) {
        (Some(place), Some(before)) if !args.keep && !swept.laid.is_empty() => {
            before.tidy(place, &swept.laid, swept.released)
        }
        (Some(place), _) if !swept.released && lays_out(&wish) => Some(left_behind(place)),
        _ => None,
    };
    end(args, &outputs, &swept, left)
}

/// Whether the sweep itself makes files, which go with it: a larger one, or those of committers.
fn lays_out(wish: &SweepOnce) -> bool {
    let commits =
        |ladder: &crate::probe::sweep::Ladder| ladder.cells.iter().any(|cell| cell.pattern.commits());
    wish.file_size.is_some() || wish.plan.ladders.iter().any(commits)
}

fn left_behind(place: &Place) -> String {
    format!(
        "what it wrote may be left in {} (an operation on it is still out); the next sweep there removes it, and so does \
         `diskcanary clean`",
        place.dir.join(home::NAME).display()
    )
}

fn announce(args: &Args, plan: &Plan, demand: &Demand, time: Duration) {
    let cells: usize = plan.ladders.iter().map(|ladder| ladder.cells.len()).sum();
    let rounds = if plan.rounds > 1 { format!(" in {} rounds", plan.rounds) } else { String::new() };
    let writes = match demand.written_bytes {
        0 => "writes nothing".to_owned(),
        bytes => format!("writes at most {}", Bytes::new(bytes)),
    };
    let time = Span::from(Duration::from_secs(time.as_secs_f64().ceil() as u64));
    let cells = if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") };
    let text = format!("{}: {cells}{rounds}, takes at most about {time}, {writes}", args.path.display());
    let _ = writeln!(io::stderr().lock(), "diskcanary: {text}");
}

fn agreed() -> bool {
    let mut to = io::stderr().lock();
    let _ = write!(to, "Go on? [y/N] ").and_then(|()| to.flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn end(args: &Args, outputs: &Outputs, swept: &Swept, left: Option<String>) -> Ending {
    let mut errors: Vec<String> = swept.halt.iter().map(|halt| halted(halt, &args.path)).collect();
    let sweep = swept.sweep.as_ref();
    if let Some(sweep) = sweep {
        if sweep.cells.is_empty() && errors.is_empty() {
            errors.push(format!("{}: no cell could be run; see what was left out", args.path.display()));
        }
        // A result may lie on the disk that hangs.
        let (json, html, csv) = (outputs.json.clone(), outputs.html.clone(), outputs.csv.clone());
        let copy = sweep.clone();
        let written = within(args.timeout.get(), move || write(&copy, json, html, csv));
        errors.extend(
            written.unwrap_or_else(|| vec!["writing the result takes too long; it is given up".to_owned()]),
        );
    }
    errors.extend(left);
    let text = sweep.map(|sweep| match outputs.print_json {
        true => report::json(sweep),
        false => report::text(sweep, width()),
    });
    let error = (!errors.is_empty()).then(|| errors.join("\ndiskcanary: "));
    let code = match &swept.halt {
        Some(Halt::Failed(trouble)) if is_gone(&trouble.failure) => BAD_CONFIG,
        _ => u8::from(error.is_some()),
    };
    Ending { text: text.unwrap_or_default(), code, error }
}

/// Whether somebody took the path away, as one that was never there: not the disk failed.
fn is_gone(failure: &Failure) -> bool {
    let errnos = [Errno::ENOENT, Errno::ENOTDIR, Errno::ESTALE, Errno::EBADMSG, Errno::ELOOP];
    failure.stage == Stage::Open && errnos.contains(&failure.errno)
}

fn write(
    sweep: &Sweep,
    json: Option<ResultFile>,
    html: Option<ResultFile>,
    csv: Option<ResultFile>,
) -> Vec<String> {
    let json = json.and_then(|file| file.write(&report::json(sweep)).err());
    let html = html.and_then(|file| file.write(&report::html(sweep)).err());
    let csv = csv.and_then(|file| file.write(&report::csv(sweep)).err());
    [json, html, csv].into_iter().flatten().collect()
}

/// Of the terminal that the tables go to.
fn width() -> usize {
    let terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    usize::from(terminal.map_or(WIDTH, |(width, _)| width.0))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        sweep: Args,
    }

    fn parse(args: &[&str]) -> Result<Args, String> {
        let all = ["sweep"].iter().chain(args);
        Alone::try_parse_from(all).map(|alone| alone.sweep).map_err(|e| e.to_string())
    }

    #[test]
    fn lists_and_words_are_checked() {
        let args = parse(&["/srv", "--pattern=randread,commit", "--depth", "1,32", "--block-size=4KiB,8KiB"])
            .unwrap();
        assert_eq!((args.pattern.len(), args.depth, args.block_size), (2, vec![1, 32], vec![4096, 8192]));
        assert_eq!(args.memory, MEMORY);
        for (bad, says) in [
            ("--preset=qick", "'quick'"),
            ("--pattern=randred", "'randread'"),
            ("--depth=0", "1..=4096"),
            ("--block-size=4096", "no unit"),
            ("--warm-up=5", "no unit"),
            ("--file-size=3xRAN", "not a size"),
            ("--promised-iops=0", "1.."),
        ] {
            let error = parse(&["/srv", bad]).unwrap_err();
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_is_said_before_anything_is_looked_at() {
        for (flags, says) in [
            (["--seconds=1", "--warm-up=1s"].as_slice(), "not shorter"),
            (&["--json=/no/such/dir/a.json"], "directory"),
            (&["--html=-"], "only `--json`"),
            (&["--preset=quick", "--depth=4"], "its own"),
        ] {
            let ending = command(&parse(&[&["/no/such/place"], flags].concat()).unwrap());
            assert_eq!(ending.code, BAD_CONFIG);
            assert!(ending.error.as_ref().unwrap().contains(says), "{ending:?}");
        }
    }
}
