//! What the daemon counts about itself, in a registry of the `prometheus` crate.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Error, Gauge, IntCounter, IntGauge, Registry};

/// Name, kind and meaning.
type Row = (&'static str, &'static str, &'static str);

const LOG_LINES_DROPPED: Row = (
    "diskcanary_log_lines_dropped_total",
    "counter",
    "Log lines lost because standard error was not read in time, or took no more. The log says where.",
);
const PROBER_STOPS: Row = (
    "diskcanary_prober_stops_total",
    "counter",
    "Times that the whole daemon stood still for more than 150 ms: stopped, frozen, or starved of CPU. Delays of that time are not the disks'.",
);
const STATE_SAVE_ERRORS: Row = (
    "diskcanary_state_save_errors_total",
    "counter",
    "Writes of the state file that failed. While they do, pauses and budgets may not outlive a restart.",
);
const STATE_UNSAVED: Row = (
    "diskcanary_state_unsaved_seconds",
    "gauge",
    "Age of the oldest change that is not in the state file, 0 when all is; some 10 s are the rule, above 60 s the directory is full, gone or hangs.",
);
const PROGRAM_LOCKED: Row = (
    "diskcanary_program_locked",
    "gauge",
    "1 when the program and its libraries are locked in memory, so that scrapes go on when the disk that holds them hangs.",
);
const DATA_LOCKED: Row = (
    "diskcanary_data_locked",
    "gauge",
    "1 when heap and stacks are locked in memory, so that scrapes go on when the disk that holds the swap hangs.",
);

const DISCOVERY_LAST_SUCCESS: Row = (
    "diskcanary_discovery_last_success_timestamp_seconds",
    "gauge",
    "End of the last look of `discover:` at this machine's mounts and devices, seconds since 1970; 0 before the first, absent without `discover:`. There is \
     one each 30 s: older than 2 minutes means that it hangs or fails, and targets neither come nor go.",
);

const RELOAD_GOOD: Row = (
    "diskcanary_config_last_reload_successful",
    "gauge",
    "Whether the last reload of the config was taken over; 1 before the first. After a bad one, what ran goes on.",
);
const RELOAD_TIME: Row = (
    "diskcanary_config_last_reload_success_timestamp_seconds",
    "gauge",
    "When the config was last taken over, in seconds since 1970.",
);

/// All of them.
pub(super) const OWN: &[Row] = &[
    LOG_LINES_DROPPED,
    PROBER_STOPS,
    RELOAD_GOOD,
    RELOAD_TIME,
    DISCOVERY_LAST_SUCCESS,
    STATE_SAVE_ERRORS,
    STATE_UNSAVED,
    PROGRAM_LOCKED,
    DATA_LOCKED,
];

/// The counters. Clones count together.
#[derive(Clone, Debug)]
pub struct OwnCounters {
    /// Log lines that were lost.
    pub log_lines_dropped: IntCounter,
    /// Times that the ticker came late.
    pub prober_stops: IntCounter,
    /// Writes of the state that failed.
    pub state_save_errors: IntCounter,
    /// Age in seconds of the oldest change of the state that is not on the disk.
    pub state_unsaved: Gauge,
    /// Whether the program is locked in memory.
    pub program_locked: IntGauge,
    /// Whether what it works with is.
    pub data_locked: IntGauge,
    reload_good: Gauge,
    reload_time: Gauge,
    discovery: Gauge,
    registry: Registry,
}

impl OwnCounters {
    /// All zero. An error would be a name that Prometheus does not allow.
    pub fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        let counter = |(name, _, help): Row| registered(&registry, IntCounter::new(name, help));
        let gauge = |(name, _, help): Row| registered(&registry, Gauge::new(name, help));
        let truth = |(name, _, help): Row| registered(&registry, IntGauge::new(name, help));
        let (discovery, _, discovery_help) = DISCOVERY_LAST_SUCCESS;
        Ok(Self {
            log_lines_dropped: counter(LOG_LINES_DROPPED)?,
            prober_stops: counter(PROBER_STOPS)?,
            state_save_errors: counter(STATE_SAVE_ERRORS)?,
            state_unsaved: gauge(STATE_UNSAVED)?,
            program_locked: truth(PROGRAM_LOCKED)?,
            data_locked: truth(DATA_LOCKED)?,
            reload_good: gauge(RELOAD_GOOD)?,
            reload_time: gauge(RELOAD_TIME)?,
            discovery: Gauge::new(discovery, discovery_help)?,
            registry,
        })
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

fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    made: Result<C, Error>,
) -> Result<C, Error> {
    let made = made?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}
