use super::*;

fn target(place: Place) -> Target {
    Target {
        name: "data".to_owned(),
        path: "/srv/data".to_owned(),
        place,
        engine: "auto",
        commit: Some(Commit {
            profile: Profile::Overwrite,
            method: Method::Fdatasync,
            interval: Span::seconds(2),
            file: File::Lay(Bytes::mib(64)),
        }),
        read: Some(Read { interval: Span::seconds(30), file: File::Lay(Bytes::gib(1)), wait: "sleep" }),
        series: Some(1120),
        spared: Spared {
            expected: [742_391_808.0, 754_974_720.0, 5.73],
            limits: [2_147_483_648.0, 2_147_483_648.0, 20.0],
            stretched: None,
        },
        sweeps: None,
    }
}

fn files(moved: Option<&str>) -> Place {
    Place::Files {
        disk: "ext4 on vda1".to_owned(),
        directory: "/srv/data/.diskcanary".to_owned(),
        moved: moved.map(str::to_owned),
        free: Some(Bytes::gib(30)),
        limits: None,
    }
}

#[test]
fn one_disk_with_every_default() {
    let text = explain(&[target(files(None))]);
    assert_eq!(
        text,
        "\
data: /srv/data
  disk     ext4 on vda1
  files    /srv/data/.diskcanary: 1088MiB will be written there once; then 30GiB stay free
  commits  3 back to back each 2s, profile overwrite: 4KiB overwritten at random places, past the page cache, then fdatasync
           begin about 1 s after the start, when the commit file of 64MiB is written
  reads    16 at depth 1, then 48 at depth 4, each 30s: 4KiB at random places past the page cache, engine auto, wait sleep
           begin about 17 s after the start, when the read file of 1GiB is written
  a day    129,600 commits, 506.2MiB written, 184,320 reads, 720MiB read
  at disk  708MiB written and 720MiB read a day, 5.7 requests a second are expected
  budget   2GiB written and 2GiB read a day, 20.0 requests a second; what is more is skipped, and spread over the day
  series   1,120 once it has run for an hour

Written is what we hand to the kernel. Journals and whole pages make it more at the disk: docs/profiles.md has what was measured on
ext4 and xfs, and diskcanary_commit_device_bytes shows it for this disk. A budget holds for the disk, with all targets on it.
"
    );
}

#[test]
fn a_device_is_only_read() {
    let text = explain(&[target(Place::Device { disk: "vdb".to_owned() })]);
    assert!(
        text.contains("  disk     vdb, read as it is and never written") && text.contains("commits  off"),
        "{text}"
    );
    assert!(text.contains("begin at once\n") && !text.contains("fdatasync"), "{text}");
    assert!(text.contains("a day    184,320 reads, 720MiB read\n") && !text.contains("ext4"), "{text}");
}

#[test]
fn a_target_that_is_down_is_told_as_it_will_be_and_a_refused_one_costs_nothing() {
    let text = explain(&[target(Place::Down("there is no /srv/data".to_owned()))]);
    assert!(
        text.contains("  is down  there is no /srv/data\n") && text.contains("129,600 commits"),
        "{text}"
    );
    let text = explain(&[target(Place::Refused("it is a file".to_owned()))]);
    assert_eq!(text, "data: /srv/data\n  never    it is a file\n\n");
}

#[test]
fn why_files_lie_elsewhere_is_said() {
    let text = explain(&[target(files(Some("it lies in a database's directory")))]);
    assert!(text.contains("stay free\n           it lies in a database's directory\n"), "{text}");
}

#[test]
fn what_is_there_begins_at_once_and_what_has_no_room_costs_nothing() {
    let mut one = target(files(None));
    one.commit.as_mut().unwrap().file = File::There(Bytes::mib(64));
    one.read.as_mut().unwrap().file = File::NoRoom("no room for it".to_owned());
    let text = explain(&[one]);
    assert!(text.contains("begin at once: the commit file of 64MiB is there from before"), "{text}");
    assert!(
        text.contains("none now: no room for it\n  a day    129,600 commits, 506.2MiB written\n"),
        "{text}"
    );
    assert!(text.contains(".diskcanary: 30GiB are free beside them\n"), "{text}");
}

#[test]
fn sums_go_over_targets_and_series_are_left_out_when_one_is_not_known() {
    let mut second = target(files(None));
    second.read = None;
    second.name = "two\nlines".to_owned();
    let both = |second: &Target| explain(&[target(files(None)), second.clone()]);
    let text = both(&second);
    assert!(text.contains("\ntwo\\nlines: /srv/data\n") && text.contains("  reads    off\n"), "{text}");
    assert!(text.contains("2 targets, a day: 259,200 commits, 1012.5MiB written"), "{text}");
    assert!(text.contains("2,240 series in all\n"), "{text}");
    second.series = None;
    assert!(!both(&second).contains("in all"));
}

#[test]
fn sweeps_are_told_with_their_next_instants_and_what_they_take() {
    use crate::probe::sweep::{Plan, Preset};
    let one = Plan::from(Preset::Nightly).demand((100_000.0, 1e9));
    let sweeps = Sweeps {
        preset: "nightly",
        schedule: Some("30 3 * * * Asia/Shanghai".to_owned()),
        later: Span::seconds(1032),
        next: vec!["2026-12-02 03:47:12 +08:00".to_owned(), "2026-12-03 03:47:12 +08:00".to_owned()],
        one,
        a_day: 1,
        limits: [2_147_483_648.0, 2_147_483_648.0],
        rest: Some(Rest { rate: 300, capacity: 5_400_000 }),
        series: 480,
        seen: true,
    };
    let text = |sweeps: &Sweeps| explain(&[Target { sweeps: Some(sweeps.clone()), ..target(files(None)) }]);
    let told = text(&sweeps);
    let lines: Vec<&str> = told.lines().skip_while(|line| !line.starts_with("  sweeps")).take(5).collect();
    assert!(
        lines[0].starts_with("  sweeps   nightly: at most ")
            && lines[0].ends_with("in 3m45s of work at most"),
        "{told}"
    );
    assert_eq!(
        lines[1],
        "           rests after each cell until what it took above 300 a second is earned back, 5,400,000 at most"
    );
    let next = "2026-12-02 03:47:12 +08:00, 2026-12-03 03:47:12 +08:00";
    assert_eq!(
        lines[2],
        format!("           by `30 3 * * * Asia/Shanghai`, 17m12s later on this host: next {next}")
    );
    assert!(
        lines[3].contains("of 2GiB that may be written in a day") && lines[3].ends_with("for one sweep"),
        "{told}"
    );
    assert!(lines[4].starts_with("           480 series more after the first one"), "{told}");
    let never = text(&Sweeps { schedule: None, ..sweeps.clone() });
    assert!(
        never.contains("           never, without a `schedule`\n") && !never.contains("17m12s"),
        "{never}"
    );
    assert!(
        text(&Sweeps { seen: false, ..sweeps }).contains("none will begin: the kernel keeps no counters")
    );
}
