//! The share of what a disk promises that a target's latency probes may take together: 2 %. Intervals that nobody asked for stretch
//! on a small disk until they keep it; one that was asked for stays. Pure arithmetic over what runs are expected to cost.

use std::fmt;
use std::time::Duration;

use super::budget::Toll;

/// Of the baseline.
pub const SHARE: f64 = 0.02;

/// The longest interval at which a probe still says something; one that would need longer is off.
const LONGEST_COMMIT: Duration = Duration::from_secs(300);
const LONGEST_READ: Duration = Duration::from_secs(3600);

/// What a disk promises in the long run, without burst credits. What is not known limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Promise {
    /// Operations per second.
    pub iops: Option<f64>,
    /// Bytes per second.
    pub bytes_per_second: Option<f64>,
    /// Its credits count bytes, and a random read or a commit costs a whole MiB of them, as on EBS st1 and sc1.
    pub byte_credits: bool,
}

/// A probe that is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// From run to run.
    pub interval: Duration,
    /// Somebody asked for this interval.
    pub asked_for: bool,
    /// What a run that stands alone is expected to cost.
    pub run: Toll,
}

/// At which pace a probe runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As it was wanted.
    AsWanted,
    /// Slower, so that the share is kept.
    Each(Duration),
    /// Not at all.
    Off(Why),
}

/// Why a probe is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The product's credits count bytes.
    ByteCredits,
    /// The share would be too small for it at any pace that says something.
    TooSmall,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByteCredits => "each random read and each commit takes 1MiB of this disk's burst credits",
            Self::TooSmall => {
                "2 % of what this disk promises are too little for it at any pace that says something"
            }
        })
    }
}

/// The part of the promise that these runs take, of what it has least of; 0 where nothing is promised.
pub fn taken(promise: &Promise, runs: &[(Toll, Duration)]) -> f64 {
    let rate = |of: fn(&Toll) -> f64| -> f64 {
        runs.iter().map(|(run, interval)| of(run) / interval.as_secs_f64().max(1e-3)).sum()
    };
    let part = |taken: f64, promised: Option<f64>| match promised {
        Some(promised) if promised > 0.0 => taken / promised,
        _ => 0.0,
    };
    let operations = part(rate(|run| run.operations), promise.iops);
    operations.max(part(rate(|run| run.read + run.write), promise.bytes_per_second))
}

