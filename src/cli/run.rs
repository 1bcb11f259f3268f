//! The arguments of `diskcanary run`.

use std::path::PathBuf;

use super::{ListenAddress, LogFormat, LogLevel};

/// Arguments of `run`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct RunArgs {
    /// The config file. Without it one target is probed: the state directory.
    #[arg(long = "config.file", value_name = "FILE")]
    pub config_file: Option<PathBuf>,

    /// Where to listen; may be given several times.
    #[arg(long = "web.listen-address", value_name = "ADDRESS", default_value = ":10074")]
    pub listen: Vec<ListenAddress>,

    /// Where the metrics are.
    #[arg(long = "web.telemetry-path", value_name = "PATH", default_value = "/metrics", value_parser = telemetry_path)]
    pub telemetry_path: String,

    /// The least important lines that are logged.
    #[arg(long = "log.level", value_enum, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogLevel,

    /// How lines are written.
    #[arg(long = "log.format", value_enum, value_name = "FORMAT", default_value = "logfmt")]
    pub log_format: LogFormat,
}

fn telemetry_path(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b);
    if !text.starts_with('/') || !text.bytes().all(allowed) {
        return Err("write a path such as `/metrics`: letters, digits and `-_.~` between slashes".to_owned());
    }
    if text == "/" || text.starts_with("/-/") {
        return Err(
            "the status page and the health checks are there; write another, such as `/metrics`".to_owned()
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parse(args: &[&str]) -> Result<RunArgs, String> {
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
        assert!(parse(&["--web.listen-address=db1:80"]).unwrap_err().contains("not looked up"));
        assert!(parse(&["--log.level=loud"]).is_err());
    }
}
