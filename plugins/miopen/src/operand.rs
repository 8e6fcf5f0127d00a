//! Tensors of a graph as MIOpen describes them.

use std::ffi::c_int;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::Layout;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_sdk::graph::DataType;

use crate::miopen::{BFLOAT16, FLOAT, HALF, Miopen, MiopenError};
use crate::object::{self, Object};

/// The most dimensions of a tensor descriptor here: MIOpen's kernels know no more.
pub const MAX_RANK: usize = 5;

/// Shape and type of a tensor, in MIOpen's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// MIOpen's number of the type.
    pub data_type: c_int,
    /// Elements along each dimension.
    pub dims: Vec<c_int>,
    /// Elements between neighbours along each dimension.
    pub strides: Vec<c_int>,
}

/// MIOpen's number of a type; the engines take three of them.
pub fn data_type(name: &str, data_type: DataType) -> Result<c_int, Refusal> {
    match data_type {
        DataType::Float => Ok(FLOAT),
        DataType::Half => Ok(HALF),
        DataType::Bfloat16 => Ok(BFLOAT16),
        other => Err(format!("{name}: data type is {}, expected float, half or bfloat16", other.name())),
    }
}

/// MIOpen's number of a type, for the functions that do not take bfloat16.
pub fn without_bfloat16(name: &str, data: DataType) -> Result<c_int, Refusal> {
    match data {
        DataType::Bfloat16 => {
            Err(format!("{name}: data type is bfloat16, expected float or half for this operation"))
        }
        other => data_type(name, other),
    }
}

/// A number as MIOpen takes it.
pub fn int(name: &str, value: usize) -> Result<c_int, Refusal> {
    c_int::try_from(value).map_err(|_| format!("{name}: {value} is beyond the 32 bits of MIOpen's numbers"))
}

impl Shape {
    /// A shape of these numbers.
    pub fn new(name: &str, data: DataType, dims: &[usize], strides: &[usize]) -> Result<Self, Refusal> {
        if dims.len() > MAX_RANK {
            return Err(format!("{name}: has {} dimensions, expected at most {MAX_RANK}", dims.len()));
        }
        let ints =
            |values: &[usize]| values.iter().map(|value| int(name, *value)).collect::<Result<Vec<_>, _>>();
        Ok(Self { data_type: data_type(name, data)?, dims: ints(dims)?, strides: ints(strides)? })
    }

    /// The tensor as one row of elements, where its elements lie without gaps.
    pub fn flat(name: &str, operand: &Operand) -> Result<Option<Self>, Refusal> {
        let elements = operand.layout.elements();
        if operand.layout.extent() != elements || !operand.layout.is_injective() {
            return Ok(None);
        }
        Self::new(name, operand.data_type, &[1, 1, 1, elements], &[elements, elements, elements, 1]).map(Some)
    }

    /// The tensor with the dimensions that an operand is spread over in this order, outermost first, and 1s before them
    /// until there are four. Dimensions that the operand lacks are 1. Only where the elements then lie without gaps:
    /// MIOpen's operations on two tensors take no notice of other strides.
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
                    "{name}: dims {:?} and strides {:?}, expected no gaps and dimensions that lie as in out_0",
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

/// The layouts of images that MIOpen's kernels read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageLayout {
    /// Channels outside pixels, NCHW or NCDHW.
    ChannelsFirst,
    /// Channels inside pixels, NHWC or NDHWC.
    ChannelsLast,
}

impl ImageLayout {
    /// Which of the two layouts a tensor without gaps has; both where it makes no difference.
    pub fn of(layout: &Layout) -> [Option<Self>; 2] {
        let rank = layout.rank();
        let first = (0..rank).rev();
        let last = std::iter::once(1).chain((2..rank).rev()).chain(std::iter::once(0)).take(rank.max(2));
        [
            packed(layout, first).then_some(Self::ChannelsFirst),
            packed(layout, last).then_some(Self::ChannelsLast),
        ]
    }

    /// The layout that all these tensors have.
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

/// Whether the elements lie without gaps with the dimensions in this order, innermost first. Strides of dimensions of 1
/// count for nothing.
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
    // A stable sort: dimensions of 1 stay where they are said, whatever their stride.
    axes.sort_by_key(|axis| {
        let long = layout.dims().get(*axis).is_some_and(|dim| *dim > 1);
        std::cmp::Reverse(if long { layout.strides().get(*axis).copied().unwrap_or(0) } else { usize::MAX })
    });
    axes
}

/// The strides of dims without gaps in one of the layouts, so that MIOpen sees the layout even where some dims are 1.
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

/// An image tensor of rank 3 to 5 with MIOpen's strides for its layout; one spatial dimension becomes two.
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
