//! Notices that a sweep gets nowhere, also where no operation shows that is out: what hangs may be a call that nobody thought of.

use std::time::Duration;

use crate::clock::Tick;
use crate::io::{Inflight, Op};

/// What was last seen of a sweep's lane, and since when nothing of it has changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standstill(Option<(Seen, Tick)>);

/// What it has out, by kind, and the operations and bytes that are done.
type Seen = ([Option<Tick>; Op::ALL.len()], (u64, u64));

impl Standstill {
    /// How long nothing has changed at `now`, with so many operations and bytes done.
    pub(super) fn look(&mut self, inflight: &Inflight, moved: (u64, u64), now: Tick) -> Duration {
        let seen = (Op::ALL.map(|op| inflight.since_by_crew(op)), moved);
        match self.0 {
            Some((last, since)) if last == seen => now.since(since),
            _ => {
                self.0 = Some((seen, now));
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_that_is_done_or_begun_ends_it() {
        let (mut standstill, inflight) = (Standstill::default(), Inflight::default());
        let at = |seconds| Tick::from_nanos(1) + Duration::from_secs(seconds);
        assert_eq!(standstill.look(&inflight, (0, 0), at(5)), Duration::ZERO);
        assert_eq!(standstill.look(&inflight, (0, 0), at(8)), Duration::from_secs(3));
        assert_eq!(standstill.look(&inflight, (1, 4096), at(9)), Duration::ZERO);
        assert_eq!(standstill.look(&inflight, (1, 4096), at(11)), Duration::from_secs(2));
        inflight.seat(0).begin(Op::Open, at(11));
        assert_eq!(standstill.look(&inflight, (1, 4096), at(12)), Duration::ZERO);
        inflight.begin(Op::Open, at(13));
        assert_eq!(standstill.look(&inflight, (1, 4096), at(14)), Duration::from_secs(2), "another's");
        inflight.seat(0).end(Op::Open);
        assert_eq!(standstill.look(&inflight, (1, 4096), at(15)), Duration::ZERO);
    }
}
