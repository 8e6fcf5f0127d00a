//! The C++ frontend's enumeration of pointwise modes.

use hipdnn_abi::{CEnum, hipdnnPointwiseMode_t};
use hipdnn_plugin_sdk::graph::PointwiseMode;

use super::Output;
use crate::Failure;
use crate::workspace::Workspace;

/// Modes of cuDNN that hipDNN lacks.
const REFUSED: &[&str] = &["POW", "MOD", "COS", "ATAN2"];
const FIRST_REFUSED: i32 = 101;

pub fn output(workspace: &Workspace) -> Result<Output, Failure> {
    let named = |mode: PointwiseMode| {
        let of_c = mode.c().and_then(hipdnnPointwiseMode_t::from_raw).map(CEnum::name);
        of_c.and_then(|name| name.strip_prefix("HIPDNN_POINTWISE_")).unwrap_or_default()
    };
    let mut members = String::new();
    for mode in PointwiseMode::every() {
        members.push_str(&format!("    {} = {},\n", named(mode), mode.wire()));
    }
    let refused: Vec<String> =
        REFUSED.iter().zip(FIRST_REFUSED..).map(|(name, number)| format!("    {name} = {number}")).collect();
    let refused = refused.join(",\n");
    let mut cases = String::new();
    for operands in 1..=3 {
        let modes: Vec<String> = PointwiseMode::every()
            .filter(|mode| mode.operands() == operands)
            .map(|mode| format!("    case PointwiseMode::{}:", named(mode)))
            .collect();
        cases.push_str(&format!("{} return {operands};\n", modes.join("\n")));
    }
    let text = format!(
        "/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The modes of pointwise operations, with the numbers that graphs have on the wire.
 *
 * Generated from plugins/sdk/src/graph/enums.rs by `cargo xtask generate`.
 */
#pragma once

namespace hipdnn
{{

/** What a pointwise operation computes for each element. */
enum class PointwiseMode {{
    NOT_SET = 0,
{members}    /* Modes that programs for cuDNN name and that hipDNN does not have: a graph with one is refused. */
{refused}
}};

/** How many tensors a pointwise mode reads, 0 where it is NOT_SET or unknown. */
inline int pointwise_inputs(PointwiseMode mode)
{{
    switch (mode)
    {{
{cases}    default: return 0;
    }}
}}

}} // namespace hipdnn
"
    );
    Ok(Output { path: workspace.path("bindings/cpp/include/hipdnn/cpp/pointwise_mode.hpp"), text })
}
