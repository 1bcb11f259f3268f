use super::*;

const SHAPE: Shape = Shape {
    commits: 3,
    single_reads: 16,
    burst_reads: 48,
    burst_depth: 4,
    read_size: Bytes::kib(4),
    layout_rate: Bytes::mib(64),
};

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
            file_size: Bytes::mib(64),
        }),
        read: Some(Read { interval: Span::seconds(30), file_size: Bytes::gib(1), wait: "sleep" }),
        series: Some(120),
    }
}

fn files() -> Place {
    Place::Files { directory: "/srv/data/.diskcanary".to_owned(), moved: None }
}

#[test]
fn one_disk_with_every_default() {
    let text = explain(&[target(files())], &SHAPE);
    assert_eq!(
        text,
        "\
data: /srv/data
  files    /srv/data/.diskcanary
  commits  3 back to back each 2s, profile overwrite: 4KiB overwritten at random places, past the page cache, then fdatasync
           first after about 1 s, when the commit file of 64MiB is laid out at 64MiB/s; at once where it is from before
  reads    16 at depth 1, then 48 at depth 4, each 30s: 4KiB at random places past the page cache, engine auto, wait sleep
           first after about 17 s, when the read file of 1GiB is laid out at 64MiB/s; at once where it is from before
  a day    129,600 commits of 506.2MiB in all, 184,320 reads of 720MiB in all
  series   120

1 target, a day: 129,600 commits of 506.2MiB in all, 184,320 reads of 720MiB in all
What a commit makes the file system write comes on top: diskcanary_commit_device_bytes shows it.
120 series
"
    );
}

#[test]
fn a_device_is_only_read() {
    let text = explain(&[target(Place::Device)], &SHAPE);
    assert!(text.contains("never written") && text.contains("commits  off"), "{text}");
    assert!(!text.contains("laid out at") && !text.contains("fdatasync"), "{text}");
    assert!(text.contains("1 target, a day: 184,320 reads of 720MiB in all\n"), "{text}");
}

#[test]
fn a_target_that_is_down_is_told_as_it_will_be_and_a_refused_one_costs_nothing() {
    let text = explain(&[target(Place::Down("there is no /srv/data".to_owned()))], &SHAPE);
    assert!(
        text.contains("  is down  there is no /srv/data\n") && text.contains("129,600 commits"),
        "{text}"
    );
    let text = explain(&[target(Place::Refused("it is a file".to_owned()))], &SHAPE);
    assert_eq!(text, "data: /srv/data\n  never    it is a file\n\n1 target, a day: nothing\n120 series\n");
}

#[test]
fn why_files_lie_elsewhere_is_said() {
    let moved = Some("it lies in a database's directory".to_owned());
    let text = explain(&[target(Place::Files { directory: "/srv/.diskcanary".to_owned(), moved })], &SHAPE);
    assert!(
        text.contains("files    /srv/.diskcanary\n           it lies in a database's directory\n"),
        "{text}"
    );
}

#[test]
fn sums_go_over_targets_and_series_are_left_out_when_one_is_not_known() {
    let mut second = target(files());
    second.series = None;
    second.read = None;
    second.name = "two\nlines".to_owned();
    let text = explain(&[target(files()), second], &SHAPE);
    assert!(text.contains("\ntwo\\nlines: /srv/data\n") && text.contains("  reads    off\n"), "{text}");
    assert!(text.contains("2 targets, a day: 259,200 commits of 1012.5MiB"), "{text}");
    assert!(text.lines().all(|line| !line.ends_with(" series")), "{text}");
}
