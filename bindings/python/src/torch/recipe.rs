//! The recipe of a call: a graph, where its tensors come from, and what PyTorch gets back.

use hipdnn::GraphBuilder;
pub use hipdnn::graph::packed_strides as packed;
use hipdnn::graph::{DataType, Operation, Tensor, TensorValue as Number};

use super::arguments::{CPU, TensorValue, dtype};

/// Why a call is left to PyTorch.
pub type Reason = String;

/// A new PyTorch tensor.
#[derive(Debug)]
pub struct Made {
    pub dtype: i32,
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
}

/// Where the graph writes an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The new tensor at an index.
    Made(usize),
    /// Temporary memory. The call's tensor at an index moves towards it by the call's momentum.
    Moved { count: usize, dtype: i32, to: usize },
    /// The call's tensor at an index.
    Given(usize),
}

/// Where PyTorch copies a new tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CopyTo {
    /// Another new tensor.
    Made(usize),
    /// The call's tensor at an index.
    Given(usize),
}

/// A result that PyTorch gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    Made(usize),
    /// An undefined tensor.
    Nothing,
    /// The call's own tensor at this argument; all arguments up to there are tensors.
    Same(usize),
}

/// How to compute a call.
pub struct Recipe {
    pub graph: GraphBuilder,
    /// Tensors that the graph reads, with the index of the call's tensor.
    pub inputs: Vec<(i64, usize)>,
    pub outputs: Vec<(i64, Target)>,
    pub made: Vec<Made>,
    pub answers: Vec<Answer>,
    /// Which new tensors PyTorch copies afterwards, and where to.
    pub copies: Vec<(usize, CopyTo)>,
    /// New host tensors of floats in which -∞, the log-sum-exp of no key, becomes 0 as PyTorch's kernels store it.
    pub sums: Vec<usize>,
    is_double: bool,
    device: (i32, i32),
}

/// The type of a graph's tensors.
pub fn data_type(dtype: i32) -> Result<DataType, Reason> {
    Ok(match dtype {
        dtype::FLOAT => DataType::Float,
        dtype::DOUBLE => DataType::Double,
        dtype::HALF => DataType::Half,
        dtype::BFLOAT16 => DataType::Bfloat16,
        dtype::INT32 => DataType::Int32,
        _ => return Err("a type that no engine computes in".to_owned()),
    })
}

/// The bytes of an element.
pub fn size_of(dtype: i32) -> usize {
    match dtype {
        dtype::FLOAT | dtype::INT32 => 4,
        dtype::DOUBLE | dtype::INT64 => 8,
        _ => 2,
    }
}

impl Recipe {
    /// A recipe whose graph has the type and device of a tensor of the call.
    pub fn new(name: &str, like: &TensorValue) -> Result<Self, Reason> {
        let kind = data_type(like.dtype)?;
        if kind == DataType::Int32 {
            return Err("a type of whole numbers".to_owned());
        }
        let is_double = kind == DataType::Double;
        let inner = if is_double { DataType::Double } else { DataType::Float };
        Ok(Self {
            graph: GraphBuilder::new(name, kind).compute_type(inner).intermediate_type(inner),
            inputs: Vec::new(),
            outputs: Vec::new(),
            made: Vec::new(),
            answers: Vec::new(),
            copies: Vec::new(),
            sums: Vec::new(),
            is_double,
            device: like.device,
        })
    }

    pub fn device(&self) -> (i32, i32) {
        self.device
    }

    /// Adds a tensor of the call, as it is.
    pub fn input(&mut self, of: &TensorValue) -> Result<i64, Reason> {
        self.input_as(of, &of.dims, &of.strides)
    }

    /// Adds a tensor of the call, viewed with another shape.
    pub fn input_as(&mut self, of: &TensorValue, dims: &[i64], strides: &[i64]) -> Result<i64, Reason> {
        if of.dims.contains(&0) {
            return Err("a tensor without elements".to_owned());
        }
        if dims.iter().zip(strides).any(|(size, stride)| *size > 1 && *stride < 1) {
            return Err("a tensor whose elements overlap".to_owned());
        }
        let tensor = Tensor::new(0, data_type(of.dtype)?, dims, strides);
        let uid = self.add(tensor, of.is_aligned, of.dtype)?;
        self.inputs.push((uid, of.at));
        Ok(uid)
    }

    fn add(&mut self, tensor: Tensor, is_aligned: bool, dtype: i32) -> Result<i64, Reason> {
        if !is_aligned && self.device.0 != CPU {
            return Err("a tensor that does not begin at a multiple of 16 bytes".to_owned());
        }
        let alignment = if is_aligned { Tensor::DEFAULT_ALIGNMENT } else { size_of(dtype) as i64 };
        Ok(self.graph.add(Tensor { alignment, ..tensor }))
    }

    /// Adds a new output tensor, viewed with another shape. It becomes the next result.
    pub fn output_as(&mut self, made: Made, dims: &[i64], strides: &[i64]) -> Result<i64, Reason> {
        let uid = self.graph.add(Tensor::new(0, data_type(made.dtype)?, dims, strides));
        self.outputs.push((uid, Target::Made(self.made.len())));
        self.answers.push(Answer::Made(self.made.len()));
        self.made.push(made);
        Ok(uid)
    }

