//! The part of the library's C interface that running a graph needs.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Mutex;

use hipdnn_abi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type,
    hipdnnBackendDescriptorType_t as Kind,
};
use hipdnn_plugin_sdk::function_table;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire;
use hipdnn_tool::steps::{self, Step};

use crate::Failure;

type Handle = *mut c_void;
type Descriptor = *mut c_void;

function_table! {
    /// The functions of the library.
    #[expect(non_snake_case, reason = "the names of the C interface")]
    pub struct Functions: "the hipDNN backend", ["libhipdnn_backend.so"] {
        required {
            fn hipdnnCreate(handle: *mut Handle) -> c_int;
            fn hipdnnDestroy(handle: Handle) -> c_int;
            fn hipdnnSetStream(handle: Handle, stream: *mut c_void) -> c_int;
            fn hipdnnGetEngineIdByName_ext(handle: Handle, name: *const c_char, id: *mut i64) -> c_int;
            fn hipdnnGetLastErrorString(message: *mut c_char, size: usize);
            fn hipdnnBackendCreateDescriptor(kind: c_int, descriptor: *mut Descriptor) -> c_int;
            fn hipdnnBackendDestroyDescriptor(descriptor: Descriptor) -> c_int;
            fn hipdnnBackendCreateAndDeserializeGraph_ext(
                descriptor: *mut Descriptor,
                bytes: *const u8,
                size: usize
            ) -> c_int;
            fn hipdnnBackendFinalize(descriptor: Descriptor) -> c_int;
            fn hipdnnBackendSetAttribute(
                descriptor: Descriptor,
                name: c_int,
                kind: c_int,
                count: i64,
                elements: *const c_void
            ) -> c_int;
            fn hipdnnBackendGetAttribute(
                descriptor: Descriptor,
                name: c_int,
                kind: c_int,
                requested: i64,
                count: *mut i64,
                elements: *mut c_void
            ) -> c_int;
            fn hipdnnBackendGetSerializedExecutionPlan_ext(
                plan: Descriptor,
                requested: usize,
                size: *mut usize,
                bytes: *mut u8
            ) -> c_int;
            fn hipdnnBackendCreateAndDeserializeExecutionPlan_ext(
                handle: Handle,
                plan: *mut Descriptor,
                bytes: *const u8,
                size: usize
            ) -> c_int;
            fn hipdnnBackendExecute(handle: Handle, plan: Descriptor, pack: Descriptor) -> c_int;
            fn hipdnnBackendSetGlobalLogLevel_ext(level: c_int) -> c_int;
            fn hipdnnSetUserLogCallback_ext(
                callback: LogCallback,
                level: c_int,
                mode: c_int,
                user: *mut c_void
            ) -> c_int;
        }
        optional {}
    }
}

const ENGINE: c_int = Kind::HIPDNN_BACKEND_ENGINE_DESCRIPTOR as c_int;
const ENGINE_CONFIG: c_int = Kind::HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR as c_int;
const HEURISTIC: c_int = Kind::HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR as c_int;
const PLAN: c_int = Kind::HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR as c_int;
const KNOB_CHOICE: c_int = Kind::HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR as c_int;
const VARIANT_PACK: c_int = Kind::HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR as c_int;
const TYPE_HANDLE: c_int = Type::HIPDNN_TYPE_HANDLE as c_int;
const TYPE_INT64: c_int = Type::HIPDNN_TYPE_INT64 as c_int;
const TYPE_VOID_PTR: c_int = Type::HIPDNN_TYPE_VOID_PTR as c_int;
const TYPE_HEURISTIC_MODE: c_int = Type::HIPDNN_TYPE_HEUR_MODE as c_int;
const TYPE_DESCRIPTOR: c_int = Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR as c_int;
const TYPE_CHAR: c_int = Type::HIPDNN_TYPE_CHAR as c_int;
const HEURISTIC_MODE: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_MODE as c_int;
const HEURISTIC_GRAPH: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH as c_int;
const HEURISTIC_RESULTS: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_RESULTS as c_int;
const CONFIG_ENGINE: c_int = Name::HIPDNN_ATTR_ENGINECFG_ENGINE as c_int;
const CONFIG_KNOBS: c_int = Name::HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES as c_int;
const PLAN_CONFIG: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG as c_int;
const PLAN_JSON: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION as c_int;
const PLAN_WORKSPACE_SIZE: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE as c_int;
const KNOB_NAME: c_int = Name::HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE as c_int;
const KNOB_VALUE: c_int = Name::HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE as c_int;
const GRAPH_HANDLE: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_HANDLE as c_int;
const PACK_UIDS: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS as c_int;
const PACK_POINTERS: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS as c_int;
const PACK_WORKSPACE: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_WORKSPACE as c_int;
const ENGINE_GRAPH: c_int = Name::HIPDNN_ATTR_ENGINE_OPERATION_GRAPH as c_int;
const ENGINE_ID: c_int = Name::HIPDNN_ATTR_ENGINE_GLOBAL_INDEX as c_int;
const ENGINE_NAME: c_int = Name::HIPDNN_ATTR_ENGINE_NAME_EXT as c_int;
/// Severities of the log: every line, and none.
const LOG_ALL: c_int = 0;
const LOG_NONE: c_int = 4;
/// The mode of heuristics that every library has.
const FALLBACK: c_int = hipdnn_abi::hipdnnBackendHeurMode_t::HIPDNN_HEUR_MODE_FALLBACK as c_int;

