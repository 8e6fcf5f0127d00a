//! Chains as MIOpen problems.

use std::ffi::{c_int, c_uint};
use std::ptr;

use super::{Chain, Link};
use crate::knob::Options;
use crate::miopen::{
    ACTIVATION_DX, ACTIVATION_DY, ACTIVATION_X, ACTIVATION_Y, BATCHNORM_BIAS, BATCHNORM_DBIAS,
    BATCHNORM_DSCALE, BATCHNORM_DX, BATCHNORM_DY, BATCHNORM_MEAN, BATCHNORM_RUNNING_MEAN,
    BATCHNORM_RUNNING_VARIANCE, BATCHNORM_SAVED_INVERSE, BATCHNORM_SAVED_MEAN, BATCHNORM_SCALE,
    BATCHNORM_SPATIAL, BATCHNORM_VARIANCE, BATCHNORM_X, BATCHNORM_Y, BIAS, BIAS_X, BIAS_Y,
    DIRECTION_BACKWARD, DIRECTION_FORWARD, DIRECTION_INFERENCE, FLOAT, Miopen, MiopenError, STATUS_SUCCESS,
    miopenProblem_t, miopenStatus_t,
};
use crate::object::{Object, activation};
use crate::solution::{Subject, describe};
use crate::step::batchnorm::parameter;

/// Whether this MIOpen supports fused problems.
pub(super) fn available(miopen: &Miopen) -> bool {
    miopen.miopenCreateActivationProblem.is_some()
        && miopen.miopenCreateBatchnormProblem.is_some()
        && miopen.miopenCreateBiasProblem.is_some()
        && miopen.miopenFuseProblems.is_some()
}

impl Subject for Chain {
    /// MIOpen reports a failure if a fused kernel does not compile.
    const MAY_FAIL: bool = true;

    fn problem(&self, miopen: &Miopen, options: &Options) -> Result<Object, MiopenError> {
        let mut whole: Option<Object> = None;
        for link in &self.links {
            let problem = self.link(miopen, options, link)?;
            match (&whole, miopen.miopenFuseProblems) {
                (Some(whole), Some(fuse)) => {
                    // SAFETY: both are alive, and the first copies the second.
                    let status = unsafe { fuse(whole.get(), problem.get()) };
                    miopen.check("miopenFuseProblems", status)?;
                }
                _ => whole = Some(problem),
            }
        }
        whole.ok_or_else(|| missing("miopenFuseProblems"))
    }
}

impl Chain {
    fn link(&self, miopen: &Miopen, options: &Options, link: &Link) -> Result<Object, MiopenError> {
        match link {
            Link::Convolution(design) => design.problem(miopen, options),
            Link::Bias => {
                let shape = self.shape.descriptor(miopen)?;
                let channels = self.shape.dims.get(1).copied().unwrap_or(1);
                let create =
                    miopen.miopenCreateBiasProblem.ok_or_else(|| missing("miopenCreateBiasProblem"))?;
                let problem = made(miopen, "miopenCreateBiasProblem", |problem| {
                    // SAFETY: `made` passes the address of a local, the only place that the function writes to.
                    unsafe { create(problem, DIRECTION_FORWARD) }
                })?;
                let bias = parameter(miopen, self.shape.data_type, self.shape.dims.len(), channels)?;
                for (id, descriptor) in [(BIAS_X, &shape), (BIAS, &bias), (BIAS_Y, &shape)] {
                    describe(miopen, &problem, id, descriptor)?;
                }
                Ok(problem)
            }
            Link::Batchnorm => {
                let parameters = [BATCHNORM_SCALE, BATCHNORM_BIAS, BATCHNORM_MEAN, BATCHNORM_VARIANCE];
                let images = [BATCHNORM_X, BATCHNORM_Y];
                self.batchnorm(miopen, false, DIRECTION_INFERENCE, &images, &parameters)
            }
            Link::Training(running) => {
                // MIOpen requires the running statistics even if there are none.
                let parameters = [
                    BATCHNORM_SCALE,
                    BATCHNORM_BIAS,
                    BATCHNORM_SAVED_MEAN,
                    BATCHNORM_SAVED_INVERSE,
                    BATCHNORM_RUNNING_MEAN,
                    BATCHNORM_RUNNING_VARIANCE,
                ];
                let images = [BATCHNORM_X, BATCHNORM_Y];
                self.batchnorm(miopen, *running, DIRECTION_FORWARD, &images, &parameters)
            }
            Link::BatchnormGradient => {
                let parameters = [
                    BATCHNORM_SCALE,
                    BATCHNORM_BIAS,
                    BATCHNORM_DSCALE,
                    BATCHNORM_DBIAS,
                    BATCHNORM_SAVED_MEAN,
                    BATCHNORM_SAVED_INVERSE,
                ];
                let images = [BATCHNORM_X, BATCHNORM_DX, BATCHNORM_DY];
                self.batchnorm(miopen, false, DIRECTION_BACKWARD, &images, &parameters)
            }
            Link::Activation(mode, numbers) => {
                self.activation(miopen, *mode, numbers, DIRECTION_FORWARD, &[ACTIVATION_X, ACTIVATION_Y])
            }
            Link::ActivationGradient(mode, numbers) => {
                let images = [ACTIVATION_X, ACTIVATION_Y, ACTIVATION_DX, ACTIVATION_DY];
                self.activation(miopen, *mode, numbers, DIRECTION_BACKWARD, &images)
            }
        }
    }

