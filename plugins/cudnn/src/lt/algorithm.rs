//! A chain as a call of cuBLASLt, with one of the algorithms that it recommends.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::cuda::Device;
use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::Mutex;

use super::library::{
    COMPUTE_32F, COMPUTE_32F_FAST_TF32, COMPUTE_64F, CublasLt, DESC_BIAS_POINTER, DESC_BIAS_TYPE,
    DESC_EPILOGUE, DESC_TRANSA, DESC_TRANSB, EPILOGUE_BIAS, EPILOGUE_DEFAULT, EPILOGUE_GELU,
    EPILOGUE_GELU_BIAS, EPILOGUE_RELU, EPILOGUE_RELU_BIAS, LAYOUT_BATCH_COUNT, LAYOUT_BATCH_OFFSET,
    OPERATION_N, OPERATION_T, PREF_ALIGNMENT_A, PREF_ALIGNMENT_B, PREF_ALIGNMENT_C, PREF_ALIGNMENT_D,
    PREF_MAX_WORKSPACE, R_16BF, R_16F, R_32F, R_64F, STATUS_ARCH_MISMATCH, STATUS_INVALID_VALUE,
    STATUS_NOT_SUPPORTED, STATUS_SUCCESS, cublasLtHandle_t, cublasLtMatmulAlgo_t,
    cublasLtMatmulHeuristicResult_t,
};
use crate::knob::{ALGORITHMS, Options};
use hipdnn_plugin_planner::chain::{Activation, Chain, Tensors};
use hipdnn_plugin_planner::product::Matrix;

/// The most that is promised of addresses.
const MOST_ALIGNED: usize = 256;

/// What was found in this process.
static FOUND: LazyLock<Mutex<HashMap<Key, Arc<[Found]>>>> = LazyLock::new(Mutex::default);

/// The handles of this process, each with its context. They live as long as it does.
static HANDLES: Mutex<Vec<(usize, Object)>> = Mutex::new(Vec::new());

/// What decides which algorithms are found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    context: usize,
    chain: Chain,
    alignment: usize,
    options: Options,
}

/// An algorithm that is recommended.
#[derive(Clone, Copy, Debug)]
struct Found {
    algo: cublasLtMatmulAlgo_t,
    workspace_size: usize,
}

/// A description of a chain for cuBLASLt.
#[derive(Debug)]
struct Description {
    product: Object,
    a: Object,
    b: Object,
    /// Of the summand, or of the result where there is none.
    c: Object,
    d: Object,
}

/// A chain that is ready to run.
#[derive(Debug)]
pub struct Run {
    lt: &'static CublasLt,
    handle: cublasLtHandle_t,
    chain: Chain,
    description: Description,
    /// The bias that the description has: it is a part of it, so runs of a plan with a bias take turns.
    bias: Mutex<*mut c_void>,
    found: Found,
    /// What each tensor's address is a multiple of.
    pub alignment: usize,
}

// SAFETY: the handle may be used by any thread, and the address of the bias is only compared and handed on.
unsafe impl Send for Run {}
// SAFETY: as above, and the bias stands behind a lock.
unsafe impl Sync for Run {}

fn handle(lt: &'static CublasLt, device: &Device) -> Result<cublasLtHandle_t, PluginError> {
    let context = device.context.addr();
    let mut handles = HANDLES.lock();
    if let Some((_, handle)) = handles.iter().find(|(of, _)| *of == context) {
        return Ok(handle.get());
    }
    let made = lt.made("cublasLtCreate", lt.cublasLtDestroy, |handle| {
        // SAFETY: the output is valid.
        unsafe { (lt.cublasLtCreate)(handle) }
    })?;
    let handle = made.get();
    handles.push((context, made));
    Ok(handle)
}

