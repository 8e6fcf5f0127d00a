//! Executions that their program stops between two steps.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::thread::Key;

/// The address of the word that each thread watches, or 0.
static WATCHED: OnceLock<Option<Key>> = OnceLock::new();

/// Makes executions of this thread watch a word: they fail before their next step once it is not 0, and leave the results of
/// later steps unwritten. Null: they run to their end, as at first. Any thread may write the word. Returns the former one.
///
/// # Safety
/// The word is null, or stays valid until another one is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCpuPluginStopOn_ext(word: *const AtomicU32) -> *const AtomicU32 {
    let Some(key) = WATCHED.get_or_init(|| Key::new(None)) else { return ptr::null() };
    let before = key.get();
    key.set(word.expose_provenance());
    ptr::with_exposed_provenance(before)
}

/// The word that an execution watches.
#[derive(Clone, Copy)]
pub(crate) struct Stop<'a>(Option<&'a AtomicU32>);

impl Stop<'_> {
    /// That of this thread's executions.
    pub(crate) fn of_thread() -> Self {
        let word = WATCHED.get().copied().flatten().map_or(0, |key| key.get());
        // SAFETY: a word that is not null stays valid as long as it is set, so during this thread's execution.
        Self(unsafe { ptr::with_exposed_provenance::<AtomicU32>(word).as_ref() })
    }

    /// Whether the execution is to stop.
    pub(crate) fn is_asked_for(self) -> bool {
        self.0.is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_watches_its_own_word() {
        let word = AtomicU32::new(0);
        // SAFETY: the word outlives its use.
        let before = unsafe { hipdnnCpuPluginStopOn_ext(&raw const word) };
        assert!(before.is_null() && !Stop::of_thread().is_asked_for());
        word.store(1, Ordering::Relaxed);
        assert!(Stop::of_thread().is_asked_for());
        std::thread::scope(|scope| scope.spawn(|| assert!(!Stop::of_thread().is_asked_for())).join())
            .unwrap();
        // SAFETY: null is no word.
        assert_eq!(unsafe { hipdnnCpuPluginStopOn_ext(before) }, &raw const word);
        assert!(!Stop::of_thread().is_asked_for());
    }
}
