use std::collections::HashSet;

use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, Node, Operation, PointwiseMode, ReductionMode, Tensor};
use hipdnn_plugin_sdk::json;
use hipdnn_tool::rounding::Limits;
use hipdnn_tool::steps::Step;
use hipdnn_tool::tensor::{Array, compare};

use super::*;
use crate::loader;

/// A graph of float tensors; those with a negative uid are virtual.
fn graph(tensors: &[(i64, &[i64])], operations: Vec<Operation>) -> Graph {
    let tensor = |(uid, dims): &(i64, &[i64])| Tensor {
        is_virtual: *uid < 0,
        ..Tensor::packed(*uid, DataType::Float, dims)
    };
    let node = |operation| Node { name: "n".to_owned(), compute_type: DataType::Float, operation };
    Graph {
        tensors: tensors.iter().map(tensor).collect(),
        nodes: operations.into_iter().map(node).collect(),
        ..Graph::default()
    }
}

/// A handle on the first device, if there is one; without one the reason is checked.
fn handle() -> Option<Handle> {
    match instance::device(0) {
        Ok(gpu) => Some(Handle::on(gpu)),
        Err(error) => {
            let words =
                ["no library for Vulkan", "expected less than the 0", "expected 1.2 or newer", "lacks", "vk"];
            assert!(words.iter().any(|word| error.message().contains(word)), "{error}");
            None
        }
    }
}

#[test]
fn without_a_choice_nothing_is_opened_and_the_reason_says_how_to_choose() {
    let error = instance::number(0, None).unwrap_err();
    assert!(error.message().contains("HIPDNN_VULKAN_DEVICE=gpu"), "{error}");
}

fn add() -> Graph {
    let add = Pointwise::new(PointwiseMode::Add, 1, Some(2), 3).into();
    graph(&[(1, &[5, 333]), (2, &[5, 333]), (3, &[5, 333])], vec![add])
}

fn run(handle: &Handle, graph: &Graph, arrays: &mut [(i64, Vec<f32>)]) -> Plan {
    VulkanPlugin::supports(handle, 0, graph).unwrap();
    let plan = VulkanPlugin::plan(handle, 0, graph, &[]).unwrap();
    execute(handle, &plan, arrays);
    plan
}

/// Panics if a result is farther from what is expected than `hipdnn run --check` allows for the plan.
fn assert_near((graph, plan): (&Graph, &Plan), (uid, got): &(i64, Vec<f32>), expected: &[f64]) {
    let steps: Vec<Step> = VulkanPlugin::describe(plan).unwrap().into_iter().map(Step::from).collect();
    let graph = hipdnn_tool::graph::Graph::from_json(&json::write(graph)).unwrap();
    let limits = Limits { steps: Some(&steps), factor: 1.0 };
    let tolerance = limits.of(&graph, graph.tensor(*uid).unwrap());
    let array = |values: Vec<f64>| Array { dims: vec![values.len()], values };
    let got = array(got.iter().map(|value| f64::from(*value)).collect());
    let found = compare(&got, &array(expected.to_vec()), tolerance, |_| false);
    assert_eq!((got.values.len(), found.beyond), (expected.len(), 0), "{found:?} with {tolerance:?}");
}

fn execute(handle: &Handle, plan: &Plan, arrays: &mut [(i64, Vec<f32>)]) {
    let buffers: Vec<_> = arrays
        .iter_mut()
        .map(|(uid, array)| hipdnnPluginDeviceBuffer_t { uid: *uid, ptr: array.as_mut_ptr().cast() })
        .collect();
    // SAFETY: each array has the elements of its tensor.
    unsafe { VulkanPlugin::execute(handle, plan, std::ptr::null_mut(), &buffers) }.unwrap();
}

fn numbers(count: usize, seed: u32) -> Vec<f32> {
    (0..count as u32)
        .map(|i| ((i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 16) % 2001) as f32 / 500.0 - 2.0)
        .collect()
}

#[test]
fn vectors_of_the_host_are_added() {
    let Some(handle) = handle() else { return };
    let (x, y) = (numbers(1665, 1), numbers(1665, 7));
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    let mut arrays = [(1, x), (2, y), (3, vec![0.0; 1665])];
    run(&handle, &add(), &mut arrays);
    assert_eq!(arrays[2].1, expected);
}