/// Receives the lines of the log.
type LogCallback = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

/// # Safety
/// `lines` are those of `logged`, which are alive, and `line` ends with a NUL.
unsafe extern "C" fn keep(lines: *mut c_void, _: c_int, line: *const c_char) {
    // SAFETY: the library passes back the lines of `logged`, and a NUL terminated text.
    let (lines, line) = unsafe { (&*lines.cast::<Mutex<Vec<String>>>(), CStr::from_ptr(line)) };
    if let Ok(mut lines) = lines.lock() {
        lines.push(line.to_string_lossy().into_owned());
    }
}

/// A handle of the library.
pub struct Backend {
    functions: Functions,
    handle: Handle,
}

// SAFETY: handles and descriptors are numbers that the library looks up; any thread may use them.
unsafe impl Send for Backend {}
// SAFETY: handles and descriptors are numbers that the library looks up, behind its own locks.
unsafe impl Sync for Backend {}

/// A descriptor, destroyed on drop.
struct Owned<'a> {
    backend: &'a Backend,
    descriptor: Descriptor,
}

// SAFETY: a descriptor is a number that the library looks up; any thread may use it.
unsafe impl Send for Owned<'_> {}
// SAFETY: a descriptor is a number that the library looks up, behind its own locks.
unsafe impl Sync for Owned<'_> {}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: this owns the descriptor.
        unsafe { (self.backend.functions.hipdnnBackendDestroyDescriptor)(self.descriptor) };
    }
}

/// An execution plan.
pub struct Plan<'a> {
    plan: Owned<'a>,
    /// The workspace that it needs, in bytes.
    pub workspace_size: usize,
}

