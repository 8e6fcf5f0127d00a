use super::*;
use crate::conv::geometry::{Strides, Windows};
use crate::conv::operands::{OperandView, Weights};

#[test]
fn large_dilations_are_left_to_the_other_algorithm() {
    let data_type = DataType::Float;
    let view = OperandView { slot: 0, data_type, strides: Strides::default() };
    let of = |far: isize| Operands {
        windows: Windows {
            batch: 1,
            output: [1, 1, 40],
            input: [1, 1, 1 << 21],
            stride: [1; 3],
            taps: vec![[0; 3], [0, 0, far]],
        },
        groups: 1,
        channels: 17,
        rows: 16,
        input: view,
        gradient: view,
        weights: Weights { slot: 0, data_type, group: 0, row: 0, channel: 0 },
        taps: vec![0, 1],
    };
    let suits = |far| suits::<f32>(&of(far), Isa::detect()).is_ok();
    assert!(suits(1000));
    assert!(!suits(1 << 20));
}

#[test]
fn blocks_have_enough_outputs_and_are_prefixes_of_the_first() {
    for (batch, outputs, expected) in [
        (16, [1, 7, 7], (8, [1, 7, 7])),
        (1, [1, 7, 7], (1, [1, 7, 7])),
        (16, [1, 28, 28], (1, [1, 14, 28])),
        (16, [1, 112, 112], (1, [1, 5, 112])),
        (2, [1, 1, 5000], (1, [1, 1, 500])),
        (2, [3, 600, 600], (1, [1, 1, 300])),
        (2, [9, 10, 10], (1, [5, 10, 10])),
    ] {
        assert_eq!(block(batch, outputs), expected, "{batch} × {outputs:?}");
    }
}
