//! Streams and captures of the stand-in for the driver.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use hipdnn_plugin_sdk::function_table;

use super::standin::device::entered;

function_table! {
    /// The functions that tests call in the stand-in for the driver.
    #[expect(non_snake_case, reason = "the names of CUDA")]
    pub struct Driver: "the stand-in for the driver", ["libcuda.so.1"] {
        required {
            /// Creates a stream of the context; with flag 1 it does not synchronize with the default stream.
            fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> c_int;
            /// Begins to capture a stream; with mode 0 this thread must not allocate meanwhile.
            fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_int) -> c_int;
            /// Ends the capture and returns the graph.
            fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int;
            /// Instantiates a graph.
            fn cuGraphInstantiateWithFlags(
                executable: *mut *mut c_void,
                graph: *mut c_void,
                flags: u64
            ) -> c_int;
            /// Launches it.
            fn cuGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> c_int;
            /// Number of events recorded and waits for events.
            fn standin_orders() -> c_int;
        }
        optional {}
    }
}

impl Driver {
    /// A stream of the device.
    pub fn stream(&self) -> *mut c_void {
        let _entered = entered();
        let mut made = null_mut();
        // SAFETY: the function writes only to the local `made`.
        assert_eq!(unsafe { (self.cuStreamCreate)(&mut made, 1) }, 0);
        made
    }

    /// Captures what is put on a stream meanwhile. Nothing that the thread does may end the capture.
    pub fn captured<T>(&self, stream: *mut c_void, work: impl FnOnce() -> T) -> (*mut c_void, T) {
        // SAFETY: the stream is the driver's.
        assert_eq!(unsafe { (self.cuStreamBeginCapture_v2)(stream, 0) }, 0);
        let done = work();
        let mut graph = null_mut();
        // SAFETY: the stream is the driver's.
        assert_eq!(unsafe { (self.cuStreamEndCapture)(stream, &mut graph) }, 0);
        (graph, done)
    }

    /// Launches a graph.
    pub fn launch(&self, graph: *mut c_void, stream: *mut c_void) {
        let _entered = entered();
        let mut executable = null_mut();
        // SAFETY: the graph is the driver's, and its memory is there.
        let answers = unsafe {
            [
                (self.cuGraphInstantiateWithFlags)(&mut executable, graph, 0),
                (self.cuGraphLaunch)(executable, stream),
            ]
        };
        assert_eq!(answers, [0, 0]);
    }
}
