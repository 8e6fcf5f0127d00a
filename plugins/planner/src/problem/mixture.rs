//! Grouped GEMM of a mixture of experts, each group with its expert's matrix, and the gradient of the
//! matrices.

use hipdnn_plugin_sdk::graph::operation::MoeGroupedMatmul;
use hipdnn_plugin_sdk::graph::{DataType, MoeGroupedMatmulMode};

use super::attention::shape::Integers;
use super::{Operand, Operands};
use crate::Refusal;

/// How output rows are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Input row r yields output row r.
    None,
    /// Input row `index[r]` yields output row r.
    Gather(Integers),
    /// Input row r yields output row `index[r] · top_k + ks[r]`.
    Scatter {
        /// The token of each row.
        index: Integers,
        /// Which of its token's experts each row belongs to.
        ks: Integers,
        /// Number of experts per token.
        top_k: usize,
    },
}

/// A matrix: the last two dimensions of a tensor whose other dimensions are 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    /// The tensor.
    pub operand: Operand,
    /// Number of rows and columns.
    pub dims: [usize; 2],
    /// Strides in elements of rows and columns.
    pub strides: [usize; 2],
}

/// The experts' matrices: [experts, K, N].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// The tensor.
    pub operand: Operand,
    /// Experts, K and N.
    pub dims: [usize; 3],
    /// Strides in elements.
    pub strides: [usize; 3],
}

/// A group's rows extend from its offset to the next one, the last group's to the end. Group g uses expert g
/// mod experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixture {
    /// The input rows.
    pub token: Rows,
    /// The experts' matrices.
    pub weight: Experts,
    /// The first row of each group.
    pub first: Integers,
    /// The output rows.
    pub output: Rows,
    /// How output rows are addressed.
    pub routing: Routing,
    /// Total number of rows in the groups.
    pub rows: usize,
}

/// The gradient of the matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixtureGradient {
    /// The gradient of the output.
    pub d_output: Rows,
    /// The input rows.
    pub token: Rows,
    /// The first row of each group.
    pub first: Integers,
    /// The gradient of the matrices.
    pub d_weight: Experts,
}

impl Mixture {
    /// The grouped GEMM. A refusal names the invalid argument.
    pub(crate) fn of(operands: &Operands<'_>, moe: &MoeGroupedMatmul) -> Result<Self, Refusal> {
        let (mode, top_k) = (moe.mode, moe.top_k);
        let token = rows("token", operands.required("token")?)?;
        let weight = experts("weight", operands.required("weight")?)?;
        let first = first_rows(operands, weight.dims[0])?;
        let output = rows("output", operands.required("output")?)?;
        if weight.dims[1] != token.dims[1] {
            return Err(format!(
                "weight: dims are {:?}, expected {} rows in each matrix, as token has columns",
                weight.dims, token.dims[1]
            ));
        }
        let routed = |name: &'static str| -> Result<Option<Integers>, Refusal> {
            operands.optional(name)?.map(|operand| integers(name, &operand, None)).transpose()
        };
        let wanted = |name: &str, given: Option<Integers>| {
            given.ok_or_else(|| format!("{name}: absent, expected a tensor as the mode is {}", mode.name()))
        };
        let unwanted = |name: &str, given: Option<Integers>| match given {
            Some(_) => Err(format!("{name}: given, expected none as the mode is {}", mode.name())),
            None => Ok(()),
        };
        let (index, ks) = (routed("token_index")?, routed("token_ks")?);
        let (routing, rows) = match mode {
            MoeGroupedMatmulMode::None => {
                unwanted("token_index", index)?;
                unwanted("token_ks", ks)?;
                (Routing::None, token.dims[0])
            }
            MoeGroupedMatmulMode::Gather => {
                unwanted("token_ks", ks)?;
                let index = wanted("token_index", index)?;
                (Routing::Gather(index), index.dims[0])
            }
            MoeGroupedMatmulMode::Scatter => {
                let (index, ks) = (wanted("token_index", index)?, wanted("token_ks", ks)?);
                for (name, integers) in [("token_index", index), ("token_ks", ks)] {
                    if integers.dims[0] != token.dims[0] {
                        return Err(format!(
                            "{name}: has {} element(s), expected {} as token has rows",
                            integers.dims[0], token.dims[0]
                        ));
                    }
                }
                let top_k = usize::try_from(top_k)
                    .ok()
                    .filter(|top_k| *top_k >= 1)
                    .ok_or_else(|| format!("top_k: is {top_k}, expected at least 1"))?;
                (Routing::Scatter { index, ks, top_k }, token.dims[0])
            }
        };
        if output.dims != [rows, weight.dims[2]] {
            return Err(format!(
                "output: has {:?} rows and columns, expected {:?}",
                output.dims,
                [rows, weight.dims[2]]
            ));
        }
        Ok(Self { token, weight, first, output, routing, rows })
    }
}

