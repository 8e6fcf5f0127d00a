use hipdnn_plugin_sdk::graph::DataType;

use super::*;
use crate::simd::stream::settle;
use crate::testing::{Function, Random, each};

/// The stored form of a value.
type Stores = fn(f32) -> f32;

/// Rounds to elements of a type.
#[derive(Clone, Copy)]
struct Rounded(DataType);

impl Function for Rounded {
    #[inline(always)]
    fn of<V: Vector<Scalar = f32>>(self, x: V) -> V {
        // SAFETY: a vector exists only on a processor with its instructions.
        unsafe { rounded::<f32, V, 1>([x], RowConverter::of(self.0).unwrap())[0] }
    }
}

#[test]
fn values_are_rounded_as_they_are_stored() {
    let values: Vec<f32> = (0..20_000).map(|i| f32::from_bits(i * 214_013)).collect();
    let expected: [(DataType, Stores); 4] = [
        (DataType::Half, |x| f16::from_f32(x).to_f32()),
        (DataType::Bfloat16, |x| bf16::from_f32(x).to_f32()),
        (DataType::Float, |x| x),
        (DataType::Double, |x| x),
    ];
    for (isa, (data_type, of)) in Isa::available().iter().flat_map(|isa| expected.map(|of| (isa, of))) {
        for (x, got) in values.iter().zip(each(*isa, Rounded(data_type), &values)) {
            let expected = of(*x);
            let same = expected.to_bits() == got.to_bits() || (expected.is_nan() && got.is_nan());
            assert!(same, "{x:e} is {got:e} as {data_type:?} at {isa:?}, expected {expected:e}");
        }
    }
}

/// Runs x · y + 2 with the result from element `first` on, and returns everything written.
fn run(isa: Isa, [x, y]: [&[f32]; 2], first: usize, is_streamed: bool) -> (Vec<f32>, [f32; MAX_TOTALS]) {
    const TO: usize = 2;
    let links = vec![
        Link::Load(0),
        Link::Apply(Applied::Lanewise(Lanewise::Mul), Side::First, Other::Row(1)),
        Link::Apply(Applied::Lanewise(Lanewise::Add), Side::First, Other::One(0)),
        Link::Combine(ReductionMode::Max, 0),
        Link::Store(TO),
    ];
    let mut to = vec![-1.0; first + x.len() + 1];
    let mut rows = [std::ptr::null_mut(); MAX_ROWS];
    rows[..3].copy_from_slice(&[x.as_ptr().cast_mut(), y.as_ptr().cast_mut(), to[first..].as_mut_ptr()]);
    let two = 2.0;
    let memory = Memory { rows: &rows, ones: &raw const two, streamed: is_streamed.then_some(TO) };
    // SAFETY: the processor supports the instruction set; inputs and result have the given length.
    let totals = unsafe { Line { links }.run(isa, &memory, x.len()) };
    settle();
    (to, totals)
}

#[test]
fn streaming_stores_the_same_values() {
    let mut random = Random::new(31);
    for isa in Isa::available() {
        for len in (1..40).chain([127, 128, 129, 300, 1000]) {
            for first in 0..17 {
                let values: Vec<f32> = (0..2 * len).map(|_| random.real() as f32).collect();
                let (x, y) = values.split_at(len);
                let stored = run(*isa, [x, y], first, false);
                let streamed = run(*isa, [x, y], first, true);
                assert_eq!(stored, streamed, "{len} elements from {first} on at {isa:?}");
                assert!(stored.0[..first].iter().all(|number| *number == -1.0));
                assert_eq!(stored.0[first + len], -1.0);
                let last = x[len - 1] * y[len - 1] + 2.0;
                assert_eq!(stored.0[first + len - 1], last);
            }
        }
    }
}
