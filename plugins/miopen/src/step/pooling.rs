//! Pooling and its gradient.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::resample::{Pooling, Resample};
use hipdnn_plugin_sdk::PluginError;

use super::{Design, ONE, Step, Tensors, ZERO, factor, missing, require};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{INDEX_32, INDEX_OF_IMAGE, Miopen, POOLING_MAX, POOLING_MEAN, POOLING_MEAN_OF_WINDOW};
use crate::object::{Object, make};
use crate::operand::{ImageLayout, Shape, image, int, same_type, without_bfloat16};

/// A pooling described for MIOpen.
pub struct PoolingDesign {
    backward: bool,
    mode: c_int,
    x: Shape,
    y: Shape,
    /// Slots of x and y, or of their gradients.
    slots: [usize; 2],
    /// The index that the gradient of a maximum reads.
    index: Option<usize>,
    window: Vec<c_int>,
    padding: Vec<c_int>,
    stride: Vec<c_int>,
}

impl PoolingDesign {
    /// A pooling.
    ///
    /// # Errors
    /// The first feature that MIOpen does not support.
    pub fn of(pooling: &Resample) -> Result<Self, Refusal> {
        let Resample { x, y, spatial, .. } = pooling;
        let [x_name, y_name] = if pooling.backward { ["dx", "dy"] } else { ["x", "y"] };
        // MIOpen starts with the least finite number: the largest of a window of -inf would be that.
        if !pooling.backward && matches!(pooling.pooling, Pooling::Maximum { .. }) {
            return Err("resample_mode: is maxpool, which MIOpen computes without infinities".to_owned());
        }
        if *spatial > 3 {
            return Err(format!("{x_name}: has {spatial} spatial dimensions, expected at most 3"));
        }
        without_bfloat16(x_name, x.data_type)?;
        same_type(y_name, y.data_type, x_name, x.data_type)?;
        for axis in 0..*spatial {
            pooling_axis(pooling, axis)?;
        }
        let layout = ImageLayout::common(&[(x_name, x), (y_name, y)])?;
        if layout == ImageLayout::ChannelsLast {
            return Err(format!("{x_name}: is channels last, expected channels first"));
        }
        if pooling.has_other_index() {
            return Err("index: is of another type, expected int32".to_owned());
        }
        if let Some(index) = &pooling.index
            && !ImageLayout::of(&index.layout).contains(&Some(layout))
        {
            return Err(format!(
                "index: dims {:?} and strides {:?}, expected channels first without gaps",
                index.layout.dims(),
                index.layout.strides()
            ));
        }
        let numbers = |name: &str, values: &[usize], neutral: c_int| -> Result<Vec<c_int>, Refusal> {
            let mut ints =
                values.iter().take(*spatial).map(|value| int(name, *value)).collect::<Result<Vec<_>, _>>()?;
            // One spatial dimension is treated as two, the first of size 1.
            if *spatial == 1 {
                ints.insert(0, neutral);
            }
            Ok(ints)
        };
        Ok(Self {
            backward: pooling.backward,
            mode: match pooling.pooling {
                Pooling::Maximum { .. } => POOLING_MAX,
                Pooling::MeanInside => POOLING_MEAN,
                Pooling::MeanOfWindow => POOLING_MEAN_OF_WINDOW,
            },
            x: image(x_name, x, layout)?,
            y: image(y_name, y, layout)?,
            slots: [x.slot, y.slot],
            index: pooling.index.map(|index| index.slot),
            window: numbers("window", &pooling.window, 1)?,
            padding: numbers("pre_padding", &pooling.pre_padding, 0)?,
            stride: numbers("stride", &pooling.stride, 1)?,
        })
    }
}

/// Refuses windows along a dimension that MIOpen would place differently.
fn pooling_axis(pooling: &Resample, axis: usize) -> Result<(), Refusal> {
    let at = |values: &[usize]| values.get(axis).copied().unwrap_or_default();
    let (input, output) = (at(&pooling.input), at(&pooling.output));
    let (window, stride, padding) = (at(&pooling.window), at(&pooling.stride), at(&pooling.pre_padding));
    let symmetric = (input + 2 * padding).checked_sub(window).map(|room| room / stride + 1);
    if symmetric != Some(output) {
        return Err(format!(
            "post_padding[{axis}]: makes the output {output} long, expected one that is {} long as with pre_padding on both sides",
            symmetric.map_or_else(|| "not".to_owned(), |size| size.to_string())
        ));
    }
    if padding >= window {
        return Err(format!("pre_padding[{axis}]: is {padding}, expected less than the window of {window}"));
    }
    let behind = (output - 1) * stride + window > input + padding;
    if pooling.pooling == (Pooling::Maximum { zeros: true }) && (padding > 0 || behind) {
        return Err(format!(
            "padding_mode: has zeros outside x along spatial dimension {axis}, expected neg_inf_pad or windows inside x"
        ));
    }
    Ok(())
}

