//! The values of one node.

use hipdnn_kernels::Scalar;
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::batchnorm::{self, Batchnorm};
use hipdnn_plugin_planner::problem::block_scale::{BlockScale, Dequantize};
use hipdnn_plugin_planner::problem::matmul::Matmul;
use hipdnn_plugin_planner::problem::normalization::{Backward, Forward, Normalization, Statistics};
use hipdnn_plugin_planner::problem::pointwise::Pointwise;
use hipdnn_plugin_planner::problem::reduction::Reduction;
use hipdnn_plugin_planner::problem::{Operand, Problem};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode};

use crate::adding::Adding;
use crate::gather::Window;
use crate::group::{Domain, Group, MAX_TENSORS};
use crate::{Options, block_scale, pointwise, rows};

/// A node that kernels can compute.
#[derive(Debug)]
pub struct Item {
    form: Form,
    real: Scalar,
    options: Options,
    /// The tensors, indexed by the problem's slots.
    uids: Vec<i64>,
}

/// Which part of a problem is computed.
#[derive(Debug)]
enum Form {
    Pointwise(Pointwise),
    Reduction(Reduction),
    /// With given statistics.
    Batchnorm(batchnorm::Inference),
    Normalization(Box<Forward>),
    /// The gradient of x, by rows.
    InputGradient(Box<Backward>),
    /// The gradients of scale and bias, along the rows.
    ParameterGradient(Box<Backward>),
    Window(Box<Window>),
    Matmul(Box<Matmul>),
    Dequantize(Box<Dequantize>),
}

/// The reason to refuse doubles.
pub(crate) const NO_DOUBLES: &str = "compute type is double, which the device lacks";

/// The type that a compute type stands for.
pub(crate) fn real(data_type: DataType, options: Options) -> Result<Scalar, Refusal> {
    match data_type {
        DataType::Float | DataType::Half | DataType::Bfloat16 => Ok(Scalar::F32),
        DataType::Double if options.has_doubles => Ok(Scalar::F64),
        DataType::Double => Err(NO_DOUBLES.to_owned()),
        other => Err(format!("compute type is {}, expected float, double, half or bfloat16", other.name())),
    }
}

impl Item {
    /// The item for a node and its problem.
    ///
    /// # Errors
    /// What is not supported.
    pub fn of(node: &Node, problem: Problem, options: Options) -> Result<Self, Refusal> {
        let form = match problem {
            Problem::Pointwise(pointwise) => Form::Pointwise(*pointwise),
            Problem::Reduction(reduction) => Form::Reduction(*reduction),
            Problem::Normalization(Normalization::Forward(forward)) => Form::Normalization(forward),
            Problem::Normalization(Normalization::Backward(backward)) => {
                // Separate nodes before this one compute statistics that were not saved.
                if let Statistics::Computed(_) = backward.statistics {
                    return Err("mean: absent, expected mean and inv_variance".to_owned());
                }
                Form::InputGradient(backward)
            }
            Problem::Batchnorm(batchnorm) => match *batchnorm {
                Batchnorm::Inference(inference) => Form::Batchnorm(inference),
                // They were expanded into nodes before.
                Batchnorm::Training(_) | Batchnorm::Backward(_) => {
                    return Err("operation: is a batchnorm that was not expanded".to_owned());
                }
            },
            Problem::Convolution(convolution) => Form::Window(Box::new(Window::convolution(*convolution)?)),
            Problem::Resample(pooling) => Form::Window(Box::new(Window::pooling(*pooling)?)),
            Problem::Matmul(matmul) => {
                rows::check_shares(&matmul)?;
                Form::Matmul(matmul)
            }
            Problem::BlockScale(BlockScale::Dequantize(own)) => {
                block_scale::check(&own)?;
                Form::Dequantize(own)
            }
            // They have kernels of their own.
            Problem::Attention(_)
            | Problem::AttentionGradients(_)
            | Problem::Mixture(_)
            | Problem::MixtureGradient(_)
            | Problem::BlockScale(BlockScale::Quantize(_)) => {
                return Err("is not computed by walking over elements".to_owned());
            }
        };
        let real = match &form {
            Form::Matmul(_) | Form::Window(_) if node.compute_type == DataType::Int32 => Scalar::I32,
            _ => real(node.compute_type, options)?,
        };
        // Ragged tensors do not occur in these operations.
        Ok(Self { form, real, options, uids: node.operation.tensors() })
    }

    /// The rest of the node, which another kernel computes along other dimensions.
    pub fn rest(&self) -> Option<Self> {
        let Form::InputGradient(backward) = &self.form else { return None };
        let form = Form::ParameterGradient(backward.clone());
        Some(Self { form, real: self.real, options: self.options, uids: self.uids.clone() })
    }

    /// The dimensions that the node iterates over.
    pub fn domain(&self) -> Domain {
        let behind = |operand: &Operand, leading: usize| {
            let dims = operand.layout.dims();
            (dims.to_vec(), Some((0..dims.len()).map(|axis| axis >= leading).collect()))
        };
        let (dims, reduced) = match &self.form {
            Form::Pointwise(p) => (p.output.layout.dims().to_vec(), None),
            Form::Batchnorm(p) => (p.y.layout.dims().to_vec(), None),
            Form::Reduction(p) => {
                let dims = p.x.layout.dims();
                (dims.to_vec(), Some(p.reduced.iter().take(dims.len()).copied().collect()))
            }
            Form::Normalization(p) => behind(&p.x, p.leading),
            Form::InputGradient(p) => behind(&p.x, p.leading),
            Form::ParameterGradient(p) => {
                let dims = p.x.layout.dims();
                (dims.to_vec(), Some((0..dims.len()).map(|axis| axis < p.leading).collect()))
            }
            Form::Window(p) => (p.output().layout.dims().to_vec(), None),
            Form::Matmul(p) => rows::matmul_domain(p),
            Form::Dequantize(p) => (p.y.layout.dims().to_vec(), None),
        };
        Domain { dims, reduced }
    }

