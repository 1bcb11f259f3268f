//! `diskcanary check FILE`.

use std::fmt::Write;
use std::path::PathBuf;

use crate::config::{Plan, TargetPlan};
use crate::report::explain::Place;

use super::look::{self, Look};
use super::{BAD_CONFIG, Ending};
use crate::expose;

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
            let looks: Vec<_> = plan.targets.iter().map(|target| (target, look::at(target))).collect();
            verdict(&args.file.display().to_string(), &looks)
        }
        Err(error) => Ending::bad_config(error.to_string()),
    }
}

/// One line for each thing to say. Only what can never work as it is written makes the config bad: a disk may be missing
/// where the file is checked, and a target that is down does not keep others from running.
fn verdict(file: &str, looks: &[(&TargetPlan, Look)]) -> Ending {
    let (mut text, mut refused) = (String::new(), 0);
    for (target, look) in looks {
        let (word, message) = match (look, contradiction(target, look)) {
            (Look::Refused(message), _) => ("error", message.clone()),
            (_, Some((word, message))) => (word, message.to_owned()),
            (Look::Down(message), _) => ("warning", message.clone()),
            (Look::At(_), None) => continue,
        };
        refused += usize::from(word == "error");
        let _ = writeln!(text, "{word}: target `{}`: {message}", target.name.escape_debug());
    }
    if refused > 0 {
        let error = format!("{file}: {refused} of {} targets can never be probed", looks.len());
        return Ending { text, error: Some(error), code: BAD_CONFIG };
    }
    let targets = if looks.len() == 1 { "target" } else { "targets" };
    let _ = writeln!(text, "{file} is good: {} {targets}", looks.len());
    Ending::good(text)
}

/// What the keys ask for and the place cannot give.
fn contradiction(target: &TargetPlan, look: &Look) -> Option<(&'static str, &'static str)> {
    if *look != Look::At(Place::Device) {
        return None;
    }
    if target.read.is_none() {
        return Some((
            "error",
            "it is a block device, which is only ever read, and `read` is off: nothing is probed",
        ));
    }
    if target.commit.as_ref().is_some_and(|commit| commit.asked_for) {
        return Some((
            "warning",
            "it is a block device, which is only ever read: `commit` does nothing here; name a directory on it instead",
        ));
    }
    let ignored = target.probe_dir.is_some() || target.reserve.is_some();
    ignored.then_some((
        "warning",
        "it is a block device, where no file is made: `probe_dir` and `reserve` do nothing",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> TargetPlan {
        TargetPlan::at("a", PathBuf::from("/dev/vdb"))
    }

    #[test]
    fn a_missing_path_is_a_warning_and_a_refused_one_an_error() {
        let (a, b) = (target(), target());
        let down = verdict("f.yml", &[(&a, Look::Down("no such path".to_owned()))]);
        assert_eq!(
            down,
            Ending::good("warning: target `a`: no such path\nf.yml is good: 1 target\n".to_owned())
        );
        let files = Look::At(Place::Files { directory: "/x".to_owned(), moved: None });
        let refused = verdict("f.yml", &[(&a, files), (&b, Look::Refused("is a file".to_owned()))]);
        assert_eq!(refused.code, 2);
        assert_eq!(refused.text, "error: target `a`: is a file\n");
        assert_eq!(refused.error.as_deref(), Some("f.yml: 1 of 2 targets can never be probed"));
    }

    #[test]
    fn a_block_device_takes_no_commits() {
        let on_device = |target: &TargetPlan| verdict("f.yml", &[(target, Look::At(Place::Device))]);
        let mut asked = target();
        assert_eq!(on_device(&asked).text, "f.yml is good: 1 target\n");
        asked.commit.as_mut().unwrap().asked_for = true;
        let ending = on_device(&asked);
        assert!(
            ending.code == 0 && ending.text.starts_with("warning: target `a`: it is a block device"),
            "{ending:?}"
        );
        asked.read = None;
        assert_eq!(on_device(&asked).code, 2);
    }
}
