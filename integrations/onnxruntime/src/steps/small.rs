//! Numbers of fewer bits than hipDNN's types have: floats of 8 bits, and integers of 4, two of which are in a byte.

use hipdnn_plugin_sdk::small_float::{self, Format};

use super::divided;
use crate::lowering::{OnHost, Shared, Slab};
use crate::model::{Element, nibble};
use crate::threads::Parallel;

fn format(element: Element) -> Option<Format> {
    match element {
        Element::Float8E4m3 => Some(small_float::E4M3),
        Element::Float8E5m2 => Some(small_float::E5M2),
        Element::Float8E4m3Fnuz => Some(small_float::E4M3_FNUZ),
        Element::Float8E5m2Fnuz => Some(small_float::E5M2_FNUZ),
        _ => None,
    }
}

/// The code of the nearest number, ties to even. `cuts` makes the largest one of larger numbers.
fn encode(format: Format, x: f32, cuts: bool) -> u8 {
    // NaN keeps its sign.
    if cuts && !x.is_nan() { format.encode_single(x) } else { format.encode_overflowing(x) }
}

/// Unpacks such numbers of a packed tensor: floats to single precision, integers to bytes.
#[derive(Clone, Copy, Debug)]
pub struct Unpack;

impl OnHost for Unpack {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let ([from], [_]) = (reads, writes) else { return Err("numbers of no tensor".to_owned()) };
        let (source, to, element) = (Shared(reads), Shared(writes), from.bound.element);
        let count = from.count();
        let table = format(element).map(Format::decode_table);
        divided(count, 4, parallel, &|range| {
            let Some(from) = source.get(0) else { return };
            let begin = range.start;
            // SAFETY: the tensor has these bytes: one for each number, or for two.
            let byte = |at: usize| unsafe { from.start.wrapping_add(at).read() };
            // SAFETY: the result has as many elements, which only this thread writes.
            to.get(0).into_iter().for_each(|to| unsafe {
                match &table {
                    Some(table) => {
                        to.put(begin, &range.clone().map(|at| table.of(byte(at))).collect::<Vec<f32>>());
                    }
                    None => {
                        let of = |at: usize| nibble(byte(at / 2), at % 2, element == Element::Int4);
                        to.put(begin, &range.clone().map(of).collect::<Vec<u8>>());
                    }
                }
            });
        })
    }
}

/// Packs single precision to floats of 8 bits.
#[derive(Clone, Copy, Debug)]
pub struct Pack {
    /// The type.
    pub to: Element,
    /// Whether larger numbers become the largest one.
    pub cuts: bool,
}

impl OnHost for Pack {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [from] = reads else { return Err("numbers of no tensor".to_owned()) };
        let name = self.to.name();
        let format =
            format(self.to).ok_or_else(|| format!("the type is {name}, expected a float of 8 bits"))?;
        // SAFETY: the tensor is readable, as this function requires.
        let (numbers, to) = (unsafe { from.items::<f32>() }?, Shared(writes));
        divided(numbers.len(), 64, parallel, &|range| {
            let own = numbers.get(range.clone()).unwrap_or(&[]);
            let bits: Vec<u8> = own.iter().map(|x| encode(format, *x, self.cuts)).collect();
            // SAFETY: the result has as many elements, which only this thread writes.
            to.get(0).into_iter().for_each(|to| unsafe { to.put(range.start, &bits) });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_8_bits_are_read_and_rounded() {
        let of = |element| format(element).unwrap();
        let e4 = of(Element::Float8E4m3);
        assert_eq!(
            [e4.decode_single(0x38), e4.decode_single(0x7e), e4.decode_single(0x81)],
            [1.0, 448.0, -(2f32.powi(-9))]
        );
        assert!(e4.decode_single(0x7f).is_nan() && e4.decode_single(0xff).is_nan());
        assert_eq!(
            [encode(e4, 1.0, true), encode(e4, 1.0625, true), encode(e4, -1.1875, true)],
            [0x38, 0x38, 0xba]
        );
        assert_eq!(
            [encode(e4, 1e9, true), encode(e4, 1e9, false), encode(e4, 464.0, false)],
            [0x7e, 0x7f, 0x7e]
        );
        let e5 = of(Element::Float8E5m2);
        assert_eq!(
            [e5.decode_single(0x3c), e5.decode_single(0x7b), e5.decode_single(0xfc)],
            [1.0, 57344.0, f32::NEG_INFINITY]
        );
        assert_eq!([encode(e5, f32::INFINITY, false), encode(e5, f32::NEG_INFINITY, true)], [0x7c, 0xfb]);
        let e4z = of(Element::Float8E4m3Fnuz);
        assert_eq!([e4z.decode_single(0x40), e4z.decode_single(0x7f)], [1.0, 240.0]);
        assert_eq!(
            [encode(e4z, -0.0, true), encode(e4z, f32::NAN, true), encode(e4z, 1e9, false)],
            [0, 0x80, 0x80]
        );
        for (element, most) in
            [(Element::Float8E4m3, 0x7e), (Element::Float8E5m2, 0x7b), (Element::Float8E5m2Fnuz, 0x7f)]
        {
            let format = of(element);
            for bits in (0..=most).chain(0x81..=most | 0x80) {
                assert_eq!(encode(format, format.decode_single(bits), false), bits, "{element:?}");
            }
        }
    }
}