    /// Whether a kernel can compute this node in addition to those it has.
    pub fn fits(&self, group: &Group) -> bool {
        let (domain, own) = (self.domain(), group.domain());
        let rows = own.rows();
        let gathers = group.program.gathers();
        let is_of_row = match &self.form {
            Form::Pointwise(_) | Form::Batchnorm(_) if domain.dims == own.dims => false,
            Form::Pointwise(_) if rows.as_ref() == Some(&domain.dims) => true,
            Form::Pointwise(_) | Form::Batchnorm(_) | Form::Matmul(_) => return false,
            Form::Reduction(_)
            | Form::Normalization(_)
            | Form::InputGradient(_)
            | Form::ParameterGradient(_) => {
                let same = own.reduced.is_none() || own.reduced == domain.reduced;
                if domain.dims != own.dims || !same || gathers {
                    return false;
                }
                false
            }
            Form::Window(_) | Form::Dequantize(_) if domain == own => false,
            Form::Window(_) | Form::Dequantize(_) => return false,
        };
        // Values computed by this kernel are only available for their own element or row.
        let at_hand = |operand: &Operand| match self.uid(operand.slot).and_then(|uid| group.is_of_row(uid)) {
            None => true,
            Some(false) => !is_of_row && operand.layout.dims() == own.dims,
            Some(true) => rows.as_deref() == Some(operand.layout.dims()),
        };
        let is_loaded = |slot: usize| self.uid(slot).is_none_or(|uid| group.is_of_row(uid).is_none());
        let fits = match &self.form {
            Form::Pointwise(p) => p.inputs.iter().all(|input| at_hand(&input.operand)),
            Form::Reduction(p) => at_hand(&p.x),
            Form::Batchnorm(p) => {
                let others = rows::channels(p).into_iter().map(|(_, part)| part.slot).chain(rows::epsilon(p));
                at_hand(&p.x) && others.into_iter().all(is_loaded)
            }
            Form::Normalization(p) => {
                let others = [Some(p.scale.slot), p.bias.map(|bias| bias.slot), Some(p.epsilon.slot)];
                at_hand(&p.x) && others.into_iter().flatten().all(is_loaded)
            }
            Form::InputGradient(p) | Form::ParameterGradient(p) => {
                let [mean, inverse] = rows::saved(p);
                let others =
                    [Some(p.scale.slot), mean.map(|mean| mean.slot), inverse.map(|inverse| inverse.slot)];
                at_hand(&p.x) && at_hand(&p.dy) && others.into_iter().flatten().all(is_loaded)
            }
            Form::Window(p) => p.inputs().all(|operand| is_loaded(operand.slot)),
            Form::Dequantize(p) => [p.x.slot, p.scale.slot].into_iter().all(is_loaded),
            Form::Matmul(_) => false,
        };
        fits && group.tensors + self.uids.len() <= MAX_TENSORS
    }

    fn uid(&self, slot: usize) -> Option<i64> {
        self.uids.get(slot).copied()
    }

    /// Adds the node's values to a group.
    ///
    /// # Errors
    /// What is not supported.
    pub fn add(&self, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        group.tensors += self.uids.len();
        if let Some(reduced) = self.domain().reduced {
            group.program.reduced = Some(reduced);
        }
        let mut node = Adding { group, graph, real: self.real, options: self.options, uids: &self.uids };
        match &self.form {
            Form::Pointwise(p) => add_pointwise(&mut node, p),
            Form::Reduction(p) => rows::reduction(&mut node, p),
            Form::Batchnorm(p) => rows::batchnorm(&mut node, p),
            Form::Normalization(p) => rows::normalization(&mut node, p),
            Form::InputGradient(p) => rows::input_gradient(&mut node, p),
            Form::ParameterGradient(p) => rows::parameter_gradient(&mut node, p),
            Form::Window(p) => p.add(&mut node),
            Form::Matmul(p) => rows::matmul(&mut node, p),
            Form::Dequantize(p) => block_scale::dequantize(&mut node, p),
        }
    }
}

fn add_pointwise(node: &mut Adding<'_>, p: &Pointwise) -> Result<(), Refusal> {
    use hipdnn_kernels::domain::Origin;
    let value = if p.mode == PointwiseMode::GenIndex {
        let dim = node.group.program.dims.get(p.axis).copied().unwrap_or(1);
        // Beyond 2^24 elements float cannot represent every index.
        let real = if dim > 1 << 24 { Scalar::I64 } else { node.real };
        node.group.program.push(Origin::Index(p.axis), real)
    } else {
        let mut inputs = Vec::with_capacity(3);
        for input in &p.inputs {
            inputs.push(node.spread(input.operand.slot, &input.strides)?);
        }
        if inputs.len() < p.mode.operands() {
            return Err(format!("operation: {} is not computed by this engine", p.mode.name()));
        }
        let (mode, activation) = (p.mode, p.activation);
        node.group.compute(node.real, &inputs, move |b, operands| {
            // Every mode with its operands has a value.
            pointwise::write(b, mode, operands, &activation)
                .or(operands.first().copied())
                .unwrap_or_else(|| b.number(0))
        })
    };
    node.write_element(&p.output, value)
}
