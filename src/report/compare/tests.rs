mod fio;

use serde_json::{Value, json};

use super::*;
use crate::stats::{Histogram, Spans};
use fio::{fio_job, theirs};

/// A cell of twenty seconds, each operation after the other, of about so many nanoseconds; noise that is its own for each seed.
fn cell(pattern: &str, depth: u32, nanos: f64, seed: u64) -> Value {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut histogram, mut spans, mut at) = (Histogram::fine(), Spans::default(), 0u64);
    while at < 20_000_000_000 {
        let took = (nanos * (0.9 + 0.2 * rng.f64())) as u64;
        at += took;
        histogram.record(took);
        spans.record(at, took);
    }
    let (count, seconds) = (histogram.count(), at as f64 / 1e9);
    let iops = count as f64 / seconds * f64::from(depth);
    let of = |share| histogram.quantile(share).unwrap();
    let operation = if pattern.contains("write") { "write" } else { "read" };
    json!({
        "pattern": pattern, "block_size": 4096, "depth": depth, "jobs": 1, "method": null, "seconds": seconds,
        "warm_up_seconds": 1.0, "operations": count, "iops": iops, "bytes_per_second": iops * 4096.0,
        "latency_ns": {operation: {
            "count": count, "mean": histogram.mean().unwrap(), "stdev": 1.0, "min": of(0.0), "p50": of(0.5), "p90": of(0.9),
            "p99": of(0.99), "p999": of(0.999), "max": of(1.0),
        }},
        "streams": {operation: {"block_size": 4096, "operations": count, "iops": iops, "bytes_per_second": iops * 4096.0}},
        "achieved_depth": depth, "file_size": 1 << 30, "stopped": null, "rounds": null, "quiet": null, "loaded_ratio": null,
        "series": null, "spans": {operation: [spans.figures(at).unwrap()]},
        "shape": {"halves_ratio": null, "variation": null, "noise": null, "decline": null, "troughs": null},
        "regime": "unknown", "promised_iops": null, "delivered_ratio": null, "faults": [], "evidence": {},
        "histogram": {operation: histogram.encode()},
    })
}

fn ours(file_system: Option<&str>, cells: &[Value]) -> Value {
    json!({
        "schema_version": 1,
        "target": {"path": "/data", "file_system": file_system, "device": "vda", "model": null, "serial": "S1", "size": 1,
            "engine": "io_uring", "direct": "true"},
        "environment": {"version": "0.1.0", "kernel": "6.1", "cpu": "c", "cpus": 2, "memory": 1, "settings": {}},
        "started": "2026-01-01T00:00:00Z", "seconds": 1.0, "preset": null, "product": null, "cells": cells, "skipped": [],
        "stopped": null,
    })
}

fn side(file: &str, value: &Value) -> Side {
    read(file, &value.to_string()).unwrap()
}

fn compared(a: &Value, b: &Value) -> Comparison {
    compare(&side("a.json", a), &side("b.json", b)).unwrap()
}

#[test]
fn one_disk_twice_is_the_same() {
    let of = |seed| {
        ours(Some("ext4"), &[cell("randread", 1, 250_000.0, seed), cell("randwrite", 8, 300_000.0, seed + 1)])
    };
    let same = compared(&of(1), &of(5));
    assert_eq!((same.verdict, same.cells.len(), same.is_worse()), ("same", 2, false), "{}", table(&same));
    assert_eq!(same.file_system_cost, None);
}

#[test]
fn what_got_worse_is_named_with_its_figures() {
    let a = ours(Some("ext4"), &[cell("randread", 1, 250_000.0, 1), cell("randwrite", 1, 300_000.0, 2)]);
    let b = ours(Some("ext4"), &[cell("randread", 1, 280_000.0, 3), cell("randwrite", 1, 300_000.0, 4)]);
    let worse = compared(&a, &b);
    assert!(worse.is_worse());
    let verdicts: Vec<_> = worse.cells.iter().map(|row| (row.key.pattern.as_str(), row.verdict)).collect();
    assert_eq!(verdicts, [("randread", "worse"), ("randwrite", "same")], "{}", table(&worse));
    let iops = worse.cells[0].iops.as_ref().unwrap();
    assert!(iops.low < 0.893 && iops.high > 0.893 && (iops.ratio - 250.0 / 280.0).abs() < 0.01, "{iops:?}");
    let text = table(&worse);
    assert!(
        text.contains("4KiB randread, depth 1")
            && text.contains("(−11 %)")
            && text.contains("1 worse, 1 same"),
        "{text}"
    );
    // The other way around it is better, and nothing is worse.
    assert_eq!(compared(&b, &a).verdict, "better");
}

