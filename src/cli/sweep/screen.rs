//! What goes on, in one line on a terminal with a bar and the time that is left; silent elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::cli::traces::what;
use crate::daemon::SweepStep;
use crate::probe::sweep::Progress;
use crate::units::figures::count;
use crate::units::{Bytes, Span};

const BAR: usize = 20;
/// A line that breaks cannot be taken back.
const LINE: usize = 79;

/// The line.
pub(super) struct Screen {
    on: bool,
    /// The most that all cells take.
    all: Duration,
    /// What the cells before took, and the most that the one that runs takes, by how many come after it: rounds have the same cells.
    before: Duration,
    now: Option<(usize, Duration)>,
}

impl Screen {
    pub(super) fn new(all: Duration) -> Self {
        Self { on: io::stderr().is_terminal(), all, before: Duration::ZERO, now: None }
    }

    pub(super) fn show(&mut self, step: SweepStep) {
        let text = self.line(step);
        self.write(&text);
    }

    pub(super) fn clear(&mut self) {
        self.write("");
    }

    fn line(&mut self, step: SweepStep) -> String {
        match step {
            SweepStep::LayingOut(done, total) => {
                format!("writing the file that is worked on: {} of {}", Bytes::new(done), Bytes::new(total))
            }
            SweepStep::Opening => "opening the disk".to_owned(),
            SweepStep::Running { cell, out, most, progress, left, oldest } => {
                // A cell that is over gives back what it did not need, so that the time left is never too short by much.
                if let Some((_, most)) = self.now.filter(|(last, _)| *last != left) {
                    self.before += most;
                }
                self.now = Some((left, most));
                let done = (self.before + out.min(most)).min(self.all);
                let share = done.as_secs_f64() / self.all.as_secs_f64().max(0.001);
                let left_over = Span::from(Duration::from_secs((self.all - done).as_secs()));
                match oldest {
                    Some((op, age)) => {
                        format!("{cell}: a {} has been out for {:.0} s", what(op), age.as_secs_f64())
                    }
                    None => {
                        let cells = if left == 1 { "cell" } else { "cells" };
                        format!(
                            "{} {left_over} left, {left} {cells} after {cell}{}",
                            bar(share),
                            so_far(progress, out)
                        )
                    }
                }
            }
        }
    }

    fn write(&self, text: &str) {
        if self.on {
            let mut to = io::stderr().lock();
            // A terminal that is gone misses nothing.
            let short: String = text.chars().take(LINE).collect();
            let _ = write!(to, "\r\x1b[K{short}").and_then(|()| to.flush());
        }
    }
}

fn so_far(progress: Progress, out: Duration) -> String {
    let seconds = out.as_secs_f64();
    match progress.operations {
        0 => String::new(),
        _ if seconds < 0.5 => String::new(),
        n => format!(": {} IOPS", count((n as f64 / seconds) as u64)),
    }
}

fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Op;
    use crate::probe::sweep::{Cell, Pattern};

    fn step(depth: u16, left: usize, out: u64, oldest: Option<(Op, Duration)>) -> SweepStep {
        let cell = Cell { pattern: Pattern::RandRead, block_size: 4096, depth, jobs: 1, method: None };
        let progress = Progress { operations: out * 1000, ..Progress::default() };
        let (out, most) = (Duration::from_secs(out), Duration::from_secs(10));
        SweepStep::Running { cell, out, most, progress, left, oldest }
    }

    #[test]
    fn the_bar_goes_up_and_the_time_left_goes_down() {
        let mut screen =
            Screen { on: false, all: Duration::from_secs(20), before: Duration::ZERO, now: None };
        assert_eq!(
            screen.line(step(1, 1, 5, None)),
            "[#####...............] 15s left, 1 cell after 4KiB randread, depth 1: 1,000 IOPS"
        );
        let second = screen.line(step(2, 0, 5, None));
        assert!(second.starts_with("[###############.....] 5s left"), "{second}");
        let hung = screen.line(step(2, 0, 7, Some((Op::Read, Duration::from_secs(4)))));
        assert!(hung.contains("a read has been out for 4 s"), "{hung}");
    }

    #[test]
    fn rounds_of_one_cell_fill_one_bar() {
        let mut screen =
            Screen { on: false, all: Duration::from_secs(50), before: Duration::ZERO, now: None };
        let lines: Vec<_> = (0..5).rev().map(|left| screen.line(step(4, left, 5, None))).collect();
        let seconds = [45, 35, 25, 15, 5].map(|left| format!(" {left}s left"));
        assert!(lines.iter().zip(&seconds).all(|(line, left)| line.contains(left)), "{lines:?}");
        assert!(lines[4].starts_with("[##################..]"), "{}", lines[4]);
    }
}
