//! With fio on one side or on both.

use serde_json::{Value, json};

use super::super::fio::size;
use super::super::{Comparison, compare};
use super::{cell, compared, ours, side};

/// Past the page cache, unless the options say otherwise.
pub(super) fn fio_job(name: &str, mut options: Value, iops: f64, p50: u64, latency: &str) -> Value {
    options.as_object_mut().unwrap().entry("direct").or_insert_with(|| json!("1"));
    let direction = json!({
        "total_ios": (iops * 10.0) as u64, "iops": iops, "runtime": 10_000, "iops_mean": iops, "iops_stddev": iops / 100.0,
        "iops_samples": 20,
        latency: {"min": p50 / 2, "max": p50 * 9, "mean": p50, "N": 1000, "percentile": {
            "1.000000": p50 / 2, "50.000000": p50, "90.000000": p50 * 2, "99.000000": p50 * 4, "99.900000": p50 * 8}},
    });
    json!({"jobname": name, "error": 0, "job options": options, "read": direction, "write": {"total_ios": 0}})
}

pub(super) fn theirs(jobs: &[Value]) -> Value {
    json!({"fio version": "fio-3.33", "jobs": jobs})
}

#[test]
fn jobs_of_fio_are_the_cells_that_do_the_same() {
    let key = |options: Value| {
        let side = side("f.json", &theirs(&[fio_job("j", options, 1000.0, 100_000, "lat_ns")]));
        let key = side.streams.keys().next().unwrap();
        (key.pattern.clone(), key.block_size, key.depth, key.jobs)
    };
    let uring = |rw: &str| json!({"rw": rw, "bs": "8k", "ioengine": "io_uring", "iodepth": "16"});
    assert_eq!(key(uring("randread")), ("randread".to_owned(), 8192, 16, 1));
    assert_eq!(key(uring("read")), ("seqread".to_owned(), 8192, 16, 1));
    assert_eq!(key(uring("rw")).0, "seqrw50");
    assert_eq!(key(uring("randrw")).0, "fio randrw 50%");
    assert_eq!(
        key(json!({"rw": "randrw", "rwmixread": "70", "bs": "8k"})),
        ("randrw70".to_owned(), 8192, 1, 1)
    );
    assert_eq!(key(json!({"rw": "randrw", "rwmixwrite": "30", "bs": "8k"})).0, "randrw70");
    assert_eq!(
        key(json!({"rw": "randread", "iodepth": "32"})),
        ("randread".to_owned(), 4096, 1, 1),
        "psync has depth 1"
    );
    let grouped = json!({"rw": "randread", "bs": "1M", "numjobs": "4", "group_reporting": "1", "ioengine": "libaio", "iodepth": "8"});
    assert_eq!(key(grouped), ("randread".to_owned(), 1 << 20, 8, 4));
    assert_eq!(key(json!({"rw": "randwrite", "fsync": "1"})).0, "fio randwrite fsync");
    assert_eq!(
        (size("4k"), size("4KiB"), size("128kb"), size("512"), size("1M")),
        (Some(4096), Some(4096), Some(131_072), Some(512), Some(1 << 20))
    );
    assert_eq!((size("x"), size(""), size("99999999999g")), (None, None, None));
}

#[test]
fn threads_of_one_job_are_taken_together() {
    let options = json!({"rw": "randread", "bs": "4k", "numjobs": "2", "ioengine": "libaio", "iodepth": "4"});
    let jobs = [
        fio_job("j", options.clone(), 1000.0, 100_000, "lat_ns"),
        fio_job("j", options, 3000.0, 200_000, "lat_ns"),
    ];
    let side = side("f.json", &theirs(&jobs));
    let (key, stream) = side.streams.iter().next().unwrap();
    assert_eq!((key.jobs, key.depth, stream.run.rate, stream.p50), (2, 4, 4000.0, Some(175_000)));
}

#[test]
fn a_sweep_can_be_compared_with_fio_either_way() {
    let sweep = ours(Some("ext4"), &[cell("randread", 1, 250_000.0, 1)]);
    let of_fio =
        |iops| theirs(&[fio_job("j", json!({"rw": "randread", "iodepth": "4"}), iops, 250_000, "clat_ns")]);
    assert_eq!(compared(&sweep, &of_fio(1500.0)).verdict, "worse");
    let same = compared(&of_fio(4000.0), &sweep);
    assert!(same.cells[0].iops.as_ref().unwrap().verdict != "worse", "{same:?}");
    assert!(same.notes.iter().any(|note| note.contains("its depth is 1")), "{:?}", same.notes);
    let ring = json!({"rw": "randread", "iodepth": "1", "ioengine": "io_uring"});
    let clat = compared(&sweep, &theirs(&[fio_job("j", ring, 4000.0, 250_000, "clat_ns")]));
    assert!(clat.notes.iter().any(|note| note.contains("leaves out the submit call")), "{:?}", clat.notes);
}

