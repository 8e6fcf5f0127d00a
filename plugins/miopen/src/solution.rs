//! Solutions: MIOpen's implementations of a problem.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::fmt::Debug;
use std::ptr;
use std::sync::{Arc, LazyLock};

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::dynlib::answer::{MOST_CODE, room};
use parking_lot::Mutex;

use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{Miopen, MiopenError, STATUS_SUCCESS, miopenTensorArgument_t};
use crate::object::Object;

/// Saved solutions found in this process by device and problem, also that there is none. A search compiles
/// and times kernels.
static FOUND: LazyLock<Mutex<HashMap<Key, Finding>>> = LazyLock::new(Mutex::default);

/// A saved solution, or none if there is none.
type Finding = Option<Arc<[u8]>>;

/// Everything that determines which solution is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: c_int,
    /// All fields of the subject, as printed by `Debug`.
    subject: String,
    options: Options,
}

/// A computation to find a solution for. Two subjects are the same problem if `Debug` prints the same.
pub trait Subject: Debug {
    /// Whether MIOpen fails if it has no kernel for the subject. The nodes are then computed one by one.
    const MAY_FAIL: bool;

    /// MIOpen's problem.
    ///
    /// # Errors
    /// MIOpen's.
    fn problem(&self, miopen: &Miopen, options: &Options) -> Result<Object, MiopenError>;
}

/// A solution ready to run.
pub struct Solution {
    /// MIOpen does not guarantee that threads may run one solution concurrently.
    solution: Mutex<Object>,
    /// The saved solution. MIOpen only saves solutions that it found itself, not those it loaded.
    bytes: Arc<[u8]>,
    workspace_size: usize,
}

impl Solution {
    /// The solution in `saved` or, if that is empty, the best that MIOpen finds. None if it finds none.
    ///
    /// # Errors
    /// MIOpen's, or that the solution exceeds the workspace limit.
    pub fn of<S: Subject>(
        ready: &Ready<'_>,
        options: &Options,
        subject: &S,
        saved: &[u8],
    ) -> Result<Option<Self>, PluginError> {
        let miopen = ready.runtime.miopen;
        let device = ready.entered.device.number;
        let key = Key { device, subject: format!("{subject:?}"), options: options.clone() };
        let known = match saved {
            [] => FOUND.lock().get(&key).cloned(),
            saved => Some(Some(saved.into())),
        };
        let (solution, bytes) = match known {
            Some(None) => return Ok(None),
            Some(Some(bytes)) => (load(miopen, &bytes)?, bytes),
            None => {
                let Some(solution) = find(ready, options, subject)? else {
                    FOUND.lock().insert(key, None);
                    return Ok(None);
                };
                let bytes: Arc<[u8]> = save(miopen, &solution)?.into();
                FOUND.lock().insert(key, Some(Arc::clone(&bytes)));
                (solution, bytes)
            }
        };
        let mut workspace_size = 0;
        // SAFETY: the function writes only to the local `workspace_size`.
        miopen.check("miopenGetSolutionWorkspaceSize", unsafe {
            (miopen.miopenGetSolutionWorkspaceSize)(solution.get(), &mut workspace_size)
        })?;
        let limit = options.workspace_size_limit.unwrap_or(usize::MAX);
        if workspace_size > limit {
            return Err(PluginError::not_applicable(format!(
                "MIOpen's best solution needs {workspace_size} bytes of workspace, more than the limit of {limit}"
            )));
        }
        Ok(Some(Self { solution: Mutex::new(solution), bytes, workspace_size }))
    }

    /// Bytes of workspace for a run.
    pub fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    /// The solution as bytes.
    pub fn saved(&self) -> &[u8] {
        &self.bytes
    }

