//! What is kept of sweeps: their files name by name, and of texts only what is not written yet. What a file is for alone (histograms,
//! series) is in memory for no longer than that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::sweeping;
use crate::probe::sweep::Sweep;
use crate::record::Results;

/// Of how many targets that are not there now the results stay in memory; those of others are shown again after a restart.
const MOST_APART: usize = 16;

/// The sweeps that are kept.
#[derive(Debug, Default)]
pub(in crate::daemon) struct KeptSweeps {
    /// Whose files are there, or will be.
    names: BTreeSet<String>,
    /// What is to be written.
    new: BTreeMap<String, Arc<str>>,
    /// Results of targets that are not there: they were not seen yet, or left.
    apart: VecDeque<(String, Results)>,
    /// Targets of which a sweep was there before the start and nothing else, and that were not seen yet: they may be found later.
    unseen: BTreeSet<String>,
}

/// A sweep as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept<S = Sweep> {
    /// Seconds since 1970.
    ended: f64,
    sweep: S,
}

impl KeptSweeps {
    /// What was kept before the start; what came about since is newer. `known`: whether something else was kept of a target.
    pub(super) fn join(&mut self, before: BTreeMap<String, Option<Arc<str>>>, known: impl Fn(&str) -> bool) {
        for (name, text) in before {
            if !self.names.insert(name.clone()) {
                continue;
            }
            if !known(&name) {
                self.unseen.insert(name.clone());
            }
            let read = text.map(|text| serde_json::from_str::<Kept>(&text));
            match read {
                Some(Ok(Kept { ended, sweep })) => {
                    let ended = Duration::try_from_secs_f64(ended).unwrap_or_default();
                    self.put_apart(name, sweeping::results(sweep, ended));
                }
                Some(Err(error)) => {
                    tracing::warn!(name, %error, "the kept sweep makes no sense; the target begins without it");
                }
                None => {}
            }
        }
    }

    /// To be kept instead of what was before.
    pub(in crate::daemon) fn keep(&mut self, name: &str, sweep: &Sweep, ended: Duration) {
        // Numbers and text always can be written.
        if let Ok(text) = serde_json::to_string(&Kept { ended: ended.as_secs_f64(), sweep }) {
            self.names.insert(name.to_owned());
            self.new.insert(name.to_owned(), text.into());
        }
    }

    /// The last results of a target that comes.
    pub(in crate::daemon) fn take(&mut self, name: &str) -> Option<Results> {
        let at = self.apart.iter().position(|(other, _)| other == name)?;
        self.apart.remove(at).map(|(_, results)| results)
    }

    /// A target leaves its results, should it come again.
    pub(in crate::daemon) fn put_apart(&mut self, name: String, results: Results) {
        self.apart.retain(|(other, _)| *other != name);
        self.apart.push_back((name, results));
    }

    /// The target is there.
    pub(super) fn see(&mut self, name: &str) {
        self.unseen.remove(name);
    }

    /// Forgets the results of those that were apart for longest, once all that are planned had the time to come.
    pub(super) fn trim(&mut self) {
        while self.apart.len() > MOST_APART {
            self.apart.pop_front();
        }
    }

    /// Whether something is to be written.
    pub(super) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// What is handed over: the new ones, and the names of the others. `known`: whether the target is there, or something else is kept of it.
    pub(super) fn hand_over(&mut self, known: impl Fn(&str) -> bool) -> BTreeMap<String, Option<Arc<str>>> {
        let mut new = std::mem::take(&mut self.new);
        self.names.retain(|name| known(name) || self.unseen.contains(name));
        self.names.iter().map(|name| (name.clone(), new.remove(name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sweep::fixture;

    const WALL: Duration = Duration::from_secs(1_800_000_000);

    fn sweep() -> Sweep {
        let mut cell = fixture::cell(crate::probe::sweep::Pattern::RandRead, 4096, 1, 1_000.0);
        cell.histogram.insert(crate::probe::sweep::Operation::Read, "x".repeat(10_000));
        let about = crate::probe::sweep::About::default();
        let plan = crate::probe::sweep::Plan::from(crate::probe::sweep::Preset::Quick);
        let mut sweep = crate::probe::sweep::Collector::new(plan, Default::default()).finish(about, None);
        sweep.cells = vec![cell];
        sweep
    }

    #[test]
    fn a_text_is_handed_over_once_and_then_only_its_name() {
        let mut kept = KeptSweeps::default();
        kept.keep("a", &sweep(), WALL);
        assert!(kept.has_new());
        let text = kept.hand_over(|_| true).remove("a").unwrap().unwrap();
        assert!(text.len() > 10_000 && !kept.has_new());
        assert_eq!(kept.hand_over(|_| true), [("a".to_owned(), None)].into());
        assert_eq!(kept.hand_over(|_| false), BTreeMap::new(), "nobody knows it any more");

        let mut after = KeptSweeps::default();
        after.join([("a".to_owned(), Some(text))].into(), |_| true);
        assert_eq!(after.hand_over(|name| name == "a"), [("a".to_owned(), None)].into());
        let results = after.take("a").unwrap();
        assert_eq!((results.ended, results.sweep.cells.len()), (WALL, 1));
        assert!(results.sweep.cells[0].histogram.is_empty(), "that is in the file");
        assert!(after.take("a").is_none());
    }

    #[test]
    fn a_sweep_of_a_target_that_is_found_late_is_not_forgotten_before() {
        let mut kept = KeptSweeps::default();
        let lost = [("a".to_owned(), Some(Arc::from("{\"ended\":1}")))].into();
        kept.join(lost, |_| false);
        assert!(kept.take("a").is_none(), "it makes no sense");
        assert_eq!(kept.hand_over(|_| false).len(), 1);
        kept.see("a");
        assert_eq!(kept.hand_over(|_| false).len(), 0);
    }

    #[test]
    fn names_without_end_are_not_held_in_memory() {
        let mut kept = KeptSweeps::default();
        for n in 0..100 {
            kept.put_apart(n.to_string(), sweeping::results(sweep(), WALL));
            kept.put_apart("again".to_owned(), sweeping::results(sweep(), WALL));
        }
        kept.trim();
        assert_eq!(kept.apart.len(), MOST_APART);
        assert!(kept.take("again").is_some() && kept.take("99").is_some() && kept.take("1").is_none());
    }
}