impl Run {
    /// The chain with the algorithm that was saved, where cuBLASLt still recommends it, else with the one in the place that was chosen.
    /// Addresses are multiples of `alignment`.
    ///
    /// # Errors
    /// When cuBLASLt cannot be had, finds nothing, or fails.
    pub fn new(
        device: &Device,
        chain: &Chain,
        alignment: usize,
        options: &Options,
        saved: Option<cublasLtMatmulAlgo_t>,
    ) -> Result<Self, PluginError> {
        let lt = CublasLt::find()?;
        let handle = handle(lt, device)?;
        let epilogue = epilogue(chain)?;
        let description = Description::new(lt, chain, epilogue, options)?;
        let alignment = aligned(chain, alignment.min(MOST_ALIGNED));
        // The place does not change what is found.
        let options_of_search = Options { engine: 0, ..options.clone() };
        let key = Key {
            context: device.context.addr(),
            chain: chain.clone(),
            alignment,
            options: options_of_search,
        };
        let mut run = Self {
            lt,
            handle,
            chain: chain.clone(),
            description,
            bias: Mutex::new(std::ptr::null_mut()),
            found: Found { algo: cublasLtMatmulAlgo_t::default(), workspace_size: 0 },
            alignment,
        };
        let known = FOUND.lock().get(&key).cloned();
        let found = match known {
            Some(found) => found,
            None => {
                let mut found = run.search(options)?;
                if options.benchmarking {
                    run.sort_by_time(*device, &mut found)?;
                }
                let found: Arc<[Found]> = found.into();
                FOUND.lock().insert(key, Arc::clone(&found));
                found
            }
        };
        let of_saved = saved.and_then(|saved| found.iter().find(|found| found.algo == saved));
        run.found = *of_saved.or_else(|| found.get(options.engine)).ok_or_else(|| {
            Refusal::new(if found.is_empty() {
                "cuBLASLt finds no algorithm for it".to_owned()
            } else {
                format!(
                    "cuBLASLt finds {} algorithms for it, and the one in place {} was chosen",
                    found.len(),
                    options.engine
                )
            })
        })?;
        Ok(run)
    }

    /// What a saved plan keeps of the algorithm.
    pub fn algorithm(&self) -> cublasLtMatmulAlgo_t {
        self.found.algo
    }

    /// Bytes of workspace that a run needs.
    pub fn workspace_size(&self) -> usize {
        self.found.workspace_size
    }

    /// The algorithms that cuBLASLt recommends, the best first; none where it knows none.
    fn search(&self, options: &Options) -> Result<Vec<Found>, PluginError> {
        let lt = self.lt;
        let preference =
            lt.made("cublasLtMatmulPreferenceCreate", lt.cublasLtMatmulPreferenceDestroy, |preference| {
                // SAFETY: the output is valid.
                unsafe { (lt.cublasLtMatmulPreferenceCreate)(preference) }
            })?;
        let limit = options.workspace_size_limit.unwrap_or(0);
        let alignment = self.alignment as u32;
        // SAFETY: the preference is alive, and the values have their sizes.
        unsafe {
            let set = lt.cublasLtMatmulPreferenceSetAttribute;
            let status =
                set(preference.get(), PREF_MAX_WORKSPACE, (&raw const limit).cast(), size_of::<usize>());
            lt.check("cublasLtMatmulPreferenceSetAttribute", status)?;
            for attribute in [PREF_ALIGNMENT_A, PREF_ALIGNMENT_B, PREF_ALIGNMENT_C, PREF_ALIGNMENT_D] {
                let status =
                    set(preference.get(), attribute, (&raw const alignment).cast(), size_of::<u32>());
                lt.check("cublasLtMatmulPreferenceSetAttribute", status)?;
            }
        }
        if self.chain.bias.is_some() {
            // Only its alignment counts here.
            self.set_bias(std::ptr::without_provenance_mut(self.alignment))?;
        }
        let mut results = [cublasLtMatmulHeuristicResult_t::default(); ALGORITHMS];
        let mut count = 0;
        let Description { product, a, b, c, d } = &self.description;
        // SAFETY: the objects are alive, and there is room for as many results as are asked for.
        let status = unsafe {
            (lt.cublasLtMatmulAlgoGetHeuristic)(
                self.handle,
                product.get(),
                a.get(),
                b.get(),
                c.get(),
                d.get(),
                preference.get(),
                ALGORITHMS as c_int,
                results.as_mut_ptr(),
                &mut count,
            )
        };
        match status {
            // What it has no kernel for.
            STATUS_INVALID_VALUE | STATUS_NOT_SUPPORTED | STATUS_ARCH_MISMATCH => return Ok(Vec::new()),
            status => lt.check("cublasLtMatmulAlgoGetHeuristic", status)?,
        }
        let found = results.iter().take(usize::try_from(count).unwrap_or(0));
        Ok(found
            .filter(|result| result.state == STATUS_SUCCESS && result.workspace_size <= limit)
            .map(|result| Found { algo: result.algo, workspace_size: result.workspace_size })
            .collect())
    }

