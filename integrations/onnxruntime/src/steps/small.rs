//! Numbers of fewer bits than hipDNN's types have: floats of 8 bits, and integers of 4, two of which are in a byte.

use super::divided;
use crate::lowering::{OnHost, Shared, Slab};
use crate::model::{Element, nibble};
use crate::threads::Parallel;

/// A float of 8 bits: those of its exponent, its bias, and which bits are no number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Form {
    mantissa: u32,
    bias: i32,
    /// The largest number's bits; those above are infinite or no number.
    most: u8,
    /// What replaces larger numbers if they are not cut.
    beyond: u8,
    nan: u8,
    /// Whether zero has no sign, and its place stands for no number.
    is_unsigned_zero: bool,
}

impl Form {
    fn of(element: Element) -> Option<Self> {
        let form = |mantissa, bias, [most, beyond, nan]: [u8; 3], is_unsigned_zero| Self {
            mantissa,
            bias,
            most,
            beyond,
            nan,
            is_unsigned_zero,
        };
        Some(match element {
            Element::Float8E4m3 => form(3, 7, [0x7e, 0x7f, 0x7f], false),
            Element::Float8E5m2 => form(2, 15, [0x7b, 0x7c, 0x7f], false),
            Element::Float8E4m3Fnuz => form(3, 8, [0x7f, 0x80, 0x80], true),
            Element::Float8E5m2Fnuz => form(2, 16, [0x7f, 0x80, 0x80], true),
            _ => return None,
        })
    }

    /// The number of bits without a sign.
    fn magnitude(self, bits: u8) -> f32 {
        let (exponent, mantissa) =
            (i32::from(bits >> self.mantissa), i32::from(bits) & ((1 << self.mantissa) - 1));
        let one = 1 << self.mantissa;
        let (whole, power) = if exponent == 0 { (mantissa, 1) } else { (mantissa + one, exponent) };
        whole as f32 / one as f32 * 2f32.powi(power - self.bias)
    }

    fn decode(self, bits: u8) -> f32 {
        if self.is_unsigned_zero && bits == 0x80 {
            return f32::NAN;
        }
        let (sign, bits) = (if bits > 0x7f { -1.0 } else { 1.0 }, bits & 0x7f);
        sign * match bits {
            bits if bits <= self.most => self.magnitude(bits),
            bits if bits == self.beyond && self.beyond != self.nan => f32::INFINITY,
            _ => f32::NAN,
        }
    }

    /// All numbers without a sign, in order.
    fn magnitudes(self) -> Vec<f32> {
        (0..=self.most).map(|bits| self.magnitude(bits)).collect()
    }

    /// The nearest of [`Form::magnitudes`], of two the one whose last bit is 0. `cuts` makes the largest one of larger numbers.
    fn encode(self, magnitudes: &[f32], x: f32, cuts: bool) -> u8 {
        if x.is_nan() {
            return self.nan | if self.is_unsigned_zero || x.is_sign_positive() { 0 } else { 0x80 };
        }
        let (sign, x) = (if x.is_sign_negative() { 0x80 } else { 0 }, x.abs());
        let above = magnitudes.partition_point(|magnitude| *magnitude < x);
        // The next number, also where none is left.
        let above = u8::try_from(above).unwrap_or(self.most);
        let below = above.saturating_sub(1);
        let (high, low) = (self.magnitude(above), self.magnitude(below));
        let nearest = match (high - x).total_cmp(&(x - low)) {
            std::cmp::Ordering::Greater => below,
            std::cmp::Ordering::Equal if above % 2 == 1 => below,
            _ => above,
        };
        let bits = match nearest > self.most {
            true if cuts => self.most,
            true => self.beyond,
            false => nearest,
        };
        if self.is_unsigned_zero && (bits == 0 || bits == 0x80) { bits } else { bits | sign }
    }
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
        let table =
            Form::of(element).map(|form| (0..=u8::MAX).map(|bits| form.decode(bits)).collect::<Vec<f32>>());
        divided(count, 4, parallel, &|range| {
            let Some(from) = source.get(0) else { return };
            let begin = range.start;
            // SAFETY: the tensor has these bytes: one for each number, or for two.
            let byte = |at: usize| unsafe { from.start.wrapping_add(at).read() };
            // SAFETY: the result has as many elements, which only this thread writes.
            to.get(0).into_iter().for_each(|to| unsafe {
                match &table {
                    Some(table) => {
                        let of = |at| table.get(usize::from(byte(at))).copied().unwrap_or(0.0);
                        to.put(begin, &range.clone().map(of).collect::<Vec<f32>>());
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
        let form =
            Form::of(self.to).ok_or_else(|| format!("the type is {name}, expected a float of 8 bits"))?;
        let magnitudes = form.magnitudes();
        // SAFETY: the tensor is readable, as this function requires.
        let (numbers, to) = (unsafe { from.items::<f32>() }?, Shared(writes));
        divided(numbers.len(), 64, parallel, &|range| {
            let own = numbers.get(range.clone()).unwrap_or(&[]);
            let bits: Vec<u8> = own.iter().map(|x| form.encode(&magnitudes, *x, self.cuts)).collect();
            // SAFETY: the result has as many elements, which only this thread writes.
            to.get(0).into_iter().for_each(|to| unsafe { to.put(range.start, &bits) });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(form: Form, x: f32, cuts: bool) -> u8 {
        form.encode(&form.magnitudes(), x, cuts)
    }

    #[test]
    fn floats_of_8_bits_are_read_and_rounded() {
        let form = |element| Form::of(element).unwrap();
        let e4 = form(Element::Float8E4m3);
        assert_eq!([e4.decode(0x38), e4.decode(0x7e), e4.decode(0x81)], [1.0, 448.0, -(2f32.powi(-9))]);
        assert!(e4.decode(0x7f).is_nan() && e4.decode(0xff).is_nan());
        assert_eq!(
            [encoded(e4, 1.0, true), encoded(e4, 1.0625, true), encoded(e4, -1.1875, true)],
            [0x38, 0x38, 0xba]
        );
        assert_eq!(
            [encoded(e4, 1e9, true), encoded(e4, 1e9, false), encoded(e4, 464.0, false)],
            [0x7e, 0x7f, 0x7e]
        );
        let e5 = form(Element::Float8E5m2);
        assert_eq!([e5.decode(0x3c), e5.decode(0x7b), e5.decode(0xfc)], [1.0, 57344.0, f32::NEG_INFINITY]);
        assert_eq!([encoded(e5, f32::INFINITY, false), encoded(e5, f32::NEG_INFINITY, true)], [0x7c, 0xfb]);
        let e4z = form(Element::Float8E4m3Fnuz);
        assert_eq!([e4z.decode(0x40), e4z.decode(0x7f)], [1.0, 240.0]);
        assert_eq!(
            [encoded(e4z, -0.0, true), encoded(e4z, f32::NAN, true), encoded(e4z, 1e9, false)],
            [0, 0x80, 0x80]
        );
        for element in [Element::Float8E4m3, Element::Float8E5m2, Element::Float8E5m2Fnuz] {
            let form = form(element);
            for bits in (0..=form.most).chain(0x81..=form.most | 0x80) {
                assert_eq!(encoded(form, form.decode(bits), false), bits, "{element:?}");
            }
        }
    }
}
