//! `diskcanary pause TARGET` and `diskcanary resume TARGET`.

use super::Ending;
use crate::http::{self, Command, PAUSE, Url};
use crate::units::Span;

/// Arguments of `pause`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(super) struct PauseArgs {
    /// The target's name.
    #[arg(value_name = "TARGET")]
    target: String,

    /// How long, from 1s to 7days. A pause always ends by itself.
    #[arg(long = "for", value_name = "TIME", value_parser = http::parse_pause, default_value_t = PAUSE)]
    length: Span,

    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Arguments of `resume`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(super) struct ResumeArgs {
    /// The target's name.
    #[arg(value_name = "TARGET")]
    target: String,

    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Which daemon.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
struct DaemonArgs {
    /// Where the daemon listens.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:10074")]
    url: Url,
}

pub(super) fn pause(args: &PauseArgs) -> Ending {
    let command = Command::Pause { target: args.target.clone(), length: args.length.get() };
    let said =
        format!("target `{}` is paused for {}, or until `diskcanary resume`\n", args.target, args.length);
    ending(&args.daemon, &command, said)
}

pub(super) fn resume(args: &ResumeArgs) -> Ending {
    let command = Command::Resume { target: args.target.clone() };
    ending(&args.daemon, &command, format!("target `{}` goes on\n", args.target))
}

fn ending(daemon: &DaemonArgs, command: &Command, said: String) -> Ending {
    http::ask(&daemon.url, command).map_or_else(Ending::failed, |()| Ending::good(said))
}
