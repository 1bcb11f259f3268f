//! Three who count the same operations agree: Prometheus over our buckets, our own windows, and the block layer.

use crate::lab::{
    BlockTrace, Daemon, Histogram, Need, Prometheus, Request, Running, eventually_within, first_on_the_cpu,
    lacks, run,
};
use crate::watch::{PATIENCE, Seen, all_measured, small_ext4, target};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Reads of one run, and how many of them go alone.
const RUN: usize = 64;
const ALONE: usize = 16;

#[test]
fn prometheus_our_windows_and_the_block_layer_agree() {
    if lacks(&[Need::Root, Need::Tracefs, Need::Tool("prometheus"), Need::Tool("mkfs.ext4")]) {
        return;
    }
    let disk = small_ext4();
    let config = format!("targets:\n{}", target("db", disk.path(), "100ms", "200ms"));
    let daemon = Daemon::new().config(&config).with(|c| _ = first_on_the_cpu(c)).start();
    all_measured(&daemon, &["db"], &["commit", "read"]);
    let prometheus = Prometheus::scraping(daemon.address());
    let places = |name: &str| extents(&disk.path().join(".diskcanary").join(name));
    let places = Places { reads: places("reads"), commits: places("commits") };
    let trace = BlockTrace::start(disk.disk().number());

    // On a busy machine one round may tell more about the machine than about us; in one of six we must agree.
    let mut verdicts = Vec::new();
    let agreed = (0..6).any(|_| {
        let round = Round::observe(&daemon, &trace, &places);
        println!("{}", round.verdict());
        verdicts.push(round.verdict());
        round.agrees()
    });
    assert!(agreed, "{}", verdicts.join("\n"));

    for op in ["commit", "write", "sync", "read"] {
        same_in_prometheus(&prometheus, &daemon, op);
    }
}

/// Where our files lie on the device, in sectors.
struct Places {
    reads: Vec<Range<u64>>,
    commits: Vec<Range<u64>>,
}

/// Some seconds of reads at depth 1, told by our histogram and by the block layer.
struct Round {
    ours: Histogram,
    /// Our exact median of the last minute, in seconds.
    median: f64,
    /// The block layer's times from issue to completion in seconds, sorted.
    device: Vec<f64>,
    starved: f64,
    /// Commits by our count, and writes in the commit file by the device's; flushes of the device.
    commits: (f64, f64),
    flushes: f64,
}

impl Round {
    fn observe(daemon: &Running, trace: &BlockTrace, places: &Places) -> Self {
        // To begin and to end a trace is quick, to read it is not: no scrape waits for that.
        trace.take();
        let before = Seen::of(daemon);
        std::thread::sleep(Duration::from_secs(8));
        let after = Seen::of(daemon);
        let requests = trace.take();
        let ours = after.histogram("db", "read").since(&before.histogram("db", "read"));
        let starved = |seen: &Seen| seen.invalid("db", "read", "starved");
        let commits = |seen: &Seen| {
            let labels = [("target", "db"), ("probe", "commit"), ("op", "sync")];
            seen.0.sum("diskcanary_probe_operations_total", &labels)
        };
        let written = requests.iter().filter(|r| r.is_write() && lies_in(r, &places.commits)).count();
        Self {
            ours,
            median: window(&after, "read", "p50"),
            device: alone(&requests, &places.reads),
            starved: starved(&after) - starved(&before),
            commits: (commits(&after) - commits(&before), written as f64),
            flushes: requests.iter().filter(|r| r.is_flush()).count() as f64,
        }
    }

    fn of_device(&self, quantile: f64) -> f64 {
        self.device[((self.device.len() as f64 * quantile).ceil() as usize).clamp(1, self.device.len()) - 1]
    }

    /// What we add to the device's time, as the medians differ: our exact one, of the window, and the block layer's. At p50 this
    /// holds our buckets against our window; at p90 it says something about our tail.
    fn excess(&self) -> f64 {
        self.median - self.of_device(0.5)
    }

