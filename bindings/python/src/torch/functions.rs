//! PyTorch's stable C interface, looked up in the libraries that the process has loaded.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use hipdnn_plugin_sdk::os::library::{self, Library};

/// A reference-counted PyTorch tensor.
pub type RawTensor = *mut c_void;
/// A PyTorch list.
pub type RawList = *mut c_void;
/// A kernel as called by PyTorch: the values on the stack, their number, and the number of results.
pub type Kernel = unsafe extern "C-unwind" fn(*mut u64, u64, u64);

/// `c10::ArrayRef`.
#[repr(C)]
pub struct Array {
    pub data: *const i64,
    pub size: usize,
}

/// Declares the table: each function with its library.
macro_rules! functions {
    (
        required { $($(#[$meta:meta])* fn $name:ident = $symbol:literal in $library:ident ($($type:ty),*) $(-> $result:ty)?;)* }
        optional { $($(#[$ometa:meta])* fn $oname:ident = $osymbol:literal in $olibrary:ident ($($otype:ty),*) $(-> $oresult:ty)?;)* }
    ) => {
        /// The functions; those of newer or other builds are optional.
        pub struct Functions {
            $($(#[$meta])* pub $name: unsafe extern "C-unwind" fn($($type),*) $(-> $result)?,)*
            $($(#[$ometa])* pub $oname: Option<unsafe extern "C-unwind" fn($($otype),*) $(-> $oresult)?>,)*
        }

        impl Functions {
            fn load() -> Result<Self, String> {
                let libraries = Libraries::open()?;
                let mut missing = Vec::new();
                $(
                    // SAFETY: PyTorch's headers declare the function with this type.
                    let $name = unsafe { libraries.find::<unsafe extern "C-unwind" fn($($type),*) $(-> $result)?>(Of::$library, $symbol) };
                    if $name.is_none() {
                        missing.push($symbol);
                    }
                )*
                let ($(Some($name),)*) = ($($name,)*) else {
                    return Err(format!("this PyTorch lacks {}, expected 2.10 or later", missing.join(", ")));
                };
                $(
                    // SAFETY: PyTorch's headers declare the function with this type.
                    let $oname = unsafe { libraries.find(Of::$olibrary, $osymbol) };
                )*
                // PyTorch is never unloaded.
                std::mem::forget(libraries);
                Ok(Self { $($name,)* $($oname,)* })
            }
        }
    };
}

/// The library of a function.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Cpu,
    Core,
    Gpu,
    Cxx,
}

struct Libraries(Vec<(Of, Library)>);

impl Libraries {
    fn open() -> Result<Self, String> {
        let names = [
            (Of::Cpu, "libtorch_cpu.so"),
            (Of::Core, "libc10.so"),
            (Of::Gpu, "libtorch_cuda.so"),
            (Of::Gpu, "libtorch_hip.so"),
            (Of::Cxx, "libstdc++.so.6"),
        ];
        let mut open = Vec::new();
        for (of, name) in names {
            // `import torch` has loaded them under these names; a CPU-only PyTorch lacks two.
            match library::loaded(name.as_ref()) {
                Ok(library) => open.push((of, library)),
                Err(_) if of == Of::Gpu => {}
                Err(error) => return Err(format!("{name} is not loaded: {error}")),
            }
        }
        Ok(Self(open))
    }

    /// The function with this name.
    ///
    /// # Safety
    /// `T` is the type of a pointer to the function called `symbol`.
    unsafe fn find<T: Copy>(&self, of: Of, symbol: &str) -> Option<T> {
        let mut among = self.0.iter().filter(|(has, _)| *has == of);
        // SAFETY: the type is the function's, as this function requires.
        among.find_map(|(_, library)| unsafe { library.get::<T>(symbol) }.ok().map(|found| *found))
    }
}

functions! {
    required {
        /// Starts registering kernels: namespace, dispatch key, file, line, result.
        fn library = "aoti_torch_library_init_impl" in Cpu (*const c_char, *const c_char, *const c_char, u32, *mut *mut c_void) -> i32;
        /// Registers a kernel: library, name, kernel, version of the interface.
        fn register = "torch_library_impl" in Cpu (*mut c_void, *const c_char, Kernel, u64) -> i32;
        /// Calls an operation: name, overload, stack, version of the interface.
        fn call = "torch_call_dispatcher" in Cpu (*const c_char, *const c_char, *mut u64, u64) -> i32;
        /// Raises an error of PyTorch's if the condition does not hold: condition, function, file, line, text.
        fn check = "aoti_torch_check" in Cpu (bool, *const c_char, *const c_char, u32, *const c_char);
        /// Excludes a dispatch key from this thread's calls, or ends the exclusion.
        fn exclude = "_ZN3c104impl29tls_set_dispatch_key_excludedENS_11DispatchKeyEb" in Core (u16, bool);
        /// Includes a dispatch key in this thread's calls, or ends the inclusion.
        fn include = "_ZN3c104impl29tls_set_dispatch_key_includedENS_11DispatchKeyEb" in Core (u16, bool);
        fn includes = "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE" in Core (u16) -> bool;
        fn excludes = "_ZN3c104impl28tls_is_dispatch_key_excludedENS_11DispatchKeyE" in Core (u16) -> bool;
        fn is_defined = "aoti_torch_is_defined" in Cpu (RawTensor, *mut bool) -> i32;
        fn rank = "aoti_torch_get_dim" in Cpu (RawTensor, *mut i64) -> i32;
        fn elements = "aoti_torch_get_numel" in Cpu (RawTensor, *mut i64) -> i32;
        fn sizes = "aoti_torch_get_sizes" in Cpu (RawTensor, *mut *const i64) -> i32;
        fn strides = "aoti_torch_get_strides" in Cpu (RawTensor, *mut *const i64) -> i32;
        fn dtype = "aoti_torch_get_dtype" in Cpu (RawTensor, *mut i32) -> i32;
        fn layout = "aoti_torch_get_layout" in Cpu (RawTensor, *mut i32) -> i32;
        fn strided = "aoti_torch_layout_strided" in Cpu () -> i32;
        fn device_type = "aoti_torch_get_device_type" in Cpu (RawTensor, *mut i32) -> i32;
        fn device_index = "aoti_torch_get_device_index" in Cpu (RawTensor, *mut i32) -> i32;
        fn data = "aoti_torch_get_data_ptr" in Cpu (RawTensor, *mut *mut c_void) -> i32;
        /// A new tensor: rank, sizes, strides, dtype, device, its index, result.
        fn empty_strided = "aoti_torch_empty_strided" in Cpu (i64, *const i64, *const i64, i32, i32, i32, *mut RawTensor) -> i32;
        /// An undefined tensor.
        fn undefined = "aoti_torch_new_uninitialized_tensor" in Cpu (*mut RawTensor) -> i32;
        fn delete_tensor = "aoti_torch_delete_tensor_object" in Cpu (RawTensor) -> i32;
        /// Copies a tensor's elements to another: to, from, whether the host goes on without waiting.
        fn copy = "aoti_torch_copy_" in Cpu (RawTensor, RawTensor, i32) -> i32;
        fn list_size = "torch_list_size" in Cpu (RawList, *mut usize) -> i32;
        fn list_item = "torch_list_get_item" in Cpu (RawList, usize, *mut u64) -> i32;
        fn delete_list = "torch_delete_list" in Cpu (RawList) -> i32;
        fn text = "torch_string_c_str" in Cpu (*mut c_void, *mut *const c_char) -> i32;
        fn delete_text = "torch_delete_string" in Cpu (*mut c_void) -> i32;
        /// C++'s `operator delete`, for optional values.
        fn delete = "_ZdlPv" in Cxx (*mut c_void);
    }
    optional {
        /// The number of threads PyTorch computes with.
        fn threads = "torch_get_num_threads" in Cpu (*mut u32) -> i32;
        /// Frees an optional value.
        fn delete_value = "torch_delete_stable_ivalue" in Cpu (*mut u64) -> i32;
        /// Another handle of a tensor: tensor, result.
        fn same_tensor = "aoti_torch_new_tensor_handle" in Cpu (RawTensor, *mut RawTensor) -> i32;
        fn new_list = "torch_new_list_reserve_size" in Cpu (usize, *mut RawList) -> i32;
        fn push = "torch_list_push_back" in Cpu (RawList, u64) -> i32;
        /// A new string: its bytes, their number, result.
        fn new_text = "torch_new_string_handle" in Cpu (*const c_char, usize, *mut *mut c_void) -> i32;
        /// C++'s `operator new`, for optional values.
        fn allocate = "_Znwm" in Cxx (usize) -> *mut u64;
        /// The sizes of a tensor as C++ returns them: the tensor, twice.
        fn raw_sizes = "_ZNK3c1010TensorImpl12sizes_customEv" in Core (*const c_void, *const c_void) -> Array;
        /// The same, as numbers that may be symbols.
        fn raw_symbols = "_ZNK3c1010TensorImpl16sym_sizes_customEv" in Core (*const c_void, *const c_void) -> Array;
        /// The message of the last error.
        fn what = "torch_exception_get_what_without_backtrace" in Cpu () -> *const c_char;
        /// The current stream of a device.
        fn stream = "aoti_torch_get_current_cuda_stream" in Gpu (i32, *mut *mut c_void) -> i32;
        /// PyTorch's global switches.
        fn context = "_ZN2at13globalContextEv" in Cpu () -> *const c_void;
        fn is_deterministic = "_ZNK2at7Context23deterministicAlgorithmsEv" in Cpu (*const c_void) -> bool;
        fn is_cudnn_deterministic = "_ZNK2at7Context18deterministicCuDNNEv" in Cpu (*const c_void) -> bool;
    }
}

static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();

/// The functions of the PyTorch in this process, or why they are missing.
pub fn functions() -> Result<&'static Functions, String> {
    FUNCTIONS.get_or_init(Functions::load).as_ref().map_err(Clone::clone)
}

impl Functions {
    /// The message of the error that a function of the table just returned.
    pub fn error(&self) -> String {
        let Some(what) = self.what else { return "PyTorch has logged the error".to_owned() };
        // SAFETY: it returns this thread's message, which lives until the next error.
        let text = unsafe { what() };
        if text.is_null() {
            return "PyTorch reported no error".to_owned();
        }
        // SAFETY: the message ends with a NUL.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Whether PyTorch was asked for deterministic results.
    pub fn must_not_vary(&self) -> bool {
        self.context.zip(self.is_deterministic).is_none_or(|(context, is_set)| {
            // SAFETY: the context lives as long as the process.
            unsafe { is_set(context()) }
        })
    }
}
