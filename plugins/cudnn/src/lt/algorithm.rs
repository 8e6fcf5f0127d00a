//! A chain as a call of cuBLASLt, with one of its recommended algorithms.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock};

use hipdnn_plugin_sdk::cuda::Device;
use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::Mutex;

use crate::knob::{ALGORITHMS, Options};
use crate::lt::description::{Description, epilogue};
use crate::lt::library::{
    CONFIG_SCHEME, CONFIG_SPLIT, CublasLt, DESC_A_SCALE_POINTER, DESC_AUX_POINTER, DESC_B_SCALE_POINTER,
    DESC_BIAS_POINTER, PREF_ALIGNMENT_A, PREF_ALIGNMENT_B, PREF_ALIGNMENT_C, PREF_ALIGNMENT_D,
    PREF_MAX_WORKSPACE, SCHEME_COMPUTE_TYPE, SCHEME_NONE, STATUS_ARCH_MISMATCH, STATUS_INVALID_VALUE,
    STATUS_NOT_SUPPORTED, STATUS_SUCCESS, cublasLtHandle_t, cublasLtMatmulAlgo_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t,
};
use crate::timing::{Memory, by_time};
use hipdnn_plugin_planner::chain::{Chain, Tensors, is_small};
use hipdnn_plugin_planner::product::Matrix;

/// The largest alignment that is passed to cuBLASLt.
const MOST_ALIGNED: usize = 256;

/// The algorithms found in this process.
static FOUND: LazyLock<Mutex<HashMap<Key, Arc<[Found]>>>> = LazyLock::new(Mutex::default);

/// The handles of this process, each with its context. They live as long as the process.
static HANDLES: Mutex<Vec<(usize, Object)>> = Mutex::new(Vec::new());

/// The attributes of a description that are addresses.
const POINTERS: [cublasLtMatmulDescAttributes_t; 4] =
    [DESC_BIAS_POINTER, DESC_AUX_POINTER, DESC_A_SCALE_POINTER, DESC_B_SCALE_POINTER];

/// The addresses of a bias or sums, of the auxiliary matrix, and of two scales.
type Pointers = [*mut c_void; 4];

/// Everything that determines which algorithms are found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    context: usize,
    chain: Chain,
    alignment: usize,
    options: Options,
}

/// A recommended algorithm.
#[derive(Clone, Copy, Debug)]
struct Found {
    algo: cublasLtMatmulAlgo_t,
    workspace_size: usize,
}

/// How dot products are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The number of parts.
    pub parts: u32,
    /// Whether they are rounded to the result's type before they are added.
    pub rounds: bool,
}

impl Split {
    /// Of a number of parts and a scheme for adding them, as cuBLASLt has them.
    fn of(parts: c_int, scheme: c_int) -> Option<Self> {
        let parts = u32::try_from(parts).ok()?.max(1);
        Some(Self { parts, rounds: parts > 1 && ![SCHEME_NONE, SCHEME_COMPUTE_TYPE].contains(&scheme) })
    }
}

/// A chain ready to run.
#[derive(Debug)]
pub struct Run {
    lt: &'static CublasLt,
    handle: cublasLtHandle_t,
    chain: Chain,
    description: Description,
    /// The addresses that are set in the description: since they are part of it, runs of a plan take turns.
    pointers: Mutex<Pointers>,
    found: Found,
    /// The alignment of each tensor's address.
    pub alignment: usize,
}

// SAFETY: the handle may be used by any thread, and the addresses are only compared and passed on.
unsafe impl Send for Run {}
// SAFETY: shared references reach the addresses through a lock only, and the handle may be used by any thread.
unsafe impl Sync for Run {}

fn handle(lt: &'static CublasLt, device: &Device) -> Result<cublasLtHandle_t, PluginError> {
    let context = device.context.addr();
    let mut handles = HANDLES.lock();
    if let Some((_, handle)) = handles.iter().find(|(of, _)| *of == context) {
        return Ok(handle.get());
    }
    let made = lt.made("cublasLtCreate", lt.cublasLtDestroy, |handle| {
        // SAFETY: the pointer is that of a local, the only place that the function writes to.
        unsafe { (lt.cublasLtCreate)(handle) }
    })?;
    let handle = made.get();
    handles.push((context, made));
    Ok(handle)
}

