//! What a micro-kernel of bytes is given.

/// Columns of a panel come in groups of this many.
pub(crate) const GROUP: usize = 16;

/// Arguments of a tile: `to[r][j] = Σ a[r][k] · b[k][j]`.
pub(crate) struct ByteTile {
    /// The first row of operand A, and the stride of rows in bytes.
    pub(crate) a: *const u8,
    pub(crate) a_stride: usize,
    /// Whether the bytes of operand A are signed, for a form that can take such.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "other forms take none"))]
    pub(crate) is_signed: bool,
    /// The panel of operand B: for each word of terms one word of each column.
    pub(crate) b: *const u8,
    /// Words of terms.
    pub(crate) words: usize,
    /// Where the sums go, and their row stride in elements.
    pub(crate) to: *mut i32,
    pub(crate) to_stride: usize,
}
