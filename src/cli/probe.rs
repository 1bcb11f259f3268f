//! `diskcanary probe PATH`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::look::{self, Look};
use super::traces::{before, hung, what, within};
use super::{BAD_CONFIG, Ending};
use crate::config::TargetPlan;
use crate::daemon::{self, Ended, Halt, Once, Step};
use crate::io::{Wait, Wish};
use crate::probe::layout::Role;
use crate::probe::{Method, Profile};
use crate::report::probe::{Subject, json, table};
use crate::sys::Errno;
use crate::units::{Bytes, Span};

/// Rest before each run: long enough for most disks to fall back into their idle state.
const PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `probe`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A directory on the disk, or its block device (which is only read).
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Print JSON instead of the table: times in nanoseconds, sizes in bytes (docs/probe.schema.json).
    #[arg(long)]
    json: bool,

    /// Whose commits are imitated.
    #[arg(long, value_name = "PROFILE", default_value = Profile::Overwrite.label(), value_parser = words(Profile::ALL, Profile::label))]
    profile: Profile,

    /// What makes a commit durable; without this flag the profile's own method.
    #[arg(long, value_name = "METHOD", value_parser = words(Method::ALL, Method::label))]
    method: Option<Method>,

    /// How reads reach the kernel.
    #[arg(long, value_name = "ENGINE", default_value = Wish::Auto.label(), value_parser = words(Wish::ALL, Wish::label))]
    engine: Wish,

    /// How a read is waited for; `spin` needs io_uring.
    #[arg(long, value_name = "WAIT", default_value = Wait::Sleep.label(), value_parser = words(Wait::ALL, Wait::label))]
    wait: Wait,

    /// Runs of each probe: 3 commits, and 16 reads at depth 1 with 48 at depth 4, each run after a rest of 100ms.
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,

    /// Size of the read file where none is there yet, at least 64MiB.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = read_file_size)]
    file_size: Bytes,

    /// Put the probe files into this directory, on the same file system, instead of PATH.
    #[arg(long, value_name = "DIRECTORY")]
    probe_dir: Option<PathBuf>,

    /// Leave the probe files for the next time. Files that were there before stay in any case.
    #[arg(long)]
    keep: bool,

    /// Give a disk up that does not answer for so long.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Span,
}

pub(super) fn words<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    label: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let find =
        move |word: String| all.iter().copied().find(|one| label(*one) == word).ok_or("not one of these");
    PossibleValuesParser::new(all.iter().map(|one| label(*one))).try_map(find)
}

fn read_file_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse()?;
    match size {
        small if small < Role::Reads.minimum() => {
            Err(format!("it must be at least {}", Role::Reads.minimum()))
        }
        odd if !odd.get().is_multiple_of(1 << 20) => Err("it must be a whole number of MiB".to_owned()),
        size => Ok(size),
    }
}

pub(super) fn command(args: &Args) -> Ending {
    if args.profile == Profile::Odsync && args.method.is_some_and(|method| method != Method::ODsync) {
        let error = "the profile `odsync` has no other method; take `--profile overwrite` with this method";
        return Ending { code: BAD_CONFIG, ..Ending::failed(error.to_owned()) };
    }
    // A look waits as long as the disk does, so another thread does it.
    let (path, probe_dir) = (args.path.clone(), args.probe_dir.clone());
    let look = within(args.timeout.get(), move || look::at_path(&path, probe_dir.as_deref()));
    let place = match look {
        None => {
            return Ending::failed(format!(
                "{}: {}",
                args.path.display(),
                hung("looking at it", args.timeout.get())
            ));
        }
        Some(Look::Down(why)) => return Ending::failed(why),
        Some(Look::Refused(why)) => return Ending { code: BAD_CONFIG, ..Ending::failed(why) },
        Some(Look::Device(_)) => None,
        Some(Look::Files(_, place)) => Some(place),
    };
    let before = place.as_ref().and_then(|place| within(args.timeout.get(), before(place.dir.clone())));
    let mut plan = plan(args);
    if let Some(before) = &before {
        before.use_in(&mut plan);
    }
    let mut screen = Screen::new(args.runs);
    let wish = Once { plan, rounds: args.runs, pause: PAUSE, patience: args.timeout.get() };
    let ended = daemon::once(&wish, &mut |step| screen.show(step));
    screen.clear();
    let left = match (place, before) {
        (Some(place), Some(before)) if !args.keep && !ended.laid.is_empty() => {
            before.tidy(&place, &ended.laid, ended.released)
        }
        _ => None,
    };
    report(args, &wish.plan, ended, left)
}

fn plan(args: &Args) -> TargetPlan {
    // Messages and files name the same path wherever the command was started.
    let path = std::path::absolute(&args.path).unwrap_or_else(|_| args.path.clone());
    let mut plan = TargetPlan {
        probe_dir: args.probe_dir.clone(),
        engine: args.engine,
        ..TargetPlan::at("probe", path)
    };
    if let Some(commit) = &mut plan.commit {
        commit.profile = args.profile;
        commit.method = args.method.unwrap_or(args.profile.row().method);
    }
    if let Some(read) = &mut plan.read {
        (read.wait, read.file_size) = (args.wait, args.file_size);
    }
    plan
}

