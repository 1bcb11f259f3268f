//! What the daemon counts about itself, in a registry of the `prometheus` crate.

use std::time::Duration;

use prometheus::proto::MetricFamily;
use prometheus::{Error, Gauge, IntCounter, Registry};

type Row = (&'static str, &'static str);

const LOG_LINES_DROPPED: Row = (
    "diskcanary_log_lines_dropped_total",
    "Log lines lost because standard error was not read in time, or took no more. The log says where.",
);
const PROBER_STOPS: Row = (
    "diskcanary_prober_stops_total",
    "Times that the whole daemon stood still for more than 150 ms: stopped, frozen, or starved of CPU. Delays of that time are not the disks'.",
);

const DISCOVERY_LAST_SUCCESS: Row = (
    "diskcanary_discovery_last_success_timestamp_seconds",
    "End of the last look of `discover:` at this machine's mounts and devices, seconds since 1970; 0 before the first, absent without `discover:`. There is \
     one each 30 s: older than 2 minutes means that it hangs or fails, and targets neither come nor go.",
);

const RELOAD_GOOD: Row = (
    "diskcanary_config_last_reload_successful",
    "Whether the last reload of the config was taken over; 1 before the first. After a bad one, what ran goes on.",
);
const RELOAD_TIME: Row = (
    "diskcanary_config_last_reload_success_timestamp_seconds",
    "When the config was last taken over, in seconds since 1970.",
);

/// Name and meaning of each.
pub(super) const OWN: &[Row] =
    &[LOG_LINES_DROPPED, PROBER_STOPS, RELOAD_GOOD, RELOAD_TIME, DISCOVERY_LAST_SUCCESS];

/// The counters. Clones count together.
#[derive(Clone, Debug)]
pub struct OwnCounters {
    /// Log lines that were lost.
    pub log_lines_dropped: IntCounter,
    /// Times that the ticker came late.
    pub prober_stops: IntCounter,
    reload_good: Gauge,
    reload_time: Gauge,
    discovery: Gauge,
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
        let gauge = |(name, help): Row| {
            let gauge = Gauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, Error>(gauge)
        };
        let (reload_good, reload_time) = (gauge(RELOAD_GOOD)?, gauge(RELOAD_TIME)?);
        let (log_lines_dropped, prober_stops) = (counter(LOG_LINES_DROPPED)?, counter(PROBER_STOPS)?);
        let (name, help) = DISCOVERY_LAST_SUCCESS;
        let discovery = Gauge::new(name, help)?;
        Ok(Self { log_lines_dropped, prober_stops, reload_good, reload_time, discovery, registry })
    }

    /// When disks were last looked for, in seconds since 1970. Shown from the first call on.
    pub fn discovery(&self) -> Gauge {
        // An error says that it is shown already.
        let _ = self.registry.register(Box::new(self.discovery.clone()));
        self.discovery.clone()
    }

    /// The config was read, well or not, `wall` after 1970.
    pub fn reloaded(&self, good: bool, wall: Duration) {
        self.reload_good.set(f64::from(u8::from(good)));
        if good {
            self.reload_time.set(wall.as_secs_f64());
        }
    }

    /// What they say now, for [`append`](super::append).
    pub fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}
