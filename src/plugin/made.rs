//! What a plugin made of a graph, and who has it.

use std::ptr;
use std::sync::{Arc, Weak};

use super::raw_context::{Raw, give_back};
use super::{EngineRef, Session};
use crate::sync::{AtomicPtr, Ordering};

/// Who may use a context, as its plugin says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The plan alone for which it was made.
    Plan,
    /// Plans of the handle with which it was made.
    Handle,
    /// Plans of any handle.
    AnyHandle,
}

/// What a plugin made of a graph.
pub struct Made {
    /// The context.
    pub context: Raw,
    /// Bytes of workspace that it needs.
    pub workspace_size: i64,
    /// The uids that its tensors have, in their order; none where they are those of the graph that it was made for.
    pub uids: Option<Box<[i64]>>,
}

// SAFETY: the interface lets a host use a context from any thread; the plugin has to cope.
unsafe impl Send for Made {}
// SAFETY: the interface lets threads share a context; the plugin has to cope.
unsafe impl Sync for Made {}

/// What a plugin made of a graph, for one plan or for several.
pub enum Compiled {
    /// For one plan alone.
    Own(Made),
    /// For every plan of an equal graph.
    Shared(Arc<SharedContext>),
}

/// A context that plans of a handle share. Who has it has the session, too, and lets go of that later.
pub struct SharedContext {
    /// From an `Arc`, which other handles may have, too. Null once it was let go.
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

    /// What was made, until it is let go.
    pub fn made(&self) -> Option<&Made> {
        // SAFETY: the pointer is null or from an `Arc` that this has until its end, or until that of the session, which whoever calls has.
        unsafe { self.made.load(Ordering::Acquire).as_ref() }
    }

    /// Lets go of the context. Whoever has it last gives it back, with the plugin handle of its own session.
    pub fn let_go(&self, session: &Session) {
        let made = self.made.swap(ptr::null_mut(), Ordering::AcqRel);
        if !made.is_null() {
            // SAFETY: it is from an `Arc`, and this was the one that had it.
            let made = unsafe { Arc::from_raw(made.cast_const()) };
            if let Some(made) = Arc::into_inner(made) {
                give_back(session, self.engine, made.context);
            }
        }
    }
}

impl Drop for SharedContext {
    fn drop(&mut self) {
        // Without a session it was let go when that ended.
        if let Some(session) = self.session.upgrade() {
            self.let_go(&session);
        }
    }
}