    fn set_bias(&self, bias: *mut c_void) -> Result<(), PluginError> {
        let mut last = self.bias.lock();
        self.set_locked_bias(&mut last, bias)
    }

    fn set_locked_bias(&self, last: &mut *mut c_void, bias: *mut c_void) -> Result<(), PluginError> {
        if *last != bias {
            // SAFETY: the description is alive and nobody else's as long as the lock is held, and the value has its size.
            let status = unsafe {
                (self.lt.cublasLtMatmulDescSetAttribute)(
                    self.description.product.get(),
                    DESC_BIAS_POINTER,
                    (&raw const bias).cast(),
                    size_of::<*mut c_void>(),
                )
            };
            self.lt.check("cublasLtMatmulDescSetAttribute", status)?;
            *last = bias;
        }
        Ok(())
    }

    /// Puts the product on a stream.
    ///
    /// # Errors
    /// cuBLASLt's.
    ///
    /// # Safety
    /// Each tensor is valid for its extent until the work is done, and `workspace` for [`Run::workspace_size`] bytes.
    pub unsafe fn run(
        &self,
        tensors: &Tensors<*mut c_void>,
        workspace: *mut c_void,
        stream: hipStream_t,
    ) -> Result<(), PluginError> {
        // SAFETY: as promised by the caller.
        unsafe { self.run_with(&self.found, tensors, workspace, stream) }
    }

    unsafe fn run_with(
        &self,
        found: &Found,
        tensors: &Tensors<*mut c_void>,
        workspace: *mut c_void,
        stream: hipStream_t,
    ) -> Result<(), PluginError> {
        let mut last = self.bias.lock();
        if let Some(bias) = tensors.bias {
            self.set_locked_bias(&mut last, bias)?;
        }
        let product = &self.chain.product;
        let alpha = Factor::new(f64::from_bits(self.chain.alpha));
        let beta = Factor::new(if product.summand.is_some() { 1.0 } else { 0.0 });
        let at = |tensor: *mut c_void, elements: usize, matrix: &Matrix| {
            tensor.wrapping_byte_add(elements * matrix.data_type.size().unwrap_or(1))
        };
        for [a_begin, b_begin, c_begin, added_begin] in &product.calls {
            let result = at(tensors.c, *c_begin, &product.c);
            let added = match (tensors.summand, &product.summand) {
                (Some(tensor), Some(matrix)) => at(tensor, *added_begin, matrix),
                _ => result,
            };
            let Description { product: described, a, b, c, d } = &self.description;
            // SAFETY: the objects are alive, and the caller vouches for the memory.
            let status = unsafe {
                (self.lt.cublasLtMatmul)(
                    self.handle,
                    described.get(),
                    alpha.address(self.chain.double),
                    at(tensors.a, *a_begin, &product.a),
                    a.get(),
                    at(tensors.b, *b_begin, &product.b),
                    b.get(),
                    beta.address(self.chain.double),
                    added,
                    c.get(),
                    result,
                    d.get(),
                    &found.algo,
                    workspace,
                    found.workspace_size,
                    stream,
                )
            };
            self.lt.check("cublasLtMatmul", status)?;
        }
        Ok(())
    }

