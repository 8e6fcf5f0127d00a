//! Matrix multiplications.

use crate::timing::*;
use crate::*;
use hipdnn_plugin_sdk::graph::operation::Matmul;
use hipdnn_plugin_sdk::graph::{DataType, Operation, PointwiseMode, Tensor};

/// A matmul: how many matrices, rows, columns and terms, and whether operand B has a large row stride.
pub(crate) struct Product {
    pub(crate) name: &'static str,
    pub(crate) size: [i64; 4],
    pub(crate) transposed: bool,
    pub(crate) data_type: DataType,
}

pub(crate) const PRODUCTS: [Product; 17] = [
    product("product 1024x3072x768", [1, 1024, 3072, 768], false, DataType::Float),
    product("product 2048 cubed", [1, 2048, 2048, 2048], false, DataType::Float),
    product("BERT 128 projection", [1, 128, 768, 768], false, DataType::Float),
    product("BERT 128 packed q, k, v", [1, 128, 2304, 768], false, DataType::Float),
    product("BERT 128 up", [1, 128, 3072, 768], false, DataType::Float),
    product("BERT 128 down", [1, 128, 768, 3072], false, DataType::Float),
    product("BERT 512 projection", [1, 512, 768, 768], false, DataType::Float),
    product("BERT 512 packed q, k, v", [1, 512, 2304, 768], false, DataType::Float),
    product("BERT 512 up", [1, 512, 3072, 768], false, DataType::Float),
    product("BERT 512 down", [1, 512, 768, 3072], false, DataType::Float),
    product("BERT 512 up half", [1, 512, 3072, 768], false, DataType::Half),
    product("BERT 512 up bfloat16", [1, 512, 3072, 768], false, DataType::Bfloat16),
    product("product 1024 transposed", [1, 1024, 3072, 768], true, DataType::Float),
    product("scores 12 of 512", [12, 512, 512, 64], true, DataType::Float),
    product("values 12 of 512", [12, 512, 64, 512], false, DataType::Float),
    product("row 3072x768", [1, 1, 3072, 768], false, DataType::Float),
    product("row 3072x768 transposed", [1, 1, 3072, 768], true, DataType::Float),
];

pub(crate) fn matrix_product(product: &Product, peak: f64) {
    let [batch, m, n, k] = product.size;
    let plain = |uid, [rows, columns]: [i64; 2]| {
        Tensor::new(uid, product.data_type, &[batch, rows, columns], &[rows * columns, columns, 1])
    };
    let mut b = plain(2, [k, n]);
    if product.transposed {
        b.strides = vec![k * n, 1, k];
    }
    let tensors = vec![plain(1, [m, k]), b, plain(3, [m, n])];
    let seconds = time(tensors, Matmul { a: 1, b: 2, c: 3 }.into());
    let rate = 2.0 * (batch * m * n * k) as f64 / seconds / 1e9;
    let bytes = (batch * (m * k + k * n + m * n)) as f64 * product.data_type.size().unwrap() as f64;
    println!(
        "{:<31} {:>9.1} µs {rate:>8.1} GFLOP/s {:>6.1} % of the threads' peak, {:>6.1} GB/s",
        product.name,
        seconds * 1e6,
        100.0 * rate / peak,
        bytes / seconds / 1e9
    );
}

/// A matmul with a column bias and GELU, compared with the matmul alone.
pub(crate) fn fused_product(product: &Product) {
    let [_, m, n, k] = product.size;
    let matrix = |uid, [rows, columns]: [i64; 2], is_virtual| {
        let plain = Tensor::new(uid, product.data_type, &[rows, columns], &[columns, 1]);
        Tensor { is_virtual, ..plain }
    };
    let factors = || vec![matrix(1, [m, k], false), matrix(2, [k, n], false)];
    let multiply = |c| Operation::from(Matmul { a: 1, b: 2, c });
    let mut tensors = factors();
    tensors.push(matrix(3, [m, n], false));
    let alone = time_graph(tensors, vec![multiply(3)], 0);
    let mut tensors = factors();
    tensors.push(matrix(3, [m, n], true));
    tensors.push(matrix(4, [1, n], false));
    tensors.push(matrix(5, [m, n], true));
    tensors.push(matrix(6, [m, n], false));
    let bias = on_each_element(PointwiseMode::Add, 3, Some(4), 5);
    let gelu = on_each_element(PointwiseMode::GeluFwd, 5, None, 6);
    let fused = time_graph(tensors, vec![multiply(3), bias, gelu], 0);
    println!(
        "{:<22} + bias + GELU {:>9.1} µs, {:.2} times the product alone",
        product.name,
        fused * 1e6,
        fused / alone
    );
}
