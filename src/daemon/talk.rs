//! How often one target may speak in the log: a disk that comes and goes all night must not fill it.

use std::time::Duration;

use crate::clock::Tick;

/// Lines at once.
const AT_ONCE: u32 = 10;
/// One more line after each of these.
const EVERY: Duration = Duration::from_secs(60);

/// A target's allowance of lines. Pure.
#[derive(Debug)]
pub(super) struct Talk {
    left: u32,
    /// When the allowance was last added to.
    filled: Tick,
    withheld: u64,
}

impl Talk {
    pub(super) fn new(now: Tick) -> Self {
        Self { left: AT_ONCE, filled: now, withheld: 0 }
    }

    /// Whether a line may be written at `now`, and then how many were withheld before it.
    pub(super) fn may_speak(&mut self, now: Tick) -> Option<u64> {
        let earned = (now.since(self.filled).as_nanos() / EVERY.as_nanos()) as u32;
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(AT_ONCE);
            self.filled = self.filled + EVERY.saturating_mul(earned);
        }
        if self.left == 0 {
            self.withheld += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(1) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_target_that_flaps_says_ten_lines_and_then_one_a_minute_with_what_it_withheld() {
        let mut talk = Talk::new(at(0));
        let said: Vec<Option<u64>> = (0..240).map(|second| talk.may_speak(at(second))).collect();
        assert!(said[..10].iter().all(|s| *s == Some(0)));
        assert_eq!(said.iter().flatten().count(), 13);
        assert_eq!((said[60], said[120], said[180]), (Some(50), Some(59), Some(59)));
    }

    #[test]
    fn a_quiet_time_earns_no_more_than_the_allowance() {
        let mut talk = Talk::new(at(0));
        let said = |talk: &mut Talk, second| (0..20).filter(|_| talk.may_speak(at(second)).is_some()).count();
        assert_eq!(said(&mut talk, 0), 10);
        assert_eq!(said(&mut talk, 86_400), 10);
    }
}
