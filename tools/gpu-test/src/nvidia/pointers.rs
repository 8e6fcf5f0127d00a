//! Which kinds of memory tensors may use.

use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};

use super::driver::ATTACH_GLOBAL;
use super::{Check, Context, Outcome, Subject, subjects};
use crate::Failure;
use crate::backend::Plan;
use crate::bound::Bound;

pub fn checks() -> Vec<Check> {
    vec![
        ("memory: the host's is refused with the tensor's uid".to_owned(), Box::new(host)),
        ("memory: managed, registered, pinned and of a stream's pool".to_owned(), Box::new(kinds)),
    ]
}

/// Executes with one tensor at another address.
fn execute_with(
    plan: &Plan<'_>,
    bound: &Bound<'_>,
    (uid, pointer): (i64, *mut c_void),
) -> Result<(), Failure> {
    let mut tensors = bound.tensors();
    for tensor in tensors.iter_mut().filter(|tensor| tensor.0 == uid) {
        tensor.1 = pointer;
    }
    // SAFETY: the callers pass memory of the tensor's size or larger, which lives until the work is waited for.
    unsafe { plan.execute(&tensors, bound.workspace()) }
}

/// Checks that an execution with a tensor at another address is refused with the message, and that the next one is correct.
///
/// # Errors
/// The actual message.
pub fn refused(
    context: &Context<'_>,
    plan: &Plan<'_>,
    bound: &Bound<'_>,
    (uid, pointer): (i64, *mut c_void),
) -> Result<(), Failure> {
    match execute_with(plan, bound, (uid, pointer)) {
        Err(Failure(words)) if words.contains(&format!("the buffer of tensor {uid} is at {pointer:?}")) => {}
        Err(failure) => return Err(Failure(format!("tensor {uid}: {failure}"))),
        Ok(()) => return Err(Failure(format!("tensor {uid} at {pointer:?} is taken"))),
    }
    Ok(context.gpu().synchronize()?)
}

fn host(context: &Context<'_>) -> Result<Outcome, Failure> {
    let backend = context.open()?;
    let mut refusals = 0;
    for Subject { engine, case } in subjects(context)? {
        let named = |failure| Failure(format!("{engine}: {}: {failure}", case.name));
        let plan = backend.plan(engine, &case.graph, &case.knobs).map_err(named)?;
        let bound = case.bind(context.gpu(), plan.workspace_size)?;
        let mut bytes = vec![0_u8; 1 << 20];
        // Heap memory, and an unmapped address.
        for pointer in [bytes.as_mut_ptr().cast::<c_void>(), with_exposed_provenance_mut(0x1000)] {
            for (uid, _) in bound.tensors() {
                refused(context, &plan, &bound, (uid, pointer)).map_err(named)?;
                refusals += 1;
            }
        }
        // SAFETY: the tensors live until the work is waited for.
        unsafe { bound.execute(&plan) }.map_err(named)?;
        context.gpu().synchronize()?;
        case.compare(&case.run_on_host(&backend)?, &bound.results()?, &plan).map_err(named)?;
    }
    Ok(Outcome::Passed(format!("{refusals} refusals")))
}

/// Memory of one kind.
struct Memory<'a> {
    context: &'a Context<'a>,
    kind: &'static str,
    pointer: *mut c_void,
    _bytes: Vec<u8>,
}

impl<'a> Memory<'a> {
    fn new(context: &'a Context<'a>, kind: &'static str, size: usize) -> Result<Self, Failure> {
        let _entered = context.device.enter()?;
        let (mut address, mut pointer, mut bytes) = (0_u64, null_mut(), Vec::new());
        let driver = context.driver;
        // SAFETY: the functions write only to the locals `address` and `pointer`, and registered bytes live as long as this.
        let answer = unsafe {
            match kind {
                "managed" => (driver.cuMemAllocManaged)(&mut address, size, ATTACH_GLOBAL),
                "pinned" => (driver.cuMemHostAlloc)(&mut pointer, size, 0),
                "pool" => (driver.cuMemAllocAsync)(&mut address, size, null_mut()),
                _ => {
                    bytes.resize(size, 0_u8);
                    pointer = bytes.as_mut_ptr().cast();
                    (driver.cuMemHostRegister_v2)(pointer, size, 0)
                }
            }
        };
        context.check(kind, answer)?;
        if pointer.is_null() {
            pointer = with_exposed_provenance_mut(address as usize);
        }
        Ok(Self { context, kind, pointer, _bytes: bytes })
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let driver = self.context.driver;
        // SAFETY: this owns the memory, of this kind; work that uses it is done.
        unsafe {
            match self.kind {
                "pinned" => (driver.cuMemFreeHost)(self.pointer),
                "registered" => (driver.cuMemHostUnregister)(self.pointer),
                _ => (self.context.cuda.cuMemFree_v2)(self.pointer.expose_provenance() as u64),
            }
        };
    }
}

fn kinds(context: &Context<'_>) -> Result<Outcome, Failure> {
    let backend = context.open()?;
    let mut executions = 0;
    for Subject { engine, case } in subjects(context)? {
        let expected = case.run_on_host(&backend)?;
        let plan = backend.plan(engine, &case.graph, &case.knobs)?;
        for kind in ["managed", "registered", "pinned", "pool"] {
            let named = |failure| Failure(format!("{engine}: {}: {kind}: {failure}", case.name));
            let mut memory = Vec::new();
            let got = case.run_in_memory(&plan, context.gpu(), |size| {
                memory.push(Memory::new(context, kind, size)?);
                context.gpu().synchronize()?;
                Ok(memory.last().map_or(null_mut(), |memory| memory.pointer))
            });
            case.compare(&expected, &got.map_err(named)?, &plan).map_err(named)?;
            executions += 1;
        }
    }
    Ok(Outcome::Passed(format!("{executions} executions")))
}
