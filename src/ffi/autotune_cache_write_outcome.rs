//! The outcome of storing a ranking.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The outcome of storing a ranking.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnAutotuneCacheWriteOutcome_ext_t {
    /// The ranking was stored.
    HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN = 0,
    /// Not stored: the cache is switched off.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED = 1,
    /// Not stored: the graph is not finalized, or has no key.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED = 2,
    /// Not stored: no engine was given.
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES = 3,
    /// The same ranking was already stored.
    HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED = 4,
}
