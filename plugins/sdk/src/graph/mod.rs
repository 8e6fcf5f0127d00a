//! The operation graph: tensors, and nodes that read and write them.
//!
//! A graph is plain data. Reading it from bytes checks that the bytes are well formed, not that the graph
//! makes sense: the engine asked to compute it decides that, and gives its reason.

mod enums;
pub mod operation;

pub use enums::{
    AttentionImplementation, ConvMode, DataType, DiagonalAlignment, ENUMERATIONS, MoeGroupedMatmulMode,
    NormFwdPhase, PaddingMode, PointwiseMode, ReductionMode, ResampleMode,
};
pub use operation::Operation;

use std::fmt;

use operation::ConvolutionForward;

/// Why bytes or values do not form a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError(pub String);

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GraphError {}

/// The version of the engine plugin interface that a graph needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion {
    /// Breaking changes.
    pub major: u32,
    /// Additions.
    pub minor: u32,
    /// Corrections.
    pub patch: u32,
}

impl ApiVersion {
    /// A version from its three parts.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `MAJOR.MINOR.PATCH`; whatever follows a fourth dot, a `-` or a `+` is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let core = text.split(['-', '+']).next()?;
        let mut parts = core.split('.');
        let mut next = || parts.next()?.parse::<u32>().ok();
        Some(Self { major: next()?, minor: next()?, patch: next()? })
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A scalar stored in the graph itself instead of in memory that the caller binds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TensorValue {
    /// A single precision value.
    Float32(f32),
    /// A half precision value, kept as the float that equals it.
    Float16(f32),
    /// A bfloat16 value, kept as the float that equals it.
    BFloat16(f32),
    /// The bits of an 8-bit value.
    Float8(u8),
    /// A 32-bit integer.
    Int32(i32),
    /// A double precision value.
    Float64(f64),
    /// A 64-bit integer.
    Int64(i64),
    /// A boolean.
    Bool(bool),
}

impl TensorValue {
    /// The value as a double, whatever its type; none for an 8-bit value.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::Float32(v) | Self::Float16(v) | Self::BFloat16(v) => Some(f64::from(v)),
            Self::Float8(_) => None,
            Self::Int32(v) => Some(f64::from(v)),
            Self::Float64(v) => Some(v),
            Self::Int64(v) => Some(v as f64),
            Self::Bool(v) => Some(f64::from(u8::from(v))),
        }
    }
}

/// A tensor of the graph: shape, layout and type. Its memory is bound at execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The id that nodes and variant packs refer to it by.
    pub uid: i64,
    /// A readable name; may be empty.
    pub name: String,
    /// The type of one element.
    pub data_type: DataType,
    /// Number of elements along each dimension, outermost first.
    pub dims: Vec<i64>,
    /// Stride of each dimension in elements.
    pub strides: Vec<i64>,
    /// Whether the tensor exists only between nodes, without memory of the caller.
    pub is_virtual: bool,
    /// The value, if the graph contains it.
    pub value: Option<TensorValue>,
    /// Whether the caller binds a host pointer to the scalar at execution.
    pub is_runtime_pass_by_value: bool,
    /// The tensor with the offsets of a ragged tensor's sequences.
    pub ragged_offset_uid: Option<i64>,
    /// The alignment in bytes that the caller promises for the first element.
    pub alignment: i64,
    /// The unit of a ragged tensor's offsets.
    pub ragged_offset_multiplier: i64,
}

impl Tensor {
    /// The alignment of a tensor that does not specify one.
    pub const DEFAULT_ALIGNMENT: i64 = 16;

    /// A tensor in the caller's memory with the format's defaults.
    pub fn new(uid: i64, data_type: DataType, dims: &[i64], strides: &[i64]) -> Self {
        Self {
            uid,
            name: String::new(),
            data_type,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            is_virtual: false,
            value: None,
            is_runtime_pass_by_value: false,
            ragged_offset_uid: None,
            alignment: Self::DEFAULT_ALIGNMENT,
            ragged_offset_multiplier: 1,
        }
    }

    /// The same, densely packed: the last dimension is innermost.
    pub fn packed(uid: i64, data_type: DataType, dims: &[i64]) -> Self {
        Self::new(uid, data_type, dims, &packed_strides(dims))
    }

    /// Whether equal indices address the same bytes if both tensors begin at one address: dimensions other
    /// than 1, counted from the last, have equal strides, and elements equal sizes.
    pub fn has_view_of(&self, other: &Self) -> bool {
        fn long(tensor: &Tensor) -> impl Iterator<Item = (usize, (&i64, &i64))> {
            tensor.dims.iter().zip(&tensor.strides).rev().enumerate().filter(|(_, (dim, _))| **dim != 1)
        }
        self.data_type.size() == other.data_type.size() && long(self).eq(long(other))
    }
}