impl Backend {
    /// Opens the library at this path and creates a handle.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let path = path.to_str().ok_or_else(|| Failure(format!("{} is not UTF-8", path.display())))?;
        let functions = Functions::load_from(&[path]).map_err(|error| Failure(error.to_string()))?;
        let mut backend = Self { functions, handle: ptr::null_mut() };
        let mut handle = ptr::null_mut();
        // SAFETY: the function writes only to the local `handle`.
        let status = unsafe { (backend.functions.hipdnnCreate)(&mut handle) };
        backend.check("hipdnnCreate", status)?;
        backend.handle = handle;
        Ok(backend)
    }

    fn check(&self, call: &str, status: c_int) -> Result<(), Failure> {
        if status == 0 {
            return Ok(());
        }
        let mut text = [0 as c_char; 2048];
        // SAFETY: the buffer is as long as it says, and the library ends the text with a NUL.
        let text = unsafe {
            (self.functions.hipdnnGetLastErrorString)(text.as_mut_ptr(), text.len());
            CStr::from_ptr(text.as_ptr())
        };
        Err(Failure(format!("{call}: status {status}: {}", text.to_string_lossy())))
    }

    fn create(&self, kind: c_int) -> Result<Owned<'_>, Failure> {
        let mut descriptor = ptr::null_mut();
        // SAFETY: the function writes only to the local `descriptor`.
        let status = unsafe { (self.functions.hipdnnBackendCreateDescriptor)(kind, &mut descriptor) };
        self.check("hipdnnBackendCreateDescriptor", status)?;
        Ok(Owned { backend: self, descriptor })
    }

    /// Sets the stream of subsequent executions.
    ///
    /// # Safety
    /// The stream lives until another is set or the handle ends.
    pub unsafe fn set_stream(&self, stream: *mut c_void) -> Result<(), Failure> {
        // SAFETY: the handle is alive, and the stream lives until another is set or the handle ends, as this function requires.
        let status = unsafe { (self.functions.hipdnnSetStream)(self.handle, stream) };
        self.check("hipdnnSetStream", status)
    }

    /// The graph as a finalized descriptor.
    fn graph(&self, graph: &Graph) -> Result<Owned<'_>, Failure> {
        let bytes = wire::write(graph, wire::Layout::G2).map_err(|error| Failure(error.to_string()))?;
        let mut descriptor = ptr::null_mut();
        // SAFETY: the function writes only to the local `descriptor` and reads the bytes in their length.
        let status = unsafe {
            (self.functions.hipdnnBackendCreateAndDeserializeGraph_ext)(
                &mut descriptor,
                bytes.as_ptr(),
                bytes.len(),
            )
        };
        self.check("hipdnnBackendCreateAndDeserializeGraph_ext", status)?;
        let graph = Owned { backend: self, descriptor };
        graph.set(GRAPH_HANDLE, TYPE_HANDLE, &[self.handle])?;
        graph.finalize("graph")?;
        Ok(graph)
    }

    /// The names of the engines that can run the graph, in the order of the library's own choice.
    pub fn engines(&self, graph: &Graph) -> Result<Vec<String>, Failure> {
        const MOST: usize = 64;
        let graph = self.graph(graph)?;
        let heuristic = self.create(HEURISTIC)?;
        heuristic.set(HEURISTIC_GRAPH, TYPE_DESCRIPTOR, &[graph.descriptor])?;
        heuristic.set(HEURISTIC_MODE, TYPE_HEURISTIC_MODE, &[FALLBACK])?;
        heuristic.finalize("heuristic")?;
        let configs: Vec<Owned<'_>> =
            (0..MOST).map(|_| self.create(ENGINE_CONFIG)).collect::<Result<_, _>>()?;
        let mut descriptors: Vec<Descriptor> = configs.iter().map(|config| config.descriptor).collect();
        let count = heuristic.get(HEURISTIC_RESULTS, TYPE_DESCRIPTOR, &mut descriptors)?;
        let mut names = Vec::with_capacity(count);
        for config in configs.iter().take(count) {
            config.finalize("engine configuration")?;
            let mut engine = [ptr::null_mut()];
            config.get(CONFIG_ENGINE, TYPE_DESCRIPTOR, &mut engine)?;
            let engine = Owned { backend: self, descriptor: engine[0] };
            let mut name = [0_u8; 256];
            engine.get(ENGINE_NAME, TYPE_CHAR, &mut name)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        Ok(names)
    }

    /// The reason with which the named engine refuses the graph; `None` if it does not refuse.
    ///
    /// # Errors
    /// The library's message.
    pub fn refusal(&self, engine: &str, graph: &Graph) -> Result<Option<String>, Failure> {
        // If no engine applies, this fails, but the log lines also have the reasons.
        let (_, lines) = self.logged(|| self.engines(graph))?;
        let said = |line: &String| line.split_once(&format!("{engine}: ")).map(|(_, said)| said.to_owned());
        Ok(lines.iter().find_map(said))
    }

    /// Runs `work`. Returns its result and the lines logged meanwhile.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn logged<T>(&self, work: impl FnOnce() -> T) -> Result<(T, Vec<String>), Failure> {
        let lines = Mutex::new(Vec::new());
        let user = (&raw const lines).cast::<c_void>().cast_mut();
        let set = |level| {
            // SAFETY: the lines live until the callback is removed, below.
            let status = unsafe {
                (self.functions.hipdnnBackendSetGlobalLogLevel_ext)(level);
                (self.functions.hipdnnSetUserLogCallback_ext)(keep, level, 0, user)
            };
            self.check("hipdnnSetUserLogCallback_ext", status)
        };
        set(LOG_ALL)?;
        let done = work();
        set(LOG_NONE)?;
        Ok((done, lines.into_inner().unwrap_or_default()))
    }

    /// Has the named engine make a plan of the graph with these knob values.
    pub fn plan(&self, engine: &str, graph: &Graph, knobs: &[(&str, i64)]) -> Result<Plan<'_>, Failure> {
        let graph = self.graph(graph)?;
        let name = CString::new(engine).map_err(|error| Failure(error.to_string()))?;
        let mut id = 0_i64;
        // SAFETY: the text ends with a NUL, and the function writes only to the local `id`.
        let status =
            unsafe { (self.functions.hipdnnGetEngineIdByName_ext)(self.handle, name.as_ptr(), &mut id) };
        self.check("hipdnnGetEngineIdByName_ext", status)?;
        let engine = self.create(ENGINE)?;
        engine.set(ENGINE_GRAPH, TYPE_DESCRIPTOR, &[graph.descriptor])?;
        engine.set(ENGINE_ID, TYPE_INT64, &[id])?;
        engine.finalize("engine")?;
        let config = self.create(ENGINE_CONFIG)?;
        config.set(CONFIG_ENGINE, TYPE_DESCRIPTOR, &[engine.descriptor])?;
        let mut choices = Vec::new();
        for (name, value) in knobs {
            let choice = self.create(KNOB_CHOICE)?;
            choice.set(KNOB_NAME, TYPE_CHAR, name.as_bytes())?;
            choice.set(KNOB_VALUE, TYPE_INT64, &[*value])?;
            choice.finalize("knob choice")?;
            choices.push(choice);
        }
        if !choices.is_empty() {
            let choices: Vec<Descriptor> = choices.iter().map(|choice| choice.descriptor).collect();
            config.set(CONFIG_KNOBS, TYPE_DESCRIPTOR, &choices)?;
        }
        config.finalize("engine configuration")?;
        let plan = self.create(PLAN)?;
        plan.set(PLAN_CONFIG, TYPE_DESCRIPTOR, &[config.descriptor])?;
        plan.finalize("execution plan")?;
        self.with_workspace_size(plan)
    }

    /// The plan in these bytes.
    pub fn load(&self, bytes: &[u8]) -> Result<Plan<'_>, Failure> {
        let mut descriptor = ptr::null_mut();
        // SAFETY: the function writes only to the local `descriptor` and reads the bytes in their length.
        let status = unsafe {
            (self.functions.hipdnnBackendCreateAndDeserializeExecutionPlan_ext)(
                self.handle,
                &mut descriptor,
                bytes.as_ptr(),
                bytes.len(),
            )
        };
        self.check("hipdnnBackendCreateAndDeserializeExecutionPlan_ext", status)?;
        self.with_workspace_size(Owned { backend: self, descriptor })
    }

    fn with_workspace_size<'a>(&'a self, plan: Owned<'a>) -> Result<Plan<'a>, Failure> {
        let mut size = [0_i64];
        plan.get(PLAN_WORKSPACE_SIZE, TYPE_INT64, &mut size)?;
        let workspace_size = usize::try_from(size[0]).map_err(|error| Failure(error.to_string()))?;
        Ok(Plan { plan, workspace_size })
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // SAFETY: this owns the handle.
        unsafe { (self.functions.hipdnnDestroy)(self.handle) };
    }
}

