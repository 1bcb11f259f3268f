//! The healthy targets of a ward, and who looks at them once a second.

use super::room::Room;
use super::witness::Witness;
use crate::lab::{self, FuseDisk, Metrics, Mounted};
use crate::watch::target;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) const HEALTHY: [&str; 3] = ["healthy_a", "healthy_b", "healthy_fuse"];
pub(super) const INTERVAL: f64 = 0.1;
/// A scrape that takes longer than this is a scrape that was not answered.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Two ext4 on loop devices and a FUSE file system, each a disk of its own, every probe due each 100 ms.
pub(super) struct Healthy {
    ext4: [Mounted; 2],
    fuse: FuseDisk,
}

impl Healthy {
    pub(super) fn new(room: &Room) -> Self {
        Self { ext4: [room.ext4(), room.ext4()], fuse: room.fuse() }
    }

    fn paths(&self) -> [&Path; 3] {
        [self.ext4[0].path(), self.ext4[1].path(), self.fuse.path()]
    }

    pub(super) fn config(&self) -> String {
        HEALTHY.iter().zip(self.paths()).map(|(name, path)| target(name, path, "100ms", "100ms")).collect()
    }
}

/// A scrape each second, from a thread of its own, and a witness on each healthy disk.
pub(super) struct Watch {
    witnesses: [Witness; 3],
    over: Arc<AtomicBool>,
    watcher: JoinHandle<Vec<Look>>,
}

struct Look {
    /// Just before and just after the answer was made.
    asked: Instant,
    answered: Instant,
    healthy: Metrics,
}

impl Watch {
    pub(super) fn start(healthy: &Healthy, address: SocketAddr) -> Self {
        let witnesses = healthy.paths().map(Witness::on);
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let watcher = std::thread::spawn(move || {
            let mut looks = Vec::new();
            let mut due = Instant::now();
            while !stop.load(SeqCst) {
                looks.push(Look::at(address));
                due += Duration::from_secs(1);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            looks.push(Look::at(address));
            looks
        });
        Self { witnesses, over, watcher }
    }

    /// Every scrape was answered at once, and every healthy probe ran in its slots.
    pub(super) fn end(self) {
        self.over.store(true, SeqCst);
        let looks = self.watcher.join().expect("every scrape is answered");
        for look in &looks {
            let took = look.answered - look.asked;
            assert!(took < AT_ONCE, "a scrape took {took:?}");
        }
        let (first, last) = (&looks[0], &looks[looks.len() - 1]);
        for (target, witness) in HEALTHY.iter().zip(self.witnesses) {
            let taken = witness.end();
            for probe in ["commit", "read"] {
                kept_its_rate(target, probe, first, last, taken);
            }
        }
    }
}

impl Look {
    fn at(address: SocketAddr) -> Self {
        let asked = Instant::now();
        let response = lab::get(address, "/metrics").unwrap_or_else(|error| panic!("/metrics: {error}"));
        let answered = Instant::now();
        assert_eq!(response.status, 200, "{}", response.text());
        let text = response.text();
        let ours = |line: &&str| line.starts_with("diskcanary_probe_") && line.contains("target=\"healthy");
        let lines: Vec<&str> = text.lines().filter(ours).collect();
        Self { asked, answered, healthy: Metrics::parse(&lines.join("\n")).unwrap() }
    }

    fn count(&self, what: &str, target: &str, probe: &str) -> f64 {
        self.healthy.sum(&format!("diskcanary_probe_{what}_total"), &[("target", target), ("probe", probe)])
    }
}

/// All slots that passed are counted, and at least 95 % of them as runs, not counting `taken`, those that a witness missed too. The
/// instants of the two are not the same, so what took a slot from one may have taken another from the other.
fn kept_its_rate(target: &str, probe: &str, first: &Look, last: &Look, taken: u32) {
    let more = |what| last.count(what, target, probe) - first.count(what, target, probe);
    let (runs, missed, skipped, errors) = (more("runs"), more("missed"), more("skipped"), more("errors"));
    let slots = runs + missed + skipped;
    // The books may lag a second behind: a good run wakes nobody, and is entered at the next scrape at the latest.
    let (least, most) = (last.asked - first.answered, last.answered - first.asked);
    let said = format!(
        "{target} {probe}: {runs} runs, {missed} missed, {skipped} skipped, {errors} errors in {most:?}, {taken} missed by a witness"
    );
    assert!(least.as_secs_f64() >= 100.0 * INTERVAL, "{said}: too short a time to tell");
    let (fewest, greatest) = (least.as_secs_f64() / INTERVAL - 2.5, most.as_secs_f64() / INTERVAL + 2.5);
    assert!(slots >= fewest && slots <= greatest, "{said}: not every slot is accounted for");
    assert!(runs >= slots * 0.95 - 1.5 * f64::from(taken), "{said}: not its rate");
    assert_eq!(errors, 0.0, "{said}");
}
