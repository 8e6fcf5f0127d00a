//! The values of one node.

#![expect(clippy::indexing_slicing, reason = "axes run below the rank of the domain, at most MAX_RANK")]

use hipdnn_plugin_lowering::check_floats;
use hipdnn_plugin_lowering::rows::{channels, epsilon, saved, saved_floats};
use hipdnn_plugin_planner::layout::MAX_RANK;
use hipdnn_plugin_planner::problem::batchnorm::{self, Batchnorm};
use hipdnn_plugin_planner::problem::normalization::{Backward, Forward, Normalization, Spread, Statistics};
use hipdnn_plugin_planner::problem::pointwise::Pointwise;
use hipdnn_plugin_planner::problem::reduction::Reduction;
use hipdnn_plugin_planner::problem::{Operand, Problem};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode, ReductionMode};

use super::group::{Domain, Group};
use super::pointwise::expression;
use super::value::{Level, Real};
use super::window::Window;
use crate::Refusal;

/// A node that kernels can compute.
#[derive(Debug)]
pub struct Item {
    form: Form,
    real: Real,
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
}

impl Item {
    /// The item for a node and its problem; the refusal states what is not supported.
    pub fn of(node: &Node, problem: Problem) -> Result<Self, Refusal> {
        let form = match problem {
            Problem::Pointwise(pointwise) => Form::Pointwise(*pointwise),
            Problem::Reduction(reduction) => match reduction.as_pointwise() {
                Some(pointwise) => Form::Pointwise(pointwise),
                None if reduction.is_of_single() => {
                    return Err("out: dims are those of in, expected 1 where in has more".to_owned());
                }
                None => Form::Reduction(*reduction),
            },
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
                // These were expanded into nodes before.
                Batchnorm::Training(_) | Batchnorm::Backward(_) => {
                    return Err("operation: computes statistics of channels, expected given ones".to_owned());
                }
            },
            Problem::Convolution(convolution) => Form::Window(Box::new(Window::convolution(*convolution)?)),
            Problem::Resample(pooling) => Form::Window(Box::new(Window::pooling(*pooling)?)),
            Problem::Attention(_)
            | Problem::AttentionGradients(_)
            | Problem::Mixture(_)
            | Problem::MixtureGradient(_)
            | Problem::Matmul(_)
            | Problem::BlockScale(_) => {
                return Err(
                    "is not computed by this engine, expected pointwise, reduction, layernorm, RMSnorm, \
                            batchnorm, convolution, pooling, matmul or attention"
                        .to_owned(),
                );
            }
        };
        let real = Real::of(node.compute_type)?;
        // Ragged tensors do not occur in these operations.
        Ok(Self { form, real, uids: node.operation.tensors() })
    }

    /// The rest of the node, which another kernel computes along other dimensions.
    pub fn rest(&self) -> Option<Self> {
        let Form::InputGradient(backward) = &self.form else { return None };
        let form = Form::ParameterGradient(backward.clone());
        Some(Self { form, real: self.real, uids: self.uids.clone() })
    }

    /// The dimensions that the node iterates over.
    pub fn domain(&self) -> Domain {
        let (dims, reduced) = match &self.form {
            Form::Pointwise(p) => (p.output.layout.dims(), None),
            Form::Batchnorm(p) => (p.y.layout.dims(), None),
            Form::Reduction(p) => {
                let dims = p.x.layout.dims();
                (dims, Some(p.reduced[..dims.len()].to_vec()))
            }
            Form::Normalization(p) => {
                let dims = p.x.layout.dims();
                (dims, Some((0..dims.len()).map(|axis| axis >= p.leading).collect()))
            }
            Form::InputGradient(p) => {
                let dims = p.x.layout.dims();
                (dims, Some((0..dims.len()).map(|axis| axis >= p.leading).collect()))
            }
            Form::ParameterGradient(p) => {
                let dims = p.x.layout.dims();
                (dims, Some((0..dims.len()).map(|axis| axis < p.leading).collect()))
            }
            Form::Window(p) => (p.output().layout.dims(), None),
        };
        Domain { dims: dims.to_vec(), reduced }
    }

    /// Whether a kernel can compute this node in addition to those it has.
    pub fn fits(&self, group: &Group) -> bool {
        let domain = self.domain();
        let rows = group.domain.rows();
        let level = match &self.form {
            Form::Pointwise(_) | Form::Batchnorm(_) if domain.dims == group.domain.dims => Level::Element,
            Form::Pointwise(_) if rows.as_ref() == Some(&domain.dims) => Level::Row,
            Form::Pointwise(_) | Form::Batchnorm(_) => return false,
            Form::Reduction(_)
            | Form::Normalization(_)
            | Form::InputGradient(_)
            | Form::ParameterGradient(_) => {
                let same = group.domain.reduced.is_none() || group.domain.reduced == domain.reduced;
                if domain.dims != group.domain.dims || !same || group.gathers() {
                    return false;
                }
                Level::Element
            }
            Form::Window(_) if domain == group.domain => Level::Element,
            Form::Window(_) => return false,
        };
        // Values computed by this kernel are only available for their own element or row.
        let at_hand = |operand: &Operand| match group.level_of(self.uids[operand.slot]) {
            None => true,
            Some(Level::Element) => level == Level::Element && operand.layout.dims() == group.domain.dims,
            Some(Level::Row) => rows.as_deref() == Some(operand.layout.dims()),
        };
        let fits = match &self.form {
            Form::Pointwise(p) => p.inputs.iter().all(|input| at_hand(&input.operand)),
            Form::Reduction(p) => at_hand(&p.x),
            Form::Batchnorm(p) => {
                let others = channels(p).into_iter().map(|(_, part)| part.slot).chain(epsilon(p));
                at_hand(&p.x) && others.into_iter().all(|slot| group.level_of(self.uids[slot]).is_none())
            }
            Form::Normalization(p) => {
                let others = [Some(p.scale.slot), p.bias.map(|bias| bias.slot), Some(p.epsilon.slot)];
                at_hand(&p.x)
                    && others.into_iter().flatten().all(|slot| group.level_of(self.uids[slot]).is_none())
            }
            Form::InputGradient(p) | Form::ParameterGradient(p) => {
                let [mean, inverse] = saved(p);
                let others =
                    [Some(p.scale.slot), mean.map(|mean| mean.slot), inverse.map(|inverse| inverse.slot)];
                at_hand(&p.x)
                    && at_hand(&p.dy)
                    && others.into_iter().flatten().all(|slot| group.level_of(self.uids[slot]).is_none())
            }
            Form::Window(p) => {
                p.inputs().all(|(_, operand)| group.level_of(self.uids[operand.slot]).is_none())
            }
        };
        fits && group.tensors + self.uids.len() <= super::group::MAX_TENSORS
    }

    /// Adds the node's values to a group.
    pub fn add(&self, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        group.tensors += self.uids.len();
        match &self.form {
            Form::Pointwise(p) => self.pointwise(p, group, graph),
            Form::Reduction(p) => self.reduction(p, group, graph),
            Form::Batchnorm(p) => self.batchnorm(p, group, graph),
            Form::Normalization(p) => self.normalization(p, group, graph),
            Form::InputGradient(p) => self.input_gradient(p, group, graph),
            Form::ParameterGradient(p) => self.parameter_gradient(p, group, graph),
            Form::Window(p) => self.window(p, group, graph),
        }
    }

    fn pointwise(&self, p: &Pointwise, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        let real = self.real;
        let level = if p.output.layout.dims() == group.domain.dims { Level::Element } else { Level::Row };
        let value = if p.mode == PointwiseMode::GenIndex {
            // Beyond 2^24 elements float cannot represent every index.
            let real = if group.domain.dims[p.axis] <= 1 << 24 { real } else { Real::Double };
            let index = group.index(p.axis, real, DataType::Int64);
            group.compute(level, real, format!("v{index}"), &[index])
        } else {
            let mut inputs = Vec::with_capacity(3);
            for input in &p.inputs {
                inputs.push(group.operand(graph, self.uids[input.operand.slot], input.strides, real)?);
            }
            let names: Vec<String> = inputs.iter().map(|input| group.name(*input, real)).collect();
            if let (PointwiseMode::Div, [power, sum, ..]) = (p.mode, inputs.as_slice())
                && group.is_softmax(*power, *sum)
            {
                let inverse = group.compute(Level::Row, real, format!("1 / v{sum}"), &[*sum]);
                let value = group.compute(level, real, format!("v{power} * v{inverse}"), &[*power, inverse]);
                return group.write(graph, self.uids[p.output.slot], spread(&p.output), value);
            }
            let text = expression(p.mode, &names, &p.activation, real)
                .ok_or_else(|| format!("operation: {} is not computed by this engine", p.mode.name()))?;
            group.compute(level, real, text, &inputs)
        };
        group.write(graph, self.uids[p.output.slot], spread(&p.output), value)
    }

    fn reduction(&self, p: &Reduction, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        use ReductionMode as M;
        group.domain.reduced = self.domain().reduced;
        let real = self.real;
        let x = group.operand(graph, self.uids[p.x.slot], spread(&p.x), real)?;
        // Sums of large integers, and products, which soon leave float's range, are accumulated in double.
        let wide = matches!(p.x.data_type, DataType::Int32 | DataType::Int64 | DataType::Double)
            || matches!(p.mode, M::Mul | M::MulNoZeros);
        let total = if wide { Real::Double } else { real };
        let name = group.name(x, total);
        let term = match p.mode {
            M::Amax | M::Norm1 => Some(format!("m_fabs({name})")),
            M::Norm2 => Some(format!("{name} * {name}")),
            M::MulNoZeros => Some(format!("{name} == 0 ? ({}){} : {name}", total.name(), 1)),
            _ => None,
        };
        let term = match term {
            Some(text) => group.compute(Level::Element, total, text, &[x]),
            None => x,
        };
        let (join, start) = match p.mode {
            M::Mul | M::MulNoZeros => ("join_product", 1.0),
            M::Min => ("join_smallest", f64::INFINITY),
            M::Max => ("join_largest", f64::NEG_INFINITY),
            M::Amax => ("join_largest", 0.0),
            M::NotSet | M::Add | M::Avg | M::Norm1 | M::Norm2 => ("join_sum", 0.0),
        };
        let joined = group.reduce(total, join, start, term);
        let text = match p.mode {
            M::Avg => format!("({})(v{joined} / {})", real.name(), total.literal(p.count as f64)),
            M::Norm2 => format!("({})m_sqrt(v{joined})", real.name()),
            _ => format!("({})v{joined}", real.name()),
        };
        let result = group.compute(Level::Row, real, text, &[joined]);
        group.write(graph, self.uids[p.y.slot], spread(&p.y), result)
    }

    fn batchnorm(&self, p: &batchnorm::Inference, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        let real = self.real;
        let parts = channels(p);
        check_floats(&[("x", Some(p.x.data_type)), ("y", Some(p.y.data_type))])?;
        check_floats(&parts.map(|(name, part)| (name, Some(part.data_type))))?;
        let x = group.operand(graph, self.uids[p.x.slot], spread(&p.x), real)?;
        let mut inputs = vec![x];
        for (_, part) in parts {
            let mut strides = [0; MAX_RANK];
            strides[1] = if p.x.layout.dims()[1] == 1 { 0 } else { part.stride };
            inputs.push(group.operand(graph, self.uids[part.slot], strides, real)?);
        }
        if let Some(slot) = epsilon(p) {
            let epsilon = group.operand(graph, self.uids[slot], [0; MAX_RANK], real)?;
            let [variance, own] = [inputs[2], epsilon].map(|value| group.name(value, real));
            let text = format!("1 / m_sqrt({variance} + {own})");
            inputs[2] = group.compute(Level::Element, real, text, &[inputs[2], epsilon]);
        }
        let names: Vec<String> = inputs.iter().map(|value| group.name(*value, real)).collect();
        let text = format!("({} - {}) * {} * {} + {}", names[0], names[1], names[2], names[3], names[4]);
        let y = group.compute(Level::Element, real, text, &inputs);
        group.write(graph, self.uids[p.y.slot], spread(&p.y), y)
    }

    fn normalization(&self, p: &Forward, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        let domain = self.domain();
        let count = domain.dims[p.leading..].iter().product::<usize>() as f64;
        group.domain.reduced = domain.reduced;
        let real = self.real;
        check_floats(&[
            ("x", Some(p.x.data_type)),
            ("y", Some(p.y.data_type)),
            ("scale", Some(p.scale.data_type)),
            ("bias", p.bias.map(|part| part.data_type)),
            ("mean", p.mean.map(|part| part.data_type)),
            ("inverse", p.inverse.map(|part| part.data_type)),
        ])?;
        let x = group.operand(graph, self.uids[p.x.slot], spread(&p.x), real)?;
        let count = real.literal(count);
        let own = group.name(x, real);
        let mean = if p.centered {
            let sum = group.reduce(real, "join_sum", 0.0, x);
            Some(group.compute(Level::Row, real, format!("v{sum} / {count}"), &[sum]))
        } else {
            None
        };
        let centered = match mean {
            Some(mean) => group.compute(Level::Element, real, format!("{own} - v{mean}"), &[x, mean]),
            None => group.compute(Level::Element, real, own, &[x]),
        };
        let square = group.compute(Level::Element, real, format!("v{centered} * v{centered}"), &[centered]);
        let squares = group.reduce(real, "join_sum", 0.0, square);
        let epsilon = group.operand(graph, self.uids[p.epsilon.slot], [0; MAX_RANK], real)?;
        let epsilon_name = group.name(epsilon, real);
        let text = format!("1 / m_sqrt(v{squares} / {count} + {epsilon_name})");
        let inverse = group.compute(Level::Row, real, text, &[squares, epsilon]);
        let scale = self.part(&p.scale, group, graph)?;
        let text = format!("{} * v{centered} * v{inverse}", group.name(scale, real));
        let mut y = group.compute(Level::Element, real, text, &[scale, centered, inverse]);
        if let Some(bias) = &p.bias {
            let bias = self.part(bias, group, graph)?;
            let text = format!("v{y} + {}", group.name(bias, real));
            y = group.compute(Level::Element, real, text, &[y, bias]);
        }
        group.write(graph, self.uids[p.y.slot], spread(&p.y), y)?;
        if let (Some(part), Some(mean)) = (&p.mean, mean) {
            group.write(graph, self.uids[part.slot], part.strides, mean)?;
        }
        if let Some(part) = &p.inverse {
            group.write(graph, self.uids[part.slot], part.strides, inverse)?;
        }
        Ok(())
    }

    /// dy and the normalized x of each element, and the inverse of its row.
    fn normalized(
        &self,
        p: &Backward,
        group: &mut Group,
        graph: &Graph,
    ) -> Result<(usize, usize, usize), Refusal> {
        let real = self.real;
        let (mean, inverse) = saved_floats(p)?;
        let x = group.operand(graph, self.uids[p.x.slot], spread(&p.x), real)?;
        let dy = group.operand(graph, self.uids[p.dy.slot], spread(&p.dy), real)?;
        let inverse = self.part(&inverse, group, graph)?;
        let mut text = group.name(x, real);
        let mut inputs = vec![x, inverse];
        if let Some(mean) = mean {
            let mean = self.part(&mean, group, graph)?;
            text = format!("({text} - {})", group.name(mean, real));
            inputs.push(mean);
        }
        let text = format!("{text} * {}", group.name(inverse, real));
        let normalized = group.compute(Level::Element, real, text, &inputs);
        let dy = group.compute(Level::Element, real, group.name(dy, real), &[dy]);
        Ok((dy, normalized, inverse))
    }

    fn input_gradient(&self, p: &Backward, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        let domain = self.domain();
        let real = self.real;
        let count = real.literal(domain.dims[p.leading..].iter().product::<usize>() as f64);
        group.domain.reduced = domain.reduced;
        let (dy, normalized, inverse) = self.normalized(p, group, graph)?;
        let scale = self.part(&p.scale, group, graph)?;
        let text = format!("v{dy} * {}", group.name(scale, real));
        let scaled = group.compute(Level::Element, real, text, &[dy, scale]);
        let product =
            group.compute(Level::Element, real, format!("v{scaled} * v{normalized}"), &[scaled, normalized]);
        let along = group.reduce(real, "join_sum", 0.0, product);
        let mut text = format!("v{scaled} - v{normalized} * (v{along} / {count})");
        let mut inputs = vec![scaled, normalized, along, inverse];
        if p.centered {
            let sum = group.reduce(real, "join_sum", 0.0, scaled);
            text = format!("{text} - v{sum} / {count}");
            inputs.push(sum);
        }
        let text = format!("({text}) * {}", group.name(inverse, real));
        let dx = group.compute(Level::Element, real, text, &inputs);
        group.write(graph, self.uids[p.dx.slot], spread(&p.dx), dx)
    }

    fn parameter_gradient(&self, p: &Backward, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        group.domain.reduced = self.domain().reduced;
        let real = self.real;
        let (dy, normalized, _) = self.normalized(p, group, graph)?;
        let product =
            group.compute(Level::Element, real, format!("v{dy} * v{normalized}"), &[dy, normalized]);
        for (part, term) in [(Some(&p.dscale), product), (p.dbias.as_ref(), dy)] {
            if let Some(part) = part {
                let sum = group.reduce(real, "join_sum", 0.0, term);
                let sum = group.compute(Level::Row, real, format!("v{sum}"), &[sum]);
                group.write(graph, self.uids[part.slot], part.strides, sum)?;
            }
        }
        Ok(())
    }

    fn window(&self, p: &Window, group: &mut Group, graph: &Graph) -> Result<(), Refusal> {
        let floats: Vec<_> = p.floats().map(|(name, operand)| (name, Some(operand.data_type))).collect();
        check_floats(&floats)?;
        let tensors: Vec<(&str, i64)> =
            p.inputs().map(|(name, operand)| (name, self.uids[operand.slot])).collect();
        let strip = p.strip();
        let body = p.body(strip.as_ref(), self.real)?;
        let value = group.gather(graph, self.real, &tensors, body, strip)?;
        group.write(graph, self.uids[p.output().slot], spread(p.output()), value)?;
        if let Some((index, real, body)) = p.index(self.real)? {
            let value = group.gather(graph, real, &tensors, body, None)?;
            group.write(graph, self.uids[index.slot], spread(index), value)?;
        }
        Ok(())
    }

    fn part(&self, part: &Spread, group: &mut Group, graph: &Graph) -> Result<usize, Refusal> {
        group.operand(graph, self.uids[part.slot], part.strides, self.real)
    }
}

/// The strides of a tensor with the domain's dimensions: 0 along those of size 1.
fn spread(operand: &Operand) -> [usize; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    for (axis, (dim, stride)) in operand.layout.dims().iter().zip(operand.layout.strides()).enumerate() {
        strides[axis] = if *dim == 1 { 0 } else { *stride };
    }
    strides
}