    /// Each of our samples begins before its request is issued and ends after it completed, so that every quantile of ours
    /// is at least the device's; and it is no more than that and our excess, by one bucket.
    fn agrees(&self) -> bool {
        // Runs at either end may be in one count and not in the other.
        let counted = (self.ours.count + self.starved - self.device.len() as f64).abs() <= 2.0 * ALONE as f64;
        // A run has three commits: each is one write, and makes the device flush.
        let committed =
            (self.commits.0 - self.commits.1).abs() <= 6.0 && self.flushes >= self.commits.1 - 6.0;
        counted
            && committed
            && self.excess() > 0.0
            && [0.5, 0.9].iter().all(|q| {
                let expected = self.of_device(*q) + self.excess();
                let found = self.ours.quantile(*q).unwrap();
                distance(&self.ours, found, expected).abs() <= 1
                    && distance(&self.ours, found, self.of_device(*q)) >= 0
            })
    }

    fn verdict(&self) -> String {
        let q = |q| (self.ours.quantile(q).unwrap() * 1e6, self.of_device(q) * 1e6);
        format!(
            "{} reads of ours (and {} starved), {} of the device; µs (ours, device): p50 {:?} p90 {:?}, excess {:.1}; \
             {:?} commits, {} flushes",
            self.ours.count,
            self.starved,
            self.device.len(),
            q(0.5),
            q(0.9),
            self.excess() * 1e6,
            self.commits,
            self.flushes
        )
    }
}

/// Buckets from the one of `b` to the one of `a`, negative when that one lies below.
fn distance(histogram: &Histogram, a: f64, b: f64) -> i64 {
    let place = |value: f64| histogram.buckets.iter().position(|(le, _)| value <= *le).unwrap() as i64;
    place(a) - place(b)
}

/// The reads that went alone: of each run of reads in our file the first ones. Runs are told apart from the longest pause
/// on, since each has as many reads.
fn alone(requests: &[Request], places: &[Range<u64>]) -> Vec<f64> {
    let reads: Vec<&Request> =
        requests.iter().filter(|r| r.is_read() && r.sectors == 8 && lies_in(r, places)).collect();
    let pause = (1..reads.len()).max_by_key(|at| reads[*at].issued - reads[*at - 1].issued).expect("reads");
    let mut alone: Vec<f64> = reads
        .iter()
        .enumerate()
        .filter(|(at, _)| (at + RUN - pause % RUN) % RUN < ALONE)
        .map(|(_, read)| read.duration() as f64 / 1e9)
        .collect();
    alone.sort_by(f64::total_cmp);
    alone
}

fn lies_in(request: &Request, places: &[Range<u64>]) -> bool {
    places.iter().any(|place| place.contains(&request.sector))
}

/// Where the file lies on its device, in sectors.
fn extents(file: &Path) -> Vec<Range<u64>> {
    let text = run("filefrag", &["-v".as_ref(), "-b512".as_ref(), file.as_os_str()]);
    let rows = text.lines().filter_map(|line| {
        // `  0:        0..    8191:      34816..     43007:   8192:  last,eof`
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        fields.first()?.parse::<u32>().ok()?;
        let (first, last) = fields.get(2)?.split_once("..")?;
        Some(first.trim().parse().ok()?..last.trim().parse::<u64>().ok()? + 1)
    });
    let extents: Vec<_> = rows.collect();
    assert!(!extents.is_empty(), "{text}");
    extents
}

fn window(seen: &Seen, op: &str, stat: &str) -> f64 {
    let labels = [("target", "db"), ("op", op), ("phase", "warm"), ("window", "1m"), ("stat", stat)];
    seen.0.value("diskcanary_window_latency_seconds", &labels).expect("samples in the window")
}

/// `histogram_quantile` over all that our buckets hold, and our exact window that holds the same samples (all are younger than
/// ten minutes), both as Prometheus scraped them: within one bucket.
fn same_in_prometheus(prometheus: &Prometheus, daemon: &Running, op: &str) {
    let bounds = Seen::of(daemon).histogram("db", op);
    for (quantile, stat) in [("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99")] {
        let by_buckets = format!(
            "histogram_quantile({quantile}, diskcanary_{op}_duration_seconds_bucket{{phase='warm'}})"
        );
        let by_window =
            format!("diskcanary_window_latency_seconds{{op='{op}',phase='warm',window='10m',stat='{stat}'}}");
        let mut both = None;
        eventually_within(PATIENCE, "Prometheus has both", || {
            both = prometheus.value(&by_buckets).zip(prometheus.value(&by_window));
            both.is_some()
        });
        let (buckets, window) = both.unwrap();
        let apart = distance(&bounds, buckets, window);
        assert!(apart.abs() <= 1, "{op} {stat}: {buckets} by buckets, {window} by the window");
    }
}
