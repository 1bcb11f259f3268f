//! What the disk is spared: budgets and shares, for `check` and `explain`.

use std::collections::BTreeSet;

use crate::config::TargetPlan;
use crate::report::explain::Spared;
use crate::schedule::budget::{Kind, Limits, Toll, together};
use crate::schedule::share::SHARE;
use crate::target::{Kind as TargetKind, Target};
use crate::units::{Bytes, Span};

/// What the target's probes are expected to cost in a second, and what they may cost.
fn reckoned(plan: &TargetPlan, found: Option<&Target>) -> (Toll, Limits) {
    let (file_system, device) = place(found);
    (plan.needs(file_system, device), plan.limits(file_system, device))
}

fn place(found: Option<&Target>) -> (Option<&str>, bool) {
    let device = found.is_some_and(|target| target.kind == TargetKind::BlockDevice);
    (found.and_then(Target::file_system), device)
}

/// For `explain`.
pub(super) fn spared(plan: &TargetPlan, found: Option<&Target>) -> Spared {
    let (needs, limits) = reckoned(plan, found);
    let default = TargetPlan::at("", plan.path.clone());
    let slower = |mine: Option<(Span, bool)>, default: Option<Span>| {
        mine.zip(default).is_some_and(|((mine, asked_for), default)| !asked_for && mine > default)
    };
    let commit = plan.commit.as_ref().map(|c| (c.interval, c.interval_asked_for));
    let read = plan.read.as_ref().map(|r| (r.interval, r.interval_asked_for));
    let stretched =
        slower(commit, default.commit.map(|c| c.interval)) || slower(read, default.read.map(|r| r.interval));
    Spared {
        expected: Kind::ALL.map(|kind| kind.in_units(needs.of(kind))),
        limits: Kind::ALL.map(|kind| together([limits[kind as usize]].into_iter())),
        stretched: plan.baseline_iops.filter(|_| stretched),
    }
}

/// For `check`: what will be skipped of each target's runs, by the disks that they share. In the order of `targets`.
pub(super) fn warnings(targets: &[(&TargetPlan, Option<&Target>)]) -> Vec<Vec<String>> {
    let keys = |found: Option<&Target>| found.map(Target::leaf_keys).unwrap_or_default();
    let disks: Vec<BTreeSet<String>> =
        targets.iter().map(|(_, found)| keys(*found).into_iter().collect()).collect();
    let mut all = Vec::new();
    for (n, (plan, _)) in targets.iter().enumerate() {
        let shares = |other: &usize| *other == n || !disks[*other].is_disjoint(&disks[n]);
        let on: Vec<_> = (0..targets.len()).filter(shares).map(|at| targets[at]).collect();
        let costs: Vec<(Toll, Limits)> = on.iter().map(|(plan, found)| reckoned(plan, *found)).collect();
        let mut said: Vec<String> = Kind::ALL.iter().filter_map(|kind| too_small(*kind, &costs)).collect();
        said.extend(above_share(plan, &on));
        all.push(said);
    }
    all
}

fn too_small(kind: Kind, on: &[(Toll, Limits)]) -> Option<String> {
    let limit = together(on.iter().map(|(_, limits)| limits[kind as usize]));
    let needed: f64 = on.iter().map(|(needs, _)| needs.of(kind)).sum();
    let (given, holds) = (kind.refill(limit), kind.capacity(limit));
    if needed <= given {
        return None;
    }
    let amount = |n: f64| match kind {
        Kind::Write | Kind::Read => format!("{} a day", Bytes::new(n as u64)),
        Kind::Operations => format!("{n:.1} a second"),
    };
    let others =
        if on.len() > 1 { format!(" of the {} targets on this disk", on.len()) } else { String::new() };
    Some(format!(
        "`budget.{}` is {}, and the intervals{others} need about {} at the disk: {:.1} % of the runs will be skipped; what can be \
         spent at once lasts {} at the full pace",
        kind.key(),
        amount(limit),
        amount(kind.in_units(needed)),
        (1.0 - given / needed) * 100.0,
        Span::seconds((holds / (needed - given)) as u64),
    ))
}

