use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::device::{Sampler, Texts, View};
use crate::io::{EngineKind, Inflight, Op};
use crate::probe::{
    Burst, CommitSample, Cost, Failure, Fault, Finding, Outcome, PerCommit, Phase, Probe, ReadSample, Stage,
    State, Verdict,
};
use crate::record::{Book, DeviceSettings, EngineChoice, Facts, Last, Plan, ProbePlan, Results, SweepView};
use crate::schedule::budget::{Budgets, Limit};
use crate::schedule::sweep::Ending;
use crate::sys::{Errno, ProcessStats};

fn at(seconds: u64) -> Tick {
    Tick::from_nanos(1_000_000_000 * (1000 + seconds))
}

fn plan(name: &str) -> Plan {
    let on = |probe, seconds| ProbePlan { probe, interval: Duration::from_secs(seconds), operations: 3 };
    Plan {
        labels: vec![("service".into(), "orders \"eu\"".into())],
        probes: vec![on(Probe::Commit, 2), on(Probe::Read, 30)],
        skip_reasons: &["busy", "no_space"],
        ..Plan::new(name, format!("/srv/{name}"), Arc::new(Inflight::default()))
    }
}

fn facts() -> Facts {
    let device = |name: &str| DeviceSettings {
        device: name.into(),
        scheduler: "none".into(),
        write_cache: "write back".into(),
        mount_options: "rw,noatime".into(),
        ..DeviceSettings::default()
    };
    Facts {
        device: "dm-0".into(),
        leaves: ["sda", "sdb", "sda"].map(String::from).into(),
        fstype: "ext4".into(),
        model: "Model \\ 5\"".into(),
        serial: "S/N".into(),
        by_id: "nvme-X".into(),
        volume_id: "vol-0abc".into(),
        diskseq: "9".into(),
        direct: "true".into(),
        engine: Some(EngineChoice { kind: EngineKind::Threads, reason: "io_uring_setup: EPERM".into() }),
        settings: vec![device("sda"), device("sdb")],
        ..Facts::default()
    }
}

/// A run with these samples; both probes' fields are filled, as far as the probe has them.
fn run(probe: Probe, second: u64, nanos: &[u64]) -> Outcome {
    let mut outcome = Outcome::begin(probe, at(second), at(second) + Duration::from_millis(2));
    outcome.finished = at(second) + Duration::from_millis(9);
    let phase = |i: usize| if i == 0 { Phase::First } else { Phase::Warm };
    for (i, n) in nanos.iter().enumerate() {
        let phase = phase(i);
        match probe {
            Probe::Commit => {
                let (write, sync) = (n / 4, Some(n - n / 4));
                outcome.commits.push(CommitSample { phase, write, sync, commit: *n });
            }
            Probe::Read => outcome.reads.push(ReadSample { phase, nanos: *n }),
        }
    }
    outcome.cost = Cost { reads: 3, read_bytes: 12_288, writes: 3, written_bytes: 12_288, syncs: 3 };
    outcome
}

/// What a sampler saw of these devices in two seconds; 17 fields of a device's line is what a kernel of today has.
fn looked_at(devices: &[&str], fields: usize) -> View {
    let names: Vec<Arc<str>> = devices.iter().map(|name| Arc::from(*name)).collect();
    let mut sampler = Sampler::new();
    sampler.watch(&names);
    let mut look = |second: u64| {
        let numbers: String = (1..=fields as u64).map(|n| format!(" {}", n * (1000 + second))).collect();
        let lines: String = devices.iter().map(|name| format!("8 0 {name}{numbers}\n")).collect();
        let pressure = "some avg10=25.00 total=1\nfull avg10=12.50 total=1\n";
        let stat = format!("cpu  {second} 0 0 {second} {second} 0 0 {second} 0 0\n");
        let texts = Texts {
            diskstats: Some(&lines),
            stat: Some(&stat),
            vmstat: Some(if second == 0 { "pgpgout 0\n" } else { "pgpgout 8\n" }),
            io_pressure: Some(pressure),
            cpu_pressure: Some(pressure),
            memory_pressure: Some(pressure),
        };
        sampler.sample(at(second), &texts, |_| None)
    };
    look(0);
    look(1)
}

