//! The elements of a tensor in the order of its dimensions, whatever its strides.

use super::element::Elements;
use crate::data_type::DataType;
use crate::failure::{Failure, Result};
use crate::graph::{Tensor, shape};

/// Numbers in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The dimensions.
    pub dims: Vec<usize>,
    /// As many numbers as the dimensions say.
    pub values: Vec<f64>,
}

/// The most elements that are allocated.
const MOST: usize = 1 << 36;

/// The number of elements from the first to the last of a tensor, including gaps; 0 for an empty one.
pub fn extent(tensor: &Tensor) -> Result<usize> {
    let wrong = |why: &str| Failure::work(format!("tensor {} cannot be laid out: {why}", tensor.label()));
    let mut last = 0_usize;
    let mut is_empty = false;
    for (dim, stride) in tensor.dims.iter().zip(&tensor.strides) {
        let dim = usize::try_from(*dim).map_err(|_| wrong("a dimension is negative"))?;
        let stride = usize::try_from(*stride).map_err(|_| wrong("a stride is negative"))?;
        is_empty |= dim == 0;
        let reach = dim.saturating_sub(1).checked_mul(stride).and_then(|reach| last.checked_add(reach));
        last = reach.filter(|last| *last < MOST).ok_or_else(|| wrong("it is too large"))?;
    }
    Ok(if is_empty { 0 } else { last + 1 })
}

/// The number of elements of a tensor. With strides of 0 it may exceed `extent`.
pub fn count(tensor: &Tensor) -> Result<usize> {
    extent(tensor)?;
    let count =
        tensor.dims.iter().try_fold(1_usize, |count, dim| count.checked_mul(usize::try_from(*dim).ok()?));
    count
        .filter(|count| *count < MOST)
        .ok_or_else(|| Failure::work(format!("tensor {} has too many elements", tensor.label())))
}

/// The bytes that a tensor takes.
pub fn bytes(tensor: &Tensor) -> Result<usize> {
    Elements::bytes(tensor.data_type, extent(tensor)?)
        .ok_or_else(|| Failure::work(format!("tensor {} is too large", tensor.label())))
}

/// The accessor of a tensor's elements.
pub(super) fn elements(tensor: &Tensor) -> Result<Elements> {
    Elements::of(tensor.data_type)
        .ok_or_else(|| Failure::work(format!("tensor {} has no data type", tensor.label())))
}

/// The dimensions of a tensor, checked by [`extent`].
fn dims(tensor: &Tensor) -> Vec<usize> {
    tensor.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect()
}

/// Calls `f` with the memory offset of each element, in row-major order.
pub(super) fn for_each(tensor: &Tensor, mut f: impl FnMut(usize)) -> Result<()> {
    if count(tensor)? == 0 {
        return Ok(());
    }
    let (Some((width, dims)), Some((step, strides))) =
        (tensor.dims.split_last(), tensor.strides.split_last())
    else {
        f(0);
        return Ok(());
    };
    let mut index = vec![0_i64; dims.len()];
    let mut row = 0_i64;
    loop {
        let mut place = row;
        for _ in 0..*width {
            f(usize::try_from(place).unwrap_or(0));
            place += step;
        }
        let mut axes = index.iter_mut().zip(dims.iter().zip(strides)).rev();
        loop {
            let Some((at, (dim, stride))) = axes.next() else { return Ok(()) };
            *at += 1;
            row += stride;
            if *at < *dim {
                break;
            }
            row -= *at * stride;
            *at = 0;
        }
    }
}

impl Array {
    /// Reads a tensor from its memory.
    pub fn read(tensor: &Tensor, memory: &[u8]) -> Result<Self> {
        let elements = elements(tensor)?;
        let mut values = Vec::new();
        for_each(tensor, |place| values.push(elements.get(memory, place)))?;
        Ok(Self { dims: dims(tensor), values })
    }

