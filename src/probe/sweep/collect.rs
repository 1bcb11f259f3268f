//! Brings a sweep together: which cell is next, what came of each, what was left out and why, and in the end the whole.

use super::check::judge;
use super::rounds::merge;
use super::{
    Cell, CellReport, CellResult, Environment, Left, Limits, Plan, Promise, SCHEMA_VERSION, Skipped, Step,
    Stopped, Subject, Sweep, SweepFault, Walk,
};

/// What a sweep says of itself beside its cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// What was measured.
    pub target: Subject,
    /// On what machine.
    pub environment: Environment,
    /// When it began (RFC 3339).
    pub started: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The product that the disk is said to be.
    pub product: Option<String>,
}

/// A sweep that is on its way.
#[derive(Clone, Debug)]
pub struct Collector {
    plan: Plan,
    walk: Walk,
    promise: Promise,
    /// In the order in which they were first run, with their rounds.
    cells: Vec<(Cell, Vec<CellResult>)>,
    skipped: Vec<Skipped>,
    last: Option<Step>,
    /// Ladder and step of the cell that was given last.
    at: Option<(usize, usize)>,
    /// Why a ladder was left before its end: reason and sentence.
    left: Vec<Option<(&'static str, String)>>,
}

impl Collector {
    /// At the beginning.
    pub fn new(plan: Plan, promise: Promise) -> Self {
        let left = vec![None; plan.ladders.len()];
        let walk = Walk::new(plan.clone());
        let (cells, skipped) = Default::default();
        Self { plan, walk, promise, cells, skipped, last: None, at: None, left }
    }

    /// The cell that is to be run now, after what was [`done`](Self::done); `None`: all is done.
    #[allow(clippy::should_implement_trait, reason = "what comes next hangs on what is told in between")]
    pub fn next(&mut self) -> Option<(Cell, Limits)> {
        let last = self.last.take();
        let next = self.walk.next(last);
        let at = next.and_then(|(cell, _)| self.place(cell));
        if let (Some(was), Some(last)) = (std::mem::replace(&mut self.at, at), last) {
            self.note_where_it_was_left(was, last);
        }
        next
    }

    /// Takes what came of the cell that was given last.
    pub fn done(&mut self, report: CellReport) {
        let cell = report.cell;
        match report.outcome {
            Ok(result) => {
                let noise = result.shape.noise.unwrap_or(0.0);
                let cut = result.stopped == Some(Stopped::Cut);
                self.last = Some(Step { iops: result.iops, noise, cut });
                match self.cells.iter_mut().find(|(known, _)| *known == cell) {
                    Some((_, rounds)) => rounds.push(result),
                    None => self.cells.push((cell, vec![result])),
                }
            }
            Err(Left::Skipped(skipped)) => self.skipped.push(skipped),
            Err(Left::Failed(trouble)) => self.skipped.push(cell.skipped("error", trouble.failure.message)),
        }
    }

    /// Cells that may still come, the one that was given last not counted.
    pub fn left(&self) -> usize {
        self.walk.left()
    }

    /// The cells that have a result so far.
    pub fn ran(&self) -> usize {
        self.cells.len()
    }

    /// The whole: rounds as one, each cell judged, what was left out with its reason. `stopped` says why it ended early, if it did.
    pub fn finish(self, about: About, stopped: Option<Stopped>) -> Sweep {
        let Self { plan, promise, cells, skipped, left, .. } = self;
        let ran = |cell: &Cell| cells.iter().any(|(known, _)| known == cell);
        let mut out: Vec<Skipped> = Vec::new();
        for (ladder, left) in plan.ladders.iter().zip(&left) {
            for cell in ladder.cells.iter().filter(|cell| !ran(cell)) {
                let told = skipped.iter().find(|skipped| is_of(skipped, cell)).cloned();
                let by_ladder = || left.as_ref().map(|(reason, message)| cell.skipped(reason, message));
                out.push(told.or_else(by_ladder).unwrap_or_else(|| not_reached(cell, stopped)));
            }
        }
        let mut cells: Vec<_> = cells.into_iter().filter_map(|(_, rounds)| merge(rounds)).collect();
        judge(&mut cells, &promise);
        let mut target = about.target;
        if target.direct == "true" && cells.iter().any(|cell| cell.faults.contains(&SweepFault::Cached)) {
            "bypassed".clone_into(&mut target.direct);
        }
        Sweep {
            schema_version: SCHEMA_VERSION,
            target,
            environment: about.environment,
            started: about.started,
            seconds: about.seconds,
            preset: plan.preset.map(|preset| preset.label().to_owned()),
            product: about.product,
            cells,
            skipped: out,
            stopped,
        }
    }

    fn place(&self, cell: Cell) -> Option<(usize, usize)> {
        let step = |ladder: &super::Ladder| ladder.cells.iter().position(|known| *known == cell);
        self.plan.ladders.iter().enumerate().find_map(|(at, ladder)| Some((at, step(ladder)?)))
    }

