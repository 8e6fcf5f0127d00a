//! A chain as a call of hipBLASLt, with one of the algorithms that it recommends.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, LazyLock};

use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::Mutex;

use crate::handle::Ready;
use crate::hipblaslt::{
    COMPUTE_32F, COMPUTE_64F, DESC_BIAS_POINTER, DESC_BIAS_TYPE, DESC_EPILOGUE, DESC_TRANSA, DESC_TRANSB,
    EPILOGUE_BIAS, EPILOGUE_DEFAULT, EPILOGUE_GELU, EPILOGUE_GELU_BIAS, EPILOGUE_RELU, EPILOGUE_RELU_BIAS,
    EPILOGUE_SWISH, EPILOGUE_SWISH_BIAS, HipblasLt, LAYOUT_BATCH_COUNT, LAYOUT_BATCH_OFFSET, OPERATION_N,
    OPERATION_T, PREF_MAX_WORKSPACE, R_16BF, R_16F, R_32F, R_64F, STATUS_ARCH_MISMATCH, STATUS_INVALID_VALUE,
    STATUS_NOT_SUPPORTED, STATUS_SUCCESS, hipblasLtMatmulAlgo_t, hipblasLtMatmulHeuristicResult_t,
};
use crate::knob::{ALGORITHMS, Options};
use crate::run::Run;
use hipdnn_plugin_planner::chain::{Activation, Chain, Tensors};
use hipdnn_plugin_planner::product::Matrix;

/// The algorithms found in this process. A search loads their tables from disk.
static FOUND: LazyLock<Mutex<HashMap<Key, Arc<[Found]>>>> = LazyLock::new(Mutex::default);

/// Everything that determines which algorithms are found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: c_int,
    chain: Chain,
    workspace_size_limit: usize,
}

/// A recommended algorithm.
#[derive(Clone, Copy, Debug)]
struct Found {
    algo: hipblasLtMatmulAlgo_t,
    workspace_size: usize,
}

/// The bytes by which hipBLASLt identifies an algorithm.
pub type AlgorithmName = [u8; 16];

/// A description of a chain for hipBLASLt.
struct Description {
    desc: Object,
    a: Object,
    b: Object,
    /// Of the summand, or of the result if there is none.
    c: Object,
    d: Object,
}

/// A chain ready to run.
pub struct AlgorithmRun {
    chain: Chain,
    description: Description,
    /// The bias address that is set in the description: since it is part of it, runs of a plan with a bias
    /// take turns.
    bias: Mutex<*mut c_void>,
    algo: hipblasLtMatmulAlgo_t,
    workspace_size: usize,
}

// SAFETY: the address of the bias is only compared and passed to hipBLASLt.
unsafe impl Send for AlgorithmRun {}
// SAFETY: the address is behind a lock.
unsafe impl Sync for AlgorithmRun {}

impl AlgorithmRun {
    /// The chain with the saved algorithm, if hipBLASLt still recommends it, else with the one at the chosen
    /// index.
    ///
    /// # Errors
    /// When hipBLASLt is not available, finds nothing, or fails.
    pub fn new(
        ready: &mut Ready<'_>,
        chain: &Chain,
        options: &Options,
        name: Option<AlgorithmName>,
    ) -> Result<Self, PluginError> {
        let device = ready.entered.device.number;
        let (library, handle) = ready.hipblaslt()?;
        let description = Description::new(library, chain)?;
        let key = Key { device, chain: chain.clone(), workspace_size_limit: options.workspace_size_limit };
        let known = FOUND.lock().get(&key).cloned();
        let found = match known {
            Some(found) => found,
            None => {
                let found: Arc<[Found]> =
                    search(library, handle, &description, options.workspace_size_limit)?.into();
                FOUND.lock().insert(key, Arc::clone(&found));
                found
            }
        };
        let named = name.and_then(|name| found.iter().find(|found| found.algo.data == name));
        let Found { algo, workspace_size } =
            *named.or_else(|| found.get(options.algorithm)).ok_or_else(|| {
                Refusal::new(if found.is_empty() {
                    "hipBLASLt finds no algorithm for it".to_owned()
                } else {
                    format!(
                        "hipBLASLt finds {} algorithms for it, expected more than the chosen index {}",
                        found.len(),
                        options.algorithm
                    )
                })
            })?;
        Ok(Self {
            chain: chain.clone(),
            description,
            bias: Mutex::new(ptr::null_mut()),
            algo,
            workspace_size,
        })
    }

