//! The lifecycle of descriptors: open until finalized, then frozen.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hipdnn_plugin_sdk::cancel;

use super::attribute::{Incoming, Outgoing};
use crate::log::receiver;
use crate::object::{Access, Taken, thread_number};
use crate::status::{Error, Result};
use crate::trace;

/// An open descriptor of one kind.
pub trait Draft: Send {
    /// The finalized form.
    type Frozen: Send + Sync;

    /// The kind's name in messages.
    fn name(&self) -> &'static str;

    /// Sets an attribute.
    fn set(&mut self, incoming: &Incoming) -> Result<()>;

    /// Gets an attribute while the descriptor is open.
    fn get_open(&mut self, _: &Outgoing) -> Result<()> {
        Err(Error::not_initialized(format!(
            "the {} is not finalized, and its attributes can be read only then",
            self.name()
        )))
    }

    /// Checks everything and makes the frozen form. A failure leaves the draft unchanged.
    fn finalize(&mut self) -> Result<Self::Frozen>;

    /// Gets an attribute of the frozen form; the draft no longer changes.
    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()>;

    /// Whether finalizing again is an error.
    const FINALIZE_ONCE: bool = true;

    /// Whether finalizing calls plugins, which may call back, even with the descriptor being finalized.
    const ASKS_PLUGINS: bool = false;
}

/// A descriptor of one kind, open or frozen. The frozen form is read without a lock; access to the draft requires the lock of
/// the descriptor's slot in the table.
pub struct Lifecycle<D: Draft> {
    /// Whether the descriptor is frozen.
    is_frozen: AtomicBool,
    /// The thread that is finalizing, if that asks plugins; else 0.
    finalizing: AtomicUsize,
    /// The kind's name, stored here so that messages need no lock: a caller may pass a descriptor as its own child.
    name: &'static str,
    content: UnsafeCell<Content<D>>,
}

struct Content<D: Draft> {
    draft: D,
    frozen: Option<D::Frozen>,
}

// SAFETY: only the thread that holds the lock writes the content, and it is shared only once frozen.
unsafe impl<D: Draft + Sync> Sync for Lifecycle<D> {}

impl<D: Draft> Lifecycle<D> {
    /// An open descriptor.
    pub fn open(draft: D) -> Self {
        Self {
            is_frozen: AtomicBool::new(false),
            finalizing: AtomicUsize::new(0),
            name: draft.name(),
            content: UnsafeCell::new(Content { draft, frozen: None }),
        }
    }

    /// A descriptor that is frozen from the start.
    pub fn finalized(draft: D, frozen: D::Frozen) -> Self {
        Self {
            is_frozen: AtomicBool::new(true),
            finalizing: AtomicUsize::new(0),
            name: draft.name(),
            content: UnsafeCell::new(Content { draft, frozen: Some(frozen) }),
        }
    }

    /// The kind's name in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    #[inline]
    fn content(&self) -> Option<(&D, &D::Frozen)> {
        if !self.is_frozen.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: frozen content is never written.
        let content = unsafe { &*self.content.get() };
        Some((&content.draft, content.frozen.as_ref()?))
    }

    /// The frozen form, if there is one.
    #[inline]
    pub fn frozen(&self) -> Option<&D::Frozen> {
        self.content().map(|(_, frozen)| frozen)
    }

    /// The draft once frozen, for kinds without another form.
    #[inline]
    pub fn frozen_draft(&self) -> Option<&D> {
        self.content().map(|(draft, _)| draft)
    }

    /// Exclusive access to the draft; none when it is frozen. Waits for another thread that uses it.
    ///
    /// # Errors
    /// NOT_SUPPORTED when a plugin that this thread calls while finalizing calls back; and in a log callback while a plugin
    /// is being asked, since the plugin may wait for the thread that logs.
    #[inline]
    fn draft<'a>(&'a self, access: Access<'a>) -> Result<Option<Exclusive<'a, D>>> {
        if access.is_alone() {
            return Ok(self.exclusive(None));
        }
        match access.take() {
            Some(taken) => Ok(self.exclusive(Some(taken))),
            None => self.wait_for_draft(access),
        }
    }

    /// Exclusive access for the thread that holds the lock, unless the descriptor is frozen.
    #[inline]
    fn exclusive<'a>(&'a self, taken: Option<Taken<'a>>) -> Option<Exclusive<'a, D>> {
        // Freezing also requires the lock.
        let is_open = !self.is_frozen.load(Ordering::Relaxed);
        is_open.then_some(Exclusive { lifecycle: self, _taken: taken })
    }