fn report(args: &Args, plan: &TargetPlan, ended: Ended, left: Option<String>) -> Ending {
    let mut error = ended.halt.as_ref().map(|halt| halted(halt, &args.path));
    let runs = || ended.commits.iter().chain(&ended.reads);
    if error.is_none() && runs().any(|run| run.result.is_err()) {
        error = Some(format!("{}: a probe failed; see the report", args.path.display()));
    }
    let text = match runs().next() {
        None => String::new(),
        Some(_) => {
            let print = if args.json { json } else { table };
            print(&subject(args, plan, &ended), &ended.commits, &ended.reads)
        }
    };
    if let Some(left) = left {
        error = Some(error.map_or(left.clone(), |error| format!("{error}\ndiskcanary: {left}")));
    }
    Ending { text, code: u8::from(error.is_some()), error }
}

pub(super) fn halted(halt: &Halt, path: &Path) -> String {
    let path = path.display();
    match halt {
        Halt::Hung(Some(op), age) => format!("{path}: {}", hung(&format!("a {}", what(*op)), *age)),
        Halt::Hung(None, age) => format!("{path}: {}", hung("a step", *age)),
        Halt::Interrupted => "interrupted".to_owned(),
        Halt::Failed(trouble) if trouble.failure.errno == Errno::EBUSY => format!(
            "{}. A daemon that probes it has the figures at its /metrics; stop it to probe by hand",
            trouble.failure.message
        ),
        Halt::Failed(trouble) => trouble.failure.message.clone(),
        Halt::Panicked(message) => format!("this is a bug in diskcanary: {message}"),
        Halt::Start(errno) => format!("cannot start: {errno}"),
    }
}

fn subject(args: &Args, plan: &TargetPlan, ended: &Ended) -> Subject {
    let target = ended.target.as_ref();
    let device = target.and_then(|target| target.device.as_ref());
    let disk = target.and_then(|target| target.leaves.first()).or(device);
    let opened = ended.opened.as_ref();
    let on_files = ended.home.is_some();
    Subject {
        path: args.path.display().to_string(),
        files: ended.home.as_ref().map(|home| home.display().to_string()),
        file_system: target.and_then(|target| target.file_system().map(str::to_owned)),
        device: device.map(|device| device.name.clone()),
        model: disk.and_then(|disk| disk.identity.model.clone()),
        engine: opened.map(|opened| opened.engine.label().to_owned()),
        engine_reason: opened.map(|opened| match opened.reason_label() {
            "buffered" => "direct I/O is refused here".to_owned(),
            _ => opened.reason.to_string(),
        }),
        direct: opened.map(|opened| opened.direct_label().to_owned()),
        commit: plan.commit.as_ref().filter(|_| on_files).map(|commit| (commit.profile, commit.method)),
    }
}

/// What goes on, in one line on a terminal; silent elsewhere.
struct Screen {
    on: bool,
    runs: u32,
}

impl Screen {
    fn new(runs: u32) -> Self {
        Self { on: io::stderr().is_terminal(), runs }
    }

    fn show(&mut self, step: Step) {
        let text = match step {
            Step::LayingOut(role, done, total) => {
                let of = |bytes| Bytes::new(bytes);
                format!("writing the probe file `{}`: {} of {}", role.file_name(), of(done), of(total))
            }
            Step::Measuring(done) => format!("measuring: {done} of {} runs", self.runs),
        };
        self.write(&text);
    }

    fn clear(&mut self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if self.on {
            let mut to = io::stderr().lock();
            // A terminal that is gone misses nothing.
            let _ = write!(to, "\r\x1b[K{text}").and_then(|()| to.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        probe: Args,
    }

    fn parse(args: &[&str]) -> Result<Args, String> {
        let all = ["probe"].iter().chain(args);
        Alone::try_parse_from(all).map(|alone| alone.probe).map_err(|e| e.to_string())
    }

    #[test]
    fn words_and_sizes_are_checked() {
        let args = parse(&["/srv", "--profile=etcd", "--wait", "spin", "--file-size=1GiB"]).unwrap();
        assert_eq!((args.profile, args.wait, args.file_size), (Profile::Etcd, Wait::Spin, Bytes::gib(1)));
        let plan = plan(&args);
        let commit = plan.commit.unwrap();
        assert_eq!((commit.profile, commit.method), (Profile::Etcd, Method::Fdatasync));
        for (bad, says) in [
            ("--profile=oracle", "postgres"),
            ("--file-size=1MiB", "at least 64MiB"),
            ("--file-size=64", "no unit"),
            ("--runs=0", "1..=100000"),
            ("--timeout=5", "no unit"),
        ] {
            let error = parse(&["/srv", bad]).unwrap_err();
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn a_method_that_contradicts_its_profile_is_refused_before_anything_is_looked_at() {
        let args = parse(&["/no/such/place", "--profile=odsync", "--method=fsync"]).unwrap();
        assert_eq!(command(&args).code, 2);
    }
}