    /// Sorts algorithms by the time of a run with memory made for it.
    fn sort_by_time(&self, device: Device, found: &mut Vec<Found>) -> Result<(), PluginError> {
        let gpu = Gpu::Cuda(device);
        let product = &self.chain.product;
        let size = |matrix: &Matrix, columns: usize, place: usize| {
            let last = product.calls.iter().filter_map(|call| call.get(place)).max().copied().unwrap_or(0);
            let extent = last + matrix.stride * (product.batch - 1) + matrix.leading * columns;
            extent.saturating_mul(matrix.data_type.size().unwrap_or(8))
        };
        let columns = |matrix: &Matrix, rows: usize, columns: usize| {
            if matrix.transposed { rows } else { columns }
        };
        let (m, n, k) = (product.m, product.n, product.k);
        let memory = |bytes| Memory::new(gpu, bytes);
        let a = memory(size(&product.a, columns(&product.a, m, k), 0))?;
        let b = memory(size(&product.b, columns(&product.b, k, n), 1))?;
        let c = memory(size(&product.c, n, 2))?;
        let summand = product.summand.map(|matrix| memory(size(&matrix, n, 3))).transpose()?;
        let bias = self.chain.bias.map(|_| memory(8 * m.max(n))).transpose()?;
        let workspace = memory(found.iter().map(|found| found.workspace_size).max().unwrap_or(0))?;
        let tensors = Tensors {
            a: a.pointer,
            b: b.pointer,
            c: c.pointer,
            summand: summand.as_ref().map(|memory| memory.pointer),
            bias: bias.as_ref().map(|memory| memory.pointer),
        };
        let mut timed = Vec::with_capacity(found.len());
        for found in found.iter() {
            let run = |times: usize| -> Result<Duration, PluginError> {
                let start = Instant::now();
                for _ in 0..times {
                    // SAFETY: the memory is as large as the matrices are, and lives until the device is done.
                    unsafe { self.run_with(found, &tensors, workspace.pointer, std::ptr::null_mut()) }?;
                }
                gpu.synchronize()?;
                Ok(start.elapsed())
            };
            timed.push((run(2).and_then(|_| run(8)).unwrap_or(Duration::MAX), *found));
        }
        timed.sort_by_key(|(time, _)| *time);
        *found =
            timed.into_iter().filter(|(time, _)| *time < Duration::MAX).map(|(_, found)| found).collect();
        Ok(())
    }
}

/// Device memory for a while.
struct Memory {
    gpu: Gpu,
    pointer: *mut c_void,
}

impl Memory {
    fn new(gpu: Gpu, bytes: usize) -> Result<Self, PluginError> {
        Ok(Self { gpu, pointer: gpu.allocate(bytes)? })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is this one's own.
        unsafe { self.gpu.free(self.pointer) };
    }
}

/// What the addresses of a chain's matrices are multiples of, where those of its tensors are multiples of `most`.
fn aligned(chain: &Chain, most: usize) -> usize {
    let product = &chain.product;
    let matrices = [Some(product.a), Some(product.b), Some(product.c), product.summand];
    let mut alignment = most;
    for call in &product.calls {
        for (begin, matrix) in call.iter().zip(&matrices) {
            let bytes = begin * matrix.as_ref().and_then(|matrix| matrix.data_type.size()).unwrap_or(1);
            while !bytes.is_multiple_of(alignment) {
                alignment /= 2;
            }
        }
    }
    alignment
}

