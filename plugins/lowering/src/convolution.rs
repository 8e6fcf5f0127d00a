//! Convolutions as kernels of the crate `hipdnn-kernels`.

use hipdnn_kernels::Scalar;
use hipdnn_kernels::convolution::{self, Convolution, Tensor};
use hipdnn_kernels::domain::Epilogue;
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::convolution::{Convolution as Planned, Direction};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

use crate::Argument;
use crate::attention::Whole;
use crate::memory::{alignment, in_memory};
use crate::product::{launched, scalar};
use crate::way::Way;

/// The least length of a forward convolution's dot products, and the least number of its channels, for matrix tiles.
const LEAST: [usize; 2] = [32, 16];

/// Whether a convolution is large enough for matrix tiles: the gradients always are.
pub fn suits(problem: &Planned) -> bool {
    let window: usize = problem.window.iter().take(problem.spatial).product();
    let [least_depth, least_channels] = LEAST;
    problem.direction != Direction::Forward
        || (window * problem.in_channels >= least_depth && problem.out_channels >= least_channels)
}

/// The kernels of a convolution with matrix tiles, in order, with an epilogue and what is passed for it. What they leave for each other is added to
/// the graph.
///
/// # Errors
/// What is not supported.
pub fn kernels(
    graph: &mut Graph,
    node: &Node,
    problem: &Planned,
    way: Way<'_>,
    epilogue: Option<(Epilogue, Vec<Argument>)>,
) -> Result<Vec<Whole>, Refusal> {
    let wide = [problem.x, problem.w, problem.y].iter().any(|operand| operand.data_type == DataType::Double);
    let wanted = if wide { DataType::Double } else { DataType::Float };
    if node.compute_type != wanted {
        let (given, wanted) = (node.compute_type.name(), wanted.name());
        return Err(format!("compute type is {given}, expected {wanted} for these tensors"));
    }
    let uids = node.operation.tensors();
    let mut used = Vec::with_capacity(3);
    let mut tensor = |name: &str, operand: &Operand| -> Result<Tensor, Refusal> {
        let uid = uids.get(operand.slot).copied().unwrap_or_default();
        in_memory(graph, name, uid, operand)?;
        used.push(uid);
        let own = scalar(name, operand.data_type)?;
        if !own.is_float() {
            return Err(format!("{name}: data type is {}, expected a real one", operand.data_type.name()));
        }
        Ok(Tensor {
            scalar: own,
            strides: operand.layout.strides().to_vec(),
            alignment: alignment(graph, uid, own),
        })
    };
    let (x, w, y) = (tensor("x", &problem.x)?, tensor("w", &problem.w)?, tensor("y", &problem.y)?);
    if wide && [&x, &w, &y].iter().any(|tensor| tensor.scalar != Scalar::F64) {
        return Err("x, w and y have several types, expected double alone".to_owned());
    }
    let sizes = |all: &[usize]| all.iter().take(problem.spatial).copied().collect::<Vec<usize>>();
    let (epilogue, of_epilogue) = epilogue.unzip();
    let made_of = Convolution {
        direction: match problem.direction {
            Direction::Forward => convolution::Direction::Forward,
            Direction::BackwardData => convolution::Direction::Data,
            Direction::BackwardFilter => convolution::Direction::Filter,
        },
        batch: problem.batch,
        groups: problem.groups,
        in_channels: problem.in_channels,
        out_channels: problem.out_channels,
        input: sizes(&problem.input),
        output: sizes(&problem.output),
        window: sizes(&problem.window),
        stride: sizes(&problem.stride),
        dilation: sizes(&problem.dilation),
        padding: sizes(&problem.pre_padding),
        mirrored: problem.mirrored,
        x,
        w,
        y,
        epilogue,
    };
    // Indices have 32 bits, also those of places outside of x.
    let most = i32::MAX as usize / 4;
    let far = [&made_of.input, &made_of.output, &made_of.padding, &made_of.stride, &made_of.dilation];
    if far.iter().any(|all| all.iter().any(|size| *size > 1 << 24))
        || made_of.window.iter().product::<usize>().saturating_mul(made_of.in_channels) > most
        || made_of.output.iter().product::<usize>().saturating_mul(made_of.batch) > most
        || made_of.input.iter().product::<usize>().saturating_mul(made_of.batch) > most
    {
        return Err("x: sizes, padding, strides or windows are too large for indices of 32 bits".to_owned());
    }
    // The gradient of filters sums over the batch anyway.
    let shares = way.shares || problem.direction == Direction::BackwardFilter;
    let launches = convolution::write(&made_of, way.target, way.name, shares)?;
    Ok(launched(graph, launches, &used, &of_epilogue.unwrap_or_default()))
}
