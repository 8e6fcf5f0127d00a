use std::time::Instant;

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{Node, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::EngineConfig;

use super::*;
use crate::instance;

#[test]
fn kernels_take_longer_by_the_devices_clock_if_there_is_more_to_do() {
    let Ok(gpu) = instance::device(0) else { return };
    if gpu.device.properties.clock_bits == 0 {
        return;
    }
    let time = |count: i64| {
        let tensors = [1, 2].map(|uid| Tensor::packed(uid, DataType::Float, &[count])).to_vec();
        let operation = Pointwise::new(PointwiseMode::Erf, 1, None, 2).into();
        let node = Node { name: "n".to_owned(), compute_type: DataType::Float, operation };
        let graph = Graph { tensors, nodes: vec![node], ..Graph::default() };
        let request = Request { graph, config: EngineConfig { engine_id: 0, knobs: Vec::new() } };
        let plan = Plan::new(&gpu, request, &[]).unwrap();
        let memory = [(); 2].map(|()| gpu.allocate(4 * count as u64).unwrap());
        let bound = memory.each_ref().map(|buffer| Bound::Device(buffer.address));
        let (kernel, mut parameters) = (&plan.kernels[0], Vec::new());
        plan.add_parameters(&mut parameters, kernel, &bound, &[]).unwrap();
        let begin = Instant::now();
        let times = (0..3).map(|_| kernel.timed(&gpu, &parameters).unwrap().unwrap());
        let least = times.min().unwrap();
        assert!(least > 0 && u128::from(least) < begin.elapsed().as_nanos(), "{least}");
        least
    };
    let (short, long) = (time(1000), time(1 << 22));
    assert!(short < long, "{short} {long}");
}
