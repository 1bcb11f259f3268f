//! What shows at a target that is not well: asserted by the ward and written into the page from the same value.

use super::patient::Patient;

/// One thing that must be seen. Counts are those since the fault struck.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sign {
    /// The target is in this state.
    State(&'static str),
    /// Failures of this probe, at this stage, with this errno.
    Error(&'static str, &'static str, &'static str),
    /// Failures of this probe with this errno, at whichever stage it was when the fault struck.
    Failed(&'static str, &'static str),
    /// Operations of this probe that are no samples, for this reason.
    Invalid(&'static str, &'static str),
    /// An operation of this kind is out for more than a second.
    Age(&'static str),
    /// At least so many slots of this probe are counted as missed.
    Missed(&'static str, u32),
    /// Slots of this probe are skipped for this reason.
    Skipped(&'static str, &'static str),
    /// A truth check of this probe holds.
    Fault(&'static str, &'static str),
    /// So often another disk was found under this name.
    NewDisks(u32),
    /// The histogram of this operation has samples longer than so many seconds (a bucket's bound).
    Longer(&'static str, f64),
    /// Good runs of this probe go on.
    GoesOn(&'static str),
    /// The engine in use, and why.
    Engine(&'static str, &'static str),
}

impl Sign {
    pub(super) fn shows(self, at: &Patient<'_>) -> bool {
        match self {
            Self::State(state) => at.state().as_deref() == Some(state),
            Self::Error(probe, stage, errno) => {
                at.more("probe_errors_total", &[("probe", probe), ("stage", stage), ("errno", errno)]) >= 1.0
            }
            Self::Failed(probe, errno) => {
                at.more("probe_errors_total", &[("probe", probe), ("errno", errno)]) >= 1.0
            }
            Self::Invalid(probe, reason) => {
                at.more("samples_invalid_total", &[("probe", probe), ("reason", reason)]) >= 1.0
            }
            Self::Age(op) => at.value("inflight_age_seconds", &[("op", op)]).is_some_and(|age| age > 1.0),
            Self::Missed(probe, least) => {
                at.more("probe_missed_total", &[("probe", probe)]) >= f64::from(least)
            }
            Self::Skipped(probe, reason) => {
                at.more("probe_skipped_total", &[("probe", probe), ("reason", reason)]) >= 1.0
            }
            Self::Fault(probe, fault) => {
                at.value("measurement_fault", &[("probe", probe), ("fault", fault)]) == Some(1.0)
            }
            Self::NewDisks(n) => at.more("target_device_changes_total", &[]) == f64::from(n),
            Self::Longer(op, seconds) => at.longer_than(op, seconds) >= 1.0,
            Self::GoesOn(probe) => at.good_runs(probe) >= 5.0,
            Self::Engine(engine, reason) => {
                at.value("target_engine_info", &[("engine", engine), ("reason", reason)]) == Some(1.0)
            }
        }
    }

    pub(super) fn list(signs: &[Self]) -> String {
        signs.iter().map(|sign| sign.text()).collect::<Vec<_>>().join(", ")
    }

    fn text(self) -> String {
        match self {
            Self::State(state) => format!("state `{state}`"),
            Self::Error(probe, stage, errno) => format!("errors of `{probe}` at `{stage}`: `{errno}`"),
            Self::Failed(probe, errno) => format!("errors of `{probe}`: `{errno}`"),
            Self::Invalid(probe, reason) => {
                format!("`diskcanary_samples_invalid_total{{probe=\"{probe}\",reason=\"{reason}\"}}`")
            }
            Self::Age(op) => format!("`diskcanary_inflight_age_seconds{{op=\"{op}\"}}` above 1 s"),
            Self::Missed(probe, least) => format!("at least {least} slots of `{probe}` missed"),
            Self::Skipped(probe, reason) => format!("slots of `{probe}` skipped for `{reason}`"),
            Self::Fault(probe, fault) => {
                format!("`diskcanary_measurement_fault{{probe=\"{probe}\",fault=\"{fault}\"}}` is 1")
            }
            Self::NewDisks(0) => {
                "the same disk (`diskcanary_target_device_changes_total` stands still)".into()
            }
            Self::NewDisks(n) => format!("`diskcanary_target_device_changes_total` + {n}"),
            Self::Longer(op, seconds) => format!("`{op}` samples longer than {seconds} s"),
            Self::GoesOn(probe) => format!("good runs of `{probe}` go on"),
            Self::Engine(engine, reason) => format!("engine `{engine}`, reason `{reason}`"),
        }
    }
}
