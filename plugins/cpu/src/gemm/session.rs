//! The state of a thread while it uses hardware tiles.

#[cfg(target_arch = "x86_64")]
use crate::gemm::amx;

/// Tiles that are configured on this thread; for kernels without tiles, nothing.
pub(crate) struct Session(bool);

impl Session {
    /// Configures this thread's tiles if a kernel uses them, as it does only where they are available.
    pub(crate) fn of(uses_tiles: bool) -> Self {
        #[cfg(target_arch = "x86_64")]
        if uses_tiles {
            amx::configure();
        }
        Self(uses_tiles)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Self(uses_tiles) = self;
        #[cfg(target_arch = "x86_64")]
        if *uses_tiles {
            amx::release();
        }
        let _ = uses_tiles;
    }
}