    /// Queues the work on the stream.
    ///
    /// # Errors
    /// MIOpen's.
    ///
    /// # Safety
    /// The arguments are the problem's tensors, valid until the work is done, and `workspace` is for
    /// [`Solution::workspace_size`] bytes.
    pub unsafe fn run(
        &self,
        ready: &Ready<'_>,
        arguments: &[miopenTensorArgument_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let solution = self.solution.lock();
        // SAFETY: the solution is alive; the arguments are the problem's tensors and the workspace has the solution's size, as this
        // function requires.
        let status = unsafe {
            (miopen.miopenRunSolution)(
                ready.handle(),
                solution.get(),
                arguments.len(),
                arguments.as_ptr(),
                workspace,
                self.workspace_size,
            )
        };
        Ok(miopen.check("miopenRunSolution", status)?)
    }
}

/// A tensor argument with the problem's descriptor.
pub fn argument(id: c_uint, buffer: *mut c_void) -> miopenTensorArgument_t {
    miopenTensorArgument_t { id, descriptor: ptr::null_mut(), buffer }
}

/// Sets a tensor descriptor of a problem.
///
/// # Errors
/// MIOpen's.
pub fn describe(
    miopen: &Miopen,
    problem: &Object,
    id: c_uint,
    descriptor: &Object,
) -> Result<(), MiopenError> {
    // SAFETY: both are alive, and the problem copies the descriptor.
    let status = unsafe { (miopen.miopenSetProblemTensorDescriptor)(problem.get(), id, descriptor.get()) };
    miopen.check("miopenSetProblemTensorDescriptor", status)
}

/// The best solution that MIOpen finds.
fn find<S: Subject>(
    ready: &Ready<'_>,
    options: &Options,
    subject: &S,
) -> Result<Option<Object>, PluginError> {
    let miopen = ready.runtime.miopen;
    let problem = subject.problem(miopen, options)?;
    let find_options = find_options(miopen, options)?;
    let mut solution = ptr::null_mut();
    let mut count = 0;
    // SAFETY: there is room for one solution, which is owned at once.
    unsafe {
        let status = (miopen.miopenFindSolutions)(
            ready.handle(),
            problem.get(),
            find_options.get(),
            &mut solution,
            &mut count,
            1,
        );
        if S::MAY_FAIL && status != STATUS_SUCCESS {
            return Ok(None);
        }
        miopen.check("miopenFindSolutions", status)?;
        if count == 0 || solution.is_null() {
            return Ok(None);
        }
        Ok(Some(Object::new(solution, miopen.miopenDestroySolution)))
    }
}

fn find_options(miopen: &Miopen, options: &Options) -> Result<Object, MiopenError> {
    let mut find_options = ptr::null_mut();
    // SAFETY: the function writes only to the local `find_options`, and the new object is owned at once.
    let object = unsafe {
        miopen.check("miopenCreateFindOptions", (miopen.miopenCreateFindOptions)(&mut find_options))?;
        Object::new(find_options, miopen.miopenDestroyFindOptions)
    };
    // SAFETY: `object` owns the options, which are destroyed only when it is dropped.
    unsafe {
        miopen.check(
            "miopenSetFindOptionTuning",
            (miopen.miopenSetFindOptionTuning)(find_options, c_int::from(options.benchmarking)),
        )?;
        // Saves another process the compilation when it loads the solution.
        if let Some(attach) = miopen.miopenSetFindOptionAttachBinaries {
            miopen.check("miopenSetFindOptionAttachBinaries", attach(find_options, 1))?;
        }
        if let Some(limit) = options.workspace_size_limit {
            miopen.check(
                "miopenSetFindOptionWorkspaceLimit",
                (miopen.miopenSetFindOptionWorkspaceLimit)(find_options, limit),
            )?;
        }
    }
    Ok(object)
}

/// The bytes of a solution.
fn save(miopen: &Miopen, solution: &Object) -> Result<Vec<u8>, PluginError> {
    let mut size = 0;
    // SAFETY: the function writes only to the local `size`.
    miopen.check("miopenGetSolutionSize", unsafe {
        (miopen.miopenGetSolutionSize)(solution.get(), &mut size)
    })?;
    let mut bytes = room("miopenGetSolutionSize", size, MOST_CODE)?;
    // SAFETY: there is room for the size that MIOpen returned.
    miopen.check("miopenSaveSolution", unsafe {
        (miopen.miopenSaveSolution)(solution.get(), bytes.as_mut_ptr().cast())
    })?;
    Ok(bytes)
}

fn load(miopen: &Miopen, bytes: &[u8]) -> Result<Object, MiopenError> {
    let mut solution = ptr::null_mut();
    // SAFETY: the bytes are valid for their length, and the new object is owned at once.
    unsafe {
        let status = (miopen.miopenLoadSolution)(&mut solution, bytes.as_ptr().cast(), bytes.len());
        miopen.check("miopenLoadSolution", status)?;
        Ok(Object::new(solution, miopen.miopenDestroySolution))
    }
}
