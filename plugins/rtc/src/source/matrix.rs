//! Nodes that kernels of the crate `hipdnn-kernels` compute.

use hipdnn_kernels::product::{self, Launch, Launches, Matrix, Passed, Product};
use hipdnn_kernels::{Scalar, Target, form, print};
use hipdnn_plugin_lowering::attention::Whole;
pub(super) use hipdnn_plugin_lowering::memory::{alignment, in_memory};
use hipdnn_plugin_lowering::spelling::unused;
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::matmul::Matmul;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor};

use super::kernel::{Argument, Kernel};
use crate::Refusal;

/// For which device kernels are written, and how.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// The device.
    pub target: &'a Target,
    /// The name of the kernel, with which those of its followers begin.
    pub name: &'a str,
    /// Whether workgroups share dot products as the sizes of the batch suggest.
    pub shares: bool,
}

/// The kernels of a node, if it is of this kind. What they leave for each other is added to the graph.
pub fn kernels(
    graph: &mut Graph,
    node: &Node,
    problem: &Problem,
    way: Way<'_>,
) -> Option<Result<Vec<Kernel>, Refusal>> {
    match problem {
        Problem::Matmul(matmul) => Some(matmul_kernels(graph, node, matmul, way)),
        Problem::Convolution(own) if super::convolution::suits(graph, node, own) => {
            Some(super::convolution::kernels(graph, node, own, way))
        }
        _ => None,
    }
}

/// The kernels' type of a tensor's elements.
pub(super) fn scalar(name: &str, data_type: DataType) -> Result<Scalar, Refusal> {
    Ok(match data_type {
        DataType::Float => Scalar::F32,
        DataType::Double => Scalar::F64,
        DataType::Half => Scalar::F16,
        DataType::Bfloat16 => Scalar::Bf16,
        DataType::Fp8E4m3 => Scalar::Fp8E4m3,
        DataType::Fp8E5m2 => Scalar::Fp8E5m2,
        DataType::Int8 => Scalar::I8,
        DataType::Uint8 => Scalar::U8,
        DataType::Int32 => Scalar::I32,
        other => {
            return Err(format!(
                "{name}: data type is {}, expected float, double, half, bfloat16, fp8_e4m3, fp8_e5m2, int8, uint8 or int32",
                other.name()
            ));
        }
    })
}

/// The kernel of a launch, whose parameters are these tensors. Its nodes are added by the caller.
pub(super) fn made(launch: &Launch, uids: &[i64], target: &Target) -> Kernel {
    let kernel = &launch.kernel;
    let arguments = kernel.parameters.iter().zip(uids).map(|(parameter, uid)| match parameter {
        form::Parameter::Memory { alignment, .. } => Argument::Memory { uid: *uid, alignment: *alignment },
        form::Parameter::Number(_) => Argument::Number { uid: *uid, data_type: DataType::Double },
    });
    let [across, down, _] = launch.grid;
    Kernel {
        name: kernel.name.clone(),
        nodes: Vec::new(),
        text: print::c::kernel(kernel, target.language),
        arguments: arguments.collect(),
        block: kernel.threads,
        grid: across,
        down,
        shared: print::c::shared_at_launch(kernel, target.language),
        is_tiled: true,
    }
}

/// The kernels of launches, with these tensors. The sums that they leave for each other become a tensor of the graph.
pub(super) fn all_made(graph: &mut Graph, launches: &Launches, uids: &[i64], target: &Target) -> Vec<Kernel> {
    let sums = launches.sums.map(|(scalar, count)| {
        let data_type = if scalar == Scalar::F64 { DataType::Double } else { DataType::Float };
        let uid = unused(graph);
        let tensor = Tensor::new(uid, data_type, &[count as i64], &[1]);
        graph.tensors.push(Tensor { is_virtual: true, ..tensor });
        uid
    });
    let uid = |passed: &Passed| match *passed {
        Passed::Tensor(place) => uids.get(place).copied().unwrap_or_default(),
        Passed::Sums => sums.unwrap_or_default(),
    };
    let kernel = |call: &product::Call| {
        let own: Vec<i64> = call.passed.iter().map(uid).collect();
        made(&call.launch, &own, target)
    };
    launches.all.iter().map(kernel).collect()
}

/// A kernel of a node that is computed by itself.
pub(super) fn of_whole(whole: &Whole, target: &Target) -> Kernel {
    let uids: Vec<i64> = whole.arguments.iter().map(hipdnn_plugin_lowering::Argument::uid).collect();
    let mut kernel = made(&whole.launch, &uids, target);
    for (to, from) in kernel.arguments.iter_mut().zip(&whole.arguments) {
        if let (
            Argument::Number { data_type, .. },
            hipdnn_plugin_lowering::Argument::Number { data_type: own, .. },
        ) = (to, from)
        {
            *data_type = *own;
        }
    }
    kernel
}

fn matmul_kernels(
    graph: &mut Graph,
    node: &Node,
    matmul: &Matmul,
    way: Way<'_>,
) -> Result<Vec<Kernel>, Refusal> {
    let uids = node.operation.tensors();
    let integers = |data_type| matches!(data_type, DataType::Int8 | DataType::Uint8);
    let whole = integers(matmul.a.data_type) && integers(matmul.b.data_type);
    let wanted = match node.compute_type {
        DataType::Int32 => whole,
        DataType::Float => !whole && matmul.a.data_type != DataType::Double,
        DataType::Double => !whole,
        _ => false,
    };
    if !wanted {
        return Err(format!(
            "compute type is {} for {} and {}, expected float for reals, double for double, int32 for int8 and uint8",
            node.compute_type.name(),
            matmul.a.data_type.name(),
            matmul.b.data_type.name()
        ));
    }
    let wide = node.compute_type == DataType::Double;
    let doubles = [matmul.a.data_type, matmul.b.data_type].contains(&DataType::Double);
    if wide != doubles {
        return Err("compute type is double, expected a or b of double".to_owned());
    }
    let mut matrices = Vec::with_capacity(3);
    let mut tensors = Vec::with_capacity(3);
    let ones = [1; hipdnn_plugin_planner::layout::MAX_RANK];
    let operands =
        [("a", &matmul.a, &matmul.a_share), ("b", &matmul.b, &matmul.b_share), ("c", &matmul.c, &ones)];
    for (name, operand, shares) in operands {
        let uid = uids.get(operand.slot).copied().unwrap_or_default();
        in_memory(graph, name, uid, operand)?;
        let scalar = scalar(name, operand.data_type)?;
        let (dims, strides) = (operand.layout.dims(), operand.layout.strides());
        let [.., row, column] = strides else { return Err(format!("{name}: has fewer than 2 dims")) };
        let batch = strides.iter().zip(dims).zip(shares).take(matmul.batch);
        // A dimension of one matrix may have any stride.
        let batch = batch.map(|((stride, dim), share)| (*share, if *dim == 1 { 0 } else { *stride }));
        matrices.push(Matrix {
            scalar,
            row: *row,
            column: *column,
            batch: batch.collect(),
            alignment: alignment(graph, uid, scalar),
        });
        tensors.push(uid);
    }
    let Ok([a, b, c]) = <[Matrix; 3]>::try_from(matrices) else { return Err("has no operands".to_owned()) };
    let batch = matmul.c.layout.dims().iter().take(matmul.batch).copied().collect();
    let product = Product { m: matmul.m, n: matmul.n, k: matmul.k, batch, a, b, c, steps: Vec::new() };
    let launches = product::write(&product, way.target, way.name, way.shares)?;
    Ok(all_made(graph, &launches, &tensors, way.target))
}
