//! `diskcanary check FILE`.

use std::fmt::Write;
use std::path::PathBuf;

use crate::config::{Plan, TargetPlan};
use crate::report::explain::File;

use super::look::{self, Look};
use super::{BAD_CONFIG, Ending, found, spared};
use crate::target::Target;
use crate::units::Span;
use crate::{clock, expose, persist};

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The config file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn command(args: &Args) -> Ending {
    match Plan::load(&args.file, &expose::reserved_labels()) {
        Ok(plan) => {
            let file = args.file.display().to_string();
            let mut ending = verdict(&file, &said(&plan.targets));
            if ending.error.is_none()
                && let Some(found) = found::found(&plan)
            {
                ending.text += &match found {
                    Ok(found) => on_found(&said(&found.targets)),
                    Err(why) => format!("warning: discover: {why}\n"),
                };
            }
            ending
        }
        Err(error) => Ending::bad_config(error.to_string()),
    }
}

/// What there is to say of each target.
fn said(targets: &[TargetPlan]) -> Vec<(&str, Vec<Remark>)> {
    let looks: Vec<Look> = targets.iter().map(look::at).collect();
    let seen: Vec<_> = targets.iter().zip(&looks).map(|(plan, look)| (plan, look.found())).collect();
    let spared = spared::warnings(&seen);
    let paused = paused();
    let one = |((plan, look), spared): ((&'_ TargetPlan, Look), Vec<String>)| {
        let unseen = unseen(plan, look.found());
        let paused = paused.iter().filter(|(name, _)| *name == plan.name).map(|(_, note)| note.clone());
        let all =
            remarks(plan, look).into_iter().chain(spared.into_iter().map(Remark::Warning)).chain(unseen);
        all.chain(paused.map(Remark::Note)).collect()
    };
    let names = targets.iter().map(|plan| plan.name.as_str());
    names.zip(targets.iter().zip(looks).zip(spared).map(one)).collect()
}

/// A sweep that never runs must not look like one that does.
fn unseen(plan: &TargetPlan, found: Option<&Target>) -> Option<Remark> {
    let planned = plan.sweep.as_ref().is_some_and(|sweep| sweep.calendar.is_some());
    let blind = found.is_some_and(|found| found.leaves.is_empty());
    let why = "`sweep` will never begin: the kernel keeps no counters of a disk here, so that others' use of it cannot be seen";
    (planned && blind).then(|| Remark::Warning(why.to_owned()))
}

/// Targets that the daemon of this state directory leaves alone for now, and words for it.
fn paused() -> Vec<(String, String)> {
    let state = super::run::state_place().ok().and_then(|dir| persist::peek(&dir)).unwrap_or_default();
    let left = |until: u64| until.checked_sub(clock::wall().as_secs()).filter(|left| *left > 0);
    let note = |(name, until)| {
        let note = format!("paused for {} more; `diskcanary resume` ends that", Span::seconds(left(until)?));
        Some((name, note))
    };
    state.pauses.into_iter().filter_map(note).collect()
}

/// What there is to say of a target.
#[derive(Debug, PartialEq, Eq)]
enum Remark {
    /// It can never work as it is written.
    Error(String),
    /// It works otherwise than somebody may think, or not now.
    Warning(String),
    /// Good to know.
    Note(String),
}

/// One line for each thing to say. Only what can never work as it is written makes the config bad: a disk may be missing
/// where the file is checked, and a target that is down does not keep others from running.
fn verdict(file: &str, said: &[(&str, Vec<Remark>)]) -> Ending {
    let (mut text, mut refused) = (String::new(), 0);
    for (name, remarks) in said {
        for remark in remarks {
            let (word, message) = match remark {
                Remark::Error(message) => ("error", message),
                Remark::Warning(message) => ("warning", message),
                Remark::Note(message) => ("note", message),
            };
            let _ = writeln!(text, "{word}: target `{}`: {message}", name.escape_debug());
        }
        refused += usize::from(remarks.iter().any(|remark| matches!(remark, Remark::Error(_))));
    }
    if refused > 0 {
        let targets = if said.len() == 1 {
            "the target".to_owned()
        } else {
            format!("{refused} of {} targets", said.len())
        };
        let error = format!("{file}: {targets} can never be probed as it is written");
        return Ending { text, error: Some(error), code: BAD_CONFIG };
    }
    let targets = if said.len() == 1 { "target" } else { "targets" };
    let _ = writeln!(text, "{file} is good: {} {targets}", said.len());
    Ending::good(text)
}

/// What was found is here now and not written in the file: nothing about it makes the file bad.
fn on_found(said: &[(&str, Vec<Remark>)]) -> String {
    let mut text = String::new();
    for (name, remarks) in said {
        for remark in remarks {
            let (word, message) = match remark {
                Remark::Error(message) | Remark::Warning(message) => ("warning", message),
                Remark::Note(message) => ("note", message),
            };
            let _ = writeln!(text, "{word}: found `{}`: {message}", name.escape_debug());
        }
    }
    match said.len() {
        0 => text += "warning: discover: nothing is found now; `explain` says what was left out\n",
        n => {
            let names: Vec<_> = said.iter().map(|(name, _)| name.escape_debug().to_string()).collect();
            let _ = writeln!(text, "discover finds {n} now: {}", names.join(", "));
        }
    }
    text
}

fn remarks(plan: &TargetPlan, look: Look) -> Vec<Remark> {
    match look {
        Look::Refused(why) => vec![Remark::Error(why)],
        Look::Down(why) => vec![Remark::Warning(format!("{why}; until then the target is down"))],
        Look::Device(_) => on_a_device(plan).into_iter().collect(),
        Look::Files(_, place) => {
            let files = look::files(plan, &place);
            let no_room = files.commits.into_iter().chain(files.reads).filter_map(|file| match file {
                File::NoRoom(why) => Some(Remark::Warning(why)),
                _ => None,
            });
            place.note.into_iter().map(Remark::Note).chain(no_room).collect()
        }
    }
}

/// What the keys ask for and a block device cannot give.
fn on_a_device(plan: &TargetPlan) -> Option<Remark> {
    if plan.read.is_none() {
        let why = "it is a block device, which is only ever read, and `read` is off: nothing is probed";
        return Some(Remark::Error(why.to_owned()));
    }
    if plan.commit.as_ref().is_some_and(|commit| commit.asked_for) {
        let why = "it is a block device, which is only ever read: `commit` does nothing here; name a directory on it instead";
        return Some(Remark::Warning(why.to_owned()));
    }
    let ignored = plan.probe_dir.is_some() || plan.reserve.is_some();
    let why = "it is a block device, where no file is made: `probe_dir` and `reserve` do nothing";
    ignored.then(|| Remark::Warning(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_path_is_a_warning_and_a_refused_one_an_error() {
        let down = verdict("f.yml", &[("a", vec![Remark::Warning("no such path".to_owned())])]);
        assert_eq!(
            down,
            Ending::good("warning: target `a`: no such path\nf.yml is good: 1 target\n".to_owned())
        );
        let refused =
            verdict("f.yml", &[("a", Vec::new()), ("b", vec![Remark::Error("is a file".to_owned())])]);
        assert_eq!(refused.code, 2);
        assert_eq!(refused.text, "error: target `b`: is a file\n");
        assert_eq!(
            refused.error.as_deref(),
            Some("f.yml: 1 of 2 targets can never be probed as it is written")
        );
    }

    #[test]
    fn what_is_found_makes_no_file_bad() {
        let text = on_found(&[("/a", vec![Remark::Error("is a database's".to_owned())]), ("/b", Vec::new())]);
        assert_eq!(text, "warning: found `/a`: is a database's\ndiscover finds 2 now: /a, /b\n");
        assert!(on_found(&[]).starts_with("warning: discover: nothing is found now"));
    }

    #[test]
    fn a_block_device_takes_no_commits() {
        let mut plan = TargetPlan::at("a", PathBuf::from("/dev/vdb"));
        assert_eq!(on_a_device(&plan), None);
        plan.commit.as_mut().unwrap().asked_for = true;
        assert!(
            matches!(on_a_device(&plan), Some(Remark::Warning(why)) if why.contains("`commit` does nothing"))
        );
        plan.read = None;
        assert!(matches!(on_a_device(&plan), Some(Remark::Error(_))));
    }
}