/// What the probes of all `on` the disk take of what this target's `spec` promises, where that is more than their share.
fn above_share(plan: &TargetPlan, on: &[(&TargetPlan, Option<&Target>)]) -> Option<String> {
    let promised = plan.baseline_iops?;
    let requests = |(plan, found): &(&TargetPlan, Option<&Target>)| {
        let (file_system, device) = place(*found);
        plan.requests(file_system, device)
    };
    let part = on.iter().map(requests).sum::<f64>() / f64::from(promised);
    if part <= SHARE * 1.001 {
        return None;
    }
    let whose = if on.len() > 1 {
        format!("the probes of the {} targets on this disk", on.len())
    } else {
        "its probes".into()
    };
    Some(format!(
        "{whose} take {:.1} % of the {promised} operations a second that `spec` promises; {:.1} times as long an `interval` of each \
         would make it 2 %",
        part * 100.0,
        part / SHARE,
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::PathBuf;

    use super::*;
    use crate::target::fixture::Machine;

    fn plan(more: &str) -> TargetPlan {
        let text = format!("targets: [{{name: a, path: /srv/a{more}}}]");
        crate::config::Plan::parse("f.yml", &text, &[]).unwrap().targets.remove(0)
    }

    fn said(plan: &TargetPlan) -> Vec<String> {
        warnings(&[(plan, None)]).remove(0)
    }

    #[test]
    fn every_profile_fits_its_default_budget() {
        for profile in crate::probe::Profile::ALL {
            let plan = plan(&format!(", commit: {{profile: {profile}}}"));
            assert_eq!(said(&plan), Vec::<String>::new(), "{profile}");
            for file_system in ["ext4", "xfs"] {
                let needs = plan.needs(Some(file_system), false);
                for kind in Kind::ALL {
                    let limit = together([plan.limits(Some(file_system), false)[kind as usize]].into_iter());
                    assert!(needs.of(kind) <= kind.refill(limit), "{profile} {file_system} {kind:?}");
                }
            }
        }
    }

    #[test]
    fn a_budget_that_is_too_small_says_both_numbers_and_how_long_it_lasts() {
        let said = said(&plan(", budget: {write_per_day: 96MiB, operations_per_second: 1}"));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].starts_with("`budget.write_per_day` is 96MiB a day, and the intervals need about 776"),
            "{said:?}"
        );
        assert!(
            said[0].contains("88.1 % of the runs") && said[0].ends_with("lasts 4m12s at the full pace"),
            "{said:?}"
        );
        assert!(said[1].contains("operations_per_second` is 1.0 a second"), "{said:?}");
    }

    #[test]
    fn an_interval_that_was_asked_for_is_allowed_what_it_needs() {
        let quick = plan(", commit: {interval: 100ms}, read: {interval: 100ms}");
        assert_eq!(said(&quick), Vec::<String>::new());
        let spared = spared(&quick, None);
        assert!(spared.limits[0] > 19e9 && spared.limits[0] > spared.expected[0] * 1.9, "{spared:?}");
        assert_eq!(spared.stretched, None);
    }

    /// A directory in a file system of this kind on this disk. It bears the number of the one that holds the fixture, which is what
    /// the kernel says of the directory.
    #[allow(clippy::disallowed_methods, reason = "a fixture")]
    fn on(disk: &str, kind: &str) -> Target {
        let number = std::fs::metadata(std::env::temp_dir()).unwrap().dev();
        let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let machine = Machine::new(&format!(
            "block pci0/block/{disk} {number}\nproc/self/mountinfo = 1 0 {number} / / rw - {kind} /dev/x rw"
        ));
        crate::target::resolve(machine.path(), &machine.roots).unwrap()
    }

    fn said_of(targets: &[(&TargetPlan, &Target)]) -> Vec<Vec<String>> {
        warnings(&targets.iter().map(|(plan, found)| (*plan, Some(*found))).collect::<Vec<_>>())
    }

    #[test]
    fn what_all_targets_take_of_a_small_disk_is_added_up() {
        let (small, other) = (plan(", spec: {baseline_iops: 100}"), plan(", commit: {enabled: false}"));
        let (a, b) = (on("sda", "xfs"), on("sdb", "xfs"));
        let nothing = Vec::<String>::new;
        assert_eq!(said_of(&[(&small, &a)]), [nothing()]);
        assert_eq!(said_of(&[(&small, &a), (&small, &b)]), [nothing(), nothing()]);
        let two = "the probes of the 2 targets on this disk take 3.9 % of the 100 operations a second that `spec` promises; 1.9 \
                   times as long an `interval` of each would make it 2 %";
        let both = said_of(&[(&small, &a), (&small, &a), (&small, &b)]);
        assert_eq!(both, [vec![two.to_owned()], vec![two.to_owned()], nothing()]);
        // One without a promise of its own takes its part of what the other knows.
        let one = said_of(&[(&small, &a), (&other, &a)]);
        assert!(one[0][0].starts_with("the probes of the 2 targets") && one[1].is_empty(), "{one:?}");
        let btrfs = said_of(&[(&small, &on("sda", "btrfs"))]);
        let last = btrfs[0].last().unwrap();
        assert!(last.starts_with("its probes take 5.0 % of the 100 operations"), "{btrfs:?}");
    }

    #[test]
    fn a_small_disk_is_asked_less_often_unless_somebody_wants_it() {
        let small = plan(", spec: {baseline_iops: 100}");
        assert_eq!(small.commit.as_ref().unwrap().interval, Span::seconds(7));
        assert_eq!(small.read.as_ref().unwrap().interval, Span::seconds(100));
        assert_eq!((said(&small), spared(&small, None).stretched), (Vec::new(), Some(100)));
        let wanted = plan(", spec: {baseline_iops: 100}, commit: {interval: 1s}, read: {interval: 30s}");
        assert_eq!(wanted.commit.as_ref().unwrap().interval, Span::seconds(1));
        assert!(
            said(&wanted)[0].starts_with("its probes take 11.1 % of the 100 operations"),
            "{:?}",
            said(&wanted)
        );
        let large = plan(", spec: {baseline_iops: 3000}");
        assert_eq!((large.commit.as_ref().unwrap().interval, said(&large)), (Span::seconds(2), Vec::new()));
        assert_eq!(plan("").path, PathBuf::from("/srv/a"));
    }
}
