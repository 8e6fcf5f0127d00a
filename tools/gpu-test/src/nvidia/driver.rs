//! Functions of the CUDA driver that only programs use, not engines: streams, captured graphs, kinds of memory.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use hipdnn_plugin_sdk::cuda::{CUcontext, CUdevice, CUresult, CUstream};
use hipdnn_plugin_sdk::function_table;
use hipdnn_plugin_sdk::prototypes::Prototypes;

use super::Context;
use crate::Failure;

/// A graph, an executable graph, and a node.
type CUgraph = *mut c_void;
type CUgraphExec = *mut c_void;
type CUgraphNode = *mut c_void;

hipdnn_plugin_sdk::header_constants! {
    /// A capture during which no thread may allocate or wait.
    CAPTURE_GLOBAL: c_int = CU_STREAM_CAPTURE_MODE_GLOBAL 0;
    /// A capture during which its own thread may not do so.
    CAPTURE_THREAD_LOCAL: c_int = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL 1;
    /// A capture that forbids nothing.
    CAPTURE_RELAXED: c_int = CU_STREAM_CAPTURE_MODE_RELAXED 2;
    /// A stream that does not synchronize with the null stream.
    NON_BLOCKING: c_uint = CU_STREAM_NON_BLOCKING 1;
    /// Managed memory that any stream may use.
    ATTACH_GLOBAL: c_uint = CU_MEM_ATTACH_GLOBAL 1;
    /// A node that allocates.
    NODE_ALLOCATES: c_int = CU_GRAPH_NODE_TYPE_MEM_ALLOC 10;
    /// A node that calls a host function.
    NODE_HOST: c_int = CU_GRAPH_NODE_TYPE_HOST 3;
}

function_table! {
    /// The functions.
    #[expect(non_snake_case, reason = "the names of CUDA")]
    pub struct Driver: "the CUDA driver", ["libcuda.so.1"] {
        required {
            fn cuCtxSetCurrent(context: CUcontext) -> CUresult;
            fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, other: CUdevice) -> CUresult;
            fn cuCtxEnablePeerAccess(other: CUcontext, flags: c_uint) -> CUresult;
            fn cuCtxDisablePeerAccess(other: CUcontext) -> CUresult;
            fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> CUresult;
            fn cuStreamDestroy_v2(stream: CUstream) -> CUresult;
            fn cuStreamSynchronize(stream: CUstream) -> CUresult;
            fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_int) -> CUresult;
            fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> CUresult;
            fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) -> CUresult;
            fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_int) -> CUresult;
            fn cuGraphInstantiateWithFlags(graph: *mut CUgraphExec, of: CUgraph, flags: u64) -> CUresult;
            fn cuGraphLaunch(graph: CUgraphExec, stream: CUstream) -> CUresult;
            fn cuGraphExecDestroy(graph: CUgraphExec) -> CUresult;
            fn cuGraphDestroy(graph: CUgraph) -> CUresult;
            fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult;
            fn cuMemAllocManaged(pointer: *mut u64, bytes: usize, flags: c_uint) -> CUresult;
            fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: CUstream) -> CUresult;
            fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> CUresult;
            fn cuMemFreeHost(pointer: *mut c_void) -> CUresult;
            fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) -> CUresult;
            fn cuMemHostUnregister(pointer: *mut c_void) -> CUresult;
        }
        optional {}
    }
}

/// A program that compiles only if `cuda.h` has these functions and constants.
pub fn prototypes() -> String {
    let pointers = &["CUcontext", "CUstream", "CUgraph", "CUgraphExec", "CUgraphNode"];
    let program = Prototypes::new("#include <cuda.h>\n", &["CUresult", "CUdevice"], pointers);
    program.functions(Driver::SIGNATURES).constants(CONSTANTS).program()
}

/// A stream, destroyed on drop.
pub struct Stream<'a> {
    context: &'a Context<'a>,
    /// The stream.
    pub stream: CUstream,
}

// SAFETY: a stream is a name that any thread may use.
unsafe impl Send for Stream<'_> {}
// SAFETY: the name is never changed, so threads may share it.
unsafe impl Sync for Stream<'_> {}