#[test]
fn what_one_side_alone_has_is_listed() {
    let a = ours(None, &[cell("randread", 1, 250_000.0, 1), cell("randread", 2, 250_000.0, 2)]);
    let b = ours(None, &[cell("randread", 2, 250_000.0, 3), cell("seqread", 2, 250_000.0, 4)]);
    let comparison = compared(&a, &b);
    let only = |keys: &[Key]| keys.iter().map(table::name).collect::<Vec<_>>();
    assert_eq!(only(&comparison.only_in_a), ["4KiB randread, depth 1"]);
    assert_eq!(only(&comparison.only_in_b), ["4KiB seqread, depth 2"]);
    assert!(table(&comparison).contains("Only in A: 4KiB randread, depth 1, reads\n"));
}

#[test]
fn a_device_against_its_files_names_what_the_file_system_costs() {
    let device = ours(None, &[cell("randread", 1, 250_000.0, 1)]);
    let files = ours(Some("xfs"), &[cell("randread", 1, 300_000.0, 2)]);
    for (a, b) in [(&device, &files), (&files, &device)] {
        let comparison = compared(a, b);
        let cost = comparison.file_system_cost.clone().unwrap();
        assert_eq!((cost.file_system.as_str(), cost.same_disk, cost.cells), ("xfs", Some(true), 1));
        assert!((cost.iops_ratio.unwrap() - 250.0 / 300.0).abs() < 0.01, "{cost:?}");
        assert!((cost.p50_added_ns.unwrap() - 50_000.0).abs() < 2_000.0, "{cost:?}");
        let text = table(&comparison);
        assert!(text.contains("xfs costs, as the median of 1 streams, IOPS −17 %, p50 +"), "{text}");
        assert!(text.contains("4KiB randread, depth 1, reads: xfs costs IOPS −17 %"), "{text}");
    }
}

#[test]
fn a_cell_that_is_not_to_be_believed_is_not_judged() {
    let a = ours(Some("ext4"), &[cell("randread", 1, 250_000.0, 1), cell("randread", 2, 250_000.0, 2)]);
    let mut b = ours(Some("ext4"), &[cell("randread", 1, 500_000.0, 3), cell("randread", 2, 250_000.0, 4)]);
    b["cells"][0]["faults"] = json!(["cached"]);
    let comparison = compared(&a, &b);
    assert_eq!((comparison.cells[0].verdict, comparison.verdict), ("not_judged", "same"));
    assert!(table(&comparison).contains("Not judged: 4KiB randread, depth 1, reads (cached in B)"));
    for (fault, verdict) in
        [("host_cached", "not_judged"), ("bandwidth", "not_judged"), ("volatile_cache", "worse")]
    {
        b["cells"][0]["faults"] = json!([fault]);
        assert_eq!(compared(&a, &b).cells[0].verdict, verdict, "{fault}");
    }
    b["cells"][0]["faults"] = json!(["cached"]);
    b["cells"].as_array_mut().unwrap().truncate(1);
    let nothing = compare(&side("a.json", &a), &side("b.json", &b)).unwrap_err();
    assert_eq!(nothing, "nothing of a.json and b.json is to be believed (cached in B): measure again");
}

#[test]
fn where_we_lacked_cpu_no_change_is_put_down_to_the_disk() {
    let a = ours(Some("ext4"), &[cell("randread", 1, 250_000.0, 1)]);
    let mut b = ours(Some("ext4"), &[cell("randread", 1, 500_000.0, 3)]);
    assert!(compared(&a, &b).is_worse());
    b["cells"][0]["faults"] = json!(["starved"]);
    let comparison = compared(&a, &b);
    assert_eq!((comparison.cells[0].verdict, comparison.verdict), ("unsure", "unsure"));
    let ratio = comparison.cells[0].iops.as_ref().map(|pair| (pair.ratio * 10.0).round());
    assert_eq!(ratio, Some(5.0), "the figures are shown all the same");
    let text = table(&comparison);
    assert!(text.contains("In doubt: 4KiB randread, depth 1, reads (starved in B)"), "{text}");
}