/// A book in which every family has something to say.
fn full_book(names: &[&str], runs: u64) -> Book {
    let mut book = Book::new();
    book.set_context(Arc::new(looked_at(&["sda", "dm-0"], 17)));
    for name in names {
        let plan = plan(name);
        plan.inflight.begin(Op::Sync, at(runs * 2));
        let id = book.add_target(plan);
        book.set_facts(id, facts());
        book.set_state(id, State::Ready);
        let mut budgets = Budgets::new();
        budgets.place(0, &["sda".to_owned()], [Limit::Default(1e9); 3], at(0));
        book.set_budget(id, budgets.levels(0, at(0)).unwrap());
        book.set_layout(id, Probe::Commit, 64 << 20, 64 << 20);
        book.set_layout(id, Probe::Read, 1 << 28, 1 << 30);
        for i in 0..runs {
            let mut commit = run(Probe::Commit, i * 2, &[700_000 + i, 230_000 + i, 160_000 + i]);
            commit.per_commit = Some(PerCommit { writes: 2.5, flushes: 1.0, bytes: 6144.0 });
            let find = |fault, verdict| Finding { fault, verdict, evidence: "seen".into() };
            commit.findings = vec![
                find(Fault::Unflushed, Verdict::Holds),
                find(Fault::Starved, Verdict::Fine),
                find(Fault::Unwritten, Verdict::Unknown),
            ];
            book.enter(id, &commit, commit.finished, Duration::from_secs(1_700_000_000 + i));
            let mut read = run(Probe::Read, i * 2, &[92_000 + i, 88_000 + i]);
            read.burst = Some(Burst { block_size: 4096, depth: 4, iops: 31_415.9 });
            book.enter(id, &read, read.finished, Duration::from_secs(1_700_000_000 + i));
        }
        for number in [Errno::EIO.raw(), 4001, 4002] {
            let errno = Errno::from_raw(number);
            book.fail(id, Probe::Read, &Failure { stage: Stage::Layout, errno, message: "no".into() });
        }
    }
    book
}

/// A sweep with something to say in every way.
fn swept() -> SweepView {
    use crate::probe::Method;
    use crate::probe::sweep::{
        CellResult, Environment, Latency, Operation, Pattern, Regime, SCHEMA_VERSION, Subject, Sweep,
        SweepFault, fixture,
    };
    let by =
        |method, iops| CellResult { method: Some(method), ..fixture::cell(Pattern::Commit, 4096, 1, iops) };
    let mut loaded = fixture::cell(Pattern::Oltp, 8192, 8, 500.0);
    loaded.loaded_ratio = Some([(Operation::Commit, [("p99".to_owned(), 3.5)].into())].into());
    loaded.latency_ns.insert(Operation::Sync, Latency::default());
    let mut cells = vec![
        fixture::cell(Pattern::RandRead, 4096, 1, 1000.0),
        fixture::cell(Pattern::RandRead, 4096, 8, 3000.0),
        loaded,
        by(Method::Fdatasync, 900.0),
        by(Method::ODsync, 1200.0),
    ];
    cells[0].regime = Regime::Burst;
    cells[0].shape.decline = Some(0.04);
    cells[1].faults = vec![SweepFault::Unsteady, SweepFault::Unsteady];
    let sweep = Sweep {
        schema_version: SCHEMA_VERSION,
        target: Subject::default(),
        environment: Environment::default(),
        started: String::new(),
        seconds: 9.0,
        preset: None,
        product: None,
        cells,
        skipped: Vec::new(),
        stopped: None,
    };
    let wall = |n: u64| Duration::from_secs(1_700_000_000 + n);
    SweepView {
        results: Some(Results { sweep: Arc::new(sweep), ended: wall(9) }),
        next: Some(wall(0)),
        waiting: Some("workload"),
        last: Some(Last { began: wall(0), ended: Some((wall(9), Ending::Complete)) }),
        passed: vec![("workload", 2)],
        left: Some([0.5, 1.0]),
        ..SweepView::default()
    }
}