impl<'a> Stream<'a> {
    /// Creates a stream on the device of `context`.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(context: &'a Context<'a>, flags: c_uint) -> Result<Self, Failure> {
        let _entered = context.device.enter()?;
        let mut stream = null_mut();
        // SAFETY: the function writes only to the local `stream`.
        context.check("cuStreamCreate", unsafe { (context.driver.cuStreamCreate)(&mut stream, flags) })?;
        Ok(Self { context, stream })
    }

    /// Waits for its work.
    ///
    /// # Errors
    /// The driver's, those of the work among them.
    pub fn wait(&self) -> Result<(), Failure> {
        // SAFETY: this object owns the stream and destroys it when it is dropped.
        let answer = unsafe { (self.context.driver.cuStreamSynchronize)(self.stream) };
        self.context.check("cuStreamSynchronize", answer)
    }

    /// Waits for all work of the device, including other streams.
    ///
    /// # Errors
    /// The driver's.
    pub fn synchronized(&self) -> Result<(), Failure> {
        Ok(self.context.gpu().synchronize()?)
    }

    /// Captures the work that `work` puts on the stream into a graph.
    ///
    /// # Errors
    /// Those of `work` and of the driver, for instance after calls that a capture does not allow.
    pub fn capture(
        &self,
        mode: c_int,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<CapturedGraph<'a>, Failure> {
        let Context { driver, .. } = self.context;
        let _entered = self.context.device.enter()?;
        let mut graph = null_mut();
        // SAFETY: this object owns the stream, and the function writes only to the local `graph`.
        let (done, ended) = unsafe {
            let begun = (driver.cuStreamBeginCapture_v2)(self.stream, mode);
            self.context.check("cuStreamBeginCapture", begun)?;
            (work(), (driver.cuStreamEndCapture)(self.stream, &mut graph))
        };
        let graph = CapturedGraph { context: self.context, graph, started: null_mut() };
        done?;
        self.context.check("cuStreamEndCapture", ended)?;
        graph.instantiated()
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        // SAFETY: it is this one's own.
        unsafe { (self.context.driver.cuStreamDestroy_v2)(self.stream) };
    }
}

/// A captured graph, destroyed on drop.
pub struct CapturedGraph<'a> {
    context: &'a Context<'a>,
    graph: CUgraph,
    started: CUgraphExec,
}

impl CapturedGraph<'_> {
    fn instantiated(mut self) -> Result<Self, Failure> {
        let instantiate = self.context.driver.cuGraphInstantiateWithFlags;
        // SAFETY: this object owns the graph, and the function writes only to `self.started`.
        let answer = unsafe { instantiate(&mut self.started, self.graph, 0) };
        self.context.check("cuGraphInstantiate", answer)?;
        Ok(self)
    }

    /// The kinds of its nodes.
    ///
    /// # Errors
    /// The driver's.
    pub fn kinds(&self) -> Result<Vec<c_int>, Failure> {
        let Context { driver, .. } = self.context;
        let mut count = 0;
        // SAFETY: the graph is alive; without a buffer the call writes only the count, then the buffer has that size.
        let nodes = unsafe {
            self.context
                .check("cuGraphGetNodes", (driver.cuGraphGetNodes)(self.graph, null_mut(), &mut count))?;
            let mut nodes = vec![null_mut(); count];
            self.context.check(
                "cuGraphGetNodes",
                (driver.cuGraphGetNodes)(self.graph, nodes.as_mut_ptr(), &mut count),
            )?;
            nodes
        };
        let kind = |node| {
            let mut kind = -1;
            // SAFETY: the node is one of the graph, and the output valid.
            let answer = unsafe { (driver.cuGraphNodeGetType)(node, &mut kind) };
            self.context.check("cuGraphNodeGetType", answer).map(|()| kind)
        };
        nodes.into_iter().map(kind).collect()
    }

    /// Runs it on a stream, and waits.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// Everything that the captured work uses is alive.
    pub unsafe fn run(&self, stream: &Stream<'_>) -> Result<(), Failure> {
        // SAFETY: the graph and the stream are alive, and so is all that the captured work uses, as this function requires.
        let answer = unsafe { (self.context.driver.cuGraphLaunch)(self.started, stream.stream) };
        self.context.check("cuGraphLaunch", answer)?;
        stream.wait()
    }
}

impl Drop for CapturedGraph<'_> {
    fn drop(&mut self) {
        let Context { driver, .. } = self.context;
        // SAFETY: both are this one's own, where they were made.
        unsafe {
            if !self.started.is_null() {
                (driver.cuGraphExecDestroy)(self.started);
            }
            if !self.graph.is_null() {
                (driver.cuGraphDestroy)(self.graph);
            }
        }
    }
}
