//! The arguments of an int8 micro-kernel.

/// Columns per group; panels consist of groups.
pub(crate) const GROUP: usize = 16;

/// Arguments of a tile: `to[r][j] = Σ a[r][k] · b[k][j]`.
pub(crate) struct ByteTile {
    /// The first row of operand A, and the stride of rows in bytes.
    pub(crate) a: *const u8,
    pub(crate) a_stride: usize,
    /// Whether the bytes of operand A are signed, for kernels that support it.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 forms read it"))]
    pub(crate) is_signed: bool,
    /// The panel of operand B: for each word of terms, one word per column.
    pub(crate) b: *const u8,
    /// Words of terms.
    pub(crate) words: usize,
    /// The destination of the sums, and its row stride in elements.
    pub(crate) to: *mut i32,
    pub(crate) to_stride: usize,
}
