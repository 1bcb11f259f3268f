//! What `discover:` would find now, for `check` and `explain`.

use crate::config::{Plan, TargetPlan};
use crate::report::discovered::LeftOut;
use crate::sys;
use crate::target::{self, Roots, Taken};

/// What would be probed without a name of its own.
pub(super) struct Found {
    pub(super) targets: Vec<TargetPlan>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Looks as the daemon does at its start; `None` where the config does not ask for it. Links in the paths of targets are
/// followed, which waits as long as their disks do. An error is a sentence.
pub(super) fn found(plan: &Plan) -> Option<Result<Found, String>> {
    let discover = plan.discover.as_ref()?;
    let real = |target: &TargetPlan| sys::resolve_links(&target.path).unwrap_or_else(|_| target.path.clone());
    let paths: Vec<_> = plan.targets.iter().map(real).collect();
    let places = plan.targets.iter().zip(&paths);
    let taken: Vec<Taken<'_>> =
        places.map(|(target, path)| Taken { name: &target.name, path, new: true }).collect();
    let looked = target::discover(&discover.wishes, &taken, &[], &Roots::default());
    Some(looked.map_err(|errno| format!("the mounts of this machine cannot be read: {errno}")).map(
        |discovery| {
            let targets = discover.targets(&discovery.found, &plan.targets);
            let too_many = discovery.found.iter().skip(targets.len()).map(|found| LeftOut {
                what: found.path.display().to_string(),
                why: "there are as many targets as can be".to_owned(),
            });
            let left_out =
                discovery.left_out.into_iter().map(|left| LeftOut { what: left.what, why: left.why });
            Found { left_out: too_many.chain(left_out).collect(), targets }
        },
    ))
}