impl Owned<'_> {
    fn set<T>(&self, name: c_int, kind: c_int, values: &[T]) -> Result<(), Failure> {
        // SAFETY: the array has as many elements as it says, of the type that the attribute has.
        let status = unsafe {
            (self.backend.functions.hipdnnBackendSetAttribute)(
                self.descriptor,
                name,
                kind,
                values.len() as i64,
                values.as_ptr().cast(),
            )
        };
        self.backend.check(&format!("attribute {name}"), status)
    }

    /// Reads an attribute into an array. Returns the number of elements.
    fn get<T>(&self, name: c_int, kind: c_int, values: &mut [T]) -> Result<usize, Failure> {
        let mut count = 0;
        // SAFETY: the array has as many elements as it says, of the type that the attribute has.
        let status = unsafe {
            (self.backend.functions.hipdnnBackendGetAttribute)(
                self.descriptor,
                name,
                kind,
                values.len() as i64,
                &mut count,
                values.as_mut_ptr().cast(),
            )
        };
        self.backend.check(&format!("attribute {name}"), status)?;
        usize::try_from(count).map_err(|error| Failure(error.to_string()))
    }

    fn finalize(&self, what: &str) -> Result<(), Failure> {
        // SAFETY: this object owns the descriptor and destroys it when it is dropped.
        let status = unsafe { (self.backend.functions.hipdnnBackendFinalize)(self.descriptor) };
        self.backend.check(what, status)
    }
}

