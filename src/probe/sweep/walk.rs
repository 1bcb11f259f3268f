//! Which cell is next: up each ladder, until its plateau, a cut or its end; round after round.

use std::ops::Range;

use super::{Cell, Limits, Plan};

/// A step must bring this much more than the best before it.
const LEAST_GAIN: f64 = 0.03;
/// So many steps in a row that bring less end a ladder.
const PATIENCE: u32 = 2;
/// A step that may be off by more than this does not tell a gain from none, unless it brings the very same: on a noisy disk a ladder
/// that ended for such steps would end anywhere.
const MOST_NOISE: f64 = 0.10;
/// Two steps that are nearer than this are the same: a throttle holds its level.
const THE_SAME: f64 = 0.01;

/// What a walk must know of a cell that was run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Operations per second.
    pub iops: f64,
    /// How far off that may be by chance, as a share of it.
    pub noise: f64,
    /// It was cut short because latency passed the ceiling.
    pub cut: bool,
}

/// The walk through a plan.
#[derive(Clone, Debug)]
pub struct Walk {
    plan: Plan,
    round: u16,
    ladder: usize,
    step: usize,
    best: f64,
    flat: u32,
    begun: bool,
}

impl Walk {
    /// At the beginning.
    pub fn new(plan: Plan) -> Self {
        Self { plan, round: 0, ladder: 0, step: 0, best: 0.0, flat: 0, begun: false }
    }

    /// Goes on after a cell: `last` is what it came to, `None` at the start and where it was left out. `None`: all is done.
    pub fn next(&mut self, last: Option<Step>) -> Option<(Cell, Limits)> {
        if std::mem::replace(&mut self.begun, true) {
            self.step += 1;
            if last.is_some_and(|last| self.ends_ladder(last)) {
                self.leave_ladder();
            }
        }
        while self.plan.ladders.get(self.ladder).is_some_and(|ladder| self.step >= ladder.cells.len()) {
            self.leave_ladder();
        }
        if self.ladder >= self.plan.ladders.len() && self.round + 1 < self.plan.rounds {
            (self.round, self.ladder) = (self.round + 1, 0);
        }
        let ladder = self.plan.ladders.get(self.ladder)?;
        Some((ladder.cells[self.step], ladder.limits_of(self.step)))
    }

    /// Cells that may still come, the one that was last given not counted.
    pub fn left(&self) -> usize {
        let ladders = &self.plan.ladders;
        let of = |range: Range<usize>| ladders[range].iter().map(|l| l.cells.len()).sum::<usize>();
        let here = ladders
            .get(self.ladder)
            .map_or(0, |l| l.cells.len().saturating_sub(self.step + usize::from(self.begun)));
        let rounds = usize::from(self.plan.rounds.max(1) - 1 - self.round);
        here + of((self.ladder + 1).min(ladders.len())..ladders.len()) + rounds * of(0..ladders.len())
    }

    /// The round that the last cell was of, from 0.
    pub fn round(&self) -> u16 {
        self.round
    }

    fn ends_ladder(&mut self, last: Step) -> bool {
        let gain = last.iops / self.best.max(f64::MIN_POSITIVE) - 1.0;
        let tells = last.noise <= MOST_NOISE && gain < LEAST_GAIN.max(last.noise);
        let flat = self.best > 0.0 && (tells || gain.abs() < THE_SAME);
        self.flat = if flat { self.flat + 1 } else { 0 };
        self.best = self.best.max(last.iops);
        last.cut || (self.plan.plateau && self.flat >= PATIENCE)
    }

