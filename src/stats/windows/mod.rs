//! Exact sliding windows over the last minutes of one series.
//!
//! The samples lie once, in order of time; each window keeps the numbers of its samples sorted by their value and the
//! exact sums. A sample costs a binary search and a short move of memory when it comes and again when it leaves each window, a
//! summary costs a few look-ups whatever the window holds.

use std::collections::VecDeque;
use std::time::Duration;

use super::nearest_rank;
use crate::clock::Tick;

/// A longer sample counts as this in windows: 2⁴⁸ ns, 78 hours. It keeps the sums of squares exact in 128 bits.
const HIGHEST: u64 = 1 << 48;

/// Samples from which a p99 is more than the maximum under another name.
const ENOUGH_FOR_P99: usize = 100;

/// The same for p99.9.
const ENOUGH_FOR_P999: usize = 1000;

/// One series' sliding windows.
///
/// Time is kept in units of 2²⁴ ns (16.8 ms). At most [`Windows::MOST`] samples are held: where more come in the longest
/// window's time, the oldest are dropped and that window is as long as its samples reach back.
#[derive(Clone, Debug)]
pub struct Windows {
    times: VecDeque<u32>,
    values: VecDeque<u64>,
    /// Number of the oldest sample held; numbers wrap around.
    base: u32,
    windows: Box<[Window]>,
}

#[derive(Clone, Debug)]
struct Window {
    length: u32,
    /// Numbers of the samples in the window, by value, among equals the oldest first.
    sorted: Vec<u32>,
    sum: u128,
    squares: u128,
}

/// What a window holds, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Samples.
    pub count: u32,
    /// Least.
    pub min: u64,
    /// Median, by nearest rank as all quantiles.
    pub p50: u64,
    /// 90 % quantile.
    pub p90: u64,
    /// 99 % quantile, from 100 samples on.
    pub p99: Option<u64>,
    /// 99.9 % quantile, from 1000 samples on.
    pub p999: Option<u64>,
    /// Greatest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of these samples (divided by their number).
    pub stddev: f64,
}

impl Windows {
    /// The most samples that are held: ten a second for an hour.
    pub const MOST: usize = 36_000;

    /// Windows of these lengths, each at most two years.
    pub fn new(lengths: &[Duration]) -> Self {
        let window = |length: &Duration| Window {
            length: coarse(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)).max(1),
            sorted: Vec::new(),
            sum: 0,
            squares: 0,
        };
        Self {
            times: VecDeque::new(),
            values: VecDeque::new(),
            base: 0,
            windows: lengths.iter().map(window).collect(),
        }
    }

    /// Takes in a sample that was finished at `at`. One that comes out of order counts as just come.
    pub fn record(&mut self, at: Tick, nanos: u64) {
        let mut time = coarse(at.nanos());
        if let Some(last) = self.times.back()
            && (time.wrapping_sub(*last) as i32) < 0
        {
            time = *last;
        }
        self.expire_to(time);
        while self.values.len() >= Self::MOST {
            self.drop_oldest();
        }
        let nanos = nanos.min(HIGHEST);
        let number = self.base.wrapping_add(self.values.len() as u32);
        make_room(&mut self.times);
        make_room(&mut self.values);
        self.times.push_back(time);
        self.values.push_back(nanos);
        let held = Held { base: self.base, values: &self.values };
        for window in &mut self.windows {
            window.insert(number, nanos, held);
        }
    }

    /// Lets go of what is older than the windows at `now`; whether there was such a sample.
    pub fn expire(&mut self, now: Tick) -> bool {
        let now = coarse(now.nanos());
        let goes_on = self.times.back().is_some_and(|last| (now.wrapping_sub(*last) as i32) >= 0);
        goes_on && self.expire_to(now)
    }

    /// Forgets everything: another disk answers under this name.
    pub fn clear(&mut self) {
        self.times.clear();
        self.values.clear();
        for window in &mut self.windows {
            window.sorted.clear();
            (window.sum, window.squares) = (0, 0);
        }
    }

    /// What the window number `at` (in the order of [`Windows::new`]) holds, as of the last [`Windows::record`] or
    /// [`Windows::expire`]; `None` when it is empty or there is no such window.
    pub fn summary(&self, at: usize) -> Option<Summary> {
        let held = Held { base: self.base, values: &self.values };
        self.windows.get(at).and_then(|window| window.summary(held))
    }

    /// Bytes of memory held for samples.
    pub fn allocated(&self) -> usize {
        self.times.capacity() * size_of::<u32>()
            + self.values.capacity() * size_of::<u64>()
            + self.windows.iter().map(|w| w.sorted.capacity() * size_of::<u32>()).sum::<usize>()
    }

    fn expire_to(&mut self, now: u32) -> bool {
        let held = Held { base: self.base, values: &self.values };
        let mut any = false;
        for window in &mut self.windows {
            while !window.sorted.is_empty()
                && now.wrapping_sub(self.times[self.times.len() - window.sorted.len()]) >= window.length
            {
                window.remove_oldest(held);
                any = true;
            }
        }
        let needed = self.windows.iter().map(|w| w.sorted.len()).max().unwrap_or(0);
        while self.values.len() > needed {
            self.drop_oldest();
        }
        any
    }

    fn drop_oldest(&mut self) {
        let held = Held { base: self.base, values: &self.values };
        for window in &mut self.windows {
            if window.sorted.len() == self.values.len() {
                window.remove_oldest(held);
            }
        }
        self.times.pop_front();
        self.values.pop_front();
        self.base = self.base.wrapping_add(1);
    }
}

