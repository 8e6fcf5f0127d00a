//! Which of the applicable engines a host is offered.
//!
//! Some hosts sort a plugin's engines by id and take the first, which bypasses the plugin's order. So an
//! engine that exists only for comparison, or to be selected by name, is kept back where another one applies,
//! until a host or the user asks for all engines.

use std::sync::atomic::{AtomicBool, Ordering};

use super::guard;
use crate::engine_plugin::{EnginePlugin, engine_id};
use crate::ffi::hipdnnPluginStatus_t;
use crate::lock::OnceLock;

/// The environment variable with which the user asks for all engines, whatever the host does.
const VARIABLE: &str = "HIPDNN_ALL_ENGINES";

static ARE_ALL_OFFERED: AtomicBool = AtomicBool::new(false);

/// `hipdnnEnginePluginOfferAllEngines_ext`: whether every applicable engine is offered from now on.
///
/// # Safety
/// The signature is that of its neighbours; any number is taken.
pub unsafe fn offer_all_engines<P: EnginePlugin>(all: u32) -> hipdnnPluginStatus_t {
    guard(|| {
        ARE_ALL_OFFERED.store(all != 0, Ordering::Relaxed);
        Ok(())
    })
}

fn are_all_offered() -> bool {
    static BY_USER: OnceLock<bool> = OnceLock::new();
    let by_user = || std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    ARE_ALL_OFFERED.load(Ordering::Relaxed) || *BY_USER.get_or_init(by_user)
}

/// Removes the kept-back engines from the applicable ids, unless only they apply.
pub(super) fn keep_back<P: EnginePlugin>(applicable: &mut Vec<i64>) {
    let is_kept_back = |id: &i64| P::KEPT_BACK.iter().any(|name| engine_id(name) == *id);
    if !P::KEPT_BACK.is_empty() && !applicable.iter().all(is_kept_back) && !are_all_offered() {
        applicable.retain(|id| !is_kept_back(id));
    }
}
