//! The process about itself: the conventional `process_*` metrics, in the data model of the `prometheus` crate, which also
//! carries protobuf.

use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, Metric, MetricFamily, MetricType};

use crate::sys::ProcessStats;

type Row = (&'static str, MetricType, &'static str, fn(&ProcessStats) -> Option<f64>);

/// Names and meanings are those of every exporter.
pub(super) const PROCESS: &[Row] = &[
    ("process_cpu_seconds_total", MetricType::COUNTER, "User and system CPU time spent.", |p| {
        Some(p.cpu_seconds)
    }),
    ("process_open_fds", MetricType::GAUGE, "Open file descriptors.", |p| Some(p.open_fds as f64)),
    ("process_max_fds", MetricType::GAUGE, "Most file descriptors that may be open.", |p| {
        p.max_fds.map(|n| n as f64)
    }),
    ("process_virtual_memory_bytes", MetricType::GAUGE, "Virtual memory.", |p| Some(p.virtual_bytes as f64)),
    ("process_resident_memory_bytes", MetricType::GAUGE, "Resident memory.", |p| {
        Some(p.resident_bytes as f64)
    }),
    ("process_start_time_seconds", MetricType::GAUGE, "Start of the process, seconds since 1970.", |p| {
        Some(p.start_time_seconds)
    }),
    ("process_threads", MetricType::GAUGE, "Threads.", |p| Some(p.threads as f64)),
];

/// The process's numbers as families.
pub fn process(stats: &ProcessStats) -> Vec<MetricFamily> {
    let family = |(name, kind, help, value): &Row| {
        let value = value(stats)?;
        let mut metric = Metric::default();
        if *kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        let mut family = MetricFamily::default();
        family.set_name((*name).into());
        family.set_help((*help).into());
        family.set_field_type(*kind);
        family.set_metric(vec![metric]);
        Some(family)
    };
    PROCESS.iter().filter_map(family).collect()
}

/// Appends families of the `prometheus` crate's data model, such as [`process`] or a registry gives. Empty ones are left out.
pub fn append(families: &[MetricFamily], out: &mut String) {
    for family in families {
        let before = out.len();
        if TextEncoder::new().encode_utf8(std::slice::from_ref(family), out).is_err() {
            // Half a family would make Prometheus refuse the rest as well.
            out.truncate(before);
        }
    }
}
