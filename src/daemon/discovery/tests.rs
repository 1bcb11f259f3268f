use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use super::*;

struct Machine {
    folder: tempfile::TempDir,
    roots: Roots,
}

/// One SCSI disk with as many partitions as are mounted.
#[allow(clippy::disallowed_methods, reason = "a fixture")]
impl Machine {
    fn new(mounts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let roots = Roots { proc: at("proc"), sys: at("sys"), dev: at("dev") };
        std::fs::create_dir_all(roots.proc.join("self")).unwrap();
        std::fs::create_dir_all(roots.sys.join("dev/block")).unwrap();
        for number in 1..9 {
            let dir = roots.sys.join(format!("devices/sda/sda{number}"));
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("partition"), number.to_string()).unwrap();
            symlink(&dir, roots.sys.join(format!("dev/block/8:{number}"))).unwrap();
        }
        std::fs::write(roots.sys.join("devices/sda/dev"), "8:0").unwrap();
        let machine = Self { folder, roots };
        machine.mount(mounts);
        machine
    }

    fn mount(&self, points: &[&str]) {
        self.mount_as(points, "rw");
    }

    fn mount_as(&self, points: &[&str], how: &str) {
        let line = |(n, point): (usize, &&str)| {
            format!("{} {} 8:{} / {point} {how} - ext4 /dev/sda rw\n", n + 1, n.min(1), n + 1)
        };
        let text: String = points.iter().enumerate().map(line).collect();
        let new = self.roots.proc.join("self/new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.roots.proc.join("self/mountinfo")).unwrap();
    }

    /// A look into the file takes for ever from here on: there is nobody to write into the pipe.
    fn hang(&self, file: &Path) {
        std::fs::remove_file(file).unwrap();
        let path = std::ffi::CString::new(file.as_os_str().as_encoded_bytes()).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    }

    fn start(&self) -> (Discovery, Gauge, Receiver<(u64, Vec<String>)>) {
        let own = OwnCounters::new().unwrap();
        let (told, tells) = channel();
        let tell = move |number, all: Vec<Sighting>| {
            let _ = told.send((number, all.into_iter().map(|one| one.target.name).collect()));
        };
        let discovery = Discovery::new(&Arc::new(self.roots.clone()), &own, Box::new(tell));
        (discovery, own.discovery(), tells)
    }
}

fn plan(text: &str) -> Plan {
    Plan::parse("t.yml", text, &[]).unwrap()
}

fn set(discovery: &mut Discovery, plan: &Plan) {
    discovery.set(plan).unwrap();
}

fn wake(discovery: &Discovery) {
    discovery.running.as_ref().unwrap().1.wake();
}

const PATIENCE: Duration = Duration::from_secs(60);

fn names(told: &Receiver<(u64, Vec<String>)>) -> (u64, Vec<String>) {
    told.recv_timeout(PATIENCE).unwrap()
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn what_comes_and_goes_is_told_and_a_plan_without_discovery_tells_nothing() {
    let machine = Machine::new(&["/", "/a"]);
    let (mut discovery, last, told) = machine.start();
    set(&mut discovery, &plan("targets: [{name: x, path: /x}]"));
    set(&mut discovery, &plan("discover:"));
    assert_eq!(names(&told), (2, strings(&["/", "/a"])));
    assert!(last.get() > 1e9);
    machine.mount(&["/"]);
    wake(&discovery);
    assert_eq!(names(&told), (2, strings(&["/"])));
    wake(&discovery);
    assert_eq!(names(&told), (2, strings(&["/"])));
    set(&mut discovery, &plan("{discover: , targets: [{name: mine, path: /}]}"));
    assert_eq!(names(&told), (3, strings(&[])));
    set(&mut discovery, &plan("targets: [{name: x, path: /x}]"));
    machine.mount(&["/", "/b"]);
    assert!(told.recv_timeout(REST * 3).is_err());
}

#[test]
fn what_was_found_and_broke_stays_when_the_plan_changes_elsewhere() {
    let machine = Machine::new(&["/", "/a", "/b"]);
    let (mut discovery, _, told) = machine.start();
    set(&mut discovery, &plan("discover:"));
    assert_eq!(names(&told).1, ["/", "/a", "/b"]);
    machine.mount_as(&["/", "/a", "/b"], "ro");
    set(&mut discovery, &plan("{discover: , targets: [{name: mine, path: /a/data}]}"));
    let (number, left) = names(&told);
    assert_eq!((number, left), (2, strings(&["/", "/b"])));
    set(&mut discovery, &plan("{discover: {file_systems: [xfs]}, targets: [{name: mine, path: /a/data}]}"));
    assert_eq!(names(&told), (3, strings(&[])));
}

#[test]
fn mounts_that_cannot_be_read_leave_all_as_it_is() {
    let machine = Machine::new(&["/", "/a"]);
    let (mut discovery, last, told) = machine.start();
    set(&mut discovery, &plan("discover:"));
    assert_eq!(names(&told).1.len(), 2);
    let before = last.get();
    machine.mount(&[]);
    wake(&discovery);
    assert!(told.recv_timeout(REST * 3).is_err());
    assert_eq!(last.get(), before);
    machine.mount(&["/"]);
    wake(&discovery);
    assert_eq!(names(&told).1, ["/"]);
}

#[test]
fn a_sysfs_that_hangs_keeps_nobody_from_telling_it_a_new_plan() {
    let machine = Machine::new(&["/"]);
    let (mut discovery, last, told) = machine.start();
    set(&mut discovery, &plan("discover:"));
    assert_eq!(names(&told), (1, strings(&["/"])));
    let before = last.get();
    machine.hang(&machine.roots.sys.join("devices/sda/sda1/partition"));
    set(&mut discovery, &plan("discover: {include: [loop]}"));
    set(&mut discovery, &plan("discover: {include: [zram]}"));
    assert!(told.recv_timeout(REST * 3).is_err());
    assert_eq!(last.get(), before, "its age shows that it hangs");
    // The end of the hang is the end of it: with a writer that goes, the file is empty.
    drop(rustix::fs::open(
        machine.roots.sys.join("devices/sda/sda1/partition"),
        rustix::fs::OFlags::WRONLY,
        rustix::fs::Mode::empty(),
    ));
    drop(machine.folder);
}