    /// The algorithm's identity, for a saved plan.
    pub fn name(&self) -> AlgorithmName {
        self.algo.data
    }
}

impl Description {
    fn new(library: &'static HipblasLt, chain: &Chain) -> Result<Self, PluginError> {
        let product = &chain.product;
        let (compute_type, scale_type) =
            if chain.double { (COMPUTE_64F, R_64F) } else { (COMPUTE_32F, R_32F) };
        let desc = made("hipblasLtMatmulDescCreate", library, library.hipblasLtMatmulDescDestroy, |desc| {
            // SAFETY: the pointer is that of a local, the only place that the function writes to.
            unsafe { (library.hipblasLtMatmulDescCreate)(desc, compute_type, scale_type) }
        })?;
        let operation = |matrix: &Matrix| if matrix.transposed { OPERATION_T } else { OPERATION_N };
        let mut numbers = vec![
            (DESC_TRANSA, operation(&product.a)),
            (DESC_TRANSB, operation(&product.b)),
            (DESC_EPILOGUE, epilogue(chain)?),
        ];
        if let Some(bias) = chain.bias {
            numbers.push((DESC_BIAS_TYPE, data_type(bias)));
        }
        for (attribute, value) in numbers {
            // SAFETY: the description is alive, and the value has its size.
            let status = unsafe {
                let value: *const c_int = &value;
                (library.hipblasLtMatmulDescSetAttribute)(
                    desc.get(),
                    attribute,
                    value.cast(),
                    size_of::<c_int>(),
                )
            };
            library.check("hipblasLtMatmulDescSetAttribute", status)?;
        }
        let layout = |matrix: &Matrix, rows: usize, columns: usize| {
            layout(library, matrix, rows, columns, product.batch)
        };
        let summand = product.summand.unwrap_or(product.c);
        Ok(Self {
            desc,
            a: layout(&product.a, product.m, product.k)?,
            b: layout(&product.b, product.k, product.n)?,
            c: layout(&summand, product.m, product.n)?,
            d: layout(&product.c, product.m, product.n)?,
        })
    }
}

/// hipBLASLt's number of the chain's epilogue.
fn epilogue(chain: &Chain) -> Result<c_int, Refusal> {
    let refused = "operation: is a gradient, a sum, or an activation of a tensor with other readers, expected none of them";
    if chain.product.auxiliary.is_some() || chain.sums.is_some() {
        return Err(Refusal::new(refused));
    }
    Ok(match (chain.activation, chain.bias.is_some()) {
        (None, false) => EPILOGUE_DEFAULT,
        (None, true) => EPILOGUE_BIAS,
        (Some(Activation::Relu), false) => EPILOGUE_RELU,
        (Some(Activation::Relu), true) => EPILOGUE_RELU_BIAS,
        (Some(Activation::Gelu), false) => EPILOGUE_GELU,
        (Some(Activation::Gelu), true) => EPILOGUE_GELU_BIAS,
        (Some(Activation::Swish), false) => EPILOGUE_SWISH,
        (Some(Activation::Swish), true) => EPILOGUE_SWISH_BIAS,
        (Some(Activation::GeluBackward), _) => return Err(Refusal::new(refused)),
    })
}

/// HIP's number of a data type that occurs in chains.
fn data_type(data_type: DataType) -> c_int {
    match data_type {
        DataType::Half => R_16F,
        DataType::Bfloat16 => R_16BF,
        DataType::Double => R_64F,
        _ => R_32F,
    }
}

fn made(
    function: &str,
    library: &HipblasLt,
    destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
    create: impl FnOnce(*mut *mut c_void) -> c_int,
) -> Result<Object, PluginError> {
    let mut object = ptr::null_mut();
    library.check(function, create(&mut object))?;
    // SAFETY: the object was made just now, and the function ends it.
    Ok(unsafe { Object::new(object, destroy) })
}

