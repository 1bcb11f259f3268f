use std::fs;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::clock::Tick;
use crate::target::{Counters, Done, Roots};

const SECOND: u64 = 1_000_000_000;

fn at(second: u64) -> Tick {
    Tick::from_nanos((100 + second) * SECOND)
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

/// A device's 17 fields in the kernel's units.
#[derive(Clone, Copy, Debug, Default)]
struct Fields([u64; 17]);

impl Fields {
    /// Reads and writes, with their bytes in 4 KiB a piece, and the milliseconds that they took together.
    fn of(reads: u64, writes: u64, millis: u64) -> Self {
        let mut fields = [0; 17];
        (fields[0], fields[2], fields[3]) = (reads, reads * 8, millis);
        (fields[4], fields[6]) = (writes, writes * 8);
        (fields[9], fields[10]) = (millis, millis);
        Self(fields)
    }

    fn line(&self, name: &str, fields: usize) -> String {
        let words: Vec<String> = self.0[..fields].iter().map(u64::to_string).collect();
        format!("   8       0 {name} {}\n", words.join(" "))
    }
}

/// A sampler that follows `sda`, fed a line a second.
struct One {
    sampler: Sampler,
    now: u64,
}

impl One {
    fn new() -> Self {
        let mut sampler = Sampler::new();
        sampler.watch(&names(&["sda"]));
        Self { sampler, now: 0 }
    }

    fn feed(&mut self, later: u64, text: &str, sequence: Option<u64>) -> View {
        self.now += later;
        self.sampler.sample(at(self.now), &Texts { diskstats: Some(text), ..Texts::default() }, |_| sequence)
    }

    fn see(&mut self, fields: Fields) -> View {
        self.feed(1, &fields.line("sda", 17), Some(1))
    }
}

fn done(view: &View) -> Counters {
    view.disk("sda").unwrap().done
}

#[test]
fn what_is_shown_is_the_kernel_s_count() {
    let mut one = One::new();
    let text = "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n   8       0 sda 10 1 80 5 20 2 160 7 3 9 12 4 0 64 2 6 8\n   8       1 sda1 1 1 1 1 1 1 1 1 1 1 1\n";
    let view = one.feed(1, text, Some(1));
    assert_eq!(view.disks.len(), 1);
    let c = done(&view);
    assert_eq!((c.reads.operations, c.writes.operations, c.reads.bytes, c.in_flight), (10, 20, 80 * 512, 3));
    assert_eq!((c.busy_nanos, c.weighted_nanos), (9_000_000, 12_000_000));
    assert_eq!((c.discards.unwrap().bytes, c.flushes.unwrap().wait_nanos), (64 * 512, 8_000_000));
    assert!(view.disk("loop0").is_none() && view.disk("sda").unwrap().peak_operations.is_none());
}

#[test]
fn an_old_kernel_counts_fewer_kinds_and_a_new_one_more() {
    for (fields, discards, flushes) in [(11, false, false), (15, true, false), (17, true, true)] {
        let mut one = One::new();
        for n in 1..4 {
            let view = one.feed(1, &Fields([n; 17]).line("sda", fields), None);
            let c = done(&view);
            assert_eq!((c.reads.operations, c.weighted_nanos), (n, n * 1_000_000), "{fields}");
            assert_eq!((c.discards.is_some(), c.flushes.is_some()), (discards, flushes), "{fields}");
        }
    }
    let mut one = One::new();
    let later = Fields([5; 17]).line("sda", 17).replace('\n', " 99 98\n");
    assert_eq!(done(&one.feed(1, &later, None)).flushes.unwrap().operations, 5);
    // Partitions of very old kernels have four fields; what cannot be understood is not there.
    assert!(one.feed(1, "8 0 sda 1 2 3 4\n", None).disks.is_empty());
    assert!(one.feed(1, "8 0 sda 1 2 3 x 5 6 7 8 9 10 11\n", None).disks.is_empty());
}

#[test]
fn counters_of_32_bits_wrap() {
    let mut one = One::new();
    let end = u64::from(u32::MAX);
    let mut before = Fields::of(100, 100, end - 50);
    before.0[2] = end - 7;
    one.see(before);
    let mut after = Fields::of(110, 100, 149);
    after.0[2] = 72;
    let view = one.see(after);
    let c = done(&view);
    assert_eq!(c.reads.operations, 110);
    assert_eq!(c.busy_nanos, (end + 150) * 1_000_000);
    assert_eq!(c.reads.bytes, (end + 73) * 512);
    assert_eq!(view.disk("sda").unwrap().peak_bytes, Some(80.0 * 512.0));

    let mut ops = One::new();
    ops.see(Fields::of(end - 1, 5, 0));
    assert_eq!(done(&ops.see(Fields::of(3, 6, 0))).reads.operations, end + 4);
}

#[test]
fn a_disk_that_begins_anew_takes_nothing_away_and_brings_nothing() {
    let mut one = One::new();
    for n in 0..12 {
        one.see(Fields::of(1000 + 100 * n, 500, 10 * n));
    }
    let view = one.see(Fields::of(7, 500, 0));
    assert_eq!((done(&view).reads.operations, done(&view).writes.operations), (2100, 500));
    let disk = view.disk("sda").unwrap();
    assert_eq!((disk.peak_operations, disk.busiest, disk.means), (None, None, None));
    let view = one.see(Fields::of(17, 500, 0));
    assert_eq!((done(&view).reads.operations, view.disk("sda").unwrap().peak_operations), (2110, Some(10.0)));
}

#[test]
fn another_disk_under_the_name_is_told_by_its_number_alone() {
    let mut one = One::new();
    one.see(Fields::of(10, 10, 0));
    let line = Fields::of(5_000_000, 5_000_000, 0).line("sda", 17);
    let view = one.feed(1, &line, Some(2));
    assert_eq!((done(&view).reads.operations, view.disk("sda").unwrap().peak_operations), (10, None));
    // A number that cannot be read for once changes nothing.
    let line = Fields::of(5_000_030, 5_000_000, 0).line("sda", 17);
    assert_eq!(done(&one.feed(1, &line, None)).reads.operations, 40);
    let line = Fields::of(5_000_040, 5_000_000, 0).line("sda", 17);
    assert_eq!(done(&one.feed(1, &line, Some(2))).reads.operations, 50);
}

#[test]
fn a_device_that_goes_is_not_shown_and_goes_on_when_it_returns() {
    let mut one = One::new();
    one.see(Fields::of(10, 10, 0));
    for _ in 0..3 {
        assert!(one.feed(1, "", None).disks.is_empty());
    }
    // The same disk: what it did meanwhile counts, but no second of it is known.
    let view = one.see(Fields::of(1010, 10, 0));
    assert_eq!((done(&view).reads.operations, view.disk("sda").unwrap().peak_operations), (1010, None));
    assert!(one.feed(1, "", None).disks.is_empty());
    let view = one.feed(1, &Fields::of(3, 0, 0).line("sda", 17), Some(9));
    assert_eq!(done(&view).reads.operations, 1010);
    // Nothing at all could be read.
    let blind = one.sampler.sample(at(99), &Texts::default(), |_| None);
    assert!(blind.disks.is_empty() && blind.taken == Some(at(99)));
}

#[test]
fn a_device_that_is_not_followed_for_a_while_goes_on_where_it_was() {
    let mut one = One::new();
    let wrap = u64::from(u32::MAX) + 1;
    one.see(Fields::of(10, 10, wrap - 100));
    one.see(Fields::of(20, 10, 50));
    one.sampler.watch(&names(&["sdb"]));
    assert!(one.see(Fields::of(30, 10, 60)).disks.is_empty());
    one.sampler.watch(&names(&["sda", "sdb"]));
    // The same disk: what it did meanwhile counts, but no second of it is known.
    let view = one.feed(5, &Fields::of(40, 10, 70).line("sda", 17), Some(1));
    let c = done(&view);
    assert_eq!((c.reads.operations, c.busy_nanos), (40, (wrap + 70) * 1_000_000));
    assert_eq!(view.disk("sda").unwrap().peak_operations, None);
    // Another one brings nothing of its past, and takes nothing away.
    one.sampler.watch(&[]);
    one.sampler.watch(&names(&["sda"]));
    assert_eq!(done(&one.feed(1, &Fields::of(7, 0, 0).line("sda", 17), Some(2))).reads.operations, 40);
    let many: Vec<Arc<str>> = (0..3000).map(|n| Arc::from(format!("sd{n}"))).collect();
    one.sampler.watch(&many);
    one.sampler.watch(&[]);
    assert!(format!("{:?}", one.sampler).matches("Disk {").count() <= 1000);
}

#[test]
fn the_busiest_second_of_a_minute_is_forgotten_after_it() {
    let mut one = One::new();
    let mut reads = 0;
    let mut peaks = Vec::new();
    for second in 0..75 {
        reads += if second == 5 { 900 } else { 30 };
        let view = one.see(Fields::of(reads, 0, 0));
        let disk = view.disk("sda").unwrap();
        peaks.push(disk.peak_operations);
        assert_eq!(disk.busiest, [None, Some(30.0), Some(900.0)][second.min(1) + usize::from(second >= 5)]);
    }
    assert_eq!((peaks[0], peaks[4], peaks[5], peaks[64]), (None, Some(30.0), Some(900.0), Some(900.0)));
    assert_eq!(peaks[65], Some(30.0));
}

#[test]
fn a_gap_is_no_busy_second_and_no_load_is_known_after_it() {
    let mut one = One::new();
    let mut view = View::default();
    for n in 0..20 {
        view = one.see(Fields::of(50 * n, 0, 25 * n));
    }
    let means = view.disk("sda").unwrap().means.unwrap();
    assert_eq!((means.operations, means.bytes), (50.0, 50.0 * 4096.0));
    assert!((means.queue_depth - 0.025).abs() < 1e-9);
    // Stopped for 30 s, in which the disk had a storm: the whole counts, no second of it is known.
    let after = |one: &mut One, n: u64| one.see(Fields::of(1_000_000 + 50 * n, 0, 0));
    let view = one.feed(30, &Fields::of(1_000_000, 0, 0).line("sda", 17), Some(1));
    assert_eq!(done(&view).reads.operations, 1_000_000);
    let disk = view.disk("sda").unwrap();
    assert_eq!((disk.peak_operations, disk.busiest, disk.means), (Some(50.0), Some(50.0), None));
    for n in 1..10 {
        assert_eq!(after(&mut one, n).disk("sda").unwrap().means, None, "{n}");
    }
    assert_eq!(after(&mut one, 10).disk("sda").unwrap().means.unwrap().operations, 50.0);
}

#[test]
fn two_looks_in_a_hurry_make_no_peak() {
    let mut one = One::new();
    one.see(Fields::of(0, 0, 0));
    let line = Fields::of(100, 0, 0).line("sda", 17);
    let soon = at(one.now) + std::time::Duration::from_millis(1);
    let view = one.sampler.sample(soon, &Texts { diskstats: Some(&line), ..Texts::default() }, |_| None);
    assert_eq!((done(&view).reads.operations, view.disk("sda").unwrap().peak_operations), (100, None));
}

#[test]
fn an_operation_that_hangs_is_seen_in_the_queue() {
    let mut one = One::new();
    let mut fields = Fields::of(0, 0, 0);
    let mut view = View::default();
    for _ in 0..12 {
        fields.0[8] = 3;
        view = one.see(fields);
    }
    assert_eq!(view.disk("sda").unwrap().means.unwrap().queue_depth, 3.0);
}

#[test]
fn conditions_are_without_ours_and_only_while_the_view_is_young() {
    let mut one = One::new();
    let pressure = "some avg10=4.00 avg60=0 avg300=0 total=1\n";
    let mut view = View::default();
    for n in 0..12 {
        let line = Fields::of(100 * n, 20 * n, 500 * n).line("sda", 17);
        let texts = Texts { diskstats: Some(&line), io_pressure: Some(pressure), ..Texts::default() };
        view = one.sampler.sample(at(n), &texts, |_| None);
    }
    let ours = Ours { operations: 30.0, queue_depth: 0.2 };
    let seen = view.conditions("sda", ours, at(12));
    assert_eq!((seen.workload_iops, seen.peak_iops, seen.io_pressure), (Some(90.0), Some(120.0), Some(0.04)));
    assert!((seen.queue_depth.unwrap() - 0.3).abs() < 1e-9);
    assert!(!seen.read_only && seen.credits_low.is_none());
    // Never less than nothing; nothing of a device that is not there, and nothing from an old view.
    let all = Ours { operations: 1000.0, queue_depth: 9.0 };
    assert_eq!(view.conditions("sda", all, at(12)).workload_iops, Some(0.0));
    let other = view.conditions("sdb", ours, at(12));
    assert_eq!((other.workload_iops, other.peak_iops, other.io_pressure), (None, None, Some(0.04)));
    assert_eq!(view.conditions("sda", ours, at(15)), Conditions::default());
    assert_eq!(View::default().conditions("sda", ours, at(0)), Conditions::default());
}

#[test]
fn those_that_were_followed_go_on_when_others_come_and_go() {
    let mut sampler = Sampler::new();
    let see = |sampler: &mut Sampler, second: u64, n: u64| {
        let text: String =
            ["sdc", "dm-0", "sda"].iter().map(|name| Fields::of(n, n, 0).line(name, 17)).collect();
        let texts = Texts { diskstats: Some(&text), ..Texts::default() };
        let view = sampler.sample(at(second), &texts, |_| None);
        view.disks.iter().map(|d| (d.name.to_string(), d.peak_operations)).collect::<Vec<_>>()
    };
    sampler.watch(&names(&["sda", "sda"]));
    assert_eq!(see(&mut sampler, 0, 10), [("sda".to_owned(), None)]);
    sampler.watch(&names(&["sdc", "sda", "none", "dm-0"]));
    let seen = [("dm-0".to_owned(), None), ("sda".to_owned(), Some(20.0)), ("sdc".to_owned(), None)];
    assert_eq!(see(&mut sampler, 1, 20), seen);
    sampler.watch(&names(&["sdc"]));
    assert_eq!(see(&mut sampler, 2, 20), [("sdc".to_owned(), Some(0.0))]);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a fixture")]
fn a_tree_of_plain_files_stands_in_for_a_machine() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let roots = Roots { proc: root.join("proc"), sys: root.join("sys"), dev: root.join("dev") };
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // A logical volume on two disks, one of which is a controller's with a slash in its name.
    let stack = |n: u64| {
        let line = |name| Fields::of(n, n, 0).line(name, 17);
        ["dm-0", "sda", "cciss/c0d0"].map(line).concat()
    };
    let mut files = Files::below(&roots);
    files.watch(&names(&["dm-0", "sda", "cciss/c0d0"]));
    let blind = files.sample(|| at(0));
    assert!(blind.disks.is_empty() && blind.host == Host::default());
    write("proc/diskstats", &stack(10));
    write("proc/stat", "cpu  10 0 10 80 0 0 0 0 0 0\n");
    write(
        "proc/pressure/io",
        "some avg10=50.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=25.00 avg60=0.00 avg300=0.00 total=0\n",
    );
    write("sys/class/block/cciss!c0d0/diskseq", "4\n");
    let view = files.sample(|| at(1));
    assert_eq!(view.disks.iter().map(|d| &*d.name).collect::<Vec<_>>(), ["cciss/c0d0", "dm-0", "sda"]);
    assert_eq!(view.host.io, Pressure { some: Some(0.5), full: Some(0.25) });
    write("proc/diskstats", &stack(30));
    write("proc/stat", "cpu  20 0 20 150 10 0 0 0 0 0\n");
    write("sys/class/block/cciss!c0d0/diskseq", "5\n");
    let view = files.sample(|| at(2));
    let reads: Vec<u64> = view.disks.iter().map(|d| d.done.reads.operations).collect();
    // The controller's disk is a new one.
    assert_eq!(reads, [10, 30, 30]);
    assert_eq!((view.host.iowait, view.host.steal, view.host.paged_out), (Some(0.1), Some(0.0), None));
}

#[test]
fn this_machine_is_read() {
    let mut files = Files::below(&Roots::default());
    for _ in 0..2 {
        let view = files.sample(crate::clock::now);
        assert!(view.taken.is_some() && view.disks.is_empty());
    }
}

/// What may happen to a device from one second to the next.
#[derive(Clone, Debug)]
enum Event {
    Works([u32; 17]),
    Wraps,
    Says([u64; 17]),
    Goes,
    IsReplaced,
    Sleeps(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let fields = |most: u32| prop::collection::vec(0..most, 17).prop_map(|v| v.try_into().unwrap());
    prop_oneof![
        6 => fields(10_000).prop_map(Event::Works),
        1 => Just(Event::Wraps),
        1 => prop::collection::vec(prop_oneof![any::<u64>(), 0..1u64 << 33], 17).prop_map(|v| Event::Says(v.try_into().unwrap())),
        1 => Just(Event::Goes),
        1 => Just(Event::IsReplaced),
        1 => (0u64..100).prop_map(Event::Sleeps),
    ]
}

fn all(c: &Counters) -> Vec<u64> {
    let of = |d: Done| [d.operations, d.merges, d.bytes, d.wait_nanos];
    let parts = [Some(c.reads), Some(c.writes), c.discards, c.flushes].map(Option::unwrap_or_default).map(of);
    parts.concat().into_iter().chain([c.busy_nanos, c.weighted_nanos]).collect()
}

proptest! {
    #[test]
    fn nothing_shown_ever_goes_down_or_below_nothing(
        start in prop::array::uniform17(0..1u64 << 34), events in prop::collection::vec((event(), 0usize..3), 1..90),
    ) {
        let mut one = One::new();
        let (mut kernel, mut sequence, mut shown) = (start, 1, Vec::new());
        for (event, generation) in events {
            let (mut there, mut later) = (true, 1);
            match event {
                Event::Works(more) => kernel.iter_mut().zip(more).for_each(|(k, n)| *k = k.saturating_add(n.into())),
                Event::Wraps => kernel.iter_mut().for_each(|k| *k = k.wrapping_add(1 << 31) & u64::from(u32::MAX)),
                Event::Says(text) => kernel = text,
                Event::Goes => there = false,
                Event::IsReplaced => (kernel, sequence) = ([0; 17], sequence + 1),
                Event::Sleeps(seconds) => later = seconds,
            }
            let line = Fields(kernel).line("sda", [11, 15, 17][generation]);
            let view = one.feed(later, if there { &line } else { "" }, Some(sequence));
            prop_assert_eq!(view.disks.len(), usize::from(there));
            let Some(disk) = view.disk("sda") else { continue };
            let now = all(&disk.done);
            prop_assert!(shown.iter().zip(&now).all(|(before, now)| before <= now), "{:?} {:?}", shown, now);
            shown = now;
            let rates = [disk.peak_operations, disk.peak_bytes, disk.busiest];
            let means = disk.means.map(|m| [m.operations, m.bytes, m.queue_depth]);
            for rate in rates.into_iter().flatten().chain(means.into_iter().flatten()) {
                prop_assert!(rate >= 0.0 && rate.is_finite(), "{:?}", disk);
            }
        }
    }

    #[test]
    fn what_is_added_is_what_was_done_whatever_wraps(
        start in prop::array::uniform17(0..1u64 << 32), steps in prop::collection::vec(prop::array::uniform17(0..1u64 << 30), 1..40),
    ) {
        let mut one = One::new();
        let mut kernel = start;
        one.see(Fields(kernel));
        for step in &steps {
            kernel.iter_mut().zip(step).for_each(|(k, n)| *k = (*k + n) & u64::from(u32::MAX));
            let view = one.see(Fields(kernel));
            prop_assert_eq!(view.disks.len(), 1);
        }
        let view = one.see(Fields(kernel));
        let true_sum = |field: usize| start[field] + steps.iter().map(|step| step[field]).sum::<u64>();
        let c = done(&view);
        prop_assert_eq!(c.reads.operations, true_sum(0));
        prop_assert_eq!(c.writes.bytes, true_sum(6) * 512);
        prop_assert_eq!(c.weighted_nanos, true_sum(10) * 1_000_000);
        prop_assert_eq!(c.flushes.unwrap().operations, true_sum(15));
    }

    #[test]
    fn any_text_is_understood_or_refused(text in "([0-9 ]{0,6}(sda|sdb)?[0-9 x\n]{0,60}){0,4}") {
        let mut one = One::new();
        one.feed(1, &text, None);
        one.feed(1, &text, None);
    }
}