#[test]
fn a_sweep_has_one_series_for_each_cell_and_stream() {
    let mut book = Book::new();
    let id = book.add_target(plan("a"));
    let without = rendered(&mut book, 0);
    assert!(!without.contains("sweep"), "nothing where there never is one");
    book.set_sweeps(id, Some(swept()));
    let text = rendered(&mut book, 0);
    let all = series(&text);
    let of = |name: &str, labels: &str| {
        let found = all.iter().find(|(series, _)| {
            series.starts_with(&format!("diskcanary_{name}{{")) && series.contains(labels)
        });
        found.map(|(_, value)| *value)
    };
    let cell = r#"pattern="randread",block_size="4096",depth="8",jobs="1""#;
    assert_eq!(of("sweep_iops", &format!(r#"{cell},op="read""#)), Some(3000.0));
    let fault = r#"pattern="randread",block_size="4096",depth="8",fault="unsteady""#;
    assert_eq!(of("sweep_fault", fault), Some(1.0));
    assert!(!text.contains("=\"\""), "an empty label is none: {text}");
    assert_eq!(of("sweep_peak_iops", r#"pattern="randread",block_size="4096""#), Some(3000.0));
    assert_eq!(of("sweep_knee_depth", r#"pattern="randread""#), Some(8.0));
    for (method, peak) in [("fdatasync", 900.0), ("o_dsync", 1200.0)] {
        let labels = format!(r#"pattern="commit",block_size="4096",method="{method}""#);
        assert_eq!(of("sweep_peak_iops", &labels), Some(peak), "each method is a ladder of its own:\n{text}");
    }
    assert_eq!(of("sweep_cell_info", &format!(r#"{cell},regime="unknown""#)), Some(1.0));
    assert_eq!(of("sweep_knee_depth", r#"pattern="oltp""#), None, "one step is no ladder");
    assert_eq!(of("sweep_loaded_ratio", r#"op="commit",stat="p99""#), Some(3.5));
    assert_eq!(of("sweep_latency_seconds", r#"op="sync""#), None, "a commit is told whole");
    assert_eq!(of("sweep_results_partial", ""), Some(0.0));
    assert_eq!(of("sweep_last_completion_timestamp_seconds", ""), Some(1_700_000_009.0));
    assert_eq!((of("sweeps_total", "guard"), of("sweep_skipped_total", "workload")), (Some(0.0), Some(2.0)));
    let mut partial = swept();
    partial.results = partial.results.map(|results| {
        let stopped = Some(crate::probe::sweep::Stopped::Guard);
        Results {
            sweep: Arc::new(crate::probe::sweep::Sweep { stopped, ..(*results.sweep).clone() }),
            ..results
        }
    });
    book.set_sweeps(id, Some(partial));
    let text = rendered(&mut book, 0);
    assert!(
        text.contains("diskcanary_sweep_results_partial{target=\"a\",service=\"orders \\\"eu\\\"\"} 1\n"),
        "{text}"
    );
    assert!(!text.contains("sweep_last_completion_timestamp_seconds{"), "it was not complete");
}

fn rendered(book: &mut Book, second: u64) -> String {
    let mut out = String::new();
    text(&book.snapshot(at(second)), at(second), &mut out);
    out
}

/// Series (name with labels) and their values.
fn series(text: &str) -> BTreeMap<&str, f64> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(all.insert(name, value.parse().unwrap()).is_none(), "twice: {name}");
    }
    all
}

const NASTY: [&str; 4] = ["plain", "a\"b\\c\nd", "données-磁盘", "{le=\"1\"} 7"];

#[test]
fn every_family_is_there_when_there_is_something_to_say() {
    let mut book = full_book(&["a"], 1100);
    let id = book.add_target(plan("swept"));
    book.set_sweeps(id, Some(swept()));
    let text = rendered(&mut book, 2199);
    for metric in METRICS {
        assert!(
            text.contains(&format!("\n# TYPE diskcanary_{} ", metric.name))
                || text.starts_with(&format!("# HELP diskcanary_{} ", metric.name)),
            "{}",
            metric.name
        );
    }
    for stat in ["min", "p50", "p90", "p99", "p999", "max", "mean", "stddev"] {
        assert!(text.contains(&format!("stat=\"{stat}\"")), "{stat}");
    }
}

#[test]
fn a_new_target_has_its_counters_at_zero_and_no_gauges_that_it_cannot_know() {
    let mut book = Book::new();
    book.add_target(plan("a"));
    let text = rendered(&mut book, 0);
    let all = series(&text);
    let of = |name: &str, labels: &str| {
        all.get(format!("diskcanary_{name}{{target=\"a\",service=\"orders \\\"eu\\\"\"{labels}}}").as_str())
            .copied()
    };
    for phase in ["first", "warm"] {
        assert_eq!(
            of("commit_duration_seconds_count", &format!(",profile=\"overwrite\",phase=\"{phase}\"")),
            Some(0.0)
        );
        assert_eq!(of("read_duration_seconds_bucket", &format!(",phase=\"{phase}\",le=\"+Inf\"")), Some(0.0));
    }
    assert_eq!(of("probe_runs_total", ",probe=\"read\",result=\"error\""), Some(0.0));
    assert_eq!(of("probe_skipped_total", ",probe=\"commit\",reason=\"no_space\""), Some(0.0));
    assert_eq!(of("samples_invalid_total", ",probe=\"commit\",reason=\"corruption\""), Some(0.0));
    assert_eq!(of("inflight_age_seconds", ",op=\"sync\""), Some(0.0));
    for absent in [
        "target_up",
        "target_state",
        "window_",
        "burst",
        "measurement_fault",
        "last_success",
        "layout_progress",
    ] {
        assert!(!text.contains(absent), "{absent}");
    }
}

#[test]
fn devices_and_machine_are_shown_as_they_were_seen() {
    let mut book = Book::new();
    book.set_context(Arc::new(looked_at(&["sda"], 17)));
    let text = rendered(&mut book, 3);
    let all = series(&text);
    let of = |name: &str| all.get(format!("diskcanary_{name}").as_str()).copied();
    for (op, first) in [("read", 1.0), ("write", 5.0), ("discard", 12.0)] {
        let label = format!("{{device=\"sda\",op=\"{op}\"}}");
        assert_eq!(of(&format!("device_operations_total{label}")), Some(first * 1001.0));
        assert_eq!(of(&format!("device_bytes_total{label}")), Some((first + 2.0) * 1001.0 * 512.0));
        assert_eq!(of(&format!("device_wait_seconds_total{label}")), Some((first + 3.0) * 1001.0 / 1e3));
    }
    assert_eq!(of("device_operations_total{device=\"sda\",op=\"flush\"}"), Some(16.0 * 1001.0));
    assert_eq!(of("device_wait_seconds_total{device=\"sda\",op=\"flush\"}"), Some(17.0 * 1001.0 / 1e3));
    assert_eq!(of("device_bytes_total{device=\"sda\",op=\"flush\"}"), None);
    assert_eq!(of("device_busy_seconds_total{device=\"sda\"}"), Some(10.01));
    assert_eq!(of("device_weighted_seconds_total{device=\"sda\"}"), Some(11.011));
    assert_eq!(of("device_peak_operations_per_second{device=\"sda\"}"), Some(6.0));
    assert_eq!(of("device_peak_bytes_per_second{device=\"sda\"}"), Some(10.0 * 512.0));
    assert_eq!((of("host_cpu_iowait_ratio{}"), of("host_cpu_steal_ratio{}")), (Some(0.25), Some(0.25)));
    assert_eq!(of("host_io_pressure_ratio{kind=\"full\"}"), Some(0.125));
    assert_eq!(of("host_cpu_pressure_ratio{kind=\"some\"}"), Some(0.25));
    assert_eq!(of("host_cpu_pressure_ratio{kind=\"full\"}"), None);
    assert_eq!(of("host_paged_out_bytes_per_second{}"), Some(8192.0));
    assert_eq!(of("host_sample_age_seconds{}"), Some(2.0));
    // 4 operations, 3 bytes, 4 waits, busy, weighted, 2 peaks; 8 of the machine; our version.
    assert_eq!(all.len(), 15 + 8 + 1 + 1);
}

#[test]
fn what_an_old_kernel_does_not_count_is_absent() {
    for (fields, flush, discard) in [(11, false, false), (15, false, true)] {
        let mut book = Book::new();
        book.set_context(Arc::new(looked_at(&["sda"], fields)));
        let text = rendered(&mut book, 1);
        assert_eq!((text.contains("op=\"flush\""), text.contains("op=\"discard\"")), (flush, discard));
        assert!(text.contains("device_operations_total{device=\"sda\",op=\"write\"}"));
    }
    // Nothing was looked at: nothing is said.
    let text = rendered(&mut Book::new(), 1);
    assert!(!text.contains("device_") && !text.contains("host_"), "{text}");
}

#[test]
fn bounds_are_printed_as_go_prints_them() {
    let text = rendered(&mut full_book(&["a"], 1), 2);
    for le in ["1e-05", "3.5e-05", "0.0001", "0.0005", "0.1", "1.0", "67.0", "+Inf"] {
        assert!(text.contains(&format!("le=\"{le}\"")), "{le}");
    }
}

#[test]
fn ages_are_those_of_the_scrape() {
    let mut book = full_book(&["a"], 1);
    let snapshot = book.snapshot(at(2));
    let age = |second| {
        let mut out = String::new();
        text(&snapshot, at(second), &mut out);
        let all = series(&out);
        let found = |name: &str| *all.iter().find(|(series, _)| series.contains(name)).unwrap().1;
        (found("op=\"sync\""), found("target_up{"))
    };
    snapshot.targets[0].inflight().begin(Op::Sync, at(2));
    assert_eq!(age(4).0, 2.0);
    assert_eq!(age(14), (12.0, 0.0));
}

#[test]
fn label_values_are_escaped() {
    let text = rendered(&mut full_book(&["a\"b\\c\nd"], 1), 2);
    assert!(text.contains(r#"{target="a\"b\\c\nd","#));
    assert!(text.contains(r#"model="Model \\ 5\"""#));
}

#[test]
fn names_say_their_unit_and_nothing_has_a_reserved_label() {
    let mut names = BTreeSet::new();
    for metric in METRICS {
        assert!(names.insert(metric.name), "twice: {}", metric.name);
        assert!(!metric.help.contains(['\\', '\n', '|']) && !metric.help.is_empty(), "{}", metric.name);
        assert_eq!(metric.name.ends_with("_total"), metric.kind == table::Kind::Counter, "{}", metric.name);
        let base = metric.name.trim_end_matches("_total");
        let in_name = ["seconds", "bytes", "ratio"].contains(&metric.unit);
        assert!(!in_name || base.ends_with(metric.unit), "{}", metric.name);
        for label in metric.labels {
            assert!(
                !["le", "quantile", "type", "job", "instance", "target"].contains(label),
                "{}",
                metric.name
            );
        }
    }
    for name in ["le", "quantile", "job", "instance", "target", "op", "phase", "stat", "window"] {
        assert!(reserved_labels().contains(&name), "{name}");
    }
}

#[test]
fn promtool_finds_nothing_to_say() {
    let mut text = rendered(&mut full_book(&NASTY, 1100), 2199);
    append(&process(&ProcessStats::read().unwrap()), &mut text);
    append(&OwnCounters::new().unwrap().families(), &mut text);
    let mut long = String::new();
    super::text(&full_book(&[&"x".repeat(4096)], 1).snapshot(at(2)), at(2), &mut long);
    for text in [text, long] {
        let Some(output) = promtool(&text) else { return };
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }
    // The test can fail: a broken text is refused.
    assert!(!promtool("a{b=\"c} 1\n").unwrap().status.success());
}

fn promtool(text: &str) -> Option<std::process::Output> {
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        assert!(std::env::var_os("DISKCANARY_TESTS_STRICT").is_none(), "promtool is not installed");
        println!("skipped: promtool_finds_nothing_to_say (promtool is not installed)");
        return None;
    };
    // promtool says nothing before it has read all, so that writing first cannot block for ever. It may hang up early.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    Some(child.wait_with_output().unwrap())
}

#[test]
fn a_family_that_cannot_be_written_leaves_nothing_behind() {
    let mut out = String::from("kept\n");
    append(&[prometheus::proto::MetricFamily::default()], &mut out);
    assert_eq!(out, "kept\n");
    append(&process(&ProcessStats { cpu_seconds: 1.25, ..ProcessStats::default() }), &mut out);
    assert!(out.contains("\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.25\n"));
    assert!(!out.contains("process_max_fds"), "unlimited is absent");
}

/// Of each classic histogram: what `le` counts, in the order of the text, beside its `_count`.
fn histograms(text: &str) -> Vec<(Vec<f64>, f64)> {
    let all = series(text);
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("_bucket{")) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (name, _) = name.rsplit_once(",le=").unwrap();
        let count = name.replacen("_bucket{", "_count{", 1) + "}";
        found.entry(count).or_default().push(value.parse().unwrap());
    }
    found.into_iter().map(|(count, buckets)| (buckets, all[count.as_str()])).collect()
}

proptest! {
    #[test]
    fn the_text_keeps_its_promises(
        runs in proptest::collection::vec(
            (any::<bool>(), 0u64..100, proptest::collection::vec((any::<u64>(), 0u32..64).prop_map(|(v, s)| v >> s), 0..8)),
            1..30,
        ),
        name in "\\PC{0,20}",
    ) {
        let mut book = Book::new();
        let id = book.add_target(plan(&name));
        let (mut second, mut before) = (0, String::new());
        for (commit, step, nanos) in runs {
            second += step;
            let outcome = run(if commit { Probe::Commit } else { Probe::Read }, second, &nanos);
            book.enter(id, &outcome, outcome.finished, Duration::from_secs(second));
            let text = rendered(&mut book, second + 1);
            let all = series(&text);
            prop_assert!(all.values().all(|value| value.is_finite()));
            for (buckets, count) in histograms(&text) {
                prop_assert!(buckets.is_sorted());
                prop_assert_eq!(*buckets.last().unwrap(), count);
            }
            for (name, value) in series(&before) {
                if ["_total{", "_bucket{", "_count{", "_sum{"].iter().any(|part| name.contains(part)) {
                    prop_assert!(all[name] >= value, "{} went down", name);
                }
            }
            before = text;
        }
    }
}

#[test]
fn own_counters_are_shown_and_clones_count_together() {
    let own = OwnCounters::new().unwrap();
    own.clone().log_lines_dropped.inc_by(3);
    let mut out = String::new();
    append(&own.families(), &mut out);
    assert!(out.contains(
        "\n# TYPE diskcanary_log_lines_dropped_total counter\ndiskcanary_log_lines_dropped_total 3\n"
    ));
    assert!(out.contains("\ndiskcanary_prober_stops_total 0\n"), "shown before anything happened");
}
