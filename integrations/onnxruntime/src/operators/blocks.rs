//! Products with weights of few bits, each block of which has a scale.

use hipdnn::graph::PointwiseMode as Mode;

use super::Cost::Heavy;
use super::matmul::product;
use super::{Operator, floats, microsoft};
use crate::lowering::{Lowered, Lowering, Reason, refuse};
use crate::model::{Constant, Element, Node};

pub const OPERATORS: &[Operator] = &[microsoft("MatMulNBits", Heavy, matmul)];

fn matmul(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = lowering.input(node, 0)?;
    floats(&[&a])?;
    let (k, n) = (node.int("K", 0), node.int("N", 0));
    let form = Form { n, k, size: node.int("block_size", 0), bits: node.int("bits", 4) };
    form.check()?;
    if Lowering::has_input(node, 4) {
        return refuse("weights are in another order");
    }
    if a.dims.last() != Some(&k) {
        return refuse(format!("a product of {:?} and {k} × {n}", a.dims));
    }
    let Some(bytes) = lowering.bytes(node, 1) else { return refuse("the weights are not constant") };
    let Some(scales) = lowering.numbers(node, 2) else { return refuse("the scales are not constant") };
    let zeros = match lowering.optional(node, 3) {
        None => None,
        Some(view) => {
            let Some(bytes) = lowering.bytes(node, 3) else { return refuse("the zeros are not constant") };
            let element = view.element;
            Some(Constant { element, dims: view.dims, bytes: bytes.to_vec() })
        }
    };
    let w =
        lowering.folded(node, Element::Float, &[n, k], || form.numbers(bytes, &scales, zeros.as_ref()))?;
    let w = w.transposed().ok_or_else(|| Reason("weights are no matrix".to_owned()))?;
    let mut y = product(lowering, &node.name, &a, &w)?;
    if let Some(bias) = lowering.optional(node, 5) {
        y = lowering.binary(Mode::Add, &y, &bias)?;
    }
    lowering.set(node, 0, y)
}

/// How weights lie: n rows of k numbers of some bits, in blocks that begin with a byte.
#[derive(Clone, Copy, Debug)]
struct Form {
    n: i64,
    k: i64,
    size: i64,
    bits: i64,
}

impl Form {
    fn check(self) -> Lowered<()> {
        let Self { n, k, size, bits } = self;
        if !matches!(bits, 2 | 4 | 8) || size < 16 || size % 16 != 0 || n < 1 || k < 1 {
            return refuse(format!("{n} × {k} weights of {bits} bits in blocks of {size}"));
        }
        Ok(())
    }

    /// The numbers as single precision.
    fn numbers(self, bytes: &[u8], scales: &[f64], zeros: Option<&Constant>) -> Lowered<Vec<u8>> {
        let whole = |number: i64| usize::try_from(number).unwrap_or(0);
        let (n, k, size, bits) = (whole(self.n), whole(self.k), whole(self.size), whole(self.bits));
        let blocks = k.div_ceil(size);
        let (block, zero_row) = (size * bits / 8, (blocks * bits).div_ceil(8));
        if bytes.len() != n * blocks * block || scales.len() != n * blocks {
            let (have, of) = (bytes.len(), scales.len());
            return refuse(format!("{have} bytes and {of} scales for {n} × {k} weights"));
        }
        let each = |bytes: &[u8], at: usize| -> f64 {
            let bit = at * bits;
            let byte = bytes.get(bit / 8).copied().unwrap_or(0);
            f64::from((byte >> (bit % 8)) & (0xff >> (8 - bits)))
        };
        let floats = zeros.filter(|zeros| zeros.element.is_float()).and_then(Constant::numbers);
        let zero = |row: usize, at: usize| match (zeros, &floats) {
            (_, Some(floats)) => floats.get(row * blocks + at).copied().unwrap_or(0.0),
            (Some(zeros), None) => each(zeros.bytes.get(row * zero_row..).unwrap_or(&[]), at),
            (None, None) => f64::from(1_u32 << (bits - 1)),
        };
        let mut out = Vec::with_capacity(4 * n * k);
        for row in 0..n {
            for at in 0..blocks {
                let place = row * blocks + at;
                let bytes = bytes.get(place * block..).unwrap_or(&[]);
                let (scale, zero) = (scales.get(place).copied().unwrap_or(0.0) as f32, zero(row, at) as f32);
                let numbers = (0..size.min(k - at * size)).map(|at| (each(bytes, at) as f32 - zero) * scale);
                out.extend(numbers.flat_map(f32::to_ne_bytes));
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks::<4>().0.iter().map(|of| f32::from_ne_bytes(*of)).collect()
    }

    #[test]
    fn weights_are_read_low_bits_first() {
        let form = Form { n: 1, k: 18, size: 16, bits: 4 };
        let mut bytes = vec![0x98; 16];
        bytes[0] = 0xf0;
        bytes[8] = 0x3a;
        let numbers = floats(&form.numbers(&bytes, &[2.0, 0.5], None).unwrap());
        assert_eq!(numbers.len(), 18);
        assert_eq!((numbers[0], numbers[1], numbers[2], numbers[3]), (-16.0, 14.0, 0.0, 2.0));
        assert_eq!((numbers[16], numbers[17]), (1.0, -2.5));
        let zeros = Constant { element: Element::Uint8, dims: vec![1], bytes: vec![0x10] };
        let numbers = floats(&form.numbers(&bytes, &[2.0, 0.5], Some(&zeros)).unwrap());
        assert_eq!((numbers[0], numbers[1], numbers[16], numbers[17]), (0.0, 30.0, 4.5, 1.0));
    }

    #[test]
    fn forms_that_do_not_fit_are_refused() {
        assert!(Form { n: 2, k: 16, size: 16, bits: 3 }.check().is_err());
        let form = Form { n: 2, k: 16, size: 16, bits: 8 };
        assert!(form.check().is_ok());
        assert!(form.numbers(&[0; 31], &[1.0; 2], None).is_err());
    }
}
