//! NumPy's .npy files.
//!
//! A file has a magic number, a version, the length of a header, the header, which is a Python dictionary of three known keys,
//! and the elements. Anything else is refused.

use std::fs;
use std::path::Path;

use half::f16;
use serde::Deserialize;
use serde_json::Value;

use super::Array;
use crate::data_type::DataType;
use crate::failure::{Failure, Result};
use crate::graph::Tensor;

const MAGIC: &[u8] = b"\x93NUMPY";

/// The content of a header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    descr: Value,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Parses a header as JSON after replacing the few characters in which NumPy's dictionaries differ.
    fn read(text: &str) -> std::result::Result<Self, String> {
        let mut json: String = text.split_whitespace().collect();
        let signs = [("'", "\""), ("True", "true"), ("False", "false"), ("(", "["), (")", "]")];
        for (python, sign) in signs.into_iter().chain([(",]", "]"), (",}", "}")]) {
            json = json.replace(python, sign);
        }
        serde_json::from_str(&json).map_err(|why| format!("the header is not as NumPy writes it: {why}"))
    }
}

/// Reads the array in a file.
pub fn read(path: &Path) -> Result<Array> {
    let bytes = fs::read(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    parse(&bytes).map_err(|why| Failure::input(format!("{}: {why}", path.display())))
}

/// Writes an array to a file in NumPy's type for the tensor's: floats of 16 bits and less become `float32`.
pub fn write(path: &Path, tensor: &Tensor, array: &Array) -> Result<()> {
    fs::write(path, compose(tensor.data_type, array))
        .map_err(|error| Failure::input(format!("cannot write {}: {error}", path.display())))
}

fn parse(bytes: &[u8]) -> std::result::Result<Array, String> {
    let rest =
        bytes.strip_prefix(MAGIC).ok_or("this is not a .npy file: the first bytes are not \\x93NUMPY")?;
    let (header, data) = match rest {
        [1, _, low, high, rest @ ..] => rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high]))),
        [2 | 3, _, a, b, c, d, rest @ ..] => usize::try_from(u32::from_le_bytes([*a, *b, *c, *d]))
            .ok()
            .and_then(|length| rest.split_at_checked(length)),
        [major, minor, ..] => {
            return Err(format!("the .npy version is {major}.{minor}, expected 1.0 to 3.0"));
        }
        _ => None,
    }
    .ok_or("the file ends inside its header")?;
    let header = std::str::from_utf8(header).map_err(|_| "the header is not text")?;
    let Header { descr, fortran_order, shape } = Header::read(header)?;
    let element = descr.as_str().ok_or("the elements are records, expected numbers")?;
    let count = shape.iter().try_fold(1_usize, |count, dim| count.checked_mul(*dim));
    let count = count.ok_or("the shape is too large")?;
    let (size, decode) = decoder(element)?;
    let expected = count.checked_mul(size).ok_or("the shape is too large")?;
    if data.len() != expected {
        return Err(format!("there are {} bytes of elements, expected {expected}", data.len()));
    }
    let values: Vec<f64> = data.chunks_exact(size).map(decode).collect();
    let values = if fortran_order { from_fortran_order(&shape, &values) } else { values };
    Ok(Array { dims: shape, values })
}

/// The size of an element, and how to read one.
#[expect(clippy::type_complexity, reason = "the pair is taken apart where it is answered")]
fn decoder(element: &str) -> std::result::Result<(usize, Box<dyn Fn(&[u8]) -> f64>), String> {
    let (order, kind) = element.split_at_checked(1).unwrap_or_default();
    if !matches!(order, "<" | ">" | "|" | "=") {
        return Err(format!("the elements are {element:?}, expected numbers like '<f4'"));
    }
    let is_big = order == ">";
    macro_rules! decode {
        ($type:ty, $number:expr) => {
            Ok((
                size_of::<$type>(),
                Box::new(move |bytes: &[u8]| {
                    let Some(bytes) = bytes.first_chunk().copied() else { return f64::NAN };
                    let value =
                        if is_big { <$type>::from_be_bytes(bytes) } else { <$type>::from_le_bytes(bytes) };
                    $number(value)
                }),
            ))
        };
    }
    match kind {
        "f2" => decode!(f16, f16::to_f64),
        "f4" => decode!(f32, f64::from),
        "f8" => decode!(f64, f64::from),
        "i1" => decode!(i8, f64::from),
        "i2" => decode!(i16, f64::from),
        "i4" => decode!(i32, f64::from),
        "i8" => decode!(i64, |value| value as f64),
        "u1" => decode!(u8, f64::from),
        "u2" => decode!(u16, f64::from),
        "u4" => decode!(u32, f64::from),
        "u8" => decode!(u64, |value| value as f64),
        "b1" => decode!(u8, |value| f64::from(u8::from(value != 0))),
        _ => Err(format!("the elements are {element:?}, expected floats, integers or booleans")),
    }
}

