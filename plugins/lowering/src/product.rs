//! Products of matrices as kernels of the crate `hipdnn-kernels`.

use hipdnn_kernels::Scalar;
use hipdnn_kernels::domain::Epilogue;
use hipdnn_kernels::product::{self, Launches, Matrix, Passed, Product};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::matmul::Matmul;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor};

use crate::Argument;
use crate::attention::Whole;
use crate::memory::{alignment, in_memory};
use crate::spelling::unused;
use crate::way::Way;

/// The kernels' type of a tensor's elements.
pub(crate) fn scalar(name: &str, data_type: DataType) -> Result<Scalar, Refusal> {
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

/// Kernels of launches, with these tensors. The sums that they leave for each other become a tensor of the graph.
pub(crate) fn launched(
    graph: &mut Graph,
    launches: Launches,
    uids: &[i64],
    of_epilogue: &[Argument],
) -> Vec<Whole> {
    let sums = launches.sums.map(|(scalar, count)| {
        let data_type = if scalar == Scalar::F64 { DataType::Double } else { DataType::Float };
        let uid = unused(graph);
        let tensor = Tensor::new(uid, data_type, &[count as i64], &[1]);
        graph.tensors.push(Tensor { is_virtual: true, ..tensor });
        uid
    });
    let argument = |passed: &Passed| match *passed {
        Passed::Tensor(place) => Argument::Memory(uids.get(place).copied().unwrap_or_default()),
        Passed::Sums => Argument::Memory(sums.unwrap_or_default()),
        Passed::Epilogue(place) => of_epilogue.get(place).copied().unwrap_or(Argument::Memory(0)),
    };
    let whole = |call: product::Call| {
        let arguments = call.passed.iter().map(argument).collect();
        Whole { launch: call.launch, arguments }
    };
    launches.all.into_iter().map(whole).collect()
}

/// The kernels of a matmul with matrix tiles, in order, with an epilogue and what is passed for it. What they leave for each other is added to
/// the graph.
///
/// # Errors
/// What is not supported.
pub fn kernels(
    graph: &mut Graph,
    node: &Node,
    p: &Matmul,
    way: Way<'_>,
    epilogue: Option<(Epilogue, Vec<Argument>)>,
) -> Result<Vec<Whole>, Refusal> {
    let uids = node.operation.tensors();
    let integers = |data_type| matches!(data_type, DataType::Int8 | DataType::Uint8);
    let whole = integers(p.a.data_type) && integers(p.b.data_type);
    let wanted = match node.compute_type {
        DataType::Int32 => whole,
        DataType::Float => !whole && p.a.data_type != DataType::Double,
        DataType::Double => !whole,
        _ => false,
    };
    if !wanted {
        return Err(format!(
            "compute type is {} for {} and {}, expected float for reals, double for double, int32 for int8 and uint8",
            node.compute_type.name(),
            p.a.data_type.name(),
            p.b.data_type.name()
        ));
    }
    let wide = node.compute_type == DataType::Double;
    let doubles = [p.a.data_type, p.b.data_type].contains(&DataType::Double);
    if wide != doubles {
        return Err("compute type is double, expected a or b of double".to_owned());
    }
    let mut matrices = Vec::with_capacity(3);
    let mut tensors = Vec::with_capacity(3);
    let ones = [1; hipdnn_plugin_planner::layout::MAX_RANK];
    let operands = [("a", &p.a, &p.a_share), ("b", &p.b, &p.b_share), ("c", &p.c, &ones)];
    for (name, operand, shares) in operands {
        let uid = uids.get(operand.slot).copied().unwrap_or_default();
        in_memory(graph, name, uid, operand)?;
        let scalar = scalar(name, operand.data_type)?;
        let (dims, strides) = (operand.layout.dims(), operand.layout.strides());
        let [.., row, column] = strides else { return Err(format!("{name}: has fewer than 2 dims")) };
        let batch = strides.iter().zip(dims).zip(shares).take(p.batch);
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
    let batch = p.c.layout.dims().iter().take(p.batch).copied().collect();
    let (epilogue, of_epilogue) = epilogue.unzip();
    let product = Product { m: p.m, n: p.n, k: p.k, batch, a, b, c, epilogue };
    let launches = product::write(&product, way.target, way.name, way.shares)?;
    Ok(launched(graph, launches, &tensors, &of_epilogue.unwrap_or_default()))
}
