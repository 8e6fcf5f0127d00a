use hipdnn_plugin_planner::chain::check;
use hipdnn_plugin_sdk::graph::operation::Matmul;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor};

use super::*;

#[test]
fn choices_are_read_as_they_were_written() {
    let choice = Choice { library: Library::HipblasLt, algorithm: [7; 16] };
    let other = Choice { library: Library::Rocblas, ..choice };
    let mut found = Found::default();
    found.add(&[2, 3], choice.write());
    found.add(&[4], other.write());
    assert_eq!(Choice::of(&found, &[2, 3]), Ok(Some(choice)));
    assert_eq!(Choice::of(&found, &[4]), Ok(Some(other)));
    assert_eq!(Choice::of(&found, &[3]), Ok(None));
    let mut bytes = choice.write();
    for cut in 0..bytes.len() {
        assert_eq!(Choice::read(&bytes[..cut]), None, "{cut} bytes");
    }
    bytes[0] = 3;
    found.add(&[5], bytes);
    assert!(Choice::of(&found, &[5]).unwrap_err().message().contains("a saved choice"));
}

#[test]
fn a_node_in_no_chain_is_named() {
    let tensor = |uid, dims: [i64; 2]| Tensor::new(uid, DataType::Float, &dims, &[dims[1], 1]);
    let node = |name: &str, operation: Operation| Node {
        name: name.to_owned(),
        compute_type: DataType::Float,
        operation,
    };
    let mut graph = Graph {
        tensors: vec![
            tensor(1, [2, 3]),
            tensor(2, [3, 4]),
            tensor(3, [2, 4]),
            tensor(4, [4, 2]),
            tensor(5, [2, 2]),
        ],
        nodes: vec![
            node("second", Matmul { a: 3, b: 4, c: 5 }.into()),
            node("first", Matmul { a: 1, b: 2, c: 3 }.into()),
        ],
        ..Graph::default()
    };
    graph.nodes.swap(0, 1);
    assert_eq!(check(&graph), Ok(()));
    let reduction = hipdnn_plugin_sdk::graph::operation::Reduction {
        in_: 5,
        out: 6,
        mode: hipdnn_plugin_sdk::graph::ReductionMode::Add,
        is_deterministic: false,
    };
    graph.tensors.push(tensor(6, [2, 1]));
    graph.nodes.push(node("sum", reduction.into()));
    let refusal = check(&graph).unwrap_err().to_string();
    assert!(
        refusal.starts_with("node 2 \"sum\"") && refusal.contains("does not follow a matmul"),
        "{refusal}"
    );
}

/// A call that is never made.
struct Idle;

impl Run for Idle {
    fn workspace_size(&self) -> usize {
        0
    }

    unsafe fn run(
        &self,
        _: &mut Ready<'_>,
        _: &hipdnn_plugin_planner::chain::Tensors<*mut c_void>,
        _: *mut c_void,
    ) -> Result<(), PluginError> {
        Err(PluginError::internal("there is nothing to run"))
    }
}

#[test]
fn products_have_the_notes_of_any_kernel_that_the_libraries_may_take() {
    use hipdnn_plugin_planner::numerics::of_step;
    use hipdnn_plugin_sdk::numerics::{MatrixSums, name_of};
    let product = |data_type| {
        let tensors = (1..=3).map(|uid| Tensor::new(uid, data_type, &[32, 32], &[32, 1])).collect();
        let operation = Matmul { a: 1, b: 2, c: 3 }.into();
        let node = Node { name: "m".to_owned(), compute_type: DataType::Float, operation };
        prepare(&Graph { tensors, nodes: vec![node], ..Graph::default() }).unwrap()
    };
    let of_library = ["SPLIT_SUMS", "BATCH_DEPENDENT"];
    let small = ["TENSOR_CORE", "REDUCED_PRECISION_REDUCTION"];
    for (data_type, own) in
        [(DataType::Float, &[][..]), (DataType::Half, &small), (DataType::Bfloat16, &small)]
    {
        let prepared = product(data_type);
        let part = partition(&prepared, Ok).unwrap().remove(0);
        for library in [Library::HipblasLt, Library::Rocblas] {
            let choice = Choice { library, algorithm: [0; 16] };
            let step = Step { part: part.clone(), run: Box::new(Idle), choice };
            let names = |numerics: Numerics| numerics.notes.into_iter().map(name_of).collect::<Vec<_>>();
            assert_eq!(names(step.numerics()), own, "{data_type:?}");
            let sums = (data_type != DataType::Float).then_some(MatrixSums { terms: 2, bits: 24 });
            assert_eq!(step.numerics().matrix_sums, sums, "{data_type:?}");
            assert_eq!(names(of_step(&prepared, step.nodes(), step.engine())), of_library, "{data_type:?}");
        }
    }
}
