//! The graph's tensors as described to MIOpen.

use std::ffi::c_int;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::Layout;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_sdk::graph::DataType;

use crate::miopen::{BFLOAT16, FLOAT, HALF, Miopen, MiopenError};
use crate::object::{self, Object};

/// Maximum number of dimensions of a tensor descriptor here: the limit of MIOpen's kernels.
pub const MAX_RANK: usize = 5;

/// Shape and type of a tensor, as MIOpen's integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// MIOpen's number of the type.
    pub data_type: c_int,
    /// Size of each dimension.
    pub dims: Vec<c_int>,
    /// Stride of each dimension in elements.
    pub strides: Vec<c_int>,
}

/// MIOpen's number of a type; the engines support three of them.
pub fn data_type(name: &str, data_type: DataType) -> Result<c_int, Refusal> {
    match data_type {
        DataType::Float => Ok(FLOAT),
        DataType::Half => Ok(HALF),
        DataType::Bfloat16 => Ok(BFLOAT16),
        other => Err(format!("{name}: data type is {}, expected float, half or bfloat16", other.name())),
    }
}

/// MIOpen's number of a type, for functions without bfloat16.
pub fn without_bfloat16(name: &str, data: DataType) -> Result<c_int, Refusal> {
    match data {
        DataType::Bfloat16 => {
            Err(format!("{name}: data type is bfloat16, expected float or half for this operation"))
        }
        other => data_type(name, other),
    }
}

/// Refuses a tensor that is not of the type of another, whose name is `like`.
pub fn same_type(name: &str, is: DataType, like: &str, expected: DataType) -> Result<(), Refusal> {
    if is == expected {
        return Ok(());
    }
    Err(format!("{name}: data type is {}, expected {} as in {like}", is.name(), expected.name()))
}

/// A number as MIOpen's integer type.
pub fn int(name: &str, value: usize) -> Result<c_int, Refusal> {
    c_int::try_from(value).map_err(|_| format!("{name}: {value} exceeds MIOpen's 32-bit integers"))
}

impl Shape {
    /// A shape with these sizes and strides.
    pub fn new(name: &str, data: DataType, dims: &[usize], strides: &[usize]) -> Result<Self, Refusal> {
        if dims.len() > MAX_RANK {
            return Err(format!("{name}: has {} dimensions, expected at most {MAX_RANK}", dims.len()));
        }
        let ints =
            |values: &[usize]| values.iter().map(|value| int(name, *value)).collect::<Result<Vec<_>, _>>();
        Ok(Self { data_type: data_type(name, data)?, dims: ints(dims)?, strides: ints(strides)? })
    }

    /// The tensor as one row of elements, if it is dense.
    pub fn flat(name: &str, operand: &Operand) -> Result<Option<Self>, Refusal> {
        let elements = operand.layout.elements();
        if operand.layout.extent() != elements || !operand.layout.is_injective() {
            return Ok(None);
        }
        Self::new(name, operand.data_type, &[1, 1, 1, elements], &[elements, elements, elements, 1]).map(Some)
    }

    /// The tensor with its dimensions in this order, outermost first, padded to rank four with leading 1s.
    /// Dimensions that the operand lacks are 1. Only if the result is dense: MIOpen's operations on two
    /// tensors ignore other strides.
    pub fn in_order(name: &str, operand: &Operand, axes: &[usize]) -> Result<Self, Refusal> {
        let layout = &operand.layout;
        let missing = axes.len().saturating_sub(layout.rank());
        let at = |values: &[usize], axis: usize| {
            axis.checked_sub(missing).and_then(|axis| values.get(axis).copied()).unwrap_or(1)
        };
        let mut expected = 1;
        for axis in axes.iter().rev() {
            let (dim, stride) = (at(layout.dims(), *axis), at(layout.strides(), *axis));
            if dim > 1 && stride != expected {
                return Err(format!(
                    "{name}: dims {:?} and strides {:?}, expected a dense tensor with the dimension order of out_0",
                    layout.dims(),
                    layout.strides()
                ));
            }
            expected *= dim;
        }
        let mut dims: Vec<usize> = axes.iter().map(|axis| at(layout.dims(), *axis)).collect();
        while dims.len() < 4 {
            dims.insert(0, 1);
        }
        let strides = strides(&dims, ImageLayout::ChannelsFirst);
        Self::new(name, operand.data_type, &dims, &strides)
    }

