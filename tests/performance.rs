//! docs/performance.md says what the raw output under docs/data says, and nothing else. `BLESS=1` writes it anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "a test reads the project's own files")]
#![allow(dead_code, unreachable_pub, reason = "the bench uses the rest")]

#[path = "../benches/support/mod.rs"]
mod support;

use std::fs;

use diskcanary::probe::Profile;
use diskcanary::probe::commit::COMMITS;
use diskcanary::schedule::toll::Commits;

use support::claim::{Claim, Unit, Verdict, interval, median};
use support::raw::{Quantiles, parse};

const PAGE: &str = "docs/performance.md";
const HEAD: &str = "# Performance\n\n\
    Made by a test from the raw output under `docs/data/`; each part says by which command it was measured.\n\n";

#[test]
fn the_page_says_what_the_data_say() {
    let data = |name| fs::read_to_string(format!("docs/data/{name}.jsonl")).unwrap();
    let accuracy = |title, about, name| support::tables::accuracy(title, about, &parse(&data(name)).unwrap());
    let awake = "Programs of idle priority keep the CPUs from halting. That takes away what differs most from read to read on a guest \
                 and is the same for all readers, the way out of a halt, and leaves what they themselves add.";
    let free = "The same with CPUs that halt when there is nothing to do, as they do beside most databases.";
    let accuracy = accuracy("Accuracy with CPUs awake", awake, "accuracy-awake")
        + "\n"
        + &accuracy("Accuracy with CPUs free to halt", free, "accuracy");
    let idle = "The machine had nothing else to do. It is a guest, and there each wake-up of a CPU that sleeps, and each look at memory \
                that its caches have lost meanwhile, costs several times what it costs on a machine at work: compare the next part.";
    let busy = "The same, while other programs kept both CPUs at work all the time.";
    let part = |title, about, name| {
        support::cost::section(title, about, &support::cost::parse(&data(name)).unwrap())
    };
    let now = "The default daemon alone, a shorter time, on a machine that was idle: since the next part was measured it looks at the disks' \
               and the machine's own counters once a second, keeps budgets and watches for stalls, and enters good runs once a second instead of one \
               by one.";
    let cost = part("Cost as it is now", now, "cost-brief")
        + "\n"
        + &part("Cost on an idle machine", idle, "cost")
        + "\n"
        + &part("Cost on a busy machine", busy, "cost-busy");
    let postgres = support::postgres::section(&support::postgres::parse(&data("postgres")).unwrap());
    let mut made = format!("{HEAD}{accuracy}\n{cost}\n{postgres}");
    // Benches that have not been run for the page yet have left no data.
    let data = |name| fs::read_to_string(format!("docs/data/{name}.jsonl")).unwrap_or_default();
    let impact = support::impact::parse(&data("impact")).unwrap();
    if !impact.is_empty() {
        made = made + "\n" + &support::impact::section(&impact);
    }
    let [texts, answers] = ["exposition", "scrape"].map(|name| support::scrape::parse(&data(name)).unwrap());
    if !(texts.is_empty() && answers.is_empty()) {
        made = made + "\n" + &support::scrape::section(&texts, &answers);
    }
    if std::env::var_os("BLESS").is_some() {
        fs::write(PAGE, &made).unwrap();
    }
    let page = fs::read_to_string(PAGE).unwrap();
    assert!(page == made, "{PAGE} and docs/data differ; BLESS=1 writes it anew");
}

#[test]
fn the_page_on_profiles_says_what_the_data_say() {
    const PAGE: &str = "docs/profiles.md";
    let data = fs::read_to_string("docs/data/profiles.jsonl").unwrap();
    let made = support::profiles::page(&support::profiles::parse(&data).unwrap());
    if std::env::var_os("BLESS").is_some() {
        fs::write(PAGE, &made).unwrap();
    }
    let page = fs::read_to_string(PAGE).unwrap();
    assert!(page == made, "{PAGE} and docs/data differ; BLESS=1 writes it anew");
}

/// By the disks' own counters: every profile on both file systems, at default intervals.
#[test]
fn a_day_of_every_profile_writes_at_most_2_gib_and_what_explain_expects() {
    let data = fs::read_to_string("docs/data/profiles.jsonl").unwrap();
    let lines = support::profiles::parse(&data).unwrap();
    let spans: Vec<_> = lines
        .iter()
        .filter_map(|line| if let support::profiles::Line::Span(span) = line { Some(span) } else { None })
        .collect();
    for file_system in ["ext4", "xfs"] {
        for profile in Profile::ALL {
            let span = spans
                .iter()
                .find(|span| span.file_system == file_system && span.profile == profile.label())
                .unwrap_or_else(|| panic!("{profile} on {file_system} was not measured"));
            let day = span.bytes as f64 / span.seconds * 86_400.0;
            assert!(day <= support::profiles::MOST_A_DAY, "{profile} on {file_system}: {day} bytes a day");
            let row = profile.row();
            let interval = std::time::Duration::from_secs(2);
            let run = Commits { row, method: row.method, interval }.expected(Some(file_system)).write;
            let measured = span.bytes as f64 / span.commits as f64 * COMMITS as f64;
            assert!(
                measured <= run * 1.05,
                "{profile} on {file_system}: {measured} bytes a run, {run} expected"
            );
            assert!(
                measured >= run * 0.7,
                "{profile} on {file_system}: {measured} bytes a run, {run} expected"
            );
        }
    }
}

#[test]
fn quantiles_are_nearest_ranks() {
    let mut values: Vec<i64> = (1..=200).rev().collect();
    assert_eq!(Quantiles::of(&mut values), Quantiles { p50: 100, p99: 198 });
    assert_eq!(Quantiles::of(&mut [7]), Quantiles { p50: 7, p99: 7 });
}

/// The ranks of published tables for the sign test.
#[test]
fn the_interval_of_a_median_is_that_of_the_sign_test() {
    let first = |n: i32| (1..=n).map(f64::from).collect::<Vec<_>>();
    assert_eq!(interval(&first(5)), None);
    assert_eq!(interval(&first(6)), Some((1.0, 6.0)));
    assert_eq!(interval(&first(8)), Some((1.0, 8.0)));
    assert_eq!(interval(&first(9)), Some((2.0, 8.0)));
    assert_eq!(interval(&first(20)), Some((6.0, 15.0)));
    assert_eq!(interval(&first(25)), Some((8.0, 18.0)));
    assert_eq!(median(&first(4)), Some(2.5));
}

#[test]
fn a_claim_holds_fails_or_is_open() {
    let verdict = |from: i32, to: i32| {
        let values = (from..=to).map(f64::from).collect();
        Claim { text: String::new(), unit: Unit::Micros, values, within: (0.0, 20.0) }.verdict()
    };
    assert_eq!(verdict(1, 20), Verdict::Holds);
    assert_eq!(verdict(21, 40), Verdict::Fails);
    assert_eq!(verdict(11, 30), Verdict::Open);
    assert_eq!(verdict(-40, -21), Verdict::Fails);
    assert_eq!(verdict(1, 5), Verdict::Open);
}