/// Converts column-major to row-major order.
fn from_fortran_order(dims: &[usize], values: &[f64]) -> Vec<f64> {
    let mut ordered = Vec::with_capacity(values.len());
    for at in 0..values.len() {
        let (mut rest, mut place, mut below) = (at, 0, values.len());
        for dim in dims.iter().rev() {
            below /= dim.max(&1);
            place += rest % dim.max(&1) * below;
            rest /= dim.max(&1);
        }
        ordered.push(values.get(place).copied().unwrap_or(f64::NAN));
    }
    ordered
}

fn compose(data_type: DataType, array: &Array) -> Vec<u8> {
    let element = match data_type {
        DataType::Double => "<f8",
        DataType::Int64 => "<i8",
        DataType::Int32 => "<i4",
        DataType::Int8 | DataType::Int4 => "|i1",
        DataType::Uint8 => "|u1",
        DataType::Boolean => "|b1",
        _ => "<f4",
    };
    let dims: String = array.dims.iter().map(|dim| format!("{dim}, ")).collect();
    let dims = if array.dims.len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The elements start at a multiple of 64 bytes.
    let before = MAGIC.len() + 4;
    header.push_str(&" ".repeat(63 - (before + header.len()) % 64));
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(u16::try_from(header.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(header.as_bytes());
    for value in &array.values {
        match element {
            "<f8" => bytes.extend(value.to_le_bytes()),
            "<i8" => bytes.extend((*value as i64).to_le_bytes()),
            "<i4" => bytes.extend((*value as i32).to_le_bytes()),
            "|i1" => bytes.extend((*value as i8).to_le_bytes()),
            "|u1" => bytes.push(*value as u8),
            "|b1" => bytes.push(u8::from(*value != 0.0)),
            _ => bytes.extend((*value as f32).to_le_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn written_files_are_read_back() {
        for (data_type, dims, values) in [
            (DataType::Float, vec![2, 2], vec![0.5, -1.0, 3.25, f64::INFINITY]),
            (DataType::Double, vec![3], vec![0.1, 0.2, 0.3]),
            (DataType::Half, vec![], vec![1.5]),
            (DataType::Int64, vec![1, 2], vec![-5.0, 7.0]),
            (DataType::Int8, vec![2], vec![-128.0, 127.0]),
            (DataType::Boolean, vec![2], vec![0.0, 1.0]),
            (DataType::Uint8, vec![0, 4], vec![]),
        ] {
            let array = Array { dims, values };
            let bytes = compose(data_type, &array);
            assert_eq!(parse(&bytes), Ok(array), "{data_type}");
        }
    }

    #[test]
    fn the_header_is_what_numpy_writes() {
        let bytes = compose(DataType::Half, &Array { dims: vec![3], values: vec![0.0; 3] });
        let header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(&bytes[10..10 + header.len()], header);
        assert_eq!((bytes.len() - 12) % 64, 0);
    }

    #[test]
    fn other_orders_of_bytes_and_elements_are_read() {
        let bytes = file(
            "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3)}",
            &[0, 0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5],
        );
        assert_eq!(parse(&bytes).unwrap().values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn hostile_files_are_refused() {
        let header = |text: &str| parse(&file(text, &[0; 8])).unwrap_err();
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
        assert!(parse(&file(good, &[0; 8])).is_ok());
        assert!(parse(b"PK").unwrap_err().contains("not a .npy file"));
        assert!(parse(b"\x93NUMPY\x09\x00\x00\x00").unwrap_err().contains("version is 9.0"));
        assert!(parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{").unwrap_err().contains("inside its header"));
        assert!(parse(&file(good, &[0; 9])).unwrap_err().contains("9 bytes of elements, expected 8"));
        assert!(header("{'descr': '<f4', 'shape': (2,)}").contains("missing field `fortran_order`"));
        assert!(header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}").contains("\"|O\""));
        assert!(
            header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}").contains("records")
        );
        assert!(header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}").contains("integer `-2`"));
        assert!(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), 'x': 1}").contains("`x`"));
        assert!(header("").contains("the header is not as NumPy writes it"));
        let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}";
        assert!(header(huge).contains("too large"));
        assert!(header(&"(".repeat(60000)).contains("recursion limit exceeded"));
        for length in 0..file(good, &[0; 8]).len() {
            assert!(parse(&file(good, &[0; 8])[..length]).is_err(), "{length}");
        }
    }
}