impl MixtureGradient {
    /// The gradient of the matrices. A refusal names the invalid argument.
    pub(crate) fn of(operands: &Operands<'_>) -> Result<Self, Refusal> {
        let d_output = rows("doutput", operands.required("doutput")?)?;
        let token = rows("token", operands.required("token")?)?;
        let d_weight = experts("dweight", operands.required("dweight")?)?;
        let first = first_rows(operands, d_weight.dims[0])?;
        if token.dims[0] != d_output.dims[0] {
            return Err(format!(
                "token: has {} rows, expected {} as in doutput",
                token.dims[0], d_output.dims[0]
            ));
        }
        if d_weight.dims[1..] != [token.dims[1], d_output.dims[1]] {
            return Err(format!(
                "dweight: dims are {:?}, expected matrices of {} × {}, the columns of token and doutput",
                d_weight.dims, token.dims[1], d_output.dims[1]
            ));
        }
        Ok(Self { d_output, token, first, d_weight })
    }
}

fn rows(name: &str, operand: Operand) -> Result<Rows, Refusal> {
    let (dims, strides) = (operand.layout.dims(), operand.layout.strides());
    match (dims, strides) {
        ([ones @ .., r, c], [.., row, column]) if ones.iter().all(|dim| *dim == 1) => {
            Ok(Rows { operand, dims: [*r, *c], strides: [*row, *column] })
        }
        _ => Err(format!("{name}: dims are {dims:?}, expected [1, rows, columns]")),
    }
}

fn experts(name: &str, operand: Operand) -> Result<Experts, Refusal> {
    match (operand.layout.dims(), operand.layout.strides()) {
        ([e, k, n], [expert, row, column]) => {
            Ok(Experts { operand, dims: [*e, *k, *n], strides: [*expert, *row, *column] })
        }
        (dims, _) => Err(format!("{name}: dims are {dims:?}, expected [experts, rows, columns]")),
    }
}

/// The first row of each group; the number of groups is a multiple of the experts.
fn first_rows(operands: &Operands<'_>, experts: usize) -> Result<Integers, Refusal> {
    integers("first_token_offset", &operands.required("first_token_offset")?, Some(experts))
}

/// `int32` values along one dimension; their number is a multiple of `step`, if given.
fn integers(name: &str, operand: &Operand, step: Option<usize>) -> Result<Integers, Refusal> {
    if operand.data_type != DataType::Int32 {
        return Err(format!("{name}: data type is {}, expected int32", operand.data_type.name()));
    }
    let (Some(count), stride) = operand.line() else {
        return Err(format!(
            "{name}: dims are {:?}, expected elements along one dimension",
            operand.layout.dims()
        ));
    };
    match step {
        Some(step) if !count.is_multiple_of(step) => {
            Err(format!("{name}: has {count} element(s), expected a multiple of the {step} experts"))
        }
        _ => Ok(Integers {
            slot: operand.slot,
            data_type: operand.data_type,
            dims: [count, 1],
            strides: [stride, 0],
        }),
    }
}
