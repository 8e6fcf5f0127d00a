//! The order in which engines are offered.

use crate::plugin::{EngineRef, Session, engine_id};

/// The CPU engines, which come after all others: whoever has a GPU engine wants that.
const CPU_ENGINES: [i64; 2] = [engine_id("CPU_ENGINE"), engine_id("CPU_REFERENCE_ENGINE")];

/// Puts the CPU engines last and leaves the order otherwise as it is: plugins by path, engines as their plugin lists them.
pub fn order(session: &Session, engines: &mut [EngineRef]) {
    if engines.len() > 1 {
        engines.sort_by_key(|engine| {
            session.engine(*engine).is_ok_and(|engine| CPU_ENGINES.contains(&engine.id))
        });
    }
}
