//! The gradient of the matrices of a mixture of experts.

use hipdnn_plugin_sdk::graph::operation::{MoeGroupedMatmul, MoeGroupedMatmulBackward};
use hipdnn_plugin_sdk::graph::{DataType, MoeGroupedMatmulMode};

use super::Check;

#[test]
fn of_the_experts_matrices() {
    // As many groups as experts, or a multiple, some empty; rows before the first group have no expert.
    let groups: [&[f64]; 4] =
        [&[0.0, 3.0], &[0.0, 3.0, 3.0, 6.0], &[2.0, 2.0, 2.0, 5.0], &[1.0, 2.0, 4.0, 4.0, 5.0, 6.0]];
    for (seed, groups) in (700..).zip(groups) {
        let mut check = Check::new(seed);
        let token = check.given(&[1, 7, 3], -1.0, 1.0);
        let weight = check.given(&[2, 3, 2], -1.0, 1.0);
        let first_token_offset = check.case.tensor(DataType::Int32, &[groups.len() as i64, 1, 1]);
        check.case.fill(first_token_offset, groups);
        let output = check.tensor(&[1, 7, 2]);
        let doutput = check.weights(output);
        let dweight = check.gradient(weight);
        check.forward(MoeGroupedMatmul {
            token,
            weight,
            first_token_offset,
            token_index: None,
            token_ks: None,
            output,
            mode: MoeGroupedMatmulMode::None,
            top_k: 0,
        });
        check.backward(MoeGroupedMatmulBackward { doutput, token, first_token_offset, dweight });
        check.holds(1e-8);
    }
}