#[test]
fn a_saved_plan_computes_the_same() {
    let Some(handle) = handle() else { return };
    let plan = VulkanPlugin::plan(&handle, 0, &add(), &[]).unwrap();
    let bytes = VulkanPlugin::serialize(&handle, &plan).unwrap();
    let again = VulkanPlugin::deserialize(&handle, &bytes).unwrap();
    let mut arrays = [(1, numbers(1665, 3)), (2, numbers(1665, 4)), (3, vec![0.0; 1665])];
    execute(&handle, &plan, &mut arrays);
    let first = arrays[2].1.clone();
    arrays[2].1.fill(0.0);
    execute(&handle, &again, &mut arrays);
    assert_eq!(arrays[2].1, first);
    assert!(VulkanPlugin::deserialize(&handle, &bytes[..bytes.len() - 1]).is_err());
}

#[test]
fn a_saved_plan_has_its_modules_which_are_used_if_the_device_would_get_the_same() {
    let Some(handle) = handle() else { return };
    let plan = VulkanPlugin::plan(&handle, 0, &add(), &[]).unwrap();
    let bytes = VulkanPlugin::serialize(&handle, &plan).unwrap();
    let (request, found) = PAYLOAD.read_plan(&bytes).unwrap();
    let mut named = found.to_vec();
    let at = found.windows(8).position(|eight| eight == b"kernel_0").expect("a kernel's name");
    named[at..at + 8].copy_from_slice(b"a_kernel");
    let other = VulkanPlugin::deserialize(&handle, &PAYLOAD.write_plan(&request, &named).unwrap()).unwrap();
    assert!(VulkanPlugin::describe(&other).unwrap()[0].kernel.contains("a_kernel"));
    let mut arrays = [(1, numbers(1665, 3)), (2, numbers(1665, 4)), (3, vec![0.0; 1665])];
    execute(&handle, &other, &mut arrays);
    let expected: Vec<f32> = arrays[0].1.iter().zip(&arrays[1].1).map(|(x, y)| x + y).collect();
    assert_eq!(arrays[2].1, expected);
    // For another device the modules are written anew, whatever these bytes are.
    let mut foreign = found.to_vec();
    foreign[0] ^= 1;
    let at = found.windows(4).position(|four| four == b"main").expect("a module in the plan");
    foreign[at..at + 4].copy_from_slice(b"mist");
    let again = VulkanPlugin::deserialize(&handle, &PAYLOAD.write_plan(&request, &foreign).unwrap()).unwrap();
    arrays[2].1.fill(0.0);
    execute(&handle, &again, &mut arrays);
    assert_eq!(arrays[2].1, expected);
    // Plans that earlier versions saved have none.
    let bare = PAYLOAD.write_plan(&request, &[]).unwrap();
    assert!(VulkanPlugin::deserialize(&handle, &bare).is_ok());
}

#[test]
fn tiles_of_every_rank_compute_the_same_product_in_other_ways() {
    let Some(handle) = handle() else { return };
    let [m, n, k] = [100, 72, 40];
    let product = Matmul { a: 1, b: 2, c: 3 }.into();
    let graph = graph(&[(1, &[1, m, k]), (2, &[1, k, n]), (3, &[1, m, n])], vec![product]);
    let [a, b] = [(m * k, 1), (k * n, 2)].map(|(count, seed)| numbers(count as usize, seed));
    let [n, k] = [n as usize, k as usize];
    let of = |row: &[f32], column: usize| -> f64 {
        row.iter().enumerate().map(|(i, x)| f64::from(*x) * f64::from(b[i * n + column])).sum()
    };
    let expected: Vec<f64> = a.chunks(k).flat_map(|row| (0..n).map(move |column| of(row, column))).collect();
    let mut ways = HashSet::new();
    for rank in [0, 1, 2, MOST_TILES] {
        let knobs = [KnobSetting { knob_id: TILES.to_owned(), value: rank.into() }];
        let plan = VulkanPlugin::plan(&handle, 0, &graph, &knobs).unwrap();
        ways.insert(VulkanPlugin::describe(&plan).unwrap()[0].kernel.clone());
        let mut arrays = [(1, a.clone()), (2, b.clone()), (3, vec![0.0; expected.len()])];
        execute(&handle, &plan, &mut arrays);
        assert_near((&graph, &plan), &arrays[2], &expected);
    }
    assert!(ways.len() > 2, "{ways:?}");
}