    /// The values as a type holds them.
    pub fn rounded(&self, data_type: DataType) -> Self {
        let Some(elements) = Elements::of(data_type) else { return self.clone() };
        let mut memory = [0; 8];
        let round = |value: &f64| {
            elements.set(&mut memory, 0, *value);
            elements.get(&memory, 0)
        };
        Self { dims: self.dims.clone(), values: self.values.iter().map(round).collect() }
    }

    /// Writes it to the memory of a tensor.
    pub fn write(&self, tensor: &Tensor, memory: &mut [u8]) -> Result<()> {
        self.check(tensor)?;
        let elements = elements(tensor)?;
        let mut values = self.values.iter();
        for_each(tensor, |place| elements.set(memory, place, values.next().copied().unwrap_or(0.0)))
    }

    /// Checks that it has the tensor's shape, and values in range if the tensor's type is an integer.
    pub fn check(&self, tensor: &Tensor) -> Result<()> {
        if self.dims != dims(tensor) {
            let own: Vec<i64> = self.dims.iter().map(|dim| *dim as i64).collect();
            return Err(Failure::input(format!(
                "the array has the shape [{}], tensor {} has [{}]",
                shape(&own),
                tensor.label(),
                shape(&tensor.dims)
            )));
        }
        let (least, greatest) = tensor.data_type.whole_range();
        let fits = |value: &f64| value.fract() == 0.0 && (least..=greatest).contains(value);
        match self.values.iter().find(|value| tensor.data_type.is_integer() && !fits(value)) {
            Some(value) => Err(Failure::input(format!(
                "the array has the value {value}, tensor {} has the type {}",
                tensor.label(),
                tensor.data_type
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tensor(dims: &[i64], strides: &[i64], data_type: &str) -> Tensor {
        Tensor::read(
            &json!({"uid": 1, "name": "t", "dims": dims, "strides": strides, "data_type": data_type}),
        )
        .unwrap()
    }

    #[test]
    fn strides_are_honoured() {
        let tensor = tensor(&[2, 3], &[1, 4], "float");
        assert_eq!(extent(&tensor), Ok(10));
        let mut memory = vec![0xff; bytes(&tensor).unwrap()];
        let array = Array { dims: vec![2, 3], values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        array.write(&tensor, &mut memory).unwrap();
        let at = |place: usize| f32::from_le_bytes(memory[4 * place..4 * place + 4].try_into().unwrap());
        assert_eq!([at(0), at(1), at(4), at(5), at(8), at(9)], [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert!(at(2).is_nan(), "a gap was written");
        assert_eq!(Array::read(&tensor, &memory), Ok(array));
    }

    #[test]
    fn scalars_and_empty_tensors() {
        assert_eq!(extent(&tensor(&[], &[], "float")), Ok(1));
        assert_eq!(extent(&tensor(&[0, 5], &[5, 1], "float")), Ok(0));
        assert_eq!(Array::read(&tensor(&[0, 5], &[5, 1], "float"), &[]).unwrap().values, Vec::<f64>::new());
    }

    #[test]
    fn invalid_layouts_are_refused() {
        for (dims, strides) in [(&[-1][..], &[1][..]), (&[2], &[-1]), (&[i64::MAX, i64::MAX], &[i64::MAX, 1])]
        {
            assert!(extent(&tensor(dims, strides, "float")).is_err(), "{dims:?}");
        }
        // One place in memory, and more elements than one can have.
        let repeated = tensor(&[1 << 30, 1 << 30], &[0, 0], "float");
        assert_eq!(extent(&repeated), Ok(1));
        assert!(count(&repeated).is_err() && Array::read(&repeated, &[0; 4]).is_err());
    }

    #[test]
    fn a_wrong_shape_is_named() {
        let array = Array { dims: vec![3], values: vec![0.0; 3] };
        let failure = array.write(&tensor(&[2], &[1], "half"), &mut [0; 4]).unwrap_err().to_string();
        assert_eq!(failure, "the array has the shape [3], tensor t has [2]");
        let array = Array { dims: vec![1], values: vec![300.0] };
        let failure = array.check(&tensor(&[1], &[1], "uint8")).unwrap_err().to_string();
        assert_eq!(failure, "the array has the value 300, tensor t has the type uint8");
    }
}
