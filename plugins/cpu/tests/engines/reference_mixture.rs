//! Mixtures of experts against hand-computed results.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::MoeGroupedMatmul;
use hipdnn_plugin_sdk::graph::{DataType, MoeGroupedMatmulMode};

use super::common::Case;

const FLOAT: DataType = DataType::Float;
const INT: DataType = DataType::Int32;

fn filled(case: &mut Case, data_type: DataType, dims: &[i64], values: &[f64]) -> i64 {
    let uid = case.tensor(data_type, dims);
    case.fill(uid, values);
    uid
}

/// Rows of two values, two experts: the first swaps them, the second doubles them.
struct Setup {
    case: Case,
    node: MoeGroupedMatmul,
}

fn setup(tokens: &[f64], rows: i64, first: &[f64], mode: MoeGroupedMatmulMode) -> Setup {
    let mut case = Case::new();
    let token = filled(&mut case, FLOAT, &[1, tokens.len() as i64 / 2, 2], tokens);
    let weight = filled(&mut case, FLOAT, &[2, 2, 2], &[0.0, 1.0, 1.0, 0.0, 2.0, 0.0, 0.0, 2.0]);
    let first_token_offset = filled(&mut case, INT, &[first.len() as i64, 1, 1], first);
    let output = case.tensor(FLOAT, &[1, rows, 2]);
    let node = MoeGroupedMatmul {
        token,
        weight,
        first_token_offset,
        token_index: None,
        token_ks: None,
        output,
        mode,
        top_k: 0,
    };
    Setup { case, node }
}

impl Setup {
    fn index(&mut self, values: &[f64]) {
        self.node.token_index = Some(filled(&mut self.case, INT, &[1, values.len() as i64, 1], values));
    }

    fn ks(&mut self, values: &[f64], top_k: i32) {
        self.node.token_ks = Some(filled(&mut self.case, INT, &[1, values.len() as i64, 1], values));
        self.node.top_k = top_k;
    }

    #[track_caller]
    fn makes(mut self, expected: &[f64]) {
        self.case.node(self.node.clone());
        for engine in 0..2 {
            self.case.run(planner(engine));
            assert_eq!(self.case.values(self.node.output), expected);
        }
    }

    #[track_caller]
    fn fails(mut self, message: &str) {
        self.case.node(self.node.clone());
        let plan = planner(1).plan(&self.case.graph).unwrap();
        let buffers = self.case.buffers();
        // SAFETY: every tensor has memory for its extent, and no workspace is needed.
        let error = unsafe { plan.execute(&buffers, std::ptr::null_mut()) }.unwrap_err();
        assert_eq!(error.to_string(), format!("node 0: {message}"));
    }

    #[track_caller]
    fn refused(mut self, message: &str) {
        self.case.node(self.node);
        let refusal = planner(1).plan(&self.case.graph).err().expect("the graph is refused");
        assert!(refusal.contains(&format!("(MoeGroupedMatmul): {message}")), "{refusal}");
    }
}

const THREE: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

#[test]
fn rows_meet_their_experts() {
    let none = MoeGroupedMatmulMode::None;
    setup(&THREE, 3, &[0.0, 1.0], none).makes(&[2.0, 1.0, 6.0, 8.0, 10.0, 12.0]);
    // Groups that start over with the first expert, one of them empty.
    setup(&THREE, 3, &[0.0, 1.0, 1.0, 2.0], none).makes(&[2.0, 1.0, 4.0, 3.0, 10.0, 12.0]);
    // Rows before the first group have no expert.
    setup(&THREE, 3, &[1.0, 3.0], none).makes(&[0.0, 0.0, 4.0, 3.0, 6.0, 5.0]);
}