#[test]
fn what_went_through_the_page_cache_is_not_held_against_what_went_past_it() {
    let job = |name: &str, options: Value| fio_job(name, options, 400_000.0, 2_000, "lat_ns");
    let sweep = ours(Some("ext4"), &[cell("randread", 1, 250_000.0, 1)]);
    for options in [json!({"rw": "randread", "direct": "0"}), json!({"rw": "randread", "direct": 0})] {
        let why = compare(&side("a.json", &sweep), &side("f.json", &theirs(&[job("j", options.clone())])))
            .unwrap_err();
        assert_eq!(
            why,
            "nothing of a.json and f.json is to be believed (through the page cache in B): measure both past the page cache \
             (fio: --direct=1)"
        );
        let buffered = theirs(&[job("j", options)]);
        assert_ne!(compared(&buffered, &buffered).verdict, "not_judged", "two of a kind can be compared");
    }
    let bare = json!({"fio version": "fio-3.33", "jobs": [job("j", json!({"rw": "randread"}))]});
    let mut without = bare.clone();
    without["jobs"][0]["job options"].as_object_mut().unwrap().remove("direct");
    assert!(
        compare(&side("a.json", &bare), &side("b.json", &without)).is_err(),
        "its default is the page cache"
    );
    without["global options"] = json!({"direct": "1"});
    assert!(compare(&side("a.json", &bare), &side("b.json", &without)).is_ok());
}

#[test]
fn conditions_that_differ_are_told() {
    let a = ours(Some("ext4"), &[cell("randread", 1, 250_000.0, 1)]);
    let mut b = ours(Some("ext4"), &[cell("randread", 1, 250_000.0, 2)]);
    assert_eq!(compared(&a, &b).notes, Vec::<String>::new());
    b["cells"][0]["file_size"] = json!(100u64 << 30);
    b["cells"][0]["warm_up_seconds"] = json!(30.0);
    b["cells"][0]["seconds"] = json!(120.0);
    let notes = compared(&a, &b).notes;
    assert_eq!(
        notes,
        [
            "seconds a cell: 20 in A, 120 in B",
            "seconds of warm-up: 1 in A, 30 in B",
            "working set: 1GiB in A, 100GiB in B"
        ]
    );
    let options =
        json!({"rw": "randread", "iodepth": "1", "ioengine": "io_uring", "size": "2G", "ramp_time": "1"});
    let notes = compared(&a, &theirs(&[fio_job("j", options, 4000.0, 250_000, "lat_ns")])).notes;
    assert_eq!(notes, ["seconds a cell: 20 in A, 10 in B", "working set: 1GiB in A, 2GiB in B"]);
}

#[test]
fn percentiles_of_threads_apart_are_not_taken_for_those_of_all() {
    let options = json!({"rw": "randread", "bs": "4k", "numjobs": "2"});
    let job = |p50| fio_job("j", options.clone(), 1000.0, p50, "lat_ns");
    let apart = theirs(&[job(100_000), job(900_000)]);
    let comparison = compared(&apart, &apart);
    assert_eq!((comparison.cells[0].p99_ns.as_ref(), comparison.cells[0].p50_ns.is_some()), (None, true));
    let told =
        |c: &Comparison| c.notes.iter().any(|note| note.contains("has 2 entries") && note.contains("json+"));
    assert!(told(&comparison), "{:?}", comparison.notes);
    let binned = |mut job: Value| {
        job["read"]["lat_ns"]["bins"] = json!({"50000": 600, "90000": 390, "800000": 10});
        job
    };
    let comparison = compared(&theirs(&[job(1), job(2)].map(binned)), &theirs(&[job(1), job(2)].map(binned)));
    assert!(comparison.cells[0].p99_ns.is_some() && !told(&comparison));
}

#[test]
fn bins_of_json_plus_are_used() {
    let mut job = fio_job("j", json!({"rw": "randread"}), 1000.0, 100_000, "lat_ns");
    job["read"]["lat_ns"]["bins"] = json!({"50000": 600, "90000": 390, "800000": 10});
    let side = side("f.json", &theirs(&[job]));
    let stream = side.streams.values().next().unwrap();
    assert_eq!((stream.p50.unwrap() / 100, stream.p99.unwrap() / 100), (500, 900));
}
