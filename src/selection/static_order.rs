//! The order of engines for graphs without measurements.

use hipdnn_plugin_sdk::engine_id;

const MIOPEN: i64 = engine_id("MIOPEN_ENGINE");
const DETERMINISTIC: i64 = engine_id("MIOPEN_ENGINE_DETERMINISTIC");

/// The CPU engines, which come last, since GPU engines are preferred.
const CPU: [i64; 2] = [engine_id("CPU_ENGINE"), engine_id("CPU_REFERENCE_ENGINE")];

/// The engine for any GPU, which comes after engines for one vendor's. It applies only where a program or a user chose it.
const VULKAN: i64 = engine_id("VULKAN_ENGINE");

/// NVIDIA's engines: generated kernels, and cuDNN's.
const NVRTC: i64 = engine_id("NVRTC_ENGINE");
const CUDNN: i64 = engine_id("CUDNN_ENGINE");

fn rank(engine: i64) -> u8 {
    match engine {
        MIOPEN => 0,
        DETERMINISTIC => 2,
        VULKAN => 3,
        engine if CPU.contains(&engine) => 4,
        _ => 1,
    }
}

/// MIOpen's engine first, its deterministic one after the others, then Vulkan's, CPU engines last. Otherwise the order stays: plugins by
/// path, engines as their plugin lists them; but `NVRTC_ENGINE` moves before `CUDNN_ENGINE` where its kernels are faster
/// (docs/nvidia-engines.md), which `suits_generated_kernels` answers.
pub fn order(engines: &mut [i64], suits_generated_kernels: impl FnOnce() -> bool) {
    engines.sort_by_key(|engine| rank(*engine));
    let place = |id: i64| engines.iter().position(|engine| *engine == id);
    if let (Some(cudnn), Some(nvrtc)) = (place(CUDNN), place(NVRTC))
        && cudnn < nvrtc
        && suits_generated_kernels()
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
    use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Matmul, Pointwise};
    use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Graph, Node, PointwiseMode, Tensor};

    use super::*;

    #[test]
    fn miopen_is_first_and_cpu_engines_are_last() {
        let [fast, reference] = CPU;
        let mut engines = vec![reference, fast, VULKAN, DETERMINISTIC, 7, MIOPEN, 5];
        order(&mut engines, || true);
        assert_eq!(engines, [MIOPEN, 7, 5, DETERMINISTIC, VULKAN, reference, fast]);
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
        assert!(graph.suits_generated_kernels());
        graph.nodes.push(node(Matmul { a: 3, b: 4, c: 5 }.into()));
        assert!(!graph.suits_generated_kernels());
    }

    #[test]
    fn depthwise_convolutions_suit_generated_kernels_where_cudnn_is_slow() {
        const FIRST: [i64; 4] = [64, 16, 4, 1];
        const LAST: [i64; 4] = [64, 1, 16, 4];
        let suits = |data_type, strides: [i64; 4], window: i64, filters: [i64; 2]| {
            let mut graph = Graph::default();
            graph.tensors.push(Tensor::new(1, data_type, &[2, 4, 4, 4], &strides));
            let [count, channels] = filters;
            graph.tensors.push(Tensor::new(2, data_type, &[count, channels, window, window], &[1; 4]));
            let numbers = || vec![1; 2];
            let convolution = ConvolutionForward {
                x: 1,
                w: 2,
                y: 3,
                pre_padding: numbers(),
                post_padding: numbers(),
                stride: numbers(),
                dilation: numbers(),
                conv_mode: ConvMode::CrossCorrelation,
            };
            let operation = convolution.into();
            graph.nodes.push(Node { name: String::new(), compute_type: DataType::Float, operation });
            graph.suits_generated_kernels()
        };
        assert!(suits(DataType::Float, FIRST, 3, [4, 1]) && suits(DataType::Float, LAST, 3, [4, 1]));
        assert!(!suits(DataType::Float, LAST, 3, [4, 4]) && !suits(DataType::Float, LAST, 3, [8, 1]));
        assert!(suits(DataType::Bfloat16, LAST, 3, [4, 1]) && !suits(DataType::Bfloat16, FIRST, 3, [4, 1]));
        assert!(suits(DataType::Half, LAST, 7, [4, 1]) && !suits(DataType::Half, LAST, 3, [4, 1]));
        assert!(!suits(DataType::Double, LAST, 3, [4, 1]));
    }

    #[test]
    fn preferred_engines_are_the_available_ones_once_each() {
        assert_eq!(preferred(&[1, 2, 3], &[3, 9, 1, 3]), [3, 1]);
        assert!(preferred(&[1, 2, 3], &[9]).is_empty());
        assert!(preferred(&[1, 2, 3], &[]).is_empty());
    }
}
