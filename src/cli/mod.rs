//! Arguments in, text and exit codes out: 0 when all is well, 2 for a bad config or wrong usage, 1 for anything else.

mod check;
mod clean;
mod compare;
mod explain;
mod found;
mod log;
mod look;
mod pause;
mod probe;
mod reference;
mod run;
mod spared;
mod sweep;
mod traces;

pub use reference::reference;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

/// Exit code for a bad config or wrong usage, as clap has it.
const BAD_CONFIG: u8 = 2;

static VERSION: LazyLock<String> = LazyLock::new(|| match option_env!("DISKCANARY_REVISION") {
    Some(revision) => format!("{} (revision {revision})", env!("CARGO_PKG_VERSION")),
    None => env!("CARGO_PKG_VERSION").to_owned(),
});

#[derive(Debug, Parser)]
#[command(name = "diskcanary", version = VERSION.as_str(), about, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Probe what the config says, or without one the state directory, until told to end.
    Run(run::Args),
    /// Say whether a config file is good, and what of it is not there now. Nothing is written; exit code 2 when it can
    /// never work as it is written.
    Check(check::Args),
    /// Say what a config would do: what is probed where, when it begins, what it costs a day.
    Explain(explain::Args),
    /// Measure one disk once, now: commits and random reads, as a table or JSON. Takes seconds.
    Probe(probe::Args),
    /// Compare two results of `sweep` (or of fio) cell by cell, with a test that knows noise: exit code 0 when nothing is
    /// worse in B, 1 when something is, 2 when they cannot be compared.
    Compare(compare::Args),
    /// Measure one disk thoroughly, now: IOPS, throughput and latency of each pattern at each depth, with what is not to be
    /// believed. Says what it will write and how long it takes before it begins.
    Sweep(Box<sweep::Args>),
    /// Remove the probe files that diskcanary made for PATH.
    Clean(clean::Args),
    /// Have a running daemon leave a target's disk alone for a while: no commit, no read, no look.
    Pause(pause::PauseArgs),
    /// Have a running daemon go on with a paused target now.
    Resume(pause::ResumeArgs),
}

/// What a command has to say, and how it ends.
#[derive(Debug, PartialEq, Eq)]
struct Ending {
    /// For standard output.
    text: String,
    /// For standard error, one line.
    error: Option<String>,
    code: u8,
}

impl Ending {
    fn good(text: String) -> Self {
        Self { text, error: None, code: 0 }
    }

    fn failed(error: String) -> Self {
        Self { text: String::new(), error: Some(error), code: 1 }
    }

    /// Why stands in the log.
    fn failed_as_logged() -> Self {
        Self { text: String::new(), error: None, code: 1 }
    }

    fn bad_config(error: String) -> Self {
        Self { text: String::new(), error: Some(error), code: BAD_CONFIG }
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // A closed pipe is no reason to fail: whoever read has seen enough.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(BAD_CONFIG));
        }
    };
    finish(&match cli.command {
        Command::Run(args) => run::command(&args),
        Command::Check(args) => check::command(&args),
        Command::Explain(args) => explain::command(&args),
        Command::Probe(args) => probe::command(&args),
        Command::Compare(args) => compare::command(&args),
        Command::Sweep(args) => sweep::command(&args),
        Command::Clean(args) => clean::command(&args),
        Command::Pause(args) => pause::pause(&args),
        Command::Resume(args) => pause::resume(&args),
    })
}

fn finish(ending: &Ending) -> ExitCode {
    let written = io::stdout().lock().write_all(ending.text.as_bytes());
    if let Some(error) = &ending.error {
        let _ = writeln!(io::stderr().lock(), "diskcanary: {error}");
    }
    match written {
        Err(fault) if fault.kind() != io::ErrorKind::BrokenPipe && ending.code == 0 => ExitCode::FAILURE,
        _ => ExitCode::from(ending.code),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_usage_ends_with_2_and_help_with_0() {
        let code = |args: &[&str]| Cli::try_parse_from(args).unwrap_err().exit_code();
        assert_eq!(code(&["diskcanary"]), 2);
        assert_eq!(code(&["diskcanary", "chekc"]), 2);
        assert_eq!(code(&["diskcanary", "check"]), 2);
        assert_eq!(code(&["diskcanary", "--help"]), 0);
        assert_eq!(code(&["diskcanary", "--version"]), 0);
    }
}
