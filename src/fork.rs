//! The static locks that other threads may hold during a fork, in the order in which the forking thread takes them.
//!
//! Add every new static lock here, before those that a thread may take while holding it. Locks inside objects do not belong
//! here: a child takes over those that its parent's other threads held, with empty content ([`hipdnn_plugin_sdk::lock`]).

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

/// The caches that handles share.
struct Caches;

impl Held for Caches {
    fn hold(&self) {
        cache::COMMON.iter().for_each(|cache| cache.state.hold());
    }

    fn release(&self) {
        cache::COMMON.iter().for_each(|cache| cache.state.release());
    }
}

/// Makes the library usable in children of later forks. Called by a process's first call.
pub fn protect() {
    fork::protect(&LIST);
}