    /// Two threads using one open descriptor are a caller's mistake; the second waits, however long a plugin takes.
    #[cold]
    fn wait_for_draft<'a>(&'a self, access: Access<'a>) -> Result<Option<Exclusive<'a, D>>> {
        while self.frozen().is_none() {
            let finalizing = self.finalizing.load(Ordering::Relaxed);
            if finalizing != 0 && (finalizing == thread_number() || receiver::in_callback()) {
                return Err(Error::not_supported(format!(
                    "the {} is being finalized, and a plugin that this calls cannot use it",
                    self.name
                )));
            }
            if access.is_lost() {
                return Err(Error::not_supported(format!(
                    "another thread was at the {} when this process was forked, and it can only be destroyed here",
                    self.name
                )));
            }
            let off = cancel::disable();
            std::thread::sleep(Duration::from_micros(20));
            drop(off);
            if let Some(taken) = access.take() {
                return Ok(self.exclusive(Some(taken)));
            }
        }
        Ok(None)
    }

    /// Calls `change` with the draft.
    ///
    /// # Errors
    /// NOT_INITIALIZED when the descriptor is frozen.
    #[inline]
    pub fn change(&self, access: Access, change: impl FnOnce(&mut D) -> Result<()>) -> Result<()> {
        match self.draft(access)? {
            Some(mut draft) => draft.with(change),
            None => {
                Err(Error::not_initialized(format!("the {} is finalized and cannot be changed", self.name)))
            }
        }
    }

    /// Calls `open` with the draft, or `frozen` with the frozen form.
    pub fn look<R>(
        &self,
        access: Access,
        open: impl FnOnce(&mut D) -> Result<R>,
        frozen: impl FnOnce(&D::Frozen) -> Result<R>,
    ) -> Result<R> {
        if self.frozen().is_none()
            && let Some(mut draft) = self.draft(access)?
        {
            return draft.with(open);
        }
        match self.frozen() {
            Some(content) => frozen(content),
            None => Err(Error::internal(format!("the {} is neither open nor finalized", self.name))),
        }
    }

    /// Sets an attribute.
    #[inline]
    pub fn set(&self, access: Access, incoming: &Incoming) -> Result<()> {
        self.change(access, |draft| draft.set(incoming))
    }

    /// Freezes the descriptor, or leaves it open and unchanged.
    pub fn finalize(&self, access: Access) -> Result<()> {
        match self.draft(access)? {
            Some(draft) => draft.freeze(),
            None if D::FINALIZE_ONCE => {
                Err(Error::bad_param(format!("the {} is finalized already", self.name)))
            }
            None => Ok(()),
        }
    }

    /// Gets an attribute.
    pub fn get(&self, access: Access, outgoing: &Outgoing) -> Result<()> {
        if self.frozen().is_none()
            && let Some(mut draft) = self.draft(access)?
        {
            return draft.with(|draft| draft.get_open(outgoing));
        }
        match self.content() {
            Some((draft, frozen)) => draft.get(frozen, outgoing),
            None => Err(Error::internal(format!("the {} is neither open nor finalized", self.name))),
        }
    }
}

/// Exclusive access to a draft, released on drop, also by a panic.
struct Exclusive<'a, D: Draft> {
    lifecycle: &'a Lifecycle<D>,
    /// The lock, unless the call already holds it.
    _taken: Option<Taken<'a>>,
}

impl<D: Draft> Exclusive<'_, D> {
    #[inline]
    fn with<R>(&mut self, f: impl FnOnce(&mut D) -> R) -> R {
        // SAFETY: this thread holds the lock, and the descriptor is not frozen.
        f(unsafe { &mut (*self.lifecycle.content.get()).draft })
    }

    #[inline]
    fn freeze(mut self) -> Result<()> {
        if D::ASKS_PLUGINS {
            self.lifecycle.finalizing.store(thread_number(), Ordering::Relaxed);
        }
        // Only finalizing that asks plugins takes long enough for a phase of its own.
        let _phase = if D::ASKS_PLUGINS {
            trace::phase("finalize", || self.lifecycle.name.to_owned())
        } else {
            trace::Span::default()
        };
        let frozen = self.with(D::finalize)?;
        // SAFETY: this thread holds the lock, and the content is read only once `is_frozen` is set.
        unsafe { (*self.lifecycle.content.get()).frozen = Some(frozen) };
        self.lifecycle.is_frozen.store(true, Ordering::Release);
        Ok(())
    }
}

impl<D: Draft> Drop for Exclusive<'_, D> {
    #[inline]
    fn drop(&mut self) {
        if D::ASKS_PLUGINS {
            self.lifecycle.finalizing.store(0, Ordering::Relaxed);
        }
    }
}
