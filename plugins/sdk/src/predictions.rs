//! How well a host expects engines to do: what it tells a heuristic plugin while a policy chooses.

use std::ffi::CStr;
use std::mem::offset_of;
use std::ptr;

use crate::error::{PluginError, Refusal};
use crate::ffi::{
    HIPDNN_ENGINE_PREDICTION_CONFIGURATION, HIPDNN_ENGINE_PREDICTION_ENGINE, HIPDNN_PLUGIN_STATUS_SUCCESS,
    hipdnnEnginePredictionKind_t, hipdnnHeuristicHostCallbacks_t as Callbacks, hipdnnPluginConstData_t,
};
use crate::wire::{self, KnobSetting};

/// The host's predictions for the engines of one choice, all in one metric. Neither `Send` nor `Sync`: hosts answer only the thread
/// that asked the policy.
#[derive(Clone, Debug)]
pub struct Predictions<'a> {
    host: Callbacks,
    metric: &'a str,
}

/// How well an engine is expected to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// The value in the unit of [`Predictions::metric`].
    pub value: f64,
    /// What computed it, such as `hipdnn.measured`.
    pub model: String,
    /// How reliable it is.
    pub reason: String,
    /// The knobs that it is for; all others have their defaults.
    pub knobs: Vec<KnobSetting>,
}

impl<'a> Predictions<'a> {
    /// The predictions of a host; none if it has none.
    ///
    /// # Errors
    /// The host's table is of no known version.
    ///
    /// # Safety
    /// `host` is null or points to a table of at least the size that it says, which lives for `'a`, as do its texts.
    pub(crate) unsafe fn of_host(host: *const Callbacks) -> Result<Option<Self>, PluginError> {
        const FIRST: usize = offset_of!(Callbacks, ranking_metric);
        if host.is_null() {
            return Ok(None);
        }
        // SAFETY: every version of the table begins with its version and its size. Hosts may pass memory of any alignment.
        let (version, size) = unsafe {
            ((&raw const (*host).version).read_unaligned(), (&raw const (*host).struct_size).read_unaligned())
        };
        let is_second = version >= 2;
        let least = if is_second { size_of::<Callbacks>() } else { FIRST };
        if version == 0 || size < least {
            return Err(PluginError::invalid_value(format!(
                "host is a table of version {version} with {size} bytes, expected a version from 1 and at least {least} bytes"
            )));
        }
        let mut own = Callbacks {
            version,
            struct_size: size,
            context: ptr::null_mut(),
            get_prediction: None,
            ranking_metric: c"tflops".as_ptr(),
        };
        // SAFETY: the table has as many bytes, as was checked. Bytes of functions and pointers are copied as they are.
        unsafe { ptr::copy_nonoverlapping(host.cast::<u8>(), (&raw mut own).cast::<u8>(), least) };
        if own.get_prediction.is_none() {
            return Ok(None);
        }
        if own.ranking_metric.is_null() {
            return Err(PluginError::invalid_value("host->ranking_metric is null, expected a text"));
        }
        // SAFETY: the host's texts are terminated and live for `'a`; the other one is static.
        let metric = unsafe { CStr::from_ptr(own.ranking_metric) };
        let metric = metric.to_str().map_err(|_| {
            PluginError::invalid_value(format!("host->ranking_metric is {metric:?}, expected UTF-8"))
        })?;
        Ok(Some(Self { host: own, metric }))
    }

    /// The metric of the values: `time` in milliseconds, or `tflops`.
    pub fn metric(&self) -> &'a str {
        self.metric
    }

    /// Whether less is better in this metric.
    pub fn less_is_better(&self) -> bool {
        self.metric == "time"
    }

    /// The prediction of an engine with its default knobs.
    ///
    /// # Errors
    /// Why the host has none.
    pub fn engine(&self, engine: i64) -> Result<Predicted, Refusal> {
        self.ask(engine, HIPDNN_ENGINE_PREDICTION_ENGINE)
    }

    /// The prediction of an engine's best configuration, with its knobs.
    ///
    /// # Errors
    /// Why the host has none.
    pub fn configuration(&self, engine: i64) -> Result<Predicted, Refusal> {
        self.ask(engine, HIPDNN_ENGINE_PREDICTION_CONFIGURATION)
    }

    /// The engines that have a prediction, with it, best first; then those without one, in their order.
    pub fn rank(&self, engines: &[i64]) -> Vec<(i64, Option<Predicted>)> {
        let mut ranked: Vec<_> = engines.iter().map(|engine| (*engine, self.engine(*engine).ok())).collect();
        let key = |predicted: &Option<Predicted>| match predicted {
            None => f64::INFINITY,
            Some(predicted) if self.less_is_better() => predicted.value,
            Some(predicted) => -predicted.value,
        };
        ranked.sort_by(|(_, a), (_, b)| key(a).total_cmp(&key(b)));
        ranked
    }

    fn ask(&self, engine: i64, kind: hipdnnEnginePredictionKind_t) -> Result<Predicted, Refusal> {
        let mut data = hipdnnPluginConstData_t { ptr: ptr::null(), size: 0 };
        let Some(function) = self.host.get_prediction else {
            return Err("the host has no predictions".into());
        };
        // SAFETY: the host's function lives as long as this and writes one struct.
        let status = unsafe { function(self.host.context, engine, kind, &raw mut data) };
        if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
            return Err(
                format!("the host answered status {status} for a prediction of engine {engine}").into()
            );
        }
        if data.ptr.is_null() || isize::try_from(data.size).is_err() {
            return Err(format!(
                "the host gave {} bytes at {:p} as a prediction of engine {engine}",
                data.size, data.ptr
            )
            .into());
        }
        // SAFETY: on success the bytes are the host's, and live until the policy has chosen.
        let bytes = unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), data.size) };
        let (prediction, knobs) = wire::read_prediction(bytes)?;
        match prediction.value {
            None => Err(prediction.reason.to_owned().into()),
            // Hosts of version 1 need not say the metric, which is always the same.
            Some(value)
                if prediction.engine_id != engine
                    || !(prediction.metric.is_empty() || prediction.metric == self.metric)
                    || !value.is_finite() =>
            {
                Err(format!(
                    "the host predicted {value} of engine {} in {:?}, expected a finite number of engine {engine} in {:?}",
                    prediction.engine_id, prediction.metric, self.metric
                )
                .into())
            }
            Some(value) => Ok(Predicted {
                value,
                model: prediction.model.to_owned(),
                reason: prediction.reason.to_owned(),
                knobs,
            }),
        }
    }
}