#[test]
fn a_softmax_passes_three_times_over_its_rows() {
    let Some(handle) = handle() else { return };
    let (rows, columns) = (7_usize, 1000_usize);
    let graph = graph(
        &[(1, &[7, 1000]), (-2, &[7, 1]), (-3, &[7, 1000]), (-4, &[7, 1000]), (-5, &[7, 1]), (6, &[7, 1000])],
        vec![
            Reduction { in_: 1, out: -2, mode: ReductionMode::Max, is_deterministic: false }.into(),
            Pointwise::new(PointwiseMode::Sub, 1, Some(-2), -3).into(),
            Pointwise::new(PointwiseMode::Exp, -3, None, -4).into(),
            Reduction { in_: -4, out: -5, mode: ReductionMode::Add, is_deterministic: false }.into(),
            Pointwise::new(PointwiseMode::Div, -4, Some(-5), 6).into(),
        ],
    );
    let x = numbers(rows * columns, 5);
    let mut arrays = [(1, x.clone()), (6, vec![0.0; rows * columns])];
    let plan = run(&handle, &graph, &mut arrays);
    let mut expected = Vec::new();
    for own in x.chunks(columns) {
        let most = own.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers = own.iter().map(|x| f64::from(x - most).exp());
        let sum: f64 = powers.clone().sum();
        expected.extend(powers.map(|power| power / sum));
    }
    assert_near((&graph, &plan), &arrays[1], &expected);
}

#[test]
fn a_product_with_shared_matrices_is_computed() {
    let Some(handle) = handle() else { return };
    let graph =
        graph(&[(1, &[2, 3, 5]), (2, &[1, 5, 4]), (3, &[2, 3, 4])], vec![Matmul { a: 1, b: 2, c: 3 }.into()]);
    let (a, b) = (numbers(30, 1), numbers(20, 2));
    let mut arrays = [(1, a.clone()), (2, b.clone()), (3, vec![0.0; 24])];
    let plan = run(&handle, &graph, &mut arrays);
    let element = |place: usize| {
        let (row, column) = (place / 4, place % 4);
        (0..5).map(|k| f64::from(a[row * 5 + k]) * f64::from(b[k * 4 + column])).sum()
    };
    assert_near((&graph, &plan), &arrays[2], &(0..24).map(element).collect::<Vec<f64>>());
}

#[test]
fn addresses_in_the_middle_of_device_memory_are_used_in_place() {
    use std::ffi::c_void;

    use crate::public::*;
    let Some(handle) = handle() else { return };
    const COUNT: usize = 1665;
    const APART: usize = 8192;
    let (x, y) = (numbers(COUNT, 1), numbers(COUNT, 7));
    let mut memory: *mut c_void = std::ptr::null_mut();
    let mut result = vec![0.0_f32; COUNT];
    // SAFETY: the places have room for the arrays, which live until the copies are done.
    unsafe {
        assert_eq!(hipdnnVulkanAllocate_ext(0, 3 * APART, &mut memory), 0);
        let at = |place: usize| memory.wrapping_byte_add(place * APART);
        for (place, array) in [(0, &x), (1, &y)] {
            assert_eq!(hipdnnVulkanCopyToDevice_ext(0, at(place), array.as_ptr().cast(), 4 * COUNT), 0);
        }
        let plan = VulkanPlugin::plan(&handle, 0, &add(), &[]).unwrap();
        let buffers = |last: *mut c_void| {
            [(1, at(0)), (2, at(1)), (3, last)].map(|(uid, ptr)| hipdnnPluginDeviceBuffer_t { uid, ptr })
        };
        VulkanPlugin::execute(&handle, &plan, std::ptr::null_mut(), &buffers(at(2))).unwrap();
        assert_eq!(hipdnnVulkanCopyToHost_ext(0, result.as_mut_ptr().cast(), at(2), 4 * COUNT), 0);
        // Too near to the end of the memory.
        let late = buffers(memory.wrapping_byte_add(3 * APART - 16));
        let error = VulkanPlugin::execute(&handle, &plan, std::ptr::null_mut(), &late).unwrap_err();
        assert!(error.message().contains("16 bytes before the end of its memory"), "{error}");
    }
    assert_eq!(hipdnnVulkanFree_ext(0, memory), 0);
    assert_eq!(result, x.iter().zip(&y).map(|(x, y)| x + y).collect::<Vec<_>>());
}

