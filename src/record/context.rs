//! What is known beside the targets: which devices are of interest, and what was last seen of them and of the machine.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::book::Book;
use crate::device::View;

/// The last view, and whose devices it is asked for.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    pub(super) view: Arc<View>,
    /// `None` when it is to be collected anew.
    pub(super) devices: Option<Arc<[Arc<str>]>>,
}

impl Book {
    /// What the machine does; every snapshot from now on has it.
    pub fn set_context(&mut self, view: Arc<View>) {
        self.surroundings.view = view;
    }

    /// The kernel's names of all targets' devices and of the disks below them, each once, sorted. As long as nothing has changed it is
    /// the very same list.
    pub fn devices(&mut self) -> Arc<[Arc<str>]> {
        if let Some(known) = &self.surroundings.devices {
            return Arc::clone(known);
        }
        let names: BTreeSet<&str> = self
            .facts()
            .flat_map(|facts| facts.leaves.iter().chain([&facts.device]))
            .map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect();
        let list: Arc<[Arc<str>]> = names.into_iter().map(Arc::from).collect();
        self.surroundings.devices = Some(Arc::clone(&list));
        list
    }
}