impl Plan<'_> {
    /// The library that made it.
    pub fn backend(&self) -> &Backend {
        self.plan.backend
    }

    /// What the plan says of its steps, if it does.
    pub fn steps(&self) -> Result<Option<Vec<Step>>, Failure> {
        let size = self.plan.get::<u8>(PLAN_JSON, TYPE_CHAR, &mut [])?;
        let mut text = vec![0_u8; size];
        self.plan.get(PLAN_JSON, TYPE_CHAR, &mut text)?;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        steps::read(&String::from_utf8_lossy(text)).map_err(|failure| Failure(failure.to_string()))
    }

    /// The plan as bytes.
    pub fn save(&self) -> Result<Vec<u8>, Failure> {
        let backend = self.plan.backend;
        let get = backend.functions.hipdnnBackendGetSerializedExecutionPlan_ext;
        let mut size = 0;
        // SAFETY: the descriptor is alive, and without a buffer the call writes only the size.
        let status = unsafe { get(self.plan.descriptor, 0, &mut size, ptr::null_mut()) };
        backend.check("hipdnnBackendGetSerializedExecutionPlan_ext", status)?;
        let mut bytes = vec![0; size];
        // SAFETY: there is room for as many bytes as it says.
        let status = unsafe { get(self.plan.descriptor, size, &mut size, bytes.as_mut_ptr()) };
        backend.check("hipdnnBackendGetSerializedExecutionPlan_ext", status)?;
        Ok(bytes)
    }

    /// Runs the plan.
    ///
    /// # Safety
    /// Each pointer is valid for its tensor and the workspace for its size, until the work is done.
    pub unsafe fn execute(
        &self,
        tensors: &[(i64, *mut c_void)],
        workspace: *mut c_void,
    ) -> Result<(), Failure> {
        // SAFETY: each pointer is valid for its tensor and the workspace for its size, as this function requires.
        unsafe { self.execute_with(self.plan.backend, tensors, workspace) }
    }

    /// Runs the plan with another handle than the one that made it.
    ///
    /// # Safety
    /// As for [`Plan::execute`].
    pub unsafe fn execute_with(
        &self,
        backend: &Backend,
        tensors: &[(i64, *mut c_void)],
        workspace: *mut c_void,
    ) -> Result<(), Failure> {
        let pack = backend.create(VARIANT_PACK)?;
        let uids: Vec<i64> = tensors.iter().map(|(uid, _)| *uid).collect();
        let pointers: Vec<*mut c_void> = tensors.iter().map(|(_, pointer)| *pointer).collect();
        pack.set(PACK_UIDS, TYPE_INT64, &uids)?;
        pack.set(PACK_POINTERS, TYPE_VOID_PTR, &pointers)?;
        pack.set(PACK_WORKSPACE, TYPE_VOID_PTR, &[workspace])?;
        pack.finalize("variant pack")?;
        // SAFETY: the handles are alive, and so is the memory of the tensors and of the workspace until the work is done, as this
        // function requires.
        let status = unsafe {
            (backend.functions.hipdnnBackendExecute)(backend.handle, self.plan.descriptor, pack.descriptor)
        };
        backend.check("hipdnnBackendExecute", status)
    }
}
