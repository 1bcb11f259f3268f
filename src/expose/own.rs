//! What the daemon counts about itself, in a registry of the `prometheus` crate.

use prometheus::proto::MetricFamily;
use prometheus::{Error, IntCounter, Registry};

type Row = (&'static str, &'static str);

const LOG_LINES_DROPPED: Row = (
    "diskcanary_log_lines_dropped_total",
    "Log lines lost because standard error was not read in time, or took no more. The log says where.",
);
const PROBER_STOPS: Row = (
    "diskcanary_prober_stops_total",
    "Times that the whole daemon stood still for more than 150 ms: stopped, frozen, or starved of CPU. Delays of that time are not the disks'.",
);

/// Name and meaning of each.
pub(super) const OWN: &[Row] = &[LOG_LINES_DROPPED, PROBER_STOPS];

/// The counters. Clones count together.
#[derive(Clone, Debug)]
pub struct OwnCounters {
    /// Log lines that were lost.
    pub log_lines_dropped: IntCounter,
    /// Times that the ticker came late.
    pub prober_stops: IntCounter,
    registry: Registry,
}

impl OwnCounters {
    /// All zero. An error would be a name that Prometheus does not allow.
    pub fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        let counter = |(name, help): Row| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, Error>(counter)
        };
        let (log_lines_dropped, prober_stops) = (counter(LOG_LINES_DROPPED)?, counter(PROBER_STOPS)?);
        Ok(Self { log_lines_dropped, prober_stops, registry })
    }

    /// What they say now, for [`append`](super::append).
    pub fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}
