//! `diskcanary explain FILE`.

use std::path::PathBuf;

use crate::config::{Plan, TargetPlan};
use crate::report::explain::{Commit, Place, Read, Shape, Target, explain};
use crate::units::Bytes;

use super::Ending;
use super::look::{self, Look};
use crate::expose;

/// What the probes do in a run.
const SHAPE: Shape = Shape {
    commits: 3,
    single_reads: 16,
    burst_reads: 48,
    burst_depth: 4,
    read_size: Bytes::kib(4),
    layout_rate: Bytes::mib(64),
};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The config file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn command(args: &Args) -> Ending {
    match Plan::load(&args.file, &expose::reserved_labels()) {
        Ok(plan) => {
            let targets: Vec<_> =
                plan.targets.iter().map(|target| explained(target, look::at(target))).collect();
            Ending::good(explain(&targets, &SHAPE))
        }
        Err(error) => Ending::bad_config(error.to_string()),
    }
}

fn explained(target: &TargetPlan, look: Look) -> Target {
    Target {
        name: target.name.clone(),
        path: target.path.display().to_string(),
        place: match look {
            Look::At(place) => place,
            Look::Down(why) => Place::Down(why),
            Look::Refused(why) => Place::Refused(why),
        },
        engine: target.engine.label(),
        commit: target.commit.as_ref().map(|commit| Commit {
            profile: commit.profile,
            method: commit.method,
            interval: commit.interval,
            file_size: commit.file_size,
        }),
        read: target.read.as_ref().map(|read| Read {
            interval: read.interval,
            file_size: read.file_size,
            wait: read.wait.label(),
        }),
        series: None,
    }
}