    /// A descriptor of it.
    ///
    /// # Errors
    /// MIOpen's.
    pub fn descriptor(&self, miopen: &Miopen) -> Result<Object, MiopenError> {
        object::tensor(miopen, self.data_type, &self.dims, &self.strides)
    }
}

/// The image layouts that MIOpen's kernels support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageLayout {
    /// Channels first: NCHW or NCDHW.
    ChannelsFirst,
    /// Channels last: NHWC or NDHWC.
    ChannelsLast,
}

impl ImageLayout {
    /// Which of the two layouts a dense tensor has; both if they are equivalent.
    pub fn of(layout: &Layout) -> [Option<Self>; 2] {
        let rank = layout.rank();
        let first = (0..rank).rev();
        let last = std::iter::once(1).chain((2..rank).rev()).chain(std::iter::once(0)).take(rank.max(2));
        [
            packed(layout, first).then_some(Self::ChannelsFirst),
            packed(layout, last).then_some(Self::ChannelsLast),
        ]
    }

    /// The layout shared by all these tensors.
    pub fn common(tensors: &[(&str, &Operand)]) -> Result<Self, Refusal> {
        [Self::ChannelsFirst, Self::ChannelsLast]
            .into_iter()
            .find(|layout| tensors.iter().all(|(_, operand)| Self::of(&operand.layout).contains(&Some(*layout))))
            .ok_or_else(|| {
                let all: Vec<String> = tensors
                    .iter()
                    .map(|(name, operand)| {
                        format!("{name} {:?} {:?}", operand.layout.dims(), operand.layout.strides())
                    })
                    .collect();
                format!(
                    "dims and strides are {}, expected all without gaps and either channels first or channels last",
                    all.join(", ")
                )
            })
    }
}

/// Whether the tensor is dense with its dimensions in this order, innermost first. Strides of dimensions of 1
/// are ignored.
fn packed(layout: &Layout, inner_to_outer: impl Iterator<Item = usize>) -> bool {
    let mut expected = 1;
    for axis in inner_to_outer {
        let (Some(dim), Some(stride)) = (layout.dims().get(axis), layout.strides().get(axis)) else {
            return false;
        };
        if *dim > 1 && *stride != expected {
            return false;
        }
        expected *= dim;
    }
    true
}

/// The dimensions of a layout from the outermost to the innermost in memory.
pub fn memory_order(layout: &Layout) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..layout.rank()).collect();
    // A stable sort: dimensions of 1 keep their position, whatever their stride.
    axes.sort_by_key(|axis| {
        let long = layout.dims().get(*axis).is_some_and(|dim| *dim > 1);
        std::cmp::Reverse(if long { layout.strides().get(*axis).copied().unwrap_or(0) } else { usize::MAX })
    });
    axes
}

/// Dense strides for dims in one of the layouts, so that MIOpen recognizes the layout even if some dims are
/// 1.
pub fn strides(dims: &[usize], layout: ImageLayout) -> Vec<usize> {
    let rank = dims.len();
    let mut strides = vec![1; rank];
    let order: Vec<usize> = match layout {
        ImageLayout::ChannelsFirst => (0..rank).rev().collect(),
        ImageLayout::ChannelsLast => {
            std::iter::once(1).chain((2..rank).rev()).chain(std::iter::once(0)).collect()
        }
    };
    let mut next = 1;
    for axis in order {
        if let (Some(stride), Some(dim)) = (strides.get_mut(axis), dims.get(axis)) {
            *stride = next;
            next *= dim;
        }
    }
    strides
}

