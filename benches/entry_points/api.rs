//! The measured C functions, and sequences of calls.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use hipdnn_abi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type,
    hipdnnBackendDescriptorType_t as Kind,
};

pub type Handle = *mut c_void;
pub type Descriptor = *mut c_void;

pub const HANDLE: c_int = Type::HIPDNN_TYPE_HANDLE as c_int;
pub const INT64: c_int = Type::HIPDNN_TYPE_INT64 as c_int;
pub const VOID_PTR: c_int = Type::HIPDNN_TYPE_VOID_PTR as c_int;
pub const HEUR_MODE: c_int = Type::HIPDNN_TYPE_HEUR_MODE as c_int;
pub const BACKEND_DESCRIPTOR: c_int = Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR as c_int;

pub const ENGINECFG: c_int = Kind::HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR as c_int;
pub const ENGINEHEUR: c_int = Kind::HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR as c_int;
pub const EXECUTION_PLAN: c_int = Kind::HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR as c_int;
pub const VARIANT_PACK: c_int = Kind::HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR as c_int;

#[inline]
pub fn ok(status: c_int) {
    assert_eq!(status, 0);
}

/// The functions under test.
pub struct Api {
    pub create: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub destroy: unsafe extern "C" fn(Handle) -> c_int,
    pub create_descriptor: unsafe extern "C" fn(c_int, *mut Descriptor) -> c_int,
    pub destroy_descriptor: unsafe extern "C" fn(Descriptor) -> c_int,
    pub finalize: unsafe extern "C" fn(Descriptor) -> c_int,
    pub set: unsafe extern "C" fn(Descriptor, c_int, c_int, i64, *const c_void) -> c_int,
    pub get: unsafe extern "C" fn(Descriptor, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int,
    pub execute: unsafe extern "C" fn(Handle, Descriptor, Descriptor) -> c_int,
    pub deserialize: unsafe extern "C" fn(*mut Descriptor, *const u8, usize) -> c_int,
    pub set_paths: unsafe extern "C" fn(usize, *const *const c_char, c_int) -> c_int,
}

impl Api {
    pub fn load(path: &Path) -> Self {
        // SAFETY: the library is the one under test, and stays open; the types are those of its header.
        unsafe {
            let library = Box::leak(Box::new(libloading::Library::new(path).expect("the library opens")));
            macro_rules! function {
                ($name:literal) => {
                    *library.get($name).expect("the function is exported")
                };
            }
            Self {
                create: function!("hipdnnCreate"),
                destroy: function!("hipdnnDestroy"),
                create_descriptor: function!("hipdnnBackendCreateDescriptor"),
                destroy_descriptor: function!("hipdnnBackendDestroyDescriptor"),
                finalize: function!("hipdnnBackendFinalize"),
                set: function!("hipdnnBackendSetAttribute"),
                get: function!("hipdnnBackendGetAttribute"),
                execute: function!("hipdnnBackendExecute"),
                deserialize: function!("hipdnnBackendCreateAndDeserializeGraph_ext"),
                set_paths: function!("hipdnnSetEnginePluginPaths_ext"),
            }
        }
    }

    pub fn handle(&self) -> Handle {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the function writes only to the local whose address it gets.
        ok(unsafe { (self.create)(&raw mut handle) });
        handle
    }

    pub fn descriptor(&self, kind: c_int) -> Descriptor {
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the function writes only to the local whose address it gets.
        ok(unsafe { (self.create_descriptor)(kind, &raw mut descriptor) });
        descriptor
    }

    pub fn set<T>(&self, descriptor: Descriptor, name: Name, kind: c_int, values: &[T]) {
        // SAFETY: the array holds as many elements.
        ok(unsafe {
            (self.set)(descriptor, name as c_int, kind, values.len() as i64, values.as_ptr().cast())
        });
    }

    pub fn finalize(&self, descriptor: Descriptor) {
        // SAFETY: any value may be passed.
        ok(unsafe { (self.finalize)(descriptor) });
    }

    pub fn drop(&self, descriptor: Descriptor) {
        // SAFETY: any value may be passed.
        ok(unsafe { (self.destroy_descriptor)(descriptor) });
    }

    /// Graph bytes to a finalized plan, with everything in between.
    pub fn plan(&self, handle: Handle, bytes: &[u8]) -> [Descriptor; 4] {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the bytes live during the call, and the function writes only to the local `graph`.
        ok(unsafe { (self.deserialize)(&raw mut graph, bytes.as_ptr(), bytes.len()) });
        self.plan_graph(handle, graph)
    }

    /// An open graph to a finalized plan.
    pub fn plan_graph(&self, handle: Handle, graph: Descriptor) -> [Descriptor; 4] {
        self.set(graph, Name::HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HANDLE, &[handle]);
        self.finalize(graph);
        let heuristic = self.descriptor(ENGINEHEUR);
        self.set(heuristic, Name::HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, &[graph]);
        self.set(heuristic, Name::HIPDNN_ATTR_ENGINEHEUR_MODE, HEUR_MODE, &[0_i32]);
        self.finalize(heuristic);
        let mut count = 0;
        // SAFETY: a query writes the count only.
        ok(unsafe {
            (self.get)(
                heuristic,
                Name::HIPDNN_ATTR_ENGINEHEUR_RESULTS as c_int,
                BACKEND_DESCRIPTOR,
                0,
                &raw mut count,
                std::ptr::null_mut(),
            )
        });
        assert!(count > 0);
        let mut config = self.descriptor(ENGINECFG);
        // SAFETY: the array holds one configuration.
        ok(unsafe {
            (self.get)(
                heuristic,
                Name::HIPDNN_ATTR_ENGINEHEUR_RESULTS as c_int,
                BACKEND_DESCRIPTOR,
                1,
                &raw mut count,
                (&raw mut config).cast(),
            )
        });
        self.finalize(config);
        let plan = self.descriptor(EXECUTION_PLAN);
        self.set(plan, Name::HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, &[config]);
        self.finalize(plan);
        let mut workspace = 0_i64;
        // SAFETY: the array has room for one number.
        ok(unsafe {
            (self.get)(
                plan,
                Name::HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE as c_int,
                INT64,
                1,
                std::ptr::null_mut(),
                (&raw mut workspace).cast(),
            )
        });
        [graph, heuristic, config, plan]
    }

    /// Graph bytes to a result, then destroys everything.
    pub fn flow(&self, handle: Handle, bytes: &[u8], pointers: &[*mut c_void; 3]) {
        let made = self.plan(handle, bytes);
        let [.., plan] = made;
        let pack = self.pack(pointers);
        // SAFETY: the plugin does nothing with the memory.
        ok(unsafe { (self.execute)(handle, plan, pack) });
        self.drop(pack);
        made.into_iter().for_each(|descriptor| self.drop(descriptor));
    }

    pub fn pack(&self, pointers: &[*mut c_void; 3]) -> Descriptor {
        let pack = self.descriptor(VARIANT_PACK);
        self.set(pack, Name::HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, VOID_PTR, pointers);
        self.set(pack, Name::HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, INT64, &[1_i64, 2, 3]);
        self.set(pack, Name::HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, VOID_PTR, &[std::ptr::null_mut::<c_void>()]);
        self.finalize(pack);
        pack
    }
}
