//! Which cell is next: up each ladder, until its plateau, a cut or its end; round after round.

use std::ops::Range;

use super::{Cell, Limits, Plan};

/// A step must bring this much more than the best before it.
const LEAST_GAIN: f64 = 0.03;
/// So many steps in a row that bring less end a ladder.
const PATIENCE: u32 = 2;

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
        let flat = self.best > 0.0 && gain < LEAST_GAIN.max(last.noise);
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
}