    /// Adds a new output tensor. It becomes the next result.
    pub fn output(&mut self, dtype: i32, dims: &[i64], strides: &[i64]) -> Result<i64, Reason> {
        let made = Made { dtype, dims: dims.to_vec(), strides: strides.to_vec() };
        self.output_as(made, dims, strides)
    }

    /// Adds an output that does not become a result of its own.
    pub fn aside(
        &mut self,
        dtype: i32,
        dims: &[i64],
        strides: &[i64],
        target: Target,
    ) -> Result<i64, Reason> {
        let uid = self.graph.add(Tensor::new(0, data_type(dtype)?, dims, strides));
        self.outputs.push((uid, target));
        Ok(uid)
    }

    /// Adds an output to a tensor of the call, viewed with another shape. It is the result.
    pub fn given(&mut self, of: &TensorValue, dims: &[i64], strides: &[i64]) -> Result<i64, Reason> {
        let tensor = Tensor::new(0, data_type(of.dtype)?, dims, strides);
        let uid = self.add(tensor, of.is_aligned, of.dtype)?;
        self.outputs.push((uid, Target::Given(of.at)));
        self.answers.push(Answer::Same(of.at));
        Ok(uid)
    }

    /// Adds an output that replaces a tensor of the call, which the graph also reads: its elements change
    /// after all were read.
    pub fn replaced(&mut self, of: &TensorValue, dims: &[i64], strides: &[i64]) -> Result<i64, Reason> {
        let made = Made { dtype: of.dtype, dims: of.dims.clone(), strides: packed(&of.dims) };
        let uid = self.aside(of.dtype, dims, strides, Target::Made(self.made.len()))?;
        self.copies.push((self.made.len(), CopyTo::Given(of.at)));
        self.made.push(made);
        Ok(uid)
    }

    /// Adds a new output tensor with elements of another type. It becomes the next result.
    pub fn converted(&mut self, made: Made, dtype: i32) -> Result<i64, Reason> {
        let (dims, strides) = (made.dims.clone(), made.strides.clone());
        let uid = self.aside(dtype, &dims, &strides, Target::Made(self.made.len()))?;
        self.copies.push((self.made.len(), CopyTo::Made(self.made.len() + 1)));
        self.made.push(Made { dtype, dims, strides });
        self.answers.push(Answer::Made(self.made.len()));
        self.made.push(made);
        Ok(uid)
    }

    /// Adds a virtual tensor.
    pub fn between(&mut self, dims: &[i64], strides: &[i64]) -> i64 {
        let kind = if self.is_double { DataType::Double } else { DataType::Float };
        self.graph.add(Tensor { is_virtual: true, ..Tensor::new(0, kind, dims, strides) })
    }

    /// A number rounded to the graph's compute type.
    pub fn number(&mut self, value: f64, rank: usize) -> i64 {
        if !self.is_double {
            return self.graph.number(value as f32, rank);
        }
        let dims = vec![1; rank];
        let tensor = Tensor::new(0, DataType::Double, &dims, &dims);
        self.graph.add(Tensor { value: Some(Number::Float64(value)), ..tensor })
    }

    pub fn node(&mut self, name: &str, operation: impl Into<Operation>) {
        self.graph.node(name, operation);
    }

    /// The type of statistics for a type.
    pub fn statistics(dtype: i32) -> i32 {
        if dtype == dtype::DOUBLE { dtype::DOUBLE } else { dtype::FLOAT }
    }
}

/// Packed strides, the second dimension innermost.
pub fn channels_last(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1_i64; dims.len()];
    let mut stride = 1_i64;
    let order = std::iter::once(1).chain((2..dims.len()).rev()).chain(std::iter::once(0));
    for at in order {
        if let (Some(to), Some(dim)) = (strides.get_mut(at), dims.get(at)) {
            *to = stride;
            stride = stride.saturating_mul((*dim).max(1));
        }
    }
    strides
}

/// Whether strides match a layout, ignoring dimensions of one element.
pub fn lies_as(dims: &[i64], strides: &[i64], expected: &[i64]) -> bool {
    dims.iter().zip(strides).zip(expected).all(|((size, stride), of)| *size == 1 || stride == of)
}

impl TensorValue {
    pub fn is_packed(&self) -> bool {
        lies_as(&self.dims, &self.strides, &packed(&self.dims))
    }

    pub fn count(&self) -> i64 {
        self.dims.iter().product()
    }

    /// Whether PyTorch considers the tensor channels last: by its strides, including dimensions of one element.
    pub fn suggests_channels_last(&self) -> bool {
        if self.dims.len() != 4 && self.dims.len() != 5 {
            return false;
        }
        let at = |of: &[i64], at: usize| of.get(at).copied().unwrap_or(0);
        if at(&self.strides, 1) == 0 {
            return false;
        }
        let mut least = 0;
        for d in std::iter::once(1).chain((2..self.dims.len()).rev()).chain(std::iter::once(0)) {
            let (size, stride) = (at(&self.dims, d), at(&self.strides, d));
            // If the first dimension has the channels' stride, as in [N, C, 1, 1], it counts as channels first.
            if size == 0 || stride < least || d == 0 && least == at(&self.strides, 1) {
                return false;
            }
            least = stride;
            if size > 1 {
                least = least.saturating_mul(size);
            }
        }
        true
    }
}