/// An image tensor of rank 3 to 5 with MIOpen's strides for its layout; a missing spatial dimension is added.
pub fn image(name: &str, operand: &Operand, layout: ImageLayout) -> Result<Shape, Refusal> {
    let mut dims = operand.layout.dims().to_vec();
    while dims.len() < 4 {
        dims.insert(2.min(dims.len()), 1);
    }
    let strides = strides(&dims, layout);
    Shape::new(name, operand.data_type, &dims, &strides)
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::Tensor;

    use super::*;

    fn operand(dims: &[i64], strides: &[i64]) -> Operand {
        let tensor = Tensor::new(1, DataType::Half, dims, strides);
        Operand { slot: 0, data_type: DataType::Half, layout: Layout::of(&tensor).unwrap() }
    }

    #[test]
    fn layouts_are_told_apart() {
        use ImageLayout::{ChannelsFirst, ChannelsLast};
        let of = |dims: &[i64], strides: &[i64]| ImageLayout::of(&operand(dims, strides).layout);
        assert_eq!(of(&[2, 3, 4, 5], &[60, 20, 5, 1]), [Some(ChannelsFirst), None]);
        assert_eq!(of(&[2, 3, 4, 5], &[60, 1, 15, 3]), [None, Some(ChannelsLast)]);
        assert_eq!(of(&[2, 3, 1, 1], &[3, 1, 99, 7]), [Some(ChannelsFirst), Some(ChannelsLast)]);
        assert_eq!(of(&[2, 3, 4, 5], &[61, 20, 5, 1]), [None, None]);
        assert_eq!(strides(&[2, 3, 4, 5], ChannelsLast), [60, 1, 15, 3]);
        assert_eq!(strides(&[2, 3, 4, 5], ChannelsFirst), [60, 20, 5, 1]);
        let (a, b) = (operand(&[2, 3, 4, 5], &[60, 1, 15, 3]), operand(&[1, 3, 1, 1], &[3, 1, 1, 1]));
        assert_eq!(ImageLayout::common(&[("a", &a), ("b", &b)]), Ok(ChannelsLast));
        let c = operand(&[2, 3, 4, 5], &[60, 20, 5, 1]);
        let refusal = ImageLayout::common(&[("a", &a), ("c", &c)]).unwrap_err();
        assert!(refusal.contains("c [2, 3, 4, 5] [60, 20, 5, 1]"), "{refusal}");
    }

    #[test]
    fn shapes_are_in_miopens_numbers() {
        let line = image("x", &operand(&[2, 3, 7], &[21, 7, 1]), ImageLayout::ChannelsFirst).unwrap();
        assert_eq!((line.dims, line.strides), (vec![2, 3, 1, 7], vec![21, 7, 7, 1]));
        let flat = Shape::flat("x", &operand(&[2, 3], &[1, 2])).unwrap().unwrap();
        assert_eq!(flat.dims, [1, 1, 1, 6]);
        assert_eq!(Shape::flat("x", &operand(&[2, 3], &[8, 2])), Ok(None));
        let last = operand(&[2, 3, 4, 5], &[60, 1, 15, 3]);
        let ordered = Shape::in_order("x", &last, &[0, 2, 3, 1]).unwrap();
        assert_eq!((ordered.dims, ordered.strides), (vec![2, 4, 5, 3], vec![60, 15, 3, 1]));
        let short = Shape::in_order("x", &operand(&[2, 3], &[3, 1]), &[0, 1]).unwrap();
        assert_eq!((short.dims, short.strides), (vec![1, 1, 2, 3], vec![6, 6, 3, 1]));
        let spread = Shape::in_order("x", &operand(&[3, 1, 1], &[1, 1, 1]), &[0, 2, 3, 1]).unwrap();
        assert_eq!(spread.dims, [1, 1, 1, 3]);
        let refusal = Shape::in_order("x", &last, &[0, 1, 2, 3]).unwrap_err();
        assert!(refusal.starts_with("x: dims [2, 3, 4, 5] and strides [60, 1, 15, 3]"), "{refusal}");
    }
}
