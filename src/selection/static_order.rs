//! The order of engines for graphs without measurements.

use hipdnn_plugin_sdk::engine_id;

const MIOPEN: i64 = engine_id("MIOPEN_ENGINE");
const DETERMINISTIC: i64 = engine_id("MIOPEN_ENGINE_DETERMINISTIC");

/// The CPU engines, which come last, since GPU engines are preferred.
const CPU: [i64; 2] = [engine_id("CPU_ENGINE"), engine_id("CPU_REFERENCE_ENGINE")];

/// NVIDIA's engines: generated kernels, and cuDNN's.
const NVRTC: i64 = engine_id("NVRTC_ENGINE");
const CUDNN: i64 = engine_id("CUDNN_ENGINE");

fn rank(engine: i64) -> u8 {
    match engine {
        MIOPEN => 0,
        DETERMINISTIC => 2,
        engine if CPU.contains(&engine) => 3,
        _ => 1,
    }
}

/// MIOpen's engine first, its deterministic one after the others, CPU engines last. Otherwise the order stays: plugins by
/// path, engines as their plugin lists them; but for memory-bound graphs, `NVRTC_ENGINE` moves before `CUDNN_ENGINE`, since it is
/// faster there (docs/nvidia-engines.md).
pub fn order(engines: &mut [i64], is_bound_by_memory: impl FnOnce() -> bool) {
    engines.sort_by_key(|engine| rank(*engine));
    let place = |id: i64| engines.iter().position(|engine| *engine == id);
    if let (Some(cudnn), Some(nvrtc)) = (place(CUDNN), place(NVRTC))
        && cudnn < nvrtc
        && is_bound_by_memory()
        && let Some(between) = engines.get_mut(cudnn..=nvrtc)
    {
        between.rotate_right(1);
    }
}

/// The preferred engines that are available, best first; none if no preferred engine is.
pub fn preferred(engines: &[i64], preferred: &[i64]) -> Vec<i64> {
    let mut chosen: Vec<i64> = Vec::new();
    for engine in preferred {
        if engines.contains(engine) && !chosen.contains(engine) {
            chosen.push(*engine);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
    use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode};

    use super::*;

    #[test]
    fn miopen_is_first_and_cpu_engines_are_last() {
        let [fast, reference] = CPU;
        let mut engines = vec![reference, fast, DETERMINISTIC, 7, MIOPEN, 5];
        order(&mut engines, || true);
        assert_eq!(engines, [MIOPEN, 7, 5, DETERMINISTIC, reference, fast]);
    }

    #[test]
    fn generated_kernels_come_before_cudnn_for_memory_bound_graphs() {
        for (is_bound, expected) in [(true, [NVRTC, CUDNN, 7, CPU[0]]), (false, [CUDNN, 7, NVRTC, CPU[0]])] {
            let mut engines = [CPU[0], CUDNN, 7, NVRTC];
            order(&mut engines, || is_bound);
            assert_eq!(engines, expected);
        }
        let mut engines = [NVRTC, CUDNN];
        order(&mut engines, || unreachable!("the order is the wanted one"));
        assert_eq!(engines, [NVRTC, CUDNN]);
        let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
        let mut graph = Graph::default();
        graph.nodes.push(node(Pointwise::new(PointwiseMode::Add, 1, Some(2), 3).into()));
        assert!(graph.is_bound_by_memory());
        graph.nodes.push(node(Matmul { a: 3, b: 4, c: 5 }.into()));
        assert!(!graph.is_bound_by_memory());
    }

    #[test]
    fn preferred_engines_are_the_available_ones_once_each() {
        assert_eq!(preferred(&[1, 2, 3], &[3, 9, 1, 3]), [3, 1]);
        assert!(preferred(&[1, 2, 3], &[9]).is_empty());
        assert!(preferred(&[1, 2, 3], &[]).is_empty());
    }
}
