use crate::layout::Layout;
use crate::problem::Problem;
use hipdnn_plugin_sdk::graph::operation;
use hipdnn_plugin_sdk::graph::{Graph, Operation, Tensor, packed_strides};

use super::*;

/// a, b and c by dims and strides.
fn matmul(shapes: [(&[i64], &[i64]); 3]) -> Matmul {
    let tensors = shapes.iter().zip(1..);
    let graph = Graph {
        tensors: tensors
            .map(|((dims, strides), uid)| Tensor::new(uid, DataType::Half, dims, strides))
            .collect(),
        ..Graph::default()
    };
    match Problem::of(&graph, &Operation::from(operation::Matmul { a: 1, b: 2, c: 3 })) {
        Ok(Problem::Matmul(matmul)) => *matmul,
        other => panic!("{other:?}"),
    }
}

fn rows_first(a: &[i64], b: &[i64], c: &[i64]) -> Product {
    Product::of(
        &matmul([(a, &packed_strides(a)), (b, &packed_strides(b)), (c, &packed_strides(c))]),
        [None; 2],
        None,
    )
    .unwrap()
}

/// Compares the library's computation with the operation, as the offsets of all elements that contribute to
/// each element of the result.
fn check(matmul: &Matmul, by_column: Option<bool>) {
    let product = Product::of(matmul, [None; 2], by_column).unwrap();
    let mut got = Vec::new();
    for call in &product.calls {
        for index in 0..product.batch {
            for (row, column) in
                (0..product.m).flat_map(|row| (0..product.n).map(move |column| (row, column)))
            {
                let place = |matrix: &Matrix, part: usize, row: usize, column: usize| {
                    let (inner, outer) = if matrix.transposed { (column, row) } else { (row, column) };
                    call[part] + index * matrix.stride + inner + outer * matrix.leading
                };
                let mut terms: Vec<[usize; 2]> = (0..product.k)
                    .map(|term| [place(&product.a, 0, row, term), place(&product.b, 1, term, column)])
                    .collect();
                if product.swapped {
                    terms.iter_mut().for_each(|term| term.swap(0, 1));
                }
                got.push((place(&product.c, 2, row, column), terms));
            }
        }
    }
    let dims = matmul.c.layout.dims();
    let mut expected = Vec::new();
    for element in 0..dims.iter().product() {
        let mut rest = element;
        let mut index = vec![0; dims.len()];
        for axis in (0..dims.len()).rev() {
            index[axis] = rest % dims[axis];
            rest /= dims[axis];
        }
        let place = |layout: &Layout, shares: &[usize; MAX_RANK], row: usize, column: usize| {
            let strides = layout.strides();
            let batch: usize = (0..matmul.batch).map(|axis| index[axis] / shares[axis] * strides[axis]).sum();
            batch + row * strides[matmul.batch] + column * strides[matmul.batch + 1]
        };
        let (row, column) = (index[matmul.batch], index[matmul.batch + 1]);
        let terms = (0..matmul.k).map(|term| {
            [
                place(&matmul.a.layout, &matmul.a_share, row, term),
                place(&matmul.b.layout, &matmul.b_share, term, column),
            ]
        });
        expected.push((place(&matmul.c.layout, &[1; MAX_RANK], row, column), terms.collect::<Vec<_>>()));
    }
    got.sort();
    expected.sort();
    assert_eq!(got, expected, "{product:?}");
}