/// The paces of commits and reads at which both together keep the share. What was asked for is left as it is and counts first.
pub fn paces(promise: &Promise, commit: Option<Want>, read: Option<Want>) -> [Option<Pace>; 2] {
    let wants = [commit, read];
    if promise.byte_credits {
        let pace = |want: Want| if want.asked_for { Pace::AsWanted } else { Pace::Off(Why::ByteCredits) };
        return wants.map(|want| want.map(pace));
    }
    let load = |asked_for: bool| {
        let runs = wants.iter().flatten().filter(|want| want.asked_for == asked_for);
        taken(promise, &runs.map(|want| (want.run, want.interval)).collect::<Vec<_>>())
    };
    let (left, wanted) = (SHARE - load(true), load(false));
    let factor = if left > 0.0 { wanted / left } else { f64::INFINITY };
    let pace = |want: Want, longest: Duration| {
        if want.asked_for || factor <= 1.0 || wanted == 0.0 {
            return Pace::AsWanted;
        }
        let seconds = (want.interval.as_secs_f64() * factor).ceil();
        if seconds > longest.as_secs_f64() {
            return Pace::Off(Why::TooSmall);
        }
        Pace::Each(Duration::from_secs_f64(seconds))
    };
    [commit.map(|want| pace(want, LONGEST_COMMIT)), read.map(|want| pace(want, LONGEST_READ))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Profile;
    use crate::schedule::toll::{self, Commits};
    use proptest::prelude::*;
    use serde::Deserialize;

    const MIB: f64 = 1_048_576.0;

    #[derive(Deserialize)]
    struct Data {
        products: Vec<Product>,
    }

    #[derive(Deserialize)]
    struct Product {
        id: String,
        baseline_iops: Option<f64>,
        baseline_mib_per_second: Option<f64>,
        credits: Option<String>,
    }

    impl Product {
        fn promise(&self) -> Promise {
            Promise {
                iops: self.baseline_iops,
                bytes_per_second: self.baseline_mib_per_second.map(|n| n * MIB),
                byte_credits: self.credits.as_deref() == Some("bytes"),
            }
        }
    }

    fn commit(profile: Profile, seconds: u64, asked_for: bool) -> Want {
        let row = profile.row();
        let interval = Duration::from_secs(seconds);
        let run = Commits { row, method: row.method, interval }.alone(None);
        Want { interval, asked_for, run }
    }

    fn read(seconds: u64, asked_for: bool) -> Want {
        Want { interval: Duration::from_secs(seconds), asked_for, run: toll::reads() }
    }

    fn interval(want: &Want, pace: Pace) -> Option<Duration> {
        match pace {
            Pace::AsWanted => Some(want.interval),
            Pace::Each(interval) => Some(interval),
            Pace::Off(_) => None,
        }
    }

    /// Every product of the list, at the smallest size that is sold, with every profile.
    #[test]
    fn probes_keep_two_percent_on_every_product_and_still_run() {
        let data: Data = serde_json::from_str(include_str!("testdata/products.json")).unwrap();
        assert_eq!(data.products.len(), 61);
        let (mut off, mut stretched) = (Vec::new(), 0);
        for product in &data.products {
            let promise = product.promise();
            for profile in Profile::ALL {
                let (commit, read) = (commit(*profile, 2, false), read(30, false));
                let [Some(commits), Some(reads)] = paces(&promise, Some(commit), Some(read)) else {
                    panic!("two were wanted")
                };
                let runs: Vec<(Toll, Duration)> = [(commit, commits), (read, reads)]
                    .iter()
                    .filter_map(|(want, pace)| Some((want.run, interval(want, *pace)?)))
                    .collect();
                let share = taken(&promise, &runs);
                assert!(share <= SHARE + 1e-9, "{} {profile}: {share}", product.id);
                match (interval(&commit, commits), interval(&read, reads)) {
                    (Some(c), Some(r)) => {
                        assert!(
                            c <= LONGEST_COMMIT && r <= LONGEST_READ,
                            "{} {profile}: {c:?} {r:?}",
                            product.id
                        );
                        assert!(c >= commit.interval && r >= read.interval);
                        stretched += usize::from(c > commit.interval);
                    }
                    _ => off.push(product.id.as_str()),
                }
            }
        }
        off.dedup();
        assert_eq!(off, ["aws/st1", "aws/sc1"], "only where credits count bytes");
        // 100 to 300 operations a second are sold by three of the four clouds.
        assert!(stretched >= 8 * Profile::ALL.len(), "{stretched}");
    }

    #[test]
    fn a_disk_of_100_operations_a_second_is_asked_each_7_and_100_seconds() {
        let promise = Promise { iops: Some(100.0), ..Promise::default() };
        let (commit, read) = (commit(Profile::Overwrite, 2, false), read(30, false));
        let seconds = |n| Some(Pace::Each(Duration::from_secs(n)));
        assert_eq!(paces(&promise, Some(commit), Some(read)), [seconds(7), seconds(100)]);
        assert_eq!(paces(&promise, Some(commit), None), [seconds(5), None]);
        assert_eq!(paces(&Promise::default(), Some(commit), None), [Some(Pace::AsWanted), None]);
    }

    #[test]
    fn what_was_asked_for_stays_and_the_other_has_what_is_left() {
        let promise = Promise { iops: Some(1000.0), ..Promise::default() };
        let asked = paces(&promise, Some(commit(Profile::Overwrite, 1, true)), Some(read(30, false)));
        assert_eq!(asked, [Some(Pace::AsWanted), Some(Pace::AsWanted)]);
        let small = Promise { iops: Some(500.0), ..Promise::default() };
        let asked = paces(&small, Some(commit(Profile::Overwrite, 1, true)), Some(read(30, false)));
        assert_eq!(asked, [Some(Pace::AsWanted), Some(Pace::Each(Duration::from_secs(64)))]);
        let tiny = Promise { iops: Some(100.0), ..Promise::default() };
        let asked = paces(&tiny, Some(commit(Profile::Overwrite, 1, true)), Some(read(30, false)));
        assert_eq!(asked, [Some(Pace::AsWanted), Some(Pace::Off(Why::TooSmall))]);
    }

    #[test]
    fn where_credits_count_bytes_only_what_was_asked_for_runs() {
        let promise = Promise { byte_credits: true, ..Promise::default() };
        let paces = paces(&promise, Some(commit(Profile::Overwrite, 60, true)), Some(read(30, false)));
        assert_eq!(paces, [Some(Pace::AsWanted), Some(Pace::Off(Why::ByteCredits))]);
    }

    proptest! {
        /// Whatever is promised and wanted: defaults never take more than the share, and never run faster than wanted.
        #[test]
        fn defaults_keep_the_share(iops in 1.0f64..5000.0, mib in 0.1f64..500.0, c in 1u64..600, r in 1u64..600) {
            let promise = Promise { iops: Some(iops), bytes_per_second: Some(mib * MIB), byte_credits: false };
            let wants = [commit(Profile::Innodb, c, false), read(r, false)];
            let paces = paces(&promise, Some(wants[0]), Some(wants[1]));
            let runs: Vec<_> = wants.iter().zip(paces.iter().flatten())
                .filter_map(|(want, pace)| Some((want.run, interval(want, *pace)?)))
                .collect();
            prop_assert!(taken(&promise, &runs) <= SHARE + 1e-9);
            prop_assert!(runs.iter().zip(&wants).all(|((_, each), _)| each.as_secs_f64() >= 1.0));
        }
    }
}
