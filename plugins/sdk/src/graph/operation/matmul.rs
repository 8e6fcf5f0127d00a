//! Matmul.

operation! {
    /// A product of matrices in the last two dimensions.
    Matmul: "MatmulAttributes", descriptor 22, operation 9, compute 2503 {
        /// The left factor [..., M, K].
        a: input = 2500 @ 0,
        /// The right factor [..., K, N].
        b: input = 2501 @ 1,
        /// The product [..., M, N].
        c: output = 2502 @ 2,
    }
}
