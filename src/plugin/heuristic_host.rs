//! What the library does for a policy that is being finalized: predictions, in one metric, of the candidates.
//!
//! Nothing that a policy may retain dangles: the table is static and its context null. The thread's own record of the policy
//! that it is finalizing says whom a call is for, so that late calls and those of other threads are refused.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use hipdnn_plugin_sdk::ffi::{
    HIPDNN_ENGINE_PREDICTION_CONFIGURATION, HIPDNN_ENGINE_PREDICTION_ENGINE, HIPDNN_PLUGIN_STATUS_BAD_PARAM,
    HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED, HIPDNN_PLUGIN_STATUS_SUCCESS,
    hipdnnEnginePredictionKind_t, hipdnnHeuristicHostCallbacks_t as Callbacks,
    hipdnnPluginConstData_t as ConstData, hipdnnPluginStatus_t,
};
use hipdnn_plugin_sdk::graph::Graph;

use crate::selection::{Metric, Predictor};

/// The version of the table.
const VERSION: u32 = 2;

/// A table that any thread may read for ever.
struct Table(Callbacks);

// SAFETY: the table never changes; its pointers are null, to a function and to a static text.
unsafe impl Sync for Table {}

const fn table(metric: Metric) -> Table {
    let name = match metric {
        Metric::Tflops => c"tflops",
        Metric::Time => c"time",
    };
    Table(Callbacks {
        version: VERSION,
        struct_size: size_of::<Callbacks>(),
        context: ptr::null_mut(),
        get_prediction: Some(get_prediction),
        ranking_metric: name.as_ptr(),
    })
}

static TFLOPS: Table = table(Metric::Tflops);
static TIME: Table = table(Metric::Time);

thread_local! {
    /// The host of the policy that this thread is finalizing. Without a destructor, see `crate::lock`.
    static FINALIZING: Cell<*const Host<'static>> = const { Cell::new(ptr::null()) };
}

/// The services for one policy and graph.
pub struct Host<'a> {
    graph: &'a Graph,
    engines: &'a [i64],
    predictor: &'a Predictor<'a>,
    /// The predictions that were handed out, which live as long as this.
    made: RefCell<Vec<Vec<u8>>>,
}

impl<'a> Host<'a> {
    /// The services for a graph and its candidates.
    pub fn new(graph: &'a Graph, engines: &'a [i64], predictor: &'a Predictor<'a>) -> Self {
        Self { graph, engines, predictor, made: RefCell::default() }
    }

    /// Calls a function that finalizes a policy on this thread.
    pub fn during<T>(&self, finalize: impl FnOnce(*const Callbacks) -> T) -> T {
        struct Restore(*const Host<'static>);
        impl Drop for Restore {
            fn drop(&mut self) {
                FINALIZING.set(self.0);
            }
        }
        let _restore = Restore(FINALIZING.replace(ptr::from_ref(self).cast()));
        let table = match self.predictor.metric {
            Metric::Tflops => &TFLOPS,
            Metric::Time => &TIME,
        };
        finalize(&raw const table.0)
    }

    fn predict(&self, engine: i64, kind: c_int, out: *mut ConstData) -> hipdnnPluginStatus_t {
        let kind = match kind {
            HIPDNN_ENGINE_PREDICTION_ENGINE => 0,
            HIPDNN_ENGINE_PREDICTION_CONFIGURATION => 1,
            _ => return HIPDNN_PLUGIN_STATUS_BAD_PARAM,
        };
        if out.is_null() || !self.engines.contains(&engine) {
            return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
        }
        let bytes = self.predictor.bytes(self.graph, engine, kind);
        let data = ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() };
        self.made.borrow_mut().push(bytes);
        // SAFETY: the pointer is not null, and policies pass one that is writable, as the interface of the host requires.
        unsafe { out.write_unaligned(data) };
        HIPDNN_PLUGIN_STATUS_SUCCESS
    }
}

/// # Safety
/// `prediction` is null or writable.
unsafe extern "C" fn get_prediction(
    _context: *mut c_void,
    engine_id: i64,
    kind: hipdnnEnginePredictionKind_t,
    prediction: *mut ConstData,
) -> hipdnnPluginStatus_t {
    // SAFETY: what the cell points to is a local of `during` on this thread, which sets it back before it returns.
    let Some(host) = (unsafe { FINALIZING.get().as_ref() }) else {
        return HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED;
    };
    let answer = catch_unwind(AssertUnwindSafe(|| host.predict(engine_id, kind, prediction)));
    answer.unwrap_or(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR)
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn ask(table: *const Callbacks, engine: i64, kind: c_int, data: *mut ConstData) -> hipdnnPluginStatus_t {
        // SAFETY: `during` passes the address of a static.
        let function = unsafe { (*table).get_prediction }.unwrap();
        // SAFETY: the tests pass null or the address of a local.
        unsafe { function(ptr::null_mut(), engine, kind, data) }
    }

    #[test]
    fn only_candidates_are_predicted_and_only_meanwhile_on_this_thread() {
        let graph = Graph::default();
        let predictor = Predictor::new(Metric::Time, &[], &|| None);
        let host = Host::new(&graph, &[1, 2], &predictor);
        let mut data = ConstData { ptr: ptr::null(), size: 0 };
        let place = &raw mut data;
        let retained = host.during(|table| {
            // SAFETY: `during` passes the address of a static.
            let (version, size, name) =
                unsafe { ((*table).version, (*table).struct_size, CStr::from_ptr((*table).ranking_metric)) };
            assert_eq!((version, size, name), (2, size_of::<Callbacks>(), c"time"));
            assert_eq!(ask(table, 1, 0, place), HIPDNN_PLUGIN_STATUS_SUCCESS);
            assert_eq!(ask(table, 2, 1, place), HIPDNN_PLUGIN_STATUS_SUCCESS);
            assert_eq!(ask(table, 3, 0, place), HIPDNN_PLUGIN_STATUS_BAD_PARAM);
            assert_eq!(ask(table, 1, 2, place), HIPDNN_PLUGIN_STATUS_BAD_PARAM);
            assert_eq!(ask(table, 1, 0, ptr::null_mut()), HIPDNN_PLUGIN_STATUS_BAD_PARAM);
            let address = table.addr();
            let other = std::thread::spawn(move || {
                let mut data = ConstData { ptr: ptr::null(), size: 0 };
                ask(ptr::with_exposed_provenance(address), 1, 0, &raw mut data)
            });
            let _ = table.expose_provenance();
            assert_eq!(other.join().unwrap(), HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED);
            table
        });
        assert!(data.size > 0);
        assert_eq!(ask(retained, 1, 0, place), HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED);
    }
}
