//! Every lock of the process that threads may have while another forks, in the order in which they are taken then.
//!
//! A new lock in a static is added here, before those that a thread may take while it has it. Locks of objects are not: a child takes over
//! those that its parent's other threads had, and begins with empty content ([`hipdnn_plugin_sdk::lock`]).

use hipdnn_plugin_sdk::fork::{self, List};
use hipdnn_plugin_sdk::lock::Held;

use crate::descriptor::engine;
use crate::log::receiver;
use crate::plugin::{cache, gate, registry};
use crate::selection::ranking;
use crate::trace::{plan, recorder};
use crate::{device, hints, log, object};

static LIST: List = List {
    locks: &[
        &ranking::KNOWN,
        &registry::REGISTRY,
        &gate::STATE,
        &plan::PLANS,
        &hints::TOLD,
        &engine::MADE,
        &device::DEVICES,
        &Caches,
        &object::FREE,
        &object::GRAVEYARD,
        &log::SETTING,
        &log::OPENING,
        &receiver::STATE,
    ],
    in_child: &[gate::in_child, receiver::in_child, recorder::in_child],
};

/// The caches that handles have in common.
struct Caches;

impl Held for Caches {
    fn hold(&self) {
        cache::COMMON.iter().for_each(|cache| cache.state.hold());
    }

    fn release(&self) {
        cache::COMMON.iter().for_each(|cache| cache.state.release());
    }
}

/// Has every fork from now on leave a child that can use the library. Called by the first call of a process.
pub fn protect() {
    fork::protect(&LIST);
}
