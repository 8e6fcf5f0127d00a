//! Operations that are not hipDNN's, computed between its graphs in the same subgraph.

mod boxes;
mod bytes;
mod cells;
mod deform;
mod function;
mod gates;
mod grid;
mod late;
mod pad;
mod places;
mod recurrent;
mod reduce;
mod regions;
mod resize;
mod scatter;
mod select;
mod small;
mod unique;
mod windows;

pub use boxes::Suppression;
pub use bytes::{Row, pack_bytes, packed_size_of_bytes};
pub use cells::{Activation, Cell};
pub use deform::Deformed;
pub use function::{Function, Pairwise};
pub use grid::{Beyond, Grid, Interpolation};
pub use late::{Compress, NonZero};
pub use pad::{Mode, Pad};
pub use places::{OneHot, Reverse};
pub use recurrent::{Given, Recurrent, pack, packed_size};
pub use reduce::Reduce;
pub use regions::Regions;
pub use resize::{Resize, Taps};
pub use scatter::{Scatter, Trilu, Update};
pub use select::{Extreme, Running, Top};
pub use small::{Pack, Unpack};
pub use unique::Unique;
pub use windows::Largest;

use crate::threads::Parallel;

/// The bytes for which another thread is worthwhile.
const BYTES: usize = 1 << 16;

/// The most parts into which an operation is divided.
const PARTS: usize = 32;

/// Calls `work` with ranges that partition `count`, each of which has about [`BYTES`] or more, where one of the count has `bytes`.
fn divided(
    count: usize,
    bytes: usize,
    parallel: Parallel<'_>,
    work: &(dyn Fn(std::ops::Range<usize>) + Sync),
) -> Result<(), String> {
    let parts = (count.saturating_mul(bytes) / BYTES).clamp(1, PARTS.min(count.max(1)));
    if parts == 1 {
        work(0..count);
        return Ok(());
    }
    parallel(parts, &|part| work(count * part / parts..count * (part + 1) / parts))
}
