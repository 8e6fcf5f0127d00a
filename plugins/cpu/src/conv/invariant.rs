//! Convolutions of a batch whose items must not show in each other's results: the algorithm is chosen as for a fixed number
//! of images. Each algorithm sums the terms of an output in an order of its own, whatever its blocks of images are.

use hipdnn_plugin_sdk::graph::Tensor;

use crate::conv::problem::Problem;
use crate::kernel::Refusal;
use crate::layout::Layout;
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::Settings;
use crate::threading::partition::Threads;

/// As many images as algorithms are chosen for, except Winograd, which is [balanced](crate::conv::winograd::choice) between few
/// images and many.
const IMAGES: usize = 4;

/// The convolution that decides the algorithm of a problem; `None` if the problem may decide itself. Gradients of weights are
/// sums over the batch.
pub(crate) fn deciding(problem: &Problem<'_>) -> Result<Option<(Convolution, Settings)>, Refusal> {
    let c = problem.convolution;
    let threads = problem.settings.threads;
    if !threads.batch_invariant || c.direction == Direction::BackwardFilter {
        return Ok(None);
    }
    let threads = Threads { most: 1, ..threads };
    let convolution = Convolution { x: images(&c.x)?, y: images(&c.y)?, batch: IMAGES, ..*c };
    Ok(Some((convolution, Settings { threads, ..problem.settings })))
}

/// The same tensor with that many images. Those of a single one follow each other.
fn images(operand: &Operand) -> Result<Operand, Refusal> {
    let layout = &operand.layout;
    let number = |values: &[usize]| values.iter().map(|value| *value as i64).collect::<Vec<_>>();
    let (mut dims, mut strides) = (number(layout.dims()), number(layout.strides()));
    if let ([batch, ..], [stride, ..]) = (dims.as_mut_slice(), strides.as_mut_slice()) {
        if *batch == 1 {
            *stride = layout.extent() as i64;
        }
        *batch = IMAGES as i64;
    }
    let layout = Layout::of(&Tensor::new(0, operand.data_type, &dims, &strides))?;
    Ok(Operand { layout, ..*operand })
}
