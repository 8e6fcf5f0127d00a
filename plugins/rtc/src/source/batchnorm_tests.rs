use hipdnn_plugin_sdk::graph::PointwiseMode;
use hipdnn_plugin_sdk::graph::operation::{Batchnorm, BatchnormBackward, Pointwise};

use super::tests::{graph, memory};
use super::*;

#[test]
fn gradients_of_batchnorm_are_sums_of_channels_and_a_walk() {
    let (image, channel): (&[i64], &[i64]) = (&[2, 3, 4, 4], &[1, 3, 1, 1]);
    let tensors =
        [image, image, channel, channel, channel, image, channel, channel].map(|dims| (dims, false));
    let (mean, inv_variance, peer_stats) = (Some(4), Some(5), Vec::new());
    let node = BatchnormBackward {
        dy: 1,
        x: 2,
        scale: 3,
        dx: 6,
        dscale: 7,
        dbias: 8,
        mean,
        inv_variance,
        peer_stats,
    };
    let program = generate(&graph(&tensors, vec![node.into()])).unwrap();
    let written: Vec<i64> = (0..program.kernels.len()).flat_map(|kernel| memory(&program, kernel)).collect();
    assert!([6, 7, 8].iter().all(|uid| written.contains(uid)) && program.kernels.len() <= 2, "{written:?}");
}

#[test]
fn batchnorm_training_is_one_kernel_or_three_for_divided_channels() {
    let program = |x: &[i64], channels: &[i64]| {
        let mut node = Batchnorm::new(1, 2, 3, 4, 5);
        (node.mean, node.inv_variance) = (Some(7), Some(8));
        let relu = Pointwise::new(PointwiseMode::ReluFwd, 5, None, 6);
        let operations = vec![node.into(), relu.into()];
        let part = (channels, false);
        let tensors = [(x, false), part, part, (&[1][..], false), (x, true), (x, false), part, part];
        generate(&graph(&tensors, operations)).unwrap()
    };
    // The parameters may extend along any dimension.
    for channels in [&[1, 8, 1, 1][..], &[8][..]] {
        let small = program(&[2, 8, 16, 16], channels);
        assert_eq!((small.kernels.len(), small.placed.virtuals().size), (1, 0));
        let mut tensors = memory(&small, 0);
        tensors.sort_unstable();
        assert_eq!(tensors, [1, 2, 3, 4, 6, 7, 8]);
        let large = program(&[32, 8, 16, 16], channels);
        assert_eq!(large.kernels.len(), 3);
        let reads_x = |kernel: &usize| memory(&large, *kernel).contains(&1);
        assert_eq!((0..3).filter(reads_x).collect::<Vec<_>>(), [0, 2]);
        assert!(memory(&large, 1).contains(&7) && memory(&large, 1).contains(&8));
        assert!(large.kernels.iter().all(|kernel| kernel.nodes.contains(&0)));
        // The third kernel first reads what the first one read last.
        let turned = |kernel: &usize| large.kernels[*kernel].text.contains("u - blockIdx.x)");
        assert_eq!((0..3).filter(turned).collect::<Vec<_>>(), [1, 2]);
    }
}