    fn batchnorm(
        &self,
        miopen: &Miopen,
        running: bool,
        direction: c_int,
        images: &[c_uint],
        parameters: &[c_uint],
    ) -> Result<Object, MiopenError> {
        let create =
            miopen.miopenCreateBatchnormProblem.ok_or_else(|| missing("miopenCreateBatchnormProblem"))?;
        let problem = made(miopen, "miopenCreateBatchnormProblem", |problem| {
            // SAFETY: `made` passes the address of a local, the only place that the function writes to.
            unsafe { create(problem, BATCHNORM_SPATIAL, running, direction) }
        })?;
        let shape = self.shape.descriptor(miopen)?;
        let channels = self.shape.dims.get(1).copied().unwrap_or(1);
        let parameter = parameter(miopen, FLOAT, self.shape.dims.len(), channels)?;
        for id in images {
            describe(miopen, &problem, *id, &shape)?;
        }
        for id in parameters {
            describe(miopen, &problem, *id, &parameter)?;
        }
        Ok(problem)
    }

    fn activation(
        &self,
        miopen: &Miopen,
        mode: c_int,
        numbers: &[u64; 3],
        direction: c_int,
        images: &[c_uint],
    ) -> Result<Object, MiopenError> {
        let create =
            miopen.miopenCreateActivationProblem.ok_or_else(|| missing("miopenCreateActivationProblem"))?;
        let activation = activation(miopen, mode, numbers.map(f64::from_bits))?;
        let problem = made(miopen, "miopenCreateActivationProblem", |problem| {
            // SAFETY: `made` passes the address of a local, the only place that the function writes to, and the problem copies the
            // activation.
            unsafe { create(problem, activation.get(), direction) }
        })?;
        let shape = self.shape.descriptor(miopen)?;
        for id in images {
            describe(miopen, &problem, *id, &shape)?;
        }
        Ok(problem)
    }
}

fn made(
    miopen: &Miopen,
    function: &str,
    create: impl FnOnce(*mut miopenProblem_t) -> miopenStatus_t,
) -> Result<Object, MiopenError> {
    let mut problem = ptr::null_mut();
    miopen.check(function, create(&mut problem))?;
    // SAFETY: the problem was just created, and this function destroys it.
    Ok(unsafe { Object::new(problem, miopen.miopenDestroyProblem) })
}

fn missing(function: &str) -> MiopenError {
    MiopenError { status: STATUS_SUCCESS, message: format!("this MIOpen has no {function}") }
}