    fn leave_ladder(&mut self) {
        self.ladder += 1;
        (self.step, self.best, self.flat) = (0, 0.0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sweep::Preset;

    fn step(iops: f64) -> Option<Step> {
        Some(Step { iops, noise: 0.0, cut: false })
    }

    #[test]
    fn all_cells_of_all_rounds_come_once_each() {
        let plan = Plan { rounds: 3, ..Plan::from(Preset::Standard) };
        let mut walk = Walk::new(plan);
        let (mut count, mut last, mut left) = (0, None, walk.left());
        while walk.next(last).is_some() {
            count += 1;
            assert_eq!(walk.left() + 1, left);
            left = walk.left();
            last = step(count.into());
        }
        assert_eq!((count, left), (3 * 45, 0));
    }

    #[test]
    fn two_flat_steps_end_a_ladder_where_that_is_asked_for() {
        let mut walk = Walk::new(Plan::from(Preset::Nightly));
        let depths: Vec<u16> = [100.0, 200.0, 300.0, 303.0, 303.0]
            .into_iter()
            .scan(None, |last, iops| {
                let (cell, _) = walk.next(*last)?;
                *last = step(iops);
                Some(cell.depth)
            })
            .collect();
        assert_eq!(depths, [1, 2, 4, 8, 16]);
        assert_eq!(
            walk.next(step(303.0)).map(|(cell, _)| (cell.pattern.label(), cell.depth)),
            Some(("randwrite", 1))
        );
    }

    #[test]
    fn a_cut_ends_a_ladder_at_once() {
        let mut walk = Walk::new(Plan::from(Preset::Standard));
        walk.next(None);
        let next = walk.next(Some(Step { iops: 1.0, noise: 0.0, cut: true }));
        assert_eq!(next.map(|(cell, _)| cell.pattern.label()), Some("randwrite"));
    }

    /// Ladders of the nightly preset, climbed to their end on an ordinary virtual disk beside other work
    /// (`cargo bench --bench sweep -- --ladders 54`).
    const RECORDED: &str = include_str!("testdata/ladders.jsonl");

    /// Steps of a recorded ladder that the walk takes, and all of them: depth, IOPS, noise.
    fn walked(line: &str) -> (usize, Vec<(u16, f64, Option<f64>)>) {
        #[derive(serde::Deserialize)]
        struct Climbed {
            steps: Vec<(u16, f64, Option<f64>)>,
        }
        let Climbed { steps } = serde_json::from_str(line).unwrap();
        let depths: Vec<u16> = steps.iter().map(|step| step.0).collect();
        let limits = Plan::from(Preset::Nightly).ladders[0].limits;
        let ladder =
            super::super::Ladder::over_depths(super::super::Pattern::RandRead, 4096, &depths, limits);
        let plan = Plan { ladders: vec![ladder], ..Plan::from(Preset::Nightly) };
        let (mut walk, mut last, mut count) = (Walk::new(plan), None, 0);
        while walk.next(last).is_some() {
            let (_, iops, noise) = steps[count];
            last = Some(Step { iops, noise: noise.unwrap_or(1.0), cut: false });
            count += 1;
        }
        (count, steps)
    }

    #[test]
    fn recorded_ladders_of_a_noisy_disk_are_not_ended_by_noise() {
        let mut climbed = 0;
        for line in RECORDED.lines() {
            let (count, steps) = walked(line);
            let best = |steps: &[(u16, f64, Option<f64>)]| steps.iter().map(|s| s.1).fold(0.0, f64::max);
            let (found, there) = (best(&steps[..count]), best(&steps));
            assert!(found >= 0.97 * there, "ended at {count} with {found} of {there}: {line}");
            climbed += 1;
        }
        assert!(climbed >= 50);
    }

    #[test]
    fn the_same_ladders_end_where_the_disk_is_throttled() {
        for line in RECORDED.lines() {
            let (_, steps) = walked(line);
            // A limit at what the second step brought, as a throttle holds it: to half a per cent.
            let limit = steps[0].1.min(steps[1].1);
            let held = |(at, step): (usize, &(u16, f64, Option<f64>))| {
                (step.0, limit.min(step.1) * if at % 2 == 0 { 1.005 } else { 0.995 }, Some(0.01))
            };
            let held: Vec<_> = steps.iter().enumerate().map(held).collect();
            let (count, _) = walked(&serde_json::json!({ "steps": held }).to_string());
            assert!(count <= 5, "{count}: {held:?}");
        }
    }
}