/// The layout of a matrix with this many rows and columns after any transposition.
fn layout(
    library: &'static HipblasLt,
    matrix: &Matrix,
    rows: usize,
    columns: usize,
    batch: usize,
) -> Result<Object, PluginError> {
    let (rows, columns) = if matrix.transposed { (columns, rows) } else { (rows, columns) };
    let data_type = data_type(matrix.data_type);
    let layout =
        made("hipblasLtMatrixLayoutCreate", library, library.hipblasLtMatrixLayoutDestroy, |layout| {
            // SAFETY: the pointer is that of a local, the only place that the function writes to.
            unsafe {
                (library.hipblasLtMatrixLayoutCreate)(
                    layout,
                    data_type,
                    rows as u64,
                    columns as u64,
                    matrix.leading as i64,
                )
            }
        })?;
    let (count, stride) = (batch as i32, matrix.stride as i64);
    // SAFETY: the layout is alive, and the values have their sizes.
    unsafe {
        let set = library.hipblasLtMatrixLayoutSetAttribute;
        let status = set(layout.get(), LAYOUT_BATCH_COUNT, (&raw const count).cast(), size_of::<i32>());
        library.check("hipblasLtMatrixLayoutSetAttribute", status)?;
        let status = set(layout.get(), LAYOUT_BATCH_OFFSET, (&raw const stride).cast(), size_of::<i64>());
        library.check("hipblasLtMatrixLayoutSetAttribute", status)?;
    }
    Ok(layout)
}

/// The algorithms that hipBLASLt recommends, best first; empty if it has none.
fn search(
    library: &'static HipblasLt,
    handle: *mut c_void,
    description: &Description,
    workspace_size_limit: usize,
) -> Result<Vec<Found>, PluginError> {
    let preference = made(
        "hipblasLtMatmulPreferenceCreate",
        library,
        library.hipblasLtMatmulPreferenceDestroy,
        |preference| {
            // SAFETY: the pointer is that of a local, the only place that the function writes to.
            unsafe { (library.hipblasLtMatmulPreferenceCreate)(preference) }
        },
    )?;
    let limit = workspace_size_limit as u64;
    // SAFETY: the preference is alive, and the value has its size.
    let status = unsafe {
        (library.hipblasLtMatmulPreferenceSetAttribute)(
            preference.get(),
            PREF_MAX_WORKSPACE,
            (&raw const limit).cast(),
            size_of::<u64>(),
        )
    };
    library.check("hipblasLtMatmulPreferenceSetAttribute", status)?;
    let mut results = [hipblasLtMatmulHeuristicResult_t::default(); ALGORITHMS];
    let mut count = 0;
    let Description { desc, a, b, c, d } = description;
    // SAFETY: the objects are alive, and there is room for the requested number of results.
    let status = unsafe {
        (library.hipblasLtMatmulAlgoGetHeuristic)(
            handle,
            desc.get(),
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
        // Versions differ in whether a missing kernel is a failure.
        STATUS_INVALID_VALUE | STATUS_NOT_SUPPORTED | STATUS_ARCH_MISMATCH => return Ok(Vec::new()),
        status => library.check("hipblasLtMatmulAlgoGetHeuristic", status)?,
    }
    let found = results.iter().take(usize::try_from(count).unwrap_or(0));
    Ok(found
        .filter(|result| result.state == STATUS_SUCCESS && result.workspace_size <= workspace_size_limit)
        .map(|result| Found { algo: result.algo, workspace_size: result.workspace_size })
        .collect())
}

impl Run for AlgorithmRun {
    fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    unsafe fn run(
        &self,
        ready: &mut Ready<'_>,
        tensors: &Tensors<*mut c_void>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let (library, handle) = ready.hipblaslt()?;
        let Description { desc, a, b, c, d } = &self.description;
        let mut last = self.bias.lock();
        if let Some(bias) = tensors.bias
            && bias != *last
        {
            // SAFETY: the description is alive, only the holder of the lock uses it, and the value has its size.
            let status = unsafe {
                (library.hipblasLtMatmulDescSetAttribute)(
                    desc.get(),
                    DESC_BIAS_POINTER,
                    (&raw const bias).cast(),
                    size_of::<*mut c_void>(),
                )
            };
            library.check("hipblasLtMatmulDescSetAttribute", status)?;
            *last = bias;
        }
        let [alpha, beta] = self.chain.factors();
        for begins in &self.chain.product.calls {
            let [a_at, b_at, d_at, c_at] = self.chain.operands(begins, tensors);
            // SAFETY: the objects are alive; the tensors are valid until the work is done, and the workspace for its size, as this
            // function requires.
            let status = unsafe {
                (library.hipblasLtMatmul)(
                    handle,
                    desc.get(),
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
                    &self.algo,
                    workspace,
                    self.workspace_size,
                    ready.entered.stream,
                )
            };
            library.check("hipblasLtMatmul", status)?;
        }
        Ok(())
    }
}
