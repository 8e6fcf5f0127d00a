//! A session's store of packed weights in the engine's plugin: plans for other shapes find what the first one packed.

use std::ffi::{CStr, c_void};

use crate::threads::{Set, Setter, function};

/// The functions of the engine's plugin that make a store, set it for the plans of a thread, and destroy it.
const CREATE: &CStr = c"hipdnnCpuPluginCreateWeights_ext";
const SHARE: &CStr = c"hipdnnCpuPluginShareWeights_ext";
const DESTROY: &CStr = c"hipdnnCpuPluginDestroyWeights_ext";

type Create = extern "C" fn() -> *mut c_void;
type Share = Setter<c_void>;
type Destroy = unsafe extern "C" fn(*mut c_void);

/// A store for the constants of one session, whose addresses keep their elements as long as the session has plans.
#[derive(Debug)]
pub struct Weights {
    store: *mut c_void,
    share: Share,
    destroy: Destroy,
}

// SAFETY: threads may use a store at once.
unsafe impl Send for Weights {}
// SAFETY: threads may use a store at once.
unsafe impl Sync for Weights {}

impl Weights {
    /// A new store, if the engine's plugin has them.
    pub fn new() -> Option<Self> {
        let [create, share, destroy] = [function(CREATE)?, function(SHARE)?, function(DESTROY)?];
        // SAFETY: functions of these names have these types.
        let (create, share, destroy) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Create>(create),
                std::mem::transmute::<*mut c_void, Share>(share),
                std::mem::transmute::<*mut c_void, Destroy>(destroy),
            )
        };
        Some(Self { store: create(), share, destroy })
    }

    /// Runs `f`, whose plans share packed weights.
    pub fn sharing<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the store outlives the guard, which restores the former one.
        let _end = unsafe { Set::new(self.share, self.store) };
        f()
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // SAFETY: `new` made the store, and no thread has set it: `sharing` borrows it.
        unsafe { (self.destroy)(self.store) };
    }
}