impl Description {
    fn new(
        lt: &'static CublasLt,
        chain: &Chain,
        epilogue: c_int,
        options: &Options,
    ) -> Result<Self, PluginError> {
        let product = &chain.product;
        let (compute_type, scale_type) = match (chain.double, options.tf32) {
            (true, _) => (COMPUTE_64F, R_64F),
            (false, true) if product.a.data_type == DataType::Float => (COMPUTE_32F_FAST_TF32, R_32F),
            (false, _) => (COMPUTE_32F, R_32F),
        };
        let described = lt.made("cublasLtMatmulDescCreate", lt.cublasLtMatmulDescDestroy, |described| {
            // SAFETY: the output is valid.
            unsafe { (lt.cublasLtMatmulDescCreate)(described, compute_type, scale_type) }
        })?;
        let operation = |matrix: &Matrix| if matrix.transposed { OPERATION_T } else { OPERATION_N };
        let mut numbers = vec![
            (DESC_TRANSA, operation(&product.a)),
            (DESC_TRANSB, operation(&product.b)),
            (DESC_EPILOGUE, epilogue),
        ];
        if let Some(bias) = chain.bias {
            numbers.push((DESC_BIAS_TYPE, data_type(bias)));
        }
        for (attribute, value) in numbers {
            // SAFETY: the description is alive, and the value has its size.
            let status = unsafe {
                let value: *const c_int = &value;
                (lt.cublasLtMatmulDescSetAttribute)(
                    described.get(),
                    attribute,
                    value.cast(),
                    size_of::<c_int>(),
                )
            };
            lt.check("cublasLtMatmulDescSetAttribute", status)?;
        }
        let layout = |matrix: &Matrix, rows, columns| layout(lt, matrix, rows, columns, product.batch);
        let summand = product.summand.unwrap_or(product.c);
        Ok(Self {
            product: described,
            a: layout(&product.a, product.m, product.k)?,
            b: layout(&product.b, product.k, product.n)?,
            c: layout(&summand, product.m, product.n)?,
            d: layout(&product.c, product.m, product.n)?,
        })
    }
}

/// cuBLASLt's number of what comes after the product.
fn epilogue(chain: &Chain) -> Result<c_int, Refusal> {
    Ok(match (chain.activation, chain.bias.is_some()) {
        (None, false) => EPILOGUE_DEFAULT,
        (None, true) => EPILOGUE_BIAS,
        (Some(Activation::Relu), false) => EPILOGUE_RELU,
        (Some(Activation::Relu), true) => EPILOGUE_RELU_BIAS,
        (Some(Activation::Gelu), false) => EPILOGUE_GELU,
        (Some(Activation::Gelu), true) => EPILOGUE_GELU_BIAS,
        (Some(Activation::Swish), _) => {
            return Err(
                "operation: is SWISH after a product, expected RELU or GELU by the formula with tanh".into(),
            );
        }
    })
}

/// CUDA's number of a type of a chain, which has no others.
fn data_type(data_type: DataType) -> c_int {
    match data_type {
        DataType::Half => R_16F,
        DataType::Bfloat16 => R_16BF,
        DataType::Double => R_64F,
        _ => R_32F,
    }
}

/// The layout of a matrix with so many rows and columns once it is transposed as it should be.
fn layout(
    lt: &'static CublasLt,
    matrix: &Matrix,
    rows: usize,
    columns: usize,
    batch: usize,
) -> Result<Object, PluginError> {
    let (rows, columns) = if matrix.transposed { (columns, rows) } else { (rows, columns) };
    let data_type = data_type(matrix.data_type);
    let layout = lt.made("cublasLtMatrixLayoutCreate", lt.cublasLtMatrixLayoutDestroy, |layout| {
        let (rows, columns, leading) = (rows as u64, columns as u64, matrix.leading as i64);
        // SAFETY: the output is valid.
        unsafe { (lt.cublasLtMatrixLayoutCreate)(layout, data_type, rows, columns, leading) }
    })?;
    let (count, stride) = (batch as i32, matrix.stride as i64);
    // SAFETY: the layout is alive, and the values have their sizes.
    unsafe {
        let set = lt.cublasLtMatrixLayoutSetAttribute;
        let status = set(layout.get(), LAYOUT_BATCH_COUNT, (&raw const count).cast(), size_of::<i32>());
        lt.check("cublasLtMatrixLayoutSetAttribute", status)?;
        let status = set(layout.get(), LAYOUT_BATCH_OFFSET, (&raw const stride).cast(), size_of::<i64>());
        lt.check("cublasLtMatrixLayoutSetAttribute", status)?;
    }
    Ok(layout)
}

/// A factor, as cuBLASLt takes it by address.
struct Factor {
    single: f32,
    double: f64,
}

impl Factor {
    fn new(value: f64) -> Self {
        Self { single: value as f32, double: value }
    }

    fn address(&self, double: bool) -> *const c_void {
        if double { (&raw const self.double).cast() } else { (&raw const self.single).cast() }
    }
}
