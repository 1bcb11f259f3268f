//! Numbers from samples: HDR histograms, exact sliding windows, what a series shows, Prometheus buckets, and the one way that a
//! float is written. Pure: nothing here reads a clock or a file, and no value makes it panic.
//!
//! Quantiles follow the nearest-rank convention: the q-quantile of n sorted samples is sample number ⌈q × n⌉,
//! counted from 1. It is always a sample that was seen, never one interpolated between two.

mod buckets;
pub mod compare;
mod density;
mod float;
mod histogram;
mod series;
mod spans;
mod windows;

pub use buckets::{Buckets, LATENCY_BOUNDS, LATENESS_BOUNDS};
pub use density::{Bin, Hump, density, humps};
pub use float::{FloatText, write_le};
pub use histogram::Histogram;
pub use series::{ShapeFigures, TroughFigures, median, noise_of_mean, shape, tells_of_steadiness};
pub use spans::{SpanFigures, Spans};
pub use windows::{Summary, Windows};

/// Nanoseconds as seconds, correctly rounded up to 2⁵³ ns (104 days).
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Position of the q-quantile (q in thousandths) among `len` sorted samples; `len` must not be 0.
pub(crate) fn nearest_rank(len: usize, thousandths: usize) -> usize {
    (len * thousandths).div_ceil(1000).clamp(1, len) - 1
}