impl Run {
    /// The chain with the saved algorithm, if cuBLASLt still recommends it, else with the one at the chosen
    /// index. Addresses are multiples of `alignment`.
    ///
    /// # Errors
    /// When cuBLASLt is not available, finds nothing, or fails.
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
        // The index does not influence the search.
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
            pointers: Mutex::new([std::ptr::null_mut(); 4]),
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
                let layouts = if is_small(chain.product.a.data_type) {
                    "; for 8-bit floats it requires dense rows of a and dense columns of b, in multiples of 16"
                } else {
                    ""
                };
                format!("cuBLASLt finds no algorithm for it{layouts}")
            } else {
                format!(
                    "cuBLASLt finds {} algorithms for it, expected more than the chosen index {}",
                    found.len(),
                    options.engine
                )
            })
        })?;
        Ok(run)
    }

    /// The algorithm, for a saved plan.
    pub fn algorithm(&self) -> cublasLtMatmulAlgo_t {
        self.found.algo
    }

    /// How dot products are divided, if cuBLASLt tells.
    pub fn split(&self) -> Option<Split> {
        let get = self.lt.cublasLtMatmulAlgoConfigGetAttribute?;
        let read = |attribute| {
            let (mut value, mut written) = (0_i32, 0);
            // SAFETY: the algorithm is one of cuBLASLt's, and both locals have the sizes of what is written.
            let status = unsafe {
                get(&self.found.algo, attribute, (&raw mut value).cast(), size_of::<i32>(), &mut written)
            };
            (status == STATUS_SUCCESS && written == size_of::<i32>()).then_some(value)
        };
        Split::of(read(CONFIG_SPLIT)?, read(CONFIG_SCHEME)?)
    }

    /// Bytes of workspace that a run needs.
    pub fn workspace_size(&self) -> usize {
        self.found.workspace_size
    }

    /// The algorithms that cuBLASLt recommends, best first; empty if it has none.
    fn search(&self, options: &Options) -> Result<Vec<Found>, PluginError> {
        let lt = self.lt;
        let preference =
            lt.made("cublasLtMatmulPreferenceCreate", lt.cublasLtMatmulPreferenceDestroy, |preference| {
                // SAFETY: the pointer is that of a local, the only place that the function writes to.
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
        // Only the addresses' alignment matters here.
        let somewhere = std::ptr::without_provenance_mut(self.alignment.max(size_of::<f32>()));
        let Chain { product, bias, sums, scales, .. } = &self.chain;
        let vector = bias.is_some() || sums.is_some();
        let wanted = [vector, product.auxiliary.is_some(), *scales > 0, *scales > 1]
            .map(|is_there| is_there.then_some(somewhere));
        self.set_pointers(&mut self.pointers.lock(), wanted)?;
        let mut results = [cublasLtMatmulHeuristicResult_t::default(); ALGORITHMS];
        let mut count = 0;
        let Description { product, a, b, c, d } = &self.description;
        // SAFETY: the objects are alive, and there is room for the requested number of results.
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
            // There is no kernel for it.
            STATUS_INVALID_VALUE | STATUS_NOT_SUPPORTED | STATUS_ARCH_MISMATCH => return Ok(Vec::new()),
            status => lt.check("cublasLtMatmulAlgoGetHeuristic", status)?,
        }
        let found = results.iter().take(usize::try_from(count).unwrap_or(0));
        Ok(found
            .filter(|result| result.state == STATUS_SUCCESS && result.workspace_size <= limit)
            .map(|result| Found { algo: result.algo, workspace_size: result.workspace_size })
            .collect())
    }

    /// Sets the addresses in the description, unless they are set already.
    fn set_pointers(&self, last: &mut Pointers, wanted: [Option<*mut c_void>; 4]) -> Result<(), PluginError> {
        for ((last, wanted), attribute) in last.iter_mut().zip(wanted).zip(POINTERS) {
            let Some(wanted) = wanted.filter(|wanted| last != wanted) else { continue };
            // SAFETY: the description is alive, only the holder of the lock uses it, and the value has its size.
            let status = unsafe {
                (self.lt.cublasLtMatmulDescSetAttribute)(
                    self.description.product.get(),
                    attribute,
                    (&raw const wanted).cast(),
                    size_of::<*mut c_void>(),
                )
            };
            self.lt.check("cublasLtMatmulDescSetAttribute", status)?;
            *last = wanted;
        }
        Ok(())
    }

    /// Queues the matmul on a stream.
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
        // SAFETY: the tensors and the workspace are valid until the work is done, as this function requires.
        unsafe { self.run_with(&self.found, tensors, workspace, stream) }
    }

    /// # Safety
    /// Each tensor is valid for its extent until the work is done, and `workspace` for the bytes that the algorithm found needs.
    unsafe fn run_with(
        &self,
        found: &Found,
        tensors: &Tensors<*mut c_void>,
        workspace: *mut c_void,
        stream: hipStream_t,
    ) -> Result<(), PluginError> {
        let mut last = self.pointers.lock();
        let [first, second] = tensors.scales;
        let vector = tensors.bias.or(tensors.sums);
        self.set_pointers(&mut last, [vector, tensors.auxiliary, first, second])?;
        let [alpha, beta] = self.chain.factors();
        for begins in &self.chain.product.calls {
            let [a_at, b_at, d_at, c_at] = self.chain.operands(begins, tensors);
            let Description { product: described, a, b, c, d } = &self.description;
            // SAFETY: the objects are alive; the tensors are valid until the work is done, and the workspace for its size, as this
            // function requires.
            let status = unsafe {
                (self.lt.cublasLtMatmul)(
                    self.handle,
                    described.get(),
                    alpha.address(self.chain.double),
                    a_at,
                    a.get(),
                    b_at,
                    b.get(),
                    beta.address(self.chain.double),
                    c_at,
                    c.get(),
                    d_at,
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

    /// Sorts algorithms by the time of a run in temporary memory.
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
        let auxiliary = product.auxiliary.map(|matrix| memory(size(&matrix, n, 4))).transpose()?;
        let vector = |is_there: bool| is_there.then(|| memory(8 * m.max(n))).transpose();
        let (bias, sums) = (vector(self.chain.bias.is_some())?, vector(self.chain.sums.is_some())?);
        let scale = |place| (place < self.chain.scales).then(|| memory(size_of::<f32>())).transpose();
        let (first, second) = (scale(0)?, scale(1)?);
        let workspace = memory(found.iter().map(|found| found.workspace_size).max().unwrap_or(0))?;
        let pointer = |memory: &Option<Memory>| memory.as_ref().map(Memory::pointer);
        let tensors = Tensors {
            a: a.pointer(),
            b: b.pointer(),
            c: c.pointer(),
            summand: pointer(&summand),
            bias: pointer(&bias),
            auxiliary: pointer(&auxiliary),
            sums: pointer(&sums),
            scales: [&first, &second].map(pointer),
        };
        // SAFETY: the memory is as large as the matrices are, and lives until the device is done.
        let run = |found: &Found| unsafe {
            self.run_with(found, &tensors, workspace.pointer(), std::ptr::null_mut())
        };
        *found = by_time(gpu, std::mem::take(found), run);
        Ok(())
    }
}

/// The alignment of the matrices' addresses, given that of the tensors, at most `most`.
fn aligned(chain: &Chain, most: usize) -> usize {
    let product = &chain.product;
    let matrices = [Some(product.a), Some(product.b), Some(product.c), product.summand, product.auxiliary];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_rounded_unless_they_are_kept_in_the_compute_type() {
        let of = |parts, scheme| Split::of(parts, scheme).map(|split| (split.parts, split.rounds));
        for (parts, scheme, expected) in [
            (1, SCHEME_NONE, Some((1, false))),
            (0, SCHEME_NONE, Some((1, false))),
            (4, SCHEME_COMPUTE_TYPE, Some((4, false))),
            // In place, and in the result's type.
            (4, 1, Some((4, true))),
            (8, 4, Some((8, true))),
            (1, 1, Some((1, false))),
            (-1, SCHEME_NONE, None),
        ] {
            assert_eq!(of(parts, scheme), expected, "{parts} {scheme}");
        }
    }
}
