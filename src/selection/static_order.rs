//! The order of engines for graphs without measurements.

use hipdnn_plugin_sdk::engine_id;
use hipdnn_plugin_sdk::engine_kind::{EngineDevice, EngineKind, Implementation};

const MIOPEN: i64 = engine_id("MIOPEN_ENGINE");
const DETERMINISTIC: i64 = engine_id("MIOPEN_ENGINE_DETERMINISTIC");

/// The place of an engine: GPU engines before those for any GPU, which apply only where a program or a user chose them, and before
/// those of the host, of which references are last.
fn rank(engine: i64, kind: EngineKind) -> u8 {
    match (engine, kind.device, kind.implementation) {
        (MIOPEN, ..) => 0,
        (DETERMINISTIC, ..) => 2,
        (_, EngineDevice::Vulkan, _) => 3,
        (_, EngineDevice::Host, Implementation::Reference) => 5,
        (_, EngineDevice::Host, _) => 4,
        _ => 1,
    }
}

/// MIOpen's engine first, its deterministic one after the others, then Vulkan's, engines of the host last. Otherwise the order stays:
/// plugins by path, engines as their plugin lists them; but the first engine of generated kernels for NVIDIA's GPUs moves before the
/// first library for them where its kernels are faster than cuDNN's (docs/nvidia-engines.md), which `suits_generated_kernels` answers.
pub fn order(engines: &mut [(i64, EngineKind)], suits_generated_kernels: impl FnOnce() -> bool) {
    engines.sort_by_key(|(engine, kind)| rank(*engine, *kind));
    let place = |implementation| {
        let wanted = EngineKind { device: EngineDevice::Nvidia, implementation };
        engines.iter().position(|(_, kind)| *kind == wanted)
    };
    if let (Some(library), Some(generated)) =
        (place(Implementation::Library), place(Implementation::Generated))
        && library < generated
        && suits_generated_kernels()
        && let Some(between) = engines.get_mut(library..=generated)
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

    const fn kind(device: EngineDevice, implementation: Implementation) -> EngineKind {
        EngineKind { device, implementation }
    }

    const UNKNOWN: EngineKind = kind(EngineDevice::Unknown, Implementation::Own);
    const HOST: EngineKind = kind(EngineDevice::Host, Implementation::Own);
    const NVRTC: (i64, EngineKind) = (30, kind(EngineDevice::Nvidia, Implementation::Generated));
    const CUDNN: (i64, EngineKind) = (31, kind(EngineDevice::Nvidia, Implementation::Library));

    fn ids(engines: &[(i64, EngineKind)]) -> Vec<i64> {
        engines.iter().map(|(id, _)| *id).collect()
    }

    #[test]
    fn miopen_is_first_and_engines_of_the_host_are_last() {
        let reference = kind(EngineDevice::Host, Implementation::Reference);
        let vulkan = kind(EngineDevice::Vulkan, Implementation::Generated);
        let mut engines = vec![
            (1, reference),
            (2, HOST),
            (3, vulkan),
            (DETERMINISTIC, UNKNOWN),
            (7, UNKNOWN),
            (8, HOST),
            (MIOPEN, UNKNOWN),
            (5, UNKNOWN),
        ];
        order(&mut engines, || true);
        assert_eq!(ids(&engines), [MIOPEN, 7, 5, DETERMINISTIC, 3, 2, 8, 1]);
    }

    #[test]
    fn generated_kernels_come_before_cudnn_for_memory_bound_graphs() {
        for (is_bound, expected) in [(true, [30, 31, 7, 1]), (false, [31, 7, 30, 1])] {
            let mut engines = [(1, HOST), CUDNN, (7, UNKNOWN), NVRTC];
            order(&mut engines, || is_bound);
            assert_eq!(ids(&engines), expected);
        }
        let mut engines = [NVRTC, CUDNN];
        order(&mut engines, || unreachable!("the order is the wanted one"));
        assert_eq!(ids(&engines), [30, 31]);
        let mut graph = Graph::default();
        graph.nodes.push(Node::single(Pointwise::new(PointwiseMode::Add, 1, Some(2), 3)));
        assert!(graph.suits_generated_kernels());
        graph.nodes.push(Node::single(Matmul { a: 3, b: 4, c: 5 }));
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
            graph.nodes.push(Node::single(convolution));
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