/// The samples by their numbers.
#[derive(Clone, Copy)]
struct Held<'a> {
    base: u32,
    values: &'a VecDeque<u64>,
}

impl Held<'_> {
    fn value(&self, number: u32) -> u64 {
        self.values[number.wrapping_sub(self.base) as usize]
    }
}

impl Window {
    fn insert(&mut self, number: u32, nanos: u64, held: Held<'_>) {
        let at = self.sorted.partition_point(|n| held.value(*n) <= nanos);
        if self.sorted.len() == self.sorted.capacity() {
            self.sorted.reserve_exact(growth(self.sorted.len()));
        }
        self.sorted.insert(at, number);
        self.sum += u128::from(nanos);
        self.squares += u128::from(nanos) * u128::from(nanos);
    }

    /// The oldest of a window is the first among its equals.
    fn remove_oldest(&mut self, held: Held<'_>) {
        let nanos = held.values[held.values.len() - self.sorted.len()];
        let at = self.sorted.partition_point(|n| held.value(*n) < nanos);
        self.sorted.remove(at);
        self.sum -= u128::from(nanos);
        self.squares -= u128::from(nanos) * u128::from(nanos);
    }

    fn summary(&self, held: Held<'_>) -> Option<Summary> {
        let n = self.sorted.len();
        if n == 0 {
            return None;
        }
        let quantile = |thousandths| held.value(self.sorted[nearest_rank(n, thousandths)]);
        let count = n as u128;
        let spread = count * self.squares - self.sum * self.sum;
        Some(Summary {
            count: n as u32,
            min: held.value(self.sorted[0]),
            p50: quantile(500),
            p90: quantile(900),
            p99: (n >= ENOUGH_FOR_P99).then(|| quantile(990)),
            p999: (n >= ENOUGH_FOR_P999).then(|| quantile(999)),
            max: held.value(self.sorted[n - 1]),
            mean: self.sum as f64 / n as f64,
            stddev: (spread as f64).sqrt() / n as f64,
        })
    }
}

fn coarse(nanos: u64) -> u32 {
    (nanos >> 24) as u32
}

/// Grows by an eighth: doubling would hold up to twice the memory for the life of the daemon.
fn growth(len: usize) -> usize {
    (len / 8).max(16)
}

fn make_room<T>(queue: &mut VecDeque<T>) {
    if queue.len() == queue.capacity() {
        queue.reserve_exact(growth(queue.len()));
    }
}

#[cfg(test)]
mod tests;
