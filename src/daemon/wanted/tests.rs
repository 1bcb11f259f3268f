use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::inbox::inbox;
use super::super::keep::Keeper;
use super::*;
use crate::clock;
use crate::probe::heartbeat::Heartbeat;
use crate::record::Snapshot;

/// A control thread at work, and the way to it.
struct Running(Outbox);

impl Running {
    fn start(plan: &str, roots: Roots) -> Self {
        let own = OwnCounters::new().unwrap();
        let (messages, inbox) = inbox();
        let heart = Arc::new(Heartbeat::new(clock::now()));
        let keeper = Keeper::open(None, &own);
        let control = Control::new(&parse(plan), &heart, &Arc::new(roots), &messages, keeper, &own).unwrap();
        std::thread::spawn(move || control.run(&inbox));
        Self(messages)
    }

    fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Message) -> T {
        let (tell, told) = oneshot::channel();
        self.0.send(ask(tell)).unwrap();
        told.blocking_recv().unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.ask(Message::Snapshot).targets.iter().map(|target| target.plan.name.clone()).collect()
    }

    fn until(&self, what: impl Fn(&Self, &Snapshot) -> bool) {
        let holds = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            what(self, &self.ask(Message::Snapshot))
        });
        assert!(holds, "{:?}", self.names());
    }
}

fn parse(plan: &str) -> Plan {
    Plan::parse("t.yml", plan, &[]).unwrap()
}

fn sighting(path: &Path, number: (u32, u32)) -> Sighting {
    Sighting { target: TargetPlan::at(&path.display().to_string(), path.to_owned()), number }
}

/// The number of the file system that a directory lies in.
#[allow(clippy::disallowed_methods, reason = "a test looks for itself")]
fn file_system(dir: &Path) -> (u32, u32) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let below = mounts.filter(|fields| dir.starts_with(fields[4]));
    let number = below.max_by_key(|fields| fields[4].len()).unwrap()[2].to_owned();
    let (major, minor) = number.split_once(':').unwrap();
    (major.parse().unwrap(), minor.parse().unwrap())
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a fixture")]
fn a_file_system_that_was_found_before_its_named_target_is_left_to_that() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("data")).unwrap();
    let plan = |name: &str| {
        let link = root.join("link");
        let link = link.display();
        format!(
            "targets: [{{name: {name}, path: {link}, read: {{enabled: false}}, commit: {{file_size: 4MiB}}}}]"
        )
    };
    let control = Running::start(&plan("mine"), Roots::default());
    // The link leads nowhere yet: the target's lane does not know where it lies.
    let (here, other) = (sighting(&root, file_system(&root)), sighting(&root.join("other"), (254, 12_345)));
    let found = || Message::Discovered(1, vec![here.clone(), other.clone()]);
    control.0.send(found()).unwrap();
    assert_eq!(control.names().len(), 3);
    std::os::unix::fs::symlink(root.join("data"), root.join("link")).unwrap();
    control.until(|_, seen| seen.targets[0].budget.is_some());
    control.0.send(found()).unwrap();
    let names = control.names();
    assert_eq!(names, ["mine".to_owned(), root.join("other").display().to_string()]);
    control.ask(Message::Drain);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a fixture")]
fn nobody_waits_for_a_look_that_is_not_wanted_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let roots = Roots { proc: at("proc"), sys: at("sys"), dev: at("dev") };
    std::fs::create_dir_all(at("proc/self")).unwrap();
    // No look succeeds where there are no mounts.
    std::fs::write(at("proc/self/mountinfo"), "").unwrap();
    let nowhere = at("nowhere");
    for then in ["", "discover: , "] {
        let control = Running::start("discover:", roots.clone());
        assert_eq!(control.ask(Message::Ready), Err("disks are being looked for".to_owned()));
        let then = format!("{{{then}targets: [{{name: a, path: {}}}]}}", nowhere.display());
        control.ask(|tell| Message::Reload(Box::new(parse(&then)), tell)).unwrap();
        control.until(|control, _| control.ask(Message::Ready) == Ok(()));
        control.ask(Message::Drain);
    }
}
