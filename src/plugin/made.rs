//! A graph compiled by a plugin, and its owners.

use std::ptr;
use std::sync::{Arc, Weak};

use super::raw_context::{Raw, give_back};
use super::{EngineRef, Session};
use crate::sync::{AtomicPtr, Ordering};

/// Who may use a context, according to its plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only the plan for which it was made.
    Plan,
    /// Plans of the handle with which it was made.
    Handle,
    /// Plans of any handle.
    AnyHandle,
}

/// A graph compiled by a plugin.
pub struct Made {
    /// The context.
    pub context: Raw,
    /// The workspace that it needs, in bytes.
    pub workspace_size: i64,
    /// The uids of its tensors, in order; none if they are those of the graph that it was made for.
    pub uids: Option<Box<[i64]>>,
}

// SAFETY: the interface lets a host use a context from any thread.
unsafe impl Send for Made {}
// SAFETY: the interface lets threads share a context.
unsafe impl Sync for Made {}

/// A graph compiled by a plugin, for one plan or for several.
pub enum Compiled {
    /// For one plan alone.
    Own(Made),
    /// For every plan of an equal graph.
    Shared(Arc<SharedContext>),
}

/// A context shared by plans of a handle. Its owners also hold the session, and release that later.
pub struct SharedContext {
    /// From an `Arc`, which other handles may share. Null once released.
    made: AtomicPtr<Made>,
    engine: EngineRef,
    session: Weak<Session>,
}

impl SharedContext {
    /// A handle's share in what was made.
    pub fn new(made: Arc<Made>, engine: EngineRef, session: &Arc<Session>) -> Arc<Self> {
        let made = AtomicPtr::new(Arc::into_raw(made).cast_mut());
        Arc::new(Self { made, engine, session: Arc::downgrade(session) })
    }

    /// The context, until it is released.
    pub fn made(&self) -> Option<&Made> {
        // SAFETY: the pointer is null or from an `Arc` that this holds until dropped, or until the end of the caller's session.
        unsafe { self.made.load(Ordering::Acquire).as_ref() }
    }

    /// Releases the context. The last owner destroys it, with the plugin handle of its own session.
    pub fn let_go(&self, session: &Session) {
        let made = self.made.swap(ptr::null_mut(), Ordering::AcqRel);
        if !made.is_null() {
            // SAFETY: it is from an `Arc` that this owned.
            let made = unsafe { Arc::from_raw(made.cast_const()) };
            if let Some(made) = Arc::into_inner(made) {
                give_back(session, self.engine, made.context);
            }
        }
    }
}

impl Drop for SharedContext {
    fn drop(&mut self) {
        // If the session has ended, the context was released then.
        if let Some(session) = self.session.upgrade() {
            self.let_go(&session);
        }
    }
}