impl Design for PoolingDesign {
    fn check(&self, miopen: &Miopen) -> Result<(), PluginError> {
        require(&[
            ("miopenCreatePoolingDescriptor", miopen.miopenCreatePoolingDescriptor.is_some()),
            ("miopenDestroyPoolingDescriptor", miopen.miopenDestroyPoolingDescriptor.is_some()),
            ("miopenSetNdPoolingDescriptor", miopen.miopenSetNdPoolingDescriptor.is_some()),
            ("miopenSetPoolingIndexType", miopen.miopenSetPoolingIndexType.is_some()),
            ("miopenSetPoolingWorkSpaceIndexMode", miopen.miopenSetPoolingWorkSpaceIndexMode.is_some()),
            ("miopenPoolingForward", self.backward || miopen.miopenPoolingForward.is_some()),
            ("miopenPoolingBackward", !self.backward || miopen.miopenPoolingBackward.is_some()),
        ])
    }

    fn make(&self, ready: &Ready<'_>, options: &Options, _: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        if self.backward && options.deterministic && self.mode == POOLING_MAX {
            return Err(PluginError::not_applicable(
                "resample_mode: is maxpool, whose gradient MIOpen may accumulate in any order",
            ));
        }
        let miopen = ready.runtime.miopen;
        self.check(miopen)?;
        Ok(Box::new(PoolingStep {
            backward: self.backward,
            descriptor: self.descriptor(miopen)?,
            x: self.x.descriptor(miopen)?,
            y: self.y.descriptor(miopen)?,
            slots: self.slots,
            index: self.index,
        }))
    }
}

impl PoolingDesign {
    fn descriptor(&self, miopen: &Miopen) -> Result<Object, PluginError> {
        let create =
            miopen.miopenCreatePoolingDescriptor.ok_or_else(|| missing("miopenCreatePoolingDescriptor"))?;
        let destroy =
            miopen.miopenDestroyPoolingDescriptor.ok_or_else(|| missing("miopenDestroyPoolingDescriptor"))?;
        let set =
            miopen.miopenSetNdPoolingDescriptor.ok_or_else(|| missing("miopenSetNdPoolingDescriptor"))?;
        let set_type =
            miopen.miopenSetPoolingIndexType.ok_or_else(|| missing("miopenSetPoolingIndexType"))?;
        let set_mode = miopen
            .miopenSetPoolingWorkSpaceIndexMode
            .ok_or_else(|| missing("miopenSetPoolingWorkSpaceIndexMode"))?;
        // SAFETY: the functions are a pair, and each array has as many numbers as there are spatial dimensions.
        unsafe {
            let descriptor = make(miopen, "miopenCreatePoolingDescriptor", create, destroy)?;
            miopen.check(
                "miopenSetNdPoolingDescriptor",
                set(
                    descriptor.get(),
                    self.mode,
                    self.window.len() as c_int,
                    self.window.as_ptr(),
                    self.padding.as_ptr(),
                    self.stride.as_ptr(),
                ),
            )?;
            miopen.check("miopenSetPoolingIndexType", set_type(descriptor.get(), INDEX_32))?;
            miopen.check("miopenSetPoolingWorkSpaceIndexMode", set_mode(descriptor.get(), INDEX_OF_IMAGE))?;
            Ok(descriptor)
        }
    }
}

struct PoolingStep {
    backward: bool,
    descriptor: Object,
    x: Object,
    y: Object,
    slots: [usize; 2],
    index: Option<usize>,
}

impl Step for PoolingStep {
    fn call(&self) -> &'static str {
        if self.backward { "miopenPoolingBackward" } else { "miopenPoolingForward" }
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        _: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let [x, y] = self.slots.map(|slot| tensors.at(slot));
        if self.backward {
            let index = tensors.at_optional(self.index);
            let backward = miopen.miopenPoolingBackward.ok_or_else(|| missing("miopenPoolingBackward"))?;
            // SAFETY: the step's objects are alive; the tensors are valid until the work is done, and the workspace for its size, as this
            // function requires. MIOpen requires some x and y even if it does not read them: it has the index, or takes means.
            let status = unsafe {
                backward(
                    ready.handle(),
                    self.descriptor.get(),
                    factor(&ONE),
                    self.y.get(),
                    y,
                    self.y.get(),
                    y,
                    self.x.get(),
                    x,
                    factor(&ZERO),
                    self.x.get(),
                    x,
                    index,
                )
            };
            return Ok(miopen.check("miopenPoolingBackward", status)?);
        }
        let forward = miopen.miopenPoolingForward.ok_or_else(|| missing("miopenPoolingForward"))?;
        // SAFETY: the step's objects are alive; the tensors are valid until the work is done, as this function requires. Means have no
        // index.
        let status = unsafe {
            forward(
                ready.handle(),
                self.descriptor.get(),
                factor(&ONE),
                self.x.get(),
                x,
                factor(&ZERO),
                self.y.get(),
                y,
                false,
                std::ptr::null_mut(),
                0,
            )
        };
        Ok(miopen.check("miopenPoolingForward", status)?)
    }
}