    fn note_where_it_was_left(&mut self, (ladder, step): (usize, usize), last: Step) {
        let cells = &self.plan.ladders[ladder].cells;
        let goes_on = self.at == Some((ladder, step + 1));
        if goes_on || step + 1 >= cells.len() {
            return;
        }
        let cell = cells[step];
        self.left[ladder] = Some(match last.cut {
            true => ("cut", format!("not run: the mean latency of `{cell}` passed the ceiling")),
            false => ("plateau", format!("not run: up to `{cell}` more outstanding brought no more IOPS")),
        });
    }
}

fn is_of(skipped: &Skipped, cell: &Cell) -> bool {
    (skipped.pattern, skipped.block_size, skipped.depth, skipped.jobs, skipped.method)
        == (cell.pattern, cell.block_size, cell.depth, cell.jobs, cell.method)
}

fn not_reached(cell: &Cell, stopped: Option<Stopped>) -> Skipped {
    let (reason, why) = match stopped {
        Some(Stopped::Interrupt) => ("interrupt", "somebody ended the sweep before it"),
        Some(Stopped::Guard) => ("guard", "the disk's own workload woke up before it"),
        Some(Stopped::Budget) => ("budget", "what sweeps may cost the disk in a day was spent before it"),
        Some(Stopped::Error) => ("error", "the disk failed before it"),
        Some(Stopped::Cut) | None => ("cut", "the sweep ended before it"),
    };
    cell.skipped(reason, format!("not run: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sweep::fixture::ran;
    use crate::probe::sweep::{Pattern, Preset, WarmUp};
    use crate::probe::{Cost, Trouble};

    fn report(cell: Cell, outcome: Result<CellResult, Left>) -> CellReport {
        CellReport { cell, outcome, cost: Cost::default() }
    }

    fn plan(rounds: u16) -> Plan {
        Plan { rounds, ..Plan::from(Preset::Nightly) }
    }

    /// Runs all of it on a disk that gives so many IOPS at a depth.
    fn sweep(plan: Plan, stop_after: usize, iops: impl Fn(&Cell) -> f64) -> Sweep {
        let mut collector = Collector::new(plan, Promise::default());
        for _ in 0..stop_after {
            let Some((cell, _)) = collector.next() else {
                return collector.finish(About::default(), None);
            };
            let result = ran(cell, iops(&cell));
            collector.done(report(cell, Ok(result)));
        }
        collector.finish(About::default(), Some(Stopped::Interrupt))
    }

    fn each_cell_once(sweep: &Sweep, plan: &Plan) {
        let cells = plan.ladders.iter().flat_map(|ladder| &ladder.cells);
        assert_eq!(sweep.cells.len() + sweep.skipped.len(), cells.count());
    }

    #[test]
    fn a_plateau_is_noted_with_the_cell_that_showed_it() {
        let sweep = sweep(plan(1), usize::MAX, |cell| f64::from(cell.depth.min(4)) * 1000.0);
        each_cell_once(&sweep, &plan(1));
        let first = &sweep.skipped[0];
        assert_eq!((first.pattern, first.depth, first.reason.as_str()), (Pattern::RandRead, 32, "plateau"));
        assert!(first.message.contains("`4KiB randread, depth 16`"), "{}", first.message);
        assert_eq!(sweep.preset.as_deref(), Some("nightly"));
    }

    #[test]
    fn rounds_become_one_and_an_interrupt_leaves_what_was_done() {
        let plan = plan(3);
        let linear = |cell: &Cell| f64::from(cell.depth) * 1000.0;
        let whole = sweep(plan.clone(), usize::MAX, linear);
        assert!(whole.skipped.is_empty() && whole.stopped.is_none());
        assert!(whole.cells.iter().all(|cell| cell.rounds.is_some_and(|rounds| rounds.count == 3)));
        let part = sweep(plan.clone(), 4, linear);
        each_cell_once(&part, &plan);
        assert_eq!((part.cells.len(), part.stopped), (4, Some(Stopped::Interrupt)));
        assert!(part.skipped.iter().all(|skipped| skipped.reason == "interrupt"));
    }

    #[test]
    fn what_failed_or_was_cut_or_had_no_room_says_so() {
        let mut collector = Collector::new(plan(2), Promise::default());
        let (mut seen, mut all) = (0, 0);
        while let Some((cell, limits)) = collector.next() {
            assert_eq!(limits.warm_up, WarmUp::Completions(2));
            all += 1;
            let outcome = match cell.pattern {
                Pattern::RandRead if cell.block_size == 4096 => {
                    seen += 1;
                    Ok(CellResult { stopped: Some(Stopped::Cut), ..ran(cell, 100.0) })
                }
                Pattern::SeqRead => Err(Left::Skipped(cell.skipped("memory", "no room"))),
                Pattern::SeqWrite => Err(Left::Failed(Trouble::no_space("the file is gone".to_owned()))),
                _ => Ok(ran(cell, 100.0 * f64::from(cell.depth))),
            };
            collector.done(report(cell, outcome));
        }
        assert_eq!((seen, collector.left()), (2, 0), "each round ends that ladder at its first step");
        assert!(all > 60);
        let sweep = collector.finish(About::default(), None);
        each_cell_once(&sweep, &plan(2));
        let reasons = |pattern| -> Vec<_> {
            let of = sweep.skipped.iter().filter(|skipped| skipped.pattern == pattern);
            of.map(|skipped| skipped.reason.as_str()).collect()
        };
        assert_eq!(reasons(Pattern::RandRead), ["cut"; 6]);
        assert_eq!(reasons(Pattern::SeqRead), ["memory"; 7]);
        assert_eq!(reasons(Pattern::SeqWrite), ["error"; 7]);
    }
}
