//! How large windows of convolutions and poolings may be, so that kernels compute positions in 32 bits.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the number of spatial dimensions, at most MAX_SPATIAL"
)]

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::convolution::Convolution;
use hipdnn_plugin_planner::problem::resample::Resample;

/// Maximum size of a dimension with its padding, so that positions fit 32 bits.
const MAX_PADDED: usize = i32::MAX as usize;

/// Maximum number of positions in a pooling window: padding takes no memory, but time.
const MAX_WINDOW: usize = 1 << 24;

fn check_padded(name: &str, axis: usize, padded: usize) -> Result<(), Refusal> {
    if padded > MAX_PADDED {
        return Err(format!(
            "{name}[{axis}]: windows reach over {padded} elements, expected at most {MAX_PADDED}"
        ));
    }
    Ok(())
}

/// Whether the positions of a convolution's windows fit 32 bits.
///
/// # Errors
/// The dimension that is too large.
pub fn check_convolution(p: &Convolution) -> Result<(), Refusal> {
    for axis in 0..p.spatial {
        let reached = (p.output[axis] - 1)
            .saturating_mul(p.stride[axis])
            .saturating_add((p.window[axis] - 1).saturating_mul(p.dilation[axis]));
        check_padded("pre_padding", axis, reached.max(p.input[axis].saturating_add(p.pre_padding[axis])))?;
    }
    Ok(())
}

/// Whether the positions of a pooling's windows fit 32 bits, and no window has too many.
///
/// # Errors
/// The dimension or the window that is too large.
pub fn check_pooling(p: &Resample) -> Result<(), Refusal> {
    for axis in 0..p.spatial {
        let reached = (p.output[axis] - 1).saturating_mul(p.stride[axis]).saturating_add(p.window[axis]);
        check_padded("window", axis, reached.max(p.input[axis].saturating_add(p.pre_padding[axis])))?;
    }
    let window = &p.window[..p.spatial];
    let positions = window.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent));
    if positions.is_none_or(|positions| positions > MAX_WINDOW) {
        return Err(format!("window: is {window:?}, expected at most {MAX_WINDOW} positions"));
    }
    Ok(())
}
