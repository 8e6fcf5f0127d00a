//! A matmul as a call of rocBLAS, which chooses its kernel itself.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::{PluginError, Refusal};

use crate::handle::Ready;
use crate::knob::Options;
use crate::rocblas::{
    ALGO_STANDARD, BF16, F16, F32, F64, FLAGS_NONE, OPERATION_NONE, OPERATION_TRANSPOSE,
    STATUS_NOT_IMPLEMENTED, STATUS_SIZE_INCREASED, STATUS_SIZE_UNCHANGED, STATUS_SUCCESS, rocblas_status,
};
use crate::run::Run;
use hipdnn_plugin_planner::chain::{Chain, Tensors};
use hipdnn_plugin_planner::product::{MATRICES, Matrix};

/// A matmul ready to run, optionally with a factor and a summand.
pub struct GemmRun {
    chain: Chain,
    workspace_size: usize,
}

impl GemmRun {
    /// The chain, if rocBLAS can compute it.
    ///
    /// # Errors
    /// When it has a bias, an activation or sums, or rocBLAS is not available or has no kernel.
    pub fn new(ready: &mut Ready<'_>, chain: &Chain, options: &Options) -> Result<Self, PluginError> {
        if chain.bias.is_some() || chain.activation.is_some() || chain.sums.is_some() {
            return Err(
                Refusal::new("rocBLAS only supports matmuls without bias, activation and sums").into()
            );
        }
        let mut gemm = Self { chain: chain.clone(), workspace_size: 0 };
        let (library, handle) = ready.rocblas()?;
        // SAFETY: `ready` borrows the object that owns the handle.
        let status = unsafe { (library.rocblas_start_device_memory_size_query)(handle) };
        library.check("rocblas_start_device_memory_size_query", status)?;
        // During a query rocBLAS starts nothing and reads no memory, but requires addresses other than null, and
        // a summand separate from the result.
        let place = |number: usize| std::ptr::without_provenance_mut::<c_void>(256 * number);
        let tensors =
            Tensors { a: place(1), b: place(2), c: place(3), summand: Some(place(4)), ..Tensors::default() };
        // SAFETY: this is a size query, which reads none of these addresses.
        let answer = unsafe { gemm.call(ready, &tensors, &[0; MATRICES]) };
        let mut end = || {
            // SAFETY: `ready` borrows the object that owns the handle, and the function writes only to `workspace_size`.
            unsafe { (library.rocblas_stop_device_memory_size_query)(handle, &mut gemm.workspace_size) }
        };
        let status = end();
        if status != STATUS_SUCCESS {
            // An open query would turn every later call into a query.
            end();
        }
        library.check("rocblas_stop_device_memory_size_query", status)?;
        match answer? {
            STATUS_SUCCESS | STATUS_SIZE_INCREASED | STATUS_SIZE_UNCHANGED => {}
            STATUS_NOT_IMPLEMENTED => {
                return Err(Refusal::new("rocBLAS has no kernel for these types").into());
            }
            other => library.check("rocblas_gemm_strided_batched_ex", other)?,
        }
        if gemm.workspace_size > options.workspace_size_limit {
            return Err(PluginError::not_applicable(format!(
                "rocBLAS needs {} bytes of workspace, more than the limit of {}",
                gemm.workspace_size, options.workspace_size_limit
            )));
        }
        Ok(gemm)
    }

    /// One call, and its status.
    ///
    /// # Safety
    /// The tensors are valid until the work is done, or a workspace query is open.
    unsafe fn call(
        &self,
        ready: &mut Ready<'_>,
        tensors: &Tensors<*mut c_void>,
        begins: &[usize; MATRICES],
    ) -> Result<rocblas_status, PluginError> {
        let (library, handle) = ready.rocblas()?;
        let Chain { product, double, .. } = &self.chain;
        let [alpha, beta] = self.chain.factors();
        let [a, b, d, c] = self.chain.operands(begins, tensors);
        let summand = product.summand.unwrap_or(product.c);
        let operation =
            |matrix: &Matrix| if matrix.transposed { OPERATION_TRANSPOSE } else { OPERATION_NONE };
        let leading = |matrix: &Matrix| matrix.leading as i32;
        let stride = |matrix: &Matrix| matrix.stride as i64;
        // One line per matrix, as in rocBLAS's documentation.
        // SAFETY: the handle is alive, the numbers are within 32 bits, and the tensors are valid until the work is done, or a query reads
        // none, as this function requires.
        #[rustfmt::skip]
        let status = unsafe {
            (library.rocblas_gemm_strided_batched_ex)(
                handle, operation(&product.a), operation(&product.b),
                product.m as i32, product.n as i32, product.k as i32, alpha.address(*double),
                a, data_type(product.a.data_type), leading(&product.a), stride(&product.a),
                b, data_type(product.b.data_type), leading(&product.b), stride(&product.b), beta.address(*double),
                c, data_type(summand.data_type), leading(&summand), stride(&summand),
                d, data_type(product.c.data_type), leading(&product.c), stride(&product.c),
                product.batch as i32, if *double { F64 } else { F32 }, ALGO_STANDARD, 0, FLAGS_NONE.cast_unsigned(),
            )
        };
        Ok(status)
    }
}

/// rocBLAS's number of a data type that occurs in chains.
fn data_type(data_type: DataType) -> c_int {
    match data_type {
        DataType::Half => F16,
        DataType::Bfloat16 => BF16,
        DataType::Double => F64,
        _ => F32,
    }
}

impl Run for GemmRun {
    fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    unsafe fn run(
        &self,
        ready: &mut Ready<'_>,
        tensors: &Tensors<*mut c_void>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let (library, _) = ready.rocblas()?;
        // SAFETY: the workspace is valid for its size until the work is done, as this function requires.
        unsafe { ready.give_rocblas(workspace, self.workspace_size) }?;
        for begins in &self.chain.product.calls {
            // SAFETY: the tensors are valid until the work is done, as this function requires.
            let status = unsafe { self.call(ready, tensors, begins) }?;
            library.check("rocblas_gemm_strided_batched_ex", status)?;
        }
        Ok(())
    }
}
