//! Plans without a workspace allocate their own: examples give the same results with any number of threads.

use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use hipdnn_cpu_plugin::plan::compiled::Compiled;
use hipdnn_cpu_plugin::plugin::CpuPlugin;
use hipdnn_plugin_sdk::EnginePlugin;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::json;
use hipdnn_plugin_sdk::wire::KnobSetting;

use super::common::{Case, Memory, Random};
use super::whole_graphs::training_step;

/// The graphs in the folder, in order.
fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples_graphs");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut graphs: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|of| of == "json")).collect();
    graphs.sort();
    graphs
}

fn case_of(path: &Path) -> Case {
    let mut case = Case::new();
    case.graph = json::read(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut random = Random(7);
    for tensor in &case.graph.tensors {
        if !tensor.is_virtual && tensor.value.is_none() {
            let mut memory = Memory::new(tensor, 0);
            // Positive, for variances.
            memory.fill(|| random.real(0.25, 1.0));
            case.memory.push(memory);
        }
    }
    case
}

/// A plan whose results do not depend on the number of threads.
fn plan_of(case: &Case, engine: usize) -> Compiled {
    let deterministic = KnobSetting { knob_id: "deterministic".to_owned(), value: 1_i64.into() };
    let knobs: &[KnobSetting] = if engine == 0 { &[deterministic] } else { &[] };
    CpuPlugin::plan(&Default::default(), engine, &case.graph, knobs).unwrap()
}

fn run(case: &mut Case, plan: &Compiled, workspace: *mut u8) {
    // SAFETY: every tensor has its memory, and the workspace is null or as large as the plan asks for.
    unsafe { CpuPlugin::execute(&Default::default(), plan, workspace.cast(), &case.buffers()) }.unwrap();
    case.memory.iter().for_each(Memory::check_untouched);
}

fn assert_same(case: &Case, expected: &Case, of: &str) {
    for memory in &expected.memory {
        let uid = memory.tensor.uid;
        let bits = |case: &Case| case.values(uid).into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(case), bits(expected), "{of}, tensor {uid}");
    }
}

#[test]
fn examples_give_the_same_with_and_without_a_workspace() {
    let examples = examples();
    assert!(examples.len() >= 10, "{examples:?}");
    let mut asked = 0;
    for path in examples {
        let case = case_of(&path);
        for engine in 0..2 {
            let plan = plan_of(&case, engine);
            let size = CpuPlugin::plan_workspace_size(&plan);
            // Engines do not ask for small workspaces, but may be given one all the same.
            assert!(size == 0 || size > 64 << 10, "{size} bytes");
            asked += usize::from(size > 0);
            let [mut with, mut without] = [case.clone(), case.clone()];
            run(&mut with, &plan, vec![0xFF; size.max(1)].as_mut_ptr());
            run(&mut without, &plan, null_mut());
            let of = format!("{}, engine {engine}", path.display());
            assert!(with.memory.iter().zip(&case.memory).any(|(a, b)| a.values() != b.values()), "{of}");
            assert_same(&without, &with, &of);
        }
    }
    assert!(asked > 3, "{asked} plans ask for a workspace");
}

#[test]
fn threads_share_a_plan_without_a_workspace() {
    let named = |name: &str| examples().into_iter().find(|path| path.ends_with(name)).unwrap();
    for mut case in [case_of(&named("residual_block.json")), training_step(DataType::Half)] {
        let plan = plan_of(&case, 0);
        let inputs = case.clone();
        run(&mut case, &plan, null_mut());
        let expected = case;
        std::thread::scope(|scope| {
            for _ in 0..6 {
                let (inputs, expected, plan) = (inputs.clone(), &expected, &plan);
                scope.spawn(move || {
                    for _ in 0..10 {
                        let mut own = inputs.clone();
                        run(&mut own, plan, null_mut());
                        assert_same(&own, expected, "one of six threads");
                    }
                });
            }
        });
    }
}

/// Results that a frontend left virtual: bound or not, all results stay the same.
#[test]
fn unmarked_outputs_are_written() {
    for storage in [DataType::Float, DataType::Half] {
        let marked = training_step(storage);
        let outputs = |case: &Case| -> Vec<i64> {
            let nodes = &case.graph.nodes;
            let read: Vec<i64> = nodes.iter().flat_map(|node| node.operation.inputs()).collect();
            let written = nodes.iter().flat_map(|node| node.operation.outputs());
            let is_bound = |uid: &i64| case.graph.tensor(*uid).is_some_and(|tensor| !tensor.is_virtual);
            written.filter(|uid| !read.contains(uid)).filter(is_bound).collect()
        };
        let outputs = outputs(&marked);
        assert!(outputs.len() >= 4, "{outputs:?}");
        let mut unmarked = marked.clone();
        for tensor in &mut unmarked.graph.tensors {
            tensor.is_virtual |= outputs.contains(&tensor.uid);
        }
        for engine in 0..2 {
            let mut expected = marked.clone();
            run(&mut expected, &plan_of(&marked, engine), null_mut());
            let plan = plan_of(&unmarked, engine);
            for left_out in [None, Some(outputs[0]), Some(outputs[1]), None] {
                let mut case = unmarked.clone();
                case.memory.retain(|memory| Some(memory.tensor.uid) != left_out);
                run(&mut case, &plan, null_mut());
                case.memory.extend(
                    left_out.and_then(|uid| {
                        expected.memory.iter().find(|memory| memory.tensor.uid == uid).cloned()
                    }),
                );
                assert_same(&case, &expected, &format!("engine {engine}, without {left_out:?}"));
            }
        }
    }
}