#[test]
fn every_layout_reads_the_elements_of_the_operation() {
    let shapes: &[[(&[i64], &[i64]); 3]] = &[
        [(&[2, 3], &[3, 1]), (&[3, 4], &[4, 1]), (&[2, 4], &[4, 1])],
        // Column-major, gaps, one of each.
        [(&[2, 3], &[1, 2]), (&[3, 4], &[1, 3]), (&[2, 4], &[1, 2])],
        [(&[2, 3], &[5, 1]), (&[3, 4], &[1, 7]), (&[2, 4], &[9, 1])],
        [(&[2, 3], &[1, 6]), (&[3, 4], &[4, 1]), (&[2, 4], &[1, 3])],
        // Vectors, also with strides that are ignored.
        [(&[1, 3], &[99, 1]), (&[3, 4], &[4, 1]), (&[1, 4], &[7, 1])],
        [(&[2, 3], &[3, 1]), (&[3, 1], &[1, 55]), (&[2, 1], &[1, 8])],
        [(&[2, 1], &[1, 3]), (&[1, 4], &[4, 1]), (&[2, 4], &[4, 1])],
        [(&[1, 3], &[3, 2]), (&[3, 1], &[2, 1]), (&[1, 1], &[1, 1])],
        // Batches: equal, shared by all, shared by neighbours, with gaps, permuted.
        [(&[5, 2, 3], &[6, 3, 1]), (&[5, 3, 4], &[12, 4, 1]), (&[5, 2, 4], &[8, 4, 1])],
        [(&[5, 2, 3], &[6, 3, 1]), (&[1, 3, 4], &[12, 4, 1]), (&[5, 2, 4], &[8, 4, 1])],
        [(&[1, 2, 3], &[6, 3, 1]), (&[5, 3, 4], &[12, 4, 1]), (&[5, 2, 4], &[8, 4, 1])],
        [(&[6, 2, 3], &[6, 3, 1]), (&[2, 3, 4], &[12, 4, 1]), (&[6, 2, 4], &[8, 4, 1])],
        [(&[2, 2, 3], &[6, 3, 1]), (&[4, 3, 4], &[12, 4, 1]), (&[8, 2, 4], &[8, 4, 1])],
        [(&[3, 2, 2, 3], &[20, 6, 3, 1]), (&[3, 2, 3, 4], &[24, 12, 4, 1]), (&[3, 2, 2, 4], &[16, 8, 4, 1])],
        [(&[3, 2, 2, 3], &[6, 18, 3, 1]), (&[3, 2, 3, 4], &[24, 12, 4, 1]), (&[3, 2, 2, 4], &[16, 8, 4, 1])],
        [(&[3, 1, 2, 3], &[6, 6, 3, 1]), (&[1, 2, 3, 4], &[24, 12, 4, 1]), (&[3, 2, 2, 4], &[16, 8, 4, 1])],
        [(&[5, 1, 3], &[3, 3, 1]), (&[1, 3, 4], &[12, 4, 1]), (&[5, 1, 4], &[4, 4, 1])],
        [(&[5, 2, 3], &[6, 3, 1]), (&[1, 3, 4], &[12, 4, 1]), (&[5, 2, 4], &[8, 1, 2])],
    ];
    for shape in shapes {
        check(&matmul(*shape), None);
    }
    // A result of one row or column can be viewed either way, as a bias requires.
    check(&matmul(shapes[5]), Some(true));
    check(&matmul(shapes[5]), Some(false));
}

#[test]
fn batches_become_columns_if_one_operand_is_shared() {
    let linear = rows_first(&[8, 16, 32], &[1, 32, 24], &[8, 16, 24]);
    assert_eq!((linear.m, linear.n, linear.k, linear.batch, linear.calls.len()), (24, 128, 32, 1, 1));
    let apart = rows_first(&[8, 16, 32], &[8, 32, 24], &[8, 16, 24]);
    assert_eq!((apart.m, apart.n, apart.batch, apart.calls.len()), (24, 16, 8, 1));
    // Four heads share each matrix of b: one call of batch four.
    let grouped = rows_first(&[2, 8, 16, 32], &[2, 2, 32, 24], &[2, 8, 16, 24]);
    assert_eq!((grouped.batch, grouped.calls.len()), (4, 1));
    assert_eq!(grouped.n, 64);
}

#[test]
fn unsupported_features_are_named() {
    let gaps: [(&[i64], &[i64]); 3] = [(&[2, 3], &[6, 2]), (&[3, 4], &[4, 1]), (&[2, 4], &[4, 1])];
    let refusal = Product::of(&matmul(gaps), [None; 2], None).unwrap_err();
    assert!(refusal.starts_with("a: strides"), "{refusal}");
    let spread: [(&[i64], &[i64]); 3] = [(&[2, 3], &[3, 1]), (&[3, 4], &[0, 1]), (&[2, 4], &[4, 1])];
    let refusal = Product::of(&matmul(spread), [None; 2], None).unwrap_err();
    assert!(refusal.starts_with("b: strides"), "{refusal}");
    let out: [(&[i64], &[i64]); 3] = [(&[2, 3], &[3, 1]), (&[3, 4], &[4, 1]), (&[2, 4], &[9, 2])];
    let refusal = Product::of(&matmul(out), [None; 2], None).unwrap_err();
    assert!(refusal.starts_with("c: strides"), "{refusal}");
    let mut large = rows_first(&[2, 3], &[3, 4], &[2, 4]);
    assert_eq!(large.check_numbers(), Ok(()));
    large.k = 1 << 31;
    assert!(large.check_numbers().unwrap_err().starts_with("2147483648 terms"), "{large:?}");
}
