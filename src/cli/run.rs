//! `diskcanary run`.

use std::path::{Path, PathBuf};

use super::Ending;
use super::log::{LogFormat, LogLevel, start_logging};
use crate::config::{NoStateDirectory, Plan, state_directory};
use crate::expose::OwnCounters;
use crate::http::{self, ListenAddress, TelemetryPath};
use crate::{daemon, expose, sys};

/// Arguments of `run`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(super) struct Args {
    /// The config file. Without it one target is probed: the state directory.
    #[arg(long = "config.file", value_name = "FILE")]
    config_file: Option<PathBuf>,

    /// Where to listen; may be given several times.
    #[arg(long = "web.listen-address", value_name = "ADDRESS", default_value = ":10074")]
    listen: Vec<ListenAddress>,

    /// Where the metrics are.
    #[arg(long = "web.telemetry-path", value_name = "PATH", default_value = "/metrics")]
    telemetry_path: TelemetryPath,

    /// The least important lines that are logged.
    #[arg(long = "log.level", value_enum, value_name = "LEVEL", default_value = "info")]
    log_level: LogLevel,

    /// How lines are written.
    #[arg(long = "log.format", value_enum, value_name = "FORMAT", default_value = "logfmt")]
    log_format: LogFormat,
}

pub(super) fn command(args: &Args) -> Ending {
    let plan = match &args.config_file {
        Some(file) => load(file).map_err(Ending::bad_config),
        None => without_config(),
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(ending) => return ending,
    };
    match start(args, &plan) {
        Ok(ending) => ending,
        Err(why) => Ending::failed(why),
    }
}

/// From here on everything is said in the log: its reader may be gone, and writing to standard error would wait.
fn start(args: &Args, plan: &Plan) -> Result<Ending, String> {
    let own = OwnCounters::new().map_err(|e| format!("cannot count: {e}"))?;
    let log = start_logging(args.log_level, args.log_format, own.log_lines_dropped.clone())
        .map_err(|e| format!("cannot start the log: {e}"))?;
    let web = http::Config {
        addresses: args.listen.clone(),
        telemetry_path: args.telemetry_path.clone(),
        ..http::Config::default()
    };
    let (file, before) = (args.config_file.clone(), plan.clone());
    // Without a file there is nothing new to read.
    let again = move || file.as_deref().map_or_else(|| Ok(before.clone()), load);
    let ending = match daemon::run(plan, Box::new(again), web, &own, state_place().ok()) {
        Ok(()) => Ending::good(String::new()),
        Err(error) => {
            tracing::error!("{error}");
            Ending::failed_as_logged()
        }
    };
    log.flush();
    Ok(ending)
}

fn load(file: &Path) -> Result<Plan, String> {
    Plan::load(file, &expose::reserved_labels()).map_err(|e| e.to_string())
}

/// Where the state is.
pub(super) fn state_place() -> Result<PathBuf, NoStateDirectory> {
    let variable = |name| std::env::var_os(name);
    let (state, home) = (variable("STATE_DIRECTORY"), variable("HOME"));
    state_directory(state.as_deref(), home.as_deref(), sys::is_root())
}

/// One target at the state directory, which is made if it is missing.
fn without_config() -> Result<Plan, Ending> {
    let dir = state_place().map_err(|e| Ending::failed(e.to_string()))?;
    daemon::make_state_directory(&dir)
        .map_err(|e| Ending::failed(format!("cannot make the state directory {}: {e}", dir.display())))?;
    Ok(Plan::default_for_state_dir(dir))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        run: Args,
    }

    fn parse(args: &[&str]) -> Result<Args, String> {
        let all = ["run"].iter().chain(args);
        Alone::try_parse_from(all).map(|alone| alone.run).map_err(|e| e.to_string())
    }

    #[test]
    fn without_flags_there_are_defaults() {
        let args = parse(&[]).unwrap();
        assert_eq!((args.config_file, args.telemetry_path.as_str()), (None, "/metrics"));
        assert_eq!(args.listen, [":10074".parse().unwrap()]);
        assert_eq!((args.log_level, args.log_format), (LogLevel::Info, LogFormat::Logfmt));
    }

    #[test]
    fn given_addresses_replace_the_default() {
        let args =
            parse(&["--web.listen-address=:1", "--web.listen-address", "[::1]:2", "--log.format=json"])
                .unwrap();
        assert_eq!(args.listen, [":1".parse().unwrap(), "[::1]:2".parse().unwrap()]);
        assert_eq!(args.log_format, LogFormat::Json);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in ["metrics", "/", "/-/healthy", "/a b", "/a?b"] {
            assert!(parse(&["--web.telemetry-path", bad]).is_err(), "{bad}");
        }
        assert!(parse(&["--web.listen-address=db1:80"]).unwrap_err().contains("is no IP address"));
        assert!(parse(&["--log.level=loud"]).is_err());
    }
}
