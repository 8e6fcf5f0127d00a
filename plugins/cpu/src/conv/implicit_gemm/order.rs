//! The order of a block's tiles.

/// With at most this many bytes, weights are read once per column tile, instead of columns once per panel.
const RESIDENT_WEIGHTS: usize = 512 << 10;

/// Sums of at most this many terms are short.
const SHORT: usize = 64;

/// With more panels, those of short sums follow each other.
const FEW_PANELS: usize = 2;

/// Whether all panels of a column tile are computed before the next tile: for these panels of this many elements, whose
/// sums have this many terms. Short sums mostly store, and results of many rows at a time are in more pages than a
/// processor has TLB entries for stores.
pub(super) fn weights_stay<T>([panels, elements, terms]: [usize; 3], are_stored: bool) -> bool {
    let is_short = are_stored && terms <= SHORT && panels > FEW_PANELS;
    !is_short && panels * elements * size_of::<T>() <= RESIDENT_WEIGHTS
}