#[test]
fn executions_that_wait_for_others_run_in_order() {
    use crate::buffer::Buffer;
    use crate::device::Purpose;

    const COUNT: usize = 1665;
    const TIMES: usize = 301;
    let Some(handle) = handle() else { return };
    let gpu = handle.gpu().unwrap();
    let plan = VulkanPlugin::plan(&handle, 0, &add(), &[]).unwrap();
    let memory = [(); 3].map(|()| Buffer::new(&gpu.device, 4 * COUNT as u64, Purpose::Staging).unwrap());
    let places = memory.each_ref().map(|buffer| buffer.mapped().unwrap().cast::<f32>());
    // SAFETY: each buffer has as many numbers, and no work uses them.
    (0..COUNT).for_each(|at| unsafe {
        places[0].add(at).write(at as f32);
        places[1].add(at).write(0.0);
    });
    let addresses = memory.each_ref().map(|buffer| buffer.address);
    for address in addresses {
        gpu.memory.know_foreign(address, 4 * COUNT as u64);
    }
    let at = |place: usize| std::ptr::with_exposed_provenance_mut(addresses[place] as usize);
    for turn in 0..TIMES {
        let (from, to) = (1 + turn % 2, 2 - turn % 2);
        let buffers = [(1, at(0)), (2, at(from)), (3, at(to))];
        let buffers = buffers.map(|(uid, ptr)| hipdnnPluginDeviceBuffer_t { uid, ptr });
        // SAFETY: each buffer has the elements of its tensor.
        unsafe { VulkanPlugin::execute(&handle, &plan, std::ptr::null_mut(), &buffers) }.unwrap();
    }
    gpu.queue.synchronize().unwrap();
    // SAFETY: the buffer has as many numbers, and its work is done.
    let wrong = (0..COUNT).find(|at| unsafe { places[2].add(*at).read() } != (TIMES * at) as f32);
    assert_eq!(wrong, None);
    for address in addresses {
        gpu.memory.forget(address);
    }
}

#[test]
fn a_child_of_a_process_with_vulkan_has_no_device() {
    let Some(handle) = handle() else { return };
    let refused =
        || handle.gpu().is_err_and(|error| error.message().contains("a child has no Vulkan device"));
    fork::protect(VulkanPlugin::LOCKS);
    assert_ne!(hipdnn_plugin_sdk::os::process::in_fork((), refused), Some(false));
    assert!(handle.gpu().is_ok());
}

#[test]
fn a_missing_buffer_is_named() {
    let Some(handle) = handle() else { return };
    let plan = VulkanPlugin::plan(&handle, 0, &add(), &[]).unwrap();
    // SAFETY: there are no buffers.
    let error = unsafe { VulkanPlugin::execute(&handle, &plan, std::ptr::null_mut(), &[]) }.unwrap_err();
    assert_eq!(error.message(), "tensor 1 has no buffer among the 0 given");
}

#[test]
fn devices_are_chosen_by_number_uuid_or_name() {
    if loader::entry().is_err() {
        return;
    }
    let error = instance::preferred(&[], "gpu").unwrap_err().to_string();
    assert_eq!(error, "no Vulkan device is \"gpu\" (HIPDNN_VULKAN_DEVICE); the loader found no driver");
    let Ok(devices) = instance::devices() else { return };
    let Some(first) = devices.first() else { return };
    for name in ["0", "vulkan:0", &first.uuid_text(), &first.name] {
        assert_eq!(instance::preferred(&devices, name).ok(), first.check().ok().map(|()| 0), "{name}");
    }
    let error = instance::preferred(&devices, "no such device").unwrap_err().to_string();
    assert!(error.contains("HIPDNN_VULKAN_DEVICE") && error.contains("vulkan:0"), "{error}");
}