#[test]
fn a_disk_is_known_by_its_serial_number_or_by_the_disk_under_the_partition() {
    let of = |file_system, serial: Option<&str>, device: &str, disk: &str| {
        let mut side =
            ours(file_system, &[cell("randread", 1, 250_000.0, 1), cell("randread", 2, 500_000.0, 2)]);
        side["target"]["serial"] = json!(serial);
        side["target"]["device"] = json!(device);
        side["target"]["disks"] = json!([disk]);
        side
    };
    let same = |a: &Value, b: &Value| compared(a, b).file_system_cost.unwrap().same_disk;
    let raw = of(None, None, "vda", "vda");
    assert_eq!(same(&raw, &of(Some("ext4"), None, "vda1", "vda")), Some(true));
    assert_eq!(
        same(&raw, &of(Some("ext4"), Some("S1"), "vda1", "vda")),
        Some(true),
        "one side has no serial number"
    );
    assert_eq!(same(&raw, &of(Some("ext4"), None, "vdb1", "vdb")), Some(false));
    let first = of(None, Some("S1"), "vda", "vda");
    assert_eq!(same(&first, &of(Some("ext4"), Some("S2"), "vda1", "vda")), Some(false));
    // Of two cells, the median lies between: 2.5 times and as long.
    let mut files = of(Some("ext4"), None, "vda1", "vda");
    files["cells"][0] = cell("randread", 1, 625_000.0, 3);
    let cost = compared(&raw, &files).file_system_cost.unwrap();
    assert!((cost.iops_ratio.unwrap() - f64::midpoint(0.4, 1.0)).abs() < 0.02, "{cost:?}");
}

#[test]
fn what_cannot_be_compared_says_why() {
    let refused = |text: &str| read("x.json", text).unwrap_err();
    assert!(refused("hello").contains("x.json is not JSON"));
    assert!(refused("{\"a\": ").contains("x.json is not whole JSON"));
    assert!(refused("{\"a\": 1}").contains("neither a result of `diskcanary sweep --json` nor one of `fio"));
    assert!(
        refused("{\"schema_version\": 2, \"cells\": []}")
            .contains("of schema version 2, and this diskcanary reads 1")
    );
    assert!(refused("{\"schema_version\": 1}").contains("it has no `cells`"), "a result of `probe`");
    let whole = ours(None, &[cell("randread", 1, 250_000.0, 1)]);
    let mut broken = whole.clone();
    broken["cells"][0]["iops"] = json!("many");
    assert!(
        refused(&broken.to_string()).contains("x.json: cells[0].iops: invalid type"),
        "{}",
        refused(&broken.to_string())
    );
    broken = whole.clone();
    broken["cells"][0]["histogram"]["read"] = json!("AAAA");
    assert!(
        refused(&broken.to_string()).contains("4KiB randread, depth 1, read: its histogram cannot be read")
    );

    let job = |change: &dyn Fn(&mut Value)| {
        let mut job = fio_job("j", json!({"rw": "randread"}), 1000.0, 100_000, "lat_ns");
        change(&mut job);
        refused(&theirs(&[job]).to_string())
    };
    assert!(
        job(&|j| j["error"] = json!(5)).contains("x.json: job `j` of fio failed (EIO (Input/output error))")
    );
    assert!(
        job(&|j| j["read"]["lat_ns"]["percentile"] = json!({}))
            .contains("job `j` has no percentiles: run fio")
    );
    assert!(job(&|j| j["job options"]["bs"] = json!("some")).contains("`bs=some` is no size"));
    assert!(job(&|j| j["job options"]["bssplit"] = json!("4k/50:8k/50")).contains("mixes block sizes"));
    assert!(refused("{\"fio version\": \"fio-3.33\", \"jobs\": []}").contains("fio ran no job"));
    assert!(refused("{\"fio version\": \"fio-3.33\", \"jobs\": 7}").contains("not fio's JSON as we know it"));

    let other = side("b.json", &ours(None, &[cell("seqread", 8, 250_000.0, 1)]));
    let none = compare(&side("a.json", &whole), &other).unwrap_err();
    assert!(none.starts_with("no cell is in both: a.json has 4KiB randread, depth 1 and nothing else; b.json has 4KiB seqread, depth 8"), "{none}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// A result with any part of it gone or of another kind is refused or read, and nothing panics.
    #[test]
    fn no_text_breaks_it(cut in 0usize..9000, from in 0usize..9000, text in ".{0,40}") {
        let of_fio = theirs(&[fio_job("j", serde_json::json!({"rw": "randread"}), 1000.0, 100_000, "lat_ns")]).to_string();
        let sweep = ours(None, &[cell("randread", 1, 50_000_000.0, 1)]).to_string();
        for whole in [of_fio, sweep] {
            let bytes = whole.as_bytes();
            let (from, cut) = (from % bytes.len(), cut % bytes.len());
            let _ = read("x", &String::from_utf8_lossy(&bytes[..cut]));
            let spliced = [&bytes[..from], text.as_bytes(), &bytes[(from + text.len()).min(bytes.len())..]].concat();
            if let Ok(side) = read("x", &String::from_utf8_lossy(&spliced)) {
                let _ = compare(&side, &side).map(|comparison| table(&comparison));
            }
        }
    }
}
