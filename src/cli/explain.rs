//! `diskcanary explain FILE`.

use std::path::PathBuf;

use crate::config::{ASSUMED, Plan, TargetPlan};
use crate::probe::home;
use crate::report::discovered::discovered;
use crate::report::explain::{Commit, File, Place, Read, Sweeps, Target, explain};

use super::look::{self, Files, Look};
use super::{Ending, found, spared};
use crate::schedule::budget::together;
use crate::{clock, daemon, expose, target};

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
            let all = |targets: &[TargetPlan]| {
                targets.iter().map(|t| explained(t, look::at(t))).collect::<Vec<_>>()
            };
            let mut targets = all(&plan.targets);
            let found = match found::found(&plan) {
                None => String::new(),
                Some(Ok(found)) => {
                    targets.extend(all(&found.targets));
                    discovered(found.targets.len(), &found.left_out)
                }
                Some(Err(why)) => format!("discover finds nothing: {why}\n"),
            };
            Ending::good(explain(&targets) + &found)
        }
        Err(error) => Ending::bad_config(error.to_string()),
    }
}

fn explained(plan: &TargetPlan, look: Look) -> Target {
    let wished = Files {
        commits: plan.commit.as_ref().map(|commit| File::Wished(commit.file_size)),
        reads: plan.read.as_ref().map(|read| File::Wished(read.file_size)),
        free: None,
    };
    let found = look.found();
    let spared = spared::spared(plan, found);
    let series = found.map(|target| daemon::series(plan, target));
    let sweeps = sweeps(plan, found);
    let (place, files) = match look {
        Look::Files(target, place) => {
            let files = look::files(plan, &place);
            let directory = place.dir.join(home::NAME).display().to_string();
            let (disk, limits) = (look::disk(&target), look::limits(&target));
            (Place::Files { disk, directory, moved: place.note, free: files.free, limits }, files)
        }
        Look::Device(target) => (Place::Device { disk: look::disk(&target) }, wished),
        Look::Down(why) => (Place::Down(why), wished),
        Look::Refused(why) => (Place::Refused(why), wished),
    };
    Target {
        name: plan.name.clone(),
        path: plan.path.display().to_string(),
        place,
        engine: plan.engine.label(),
        commit: plan.commit.as_ref().zip(files.commits).map(|(commit, file)| Commit {
            profile: commit.profile,
            method: commit.method,
            interval: commit.interval,
            file,
        }),
        read: plan.read.as_ref().zip(files.reads).map(|(read, file)| Read {
            interval: read.interval,
            file,
            wait: read.wait.label(),
        }),
        series,
        spared,
        sweeps,
    }
}

/// The next sweeps that are told.
const TOLD: usize = 3;

fn sweeps(plan: &TargetPlan, found: Option<&target::Target>) -> Option<Sweeps> {
    let sweep = plan.sweep.as_ref()?;
    let device = found.is_some_and(|found| found.kind == target::Kind::BlockDevice);
    let (next, later) = daemon::next_sweeps(plan, clock::wall(), TOLD);
    let calendar = sweep.calendar.as_ref();
    let limits = plan.sweep_limits(device);
    Some(Sweeps {
        preset: sweep.preset.label(),
        schedule: calendar.map(|calendar| format!("{} {}", calendar.text(), calendar.zone())),
        later: later.into(),
        next: calendar
            .map(|calendar| next.iter().map(|at| calendar.shown(*at)).collect())
            .unwrap_or_default(),
        one: sweep.cells(device).demand(ASSUMED),
        a_day: sweep.a_day(device).1,
        limits: limits.map(|limit| together(std::iter::once(limit))),
        rest: sweep.rest,
        series: daemon::sweep_series(plan, device),
        seen: found.is_none_or(|found| !found.leaves.is_empty()),
    })
}