#[test]
fn rows_are_gathered() {
    let mut s = setup(&THREE, 4, &[0.0, 2.0], MoeGroupedMatmulMode::Gather);
    s.index(&[2.0, 0.0, 0.0, 1.0]);
    s.makes(&[6.0, 5.0, 2.0, 1.0, 2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn rows_are_scattered() {
    let mut s =
        setup(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 4, &[0.0, 2.0], MoeGroupedMatmulMode::Scatter);
    // Rows 0 and 1 of the first expert, 2 and 3 of the second.
    s.index(&[1.0, 0.0, 1.0, 0.0]);
    s.ks(&[0.0, 1.0, 1.0, 0.0], 2);
    s.makes(&[14.0, 16.0, 4.0, 3.0, 2.0, 1.0, 10.0, 12.0]);
}

#[test]
fn indices_out_of_range_stop_the_execution() {
    let none = MoeGroupedMatmulMode::None;
    setup(&THREE, 3, &[0.0, 4.0], none).fails("first_token_offset[1] is 4, expected 0 to 3");
    setup(&THREE, 3, &[2.0, 1.0], none).fails("first_token_offset[1] is 1, expected 2 to 3");
    setup(&THREE, 3, &[-1.0, 1.0], none).fails("first_token_offset[0] is -1, expected 0 to 3");
    for (bad, shown) in [(3.0, "3"), (-1.0, "-1")] {
        let mut s = setup(&THREE, 2, &[0.0, 1.0], MoeGroupedMatmulMode::Gather);
        s.index(&[0.0, bad]);
        s.fails(&format!("token_index[1] is {shown}, expected 0 to 2"));
    }
    let scatter = |index: [f64; 3], ks: [f64; 3], message: &str| {
        let mut s = setup(&THREE, 3, &[0.0, 1.0], MoeGroupedMatmulMode::Scatter);
        s.index(&index);
        s.ks(&ks, 2);
        s.fails(message);
    };
    scatter([0.0, 2.0, 0.0], [0.0; 3], "token_index[1] is 2, expected 0 to 1");
    scatter([0.0; 3], [0.0, 0.0, 2.0], "token_ks[2] is 2, expected 0 to 1");
    scatter(
        [0.0, 1.0, 0.0],
        [0.0, 1.0, 0.0],
        "token_index[1] is 1 and token_ks[1] is 1, which makes row 3, expected 0 to 2",
    );
}

#[test]
fn mismatched_arguments_are_named() {
    let none = MoeGroupedMatmulMode::None;
    setup(&THREE, 4, &[0.0, 1.0], none).refused("output: has [4, 2] rows and columns, expected [3, 2]");
    setup(&THREE, 3, &[0.0, 1.0, 2.0], none)
        .refused("first_token_offset: has 3 element(s), expected a multiple of the 2");
    setup(&THREE, 3, &[0.0, 1.0], MoeGroupedMatmulMode::Gather).refused("token_index: absent");
    let mut s = setup(&THREE, 3, &[0.0, 1.0], none);
    s.index(&[0.0; 3]);
    s.refused("token_index: given, expected none as the mode is");
    let mut s = setup(&THREE, 3, &[0.0, 1.0], MoeGroupedMatmulMode::Scatter);
    s.index(&[0.0; 3]);
    s.ks(&[0.0; 3], 0);
    s.refused("top_k: is 0, expected at least 1");
    let mut s = setup(&THREE, 3, &[0.0, 1.0], MoeGroupedMatmulMode::Scatter);
    s.index(&[0.0; 2]);
    s.ks(&[0.0; 3], 1);
    s.refused("token_index: has 2 element(s), expected 3");
    let mut s = setup(&THREE, 3, &[0.0, 1.0], none);
    s.case.graph.tensors[2].data_type = FLOAT;
    s.refused("first_token_offset: data type is float, expected int32");
    let mut s = setup(&THREE, 3, &[0.0, 1.0], none);
    s.case.graph.tensors[1].dims = vec![2, 3, 2];
    s.refused("weight: dims are [2, 3, 2], expected 2 rows");
    let mut s = setup(&THREE, 3, &[0.0, 1.0], none);
    s.case.graph.tensors[0].dims = vec![3, 1, 2];
    s.refused("token: dims are [3, 1, 2], expected [1, rows, columns]");
}