/// The strides of a dense tensor whose last dimension is innermost.
pub fn packed_strides(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1_i64; dims.len()];
    let mut next = 1_i64;
    for (stride, dim) in strides.iter_mut().zip(dims).rev() {
        *stride = next;
        next = next.saturating_mul((*dim).max(1));
    }
    strides
}

/// One operation of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// A readable name; may be empty.
    pub name: String,
    /// The type to compute in; [`DataType::Unset`] means the graph's.
    pub compute_type: DataType,
    /// What is computed.
    pub operation: Operation,
}

impl Node {
    /// An operation in single precision, without a name.
    pub fn single(operation: impl Into<Operation>) -> Self {
        Self { name: String::new(), compute_type: DataType::Float, operation: operation.into() }
    }
}

/// An operation graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// A readable name; may be empty.
    pub name: String,
    /// The compute type of nodes that do not specify one.
    pub compute_type: DataType,
    /// The type of virtual tensors that do not specify one.
    pub intermediate_type: DataType,
    /// The type of other tensors that do not specify one.
    pub io_type: DataType,
    /// The tensors; uids are unique.
    pub tensors: Vec<Tensor>,
    /// The nodes, in an order in which tensors are written before they are read.
    pub nodes: Vec<Node>,
    /// The engine that the caller prefers.
    pub preferred_engine_id: Option<i64>,
    /// Whether shapes and strides may be replaced at execution.
    pub is_override_shape_enabled: bool,
    /// The oldest plugin interface that can express the graph, as recorded by its creator.
    pub min_required_engine_api_version: Option<ApiVersion>,
    /// A random number that identifies the graph.
    pub id: Option<[u8; 16]>,
}

impl Graph {
    /// The tensor with this uid.
    pub fn tensor(&self, uid: i64) -> Option<&Tensor> {
        self.tensors.iter().find(|tensor| tensor.uid == uid)
    }

    /// Whether kernels that are generated for the graph are faster than those of a library: memory is its bound (operations on elements,
    /// reductions, normalizations of rows), or it has a depthwise convolution that cuDNN is slow for.
    pub fn suits_generated_kernels(&self) -> bool {
        self.nodes.iter().all(|node| match &node.operation {
            Operation::Pointwise(_)
            | Operation::Reduction(_)
            | Operation::Layernorm(_)
            | Operation::LayernormBackward(_)
            | Operation::RmsNorm(_)
            | Operation::RmsNormBackward(_) => true,
            Operation::ConvolutionForward(convolution) => self.has_slow_depthwise(convolution),
            _ => false,
        })
    }

    /// Whether a convolution is depthwise, and of those that cuDNN takes longer for than a generated kernel
    /// (benches/results/depthwise_gpu.csv).
    fn has_slow_depthwise(&self, convolution: &ConvolutionForward) -> bool {
        /// Elements of a filter up to which cuDNN has fast kernels for `half` with channels last.
        const FAST_TAPS: i64 = 25;
        self.depthwise(convolution).is_some_and(|(x, taps)| {
            let has_channels_last = x.strides.get(1) == Some(&1);
            match x.data_type {
                DataType::Float => true,
                DataType::Bfloat16 => has_channels_last,
                DataType::Half => has_channels_last && taps > FAST_TAPS,
                _ => false,
            }
        })
    }

    /// The image of a depthwise convolution, and the number of elements of its filter for a channel; none if the convolution is not depthwise.
    pub fn depthwise(&self, convolution: &ConvolutionForward) -> Option<(&Tensor, i64)> {
        let (x, w) = (self.tensor(convolution.x)?, self.tensor(convolution.w)?);
        let ([_, channels, ..], [filters, 1, window @ ..]) = (x.dims.as_slice(), w.dims.as_slice()) else {
            return None;
        };
        (*channels > 1 && channels == filters).then(|| (x, window.iter().product()))
    }

    /// The oldest engine plugin interface that can express the graph.
    pub fn required_api_version(&self) -> ApiVersion {
        self.required_api_version_of(self.tensors.iter())
    }

    /// The same for tensors stored elsewhere.
    pub fn required_api_version_of<'a>(
        &self,
        mut tensors: impl Iterator<Item = &'a Tensor> + Clone,
    ) -> ApiVersion {
        let youngest = |t: &Tensor| t.ragged_offset_uid.is_some() || t.alignment != Tensor::DEFAULT_ALIGNMENT;
        if tensors.clone().any(youngest) {
            ApiVersion::new(1, 3, 0)
        } else if tensors.any(|t| t.is_runtime_pass_by_value) {
            ApiVersion::new(1, 2, 0)
        } else if self.is_override_shape_enabled {
            ApiVersion::new(1, 1, 0)
        } else {
            ApiVersion::new(1, 0, 0)
        }
    }
}
