//! How often a target may speak in the log: a disk that fails and recovers each second must not fill it.

use std::time::Duration;

use crate::clock::Tick;

/// Lines in a row.
const BURST: u32 = 8;
/// And from then on one in this time.
const EACH: Duration = Duration::from_secs(30);

/// The lines that a target has left.
#[derive(Debug)]
pub(super) struct Lines {
    left: u32,
    /// When the last one was given back.
    since: Tick,
    /// Changes since the last line.
    changes: u64,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { left: BURST, since: Tick::default(), changes: 0 }
    }

    /// Something happened that is worth a line.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Takes a line, if there is one left: how many changes had none before.
    pub(super) fn take(&mut self, now: Tick) -> Option<u64> {
        while self.left < BURST && now.since(self.since) >= EACH {
            self.left += 1;
            self.since = self.since + EACH;
        }
        if self.left == BURST {
            self.since = now;
        }
        self.left = self.left.checked_sub(1)?;
        Some(std::mem::take(&mut self.changes).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lines_at_once_and_then_one_now_and_then() {
        let mut lines = Lines::new();
        let start = Tick::from_nanos(1_000_000_000_000);
        let mut said = Vec::new();
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            lines.changed();
            said.extend(lines.take(now).map(|unsaid| (second, unsaid)));
        }
        let at_once: Vec<_> = (0..8).map(|second| (second, 0)).collect();
        assert_eq!(said[..8], at_once);
        assert!((8 + 118..=8 + 120).contains(&said.len()), "{}", said.len());
        assert!(said[9..].iter().all(|(_, unsaid)| *unsaid == 29), "{said:?}");
        // After a quiet hour there are as many as at first.
        let later = start + Duration::from_secs(7300);
        assert_eq!((0..20).filter(|_| lines.take(later).is_some()).count(), 8);
    }
}
