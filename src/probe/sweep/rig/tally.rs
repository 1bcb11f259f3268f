//! What is recorded of a stream, by all threads that serve it. A thread keeps its samples to itself and hands over many at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bursts::Stretch;
use super::series::Series;
use crate::clock::Tick;
use crate::stats::{Histogram, Spans};

/// Samples that a thread hands over at once.
const ROOM: usize = 512;

/// A stream's records.
#[derive(Debug)]
pub(super) struct Tally(Mutex<Records>);

/// The records themselves.
#[derive(Clone, Debug)]
pub(super) struct Records {
    /// Of whole operations; of commits, write and sync together.
    pub(super) whole: Histogram,
    /// Of the two parts of commits; empty for others.
    pub(super) write: Histogram,
    /// The second.
    pub(super) sync: Histogram,
    /// When they came back.
    pub(super) series: Series,
    /// The same for a comparison.
    pub(super) spans: Spans,
    /// Operations per second, of all threads whose window is over.
    pub(super) iops: f64,
    /// Operations that the rate is of.
    pub(super) operations: u64,
    /// How long these took, of the thread where they took longest.
    pub(super) seconds: f64,
    /// Seconds of the longest window, with what was cut off for the rate.
    pub(super) recorded: f64,
}

/// An operation that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// When.
    pub(super) at: Tick,
    /// From before it was submitted.
    pub(super) nanos: u64,
    /// Of a commit: its write, and its sync where there is one.
    pub(super) parts: Option<(u64, Option<u64>)>,
}

/// A thread's own samples of a stream.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    tally: &'a Tally,
    from: Tick,
    samples: Vec<Sample>,
}

impl Tally {
    /// For a recording that takes so long at most.
    pub(super) fn new(time: Duration) -> Self {
        let fine = Histogram::fine;
        let records = Records {
            whole: fine(),
            write: fine(),
            sync: fine(),
            series: Series::new(time.as_secs_f64()),
            spans: Spans::default(),
            iops: 0.0,
            operations: 0,
            seconds: 0.0,
            recorded: 0.0,
        };
        Self(Mutex::new(records))
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was recorded so far.
    pub(super) fn records(&self) -> Records {
        self.lock().clone()
    }

    fn take(&self, samples: &mut Vec<Sample>, from: Tick) {
        let mut records = self.lock();
        for sample in samples.drain(..) {
            records.whole.record(sample.nanos);
            let at = sample.at.nanos_since(from);
            records.series.record(at, sample.nanos);
            records.spans.record(at, sample.nanos);
            if let Some((write, sync)) = sample.parts {
                records.write.record(write);
                if let Some(sync) = sync {
                    records.sync.record(sync);
                }
            }
        }
    }
}

impl<'a> Recorder<'a> {
    /// For `tally`.
    pub(super) fn new(tally: &'a Tally) -> Self {
        Self { tally, from: Tick::default(), samples: Vec::with_capacity(ROOM) }
    }

    /// A sample of the recording that began at `from`. What took no time was not timed, and what came before is none.
    pub(super) fn record(&mut self, from: Tick, sample: Sample) {
        if sample.at <= from {
            return;
        }
        self.from = from;
        if sample.nanos == 0 {
            return;
        }
        if self.samples.len() == ROOM {
            self.tally.take(&mut self.samples, from);
        }
        self.samples.push(sample);
    }

    /// The thread's window, which took so long, is over. The rate is that of the whole bursts in it, of this stream of the thread.
    pub(super) fn close(&mut self, recorded: Option<(Duration, Stretch)>, stream: usize) {
        self.tally.take(&mut self.samples, self.from);
        let Some((time, whole)) = recorded else { return };
        let operations = whole.operations.get(stream).copied().unwrap_or(0);
        let seconds = whole.to.since(whole.from).as_secs_f64();
        let mut records = self.tally.lock();
        records.iops += operations as f64 / seconds;
        records.operations += operations;
        records.seconds = records.seconds.max(seconds);
        records.recorded = records.recorded.max(time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_threads_with_their_own_windows_add_up() {
        let tally = Tally::new(Duration::from_secs(1));
        let at = |ms: u64| Tick::from_nanos(ms * 1_000_000);
        for (count, end) in [(1000, 1000), (500, 2000)] {
            let mut mine = Recorder::new(&tally);
            mine.record(at(10), Sample { at: at(10), nanos: 5, parts: None });
            for n in 0..count {
                mine.record(at(10), Sample { at: at(11 + n), nanos: 1000 + n, parts: None });
            }
            let whole = Stretch { from: at(10), to: at(10 + end), operations: [count, 7] };
            mine.close(Some((Duration::from_millis(end), whole)), 0);
        }
        let records = tally.records();
        assert_eq!((records.operations, records.whole.count(), records.write.count()), (1500, 1500, 0));
        assert!((records.iops - 1250.0).abs() < 1e-9);
        assert_eq!((records.whole.min(), records.whole.max()), (Some(1000), Some(1999)));
        let (_, spans) = records.series.whole(100_000_000, 1_000_000_000);
        assert_eq!(spans.iter().map(|span| span.count).sum::<u64>(), 1499, "the last came at its very end");
    }
}
