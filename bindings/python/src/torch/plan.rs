//! Plans of calls, and their execution with PyTorch's tensors.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use hipdnn::{Engine, EngineConfig, EngineInfo, ExecutionPlan, Handle, KnobSetting, KnobValue, VariantPack};

use super::arguments::{Argument, dtype};
use super::functions::Functions;
use super::owned::{NotComputed, Owned};
use super::recipe::{Answer, CopyTo, Made, Reason, Recipe, Target, size_of};
use super::workspace::Workspace;
use crate::device::{Place, Stream};
use crate::forks::Lock;
use crate::session::Session;

/// A plan for equal calls.
pub struct CallPlan {
    plan: ExecutionPlan,
    session: Arc<Session>,
    place: Place,
    device: (i32, i32),
    inputs: Vec<(i64, usize)>,
    outputs: Vec<(i64, Target)>,
    made: Vec<Made>,
    answers: Vec<Answer>,
    copies: Vec<(usize, CopyTo)>,
    sums: Vec<usize>,
    workspace: usize,
    /// The workspace bytes besides the engine's: outputs of the graph that PyTorch does not get.
    aside: usize,
    pub engine: String,
    /// The last bound pack.
    bound: Lock<Option<Bound>>,
}

struct Bound {
    addresses: Vec<(i64, *mut c_void)>,
    workspace: *mut c_void,
    pack: VariantPack,
}

// SAFETY: the addresses are compared, and used only through the pack of an execution whose tensors are alive.
unsafe impl Send for Bound {}

/// The alignment of parts of a workspace.
const PART: usize = 256;

impl CallPlan {
    /// Plans a recipe, following PyTorch's switches.
    pub fn new(
        session: &Arc<Session>,
        recipe: Recipe,
        place: Place,
        switches: Switches,
    ) -> Result<Self, Reason> {
        let device = recipe.device();
        let mut engine_name = String::new();
        let planned = session.plan(place, |handle| {
            let graph = recipe.graph.build(handle)?;
            let engines = handle.engines()?;
            // Generated kernels compute each element in one thread, which is slower than PyTorch for products and convolutions.
            let is_slow =
                |engine: &EngineInfo| switches.is_product && engine.is_generated() && !switches.is_invariant;
            let offered = graph.offer()?;
            let fitting = offered.engines.iter().filter_map(|id| {
                let engine = engines.iter().find(|engine| engine.id == *id)?;
                let fits = engine.is_of_host() == (place == Place::Host) && !is_slow(engine);
                (fits && !engine.is_reference()).then_some(engine)
            });
            let (mut found, mut lacking) = (None, offered.reasons);
            for info in fitting {
                let engine = Engine::new(&graph, info.id)?;
                match switches.settings(&engine)? {
                    Some(settings) => {
                        found = Some((engine, settings));
                        engine_name.clone_from(&info.name);
                        break;
                    }
                    None => lacking = format!("{}: has no knob {BATCH_INVARIANT}", info.name),
                }
            }
            let Some((engine, settings)) = found else { return Ok(Err(lacking)) };
            let plan = ExecutionPlan::new(&EngineConfig::new(&engine, &settings)?)?;
            let workspace = plan.workspace_size()?;
            Ok(Ok((plan, workspace)))
        });
        let (plan, workspace) = match planned {
            Ok(Ok(planned)) => planned,
            Ok(Err(reasons)) if reasons.is_empty() => return Err("no engine computes it faster".to_owned()),
            Ok(Err(reasons)) => return Err(reasons),
            Err(error) => return Err(error.to_string()),
        };
        let aside = recipe.outputs.iter().map(|(_, target)| target.aside()).sum();
        let Recipe { inputs, outputs, made, answers, copies, sums, .. } = recipe;
        let session = Arc::clone(session);
        let (engine, bound) = (engine_name, Lock::default());
        Ok(Self {
            plan,
            session,
            place,
            device,
            inputs,
            outputs,
            made,
            answers,
            copies,
            sums,
            workspace,
            aside,
            engine,
            bound,
        })
    }

    /// Describes the plan as JSON, if its plugin does.
    pub fn description(&self) -> Option<String> {
        self.plan.description().ok()
    }

    /// Computes a call and returns its results. The caller still owns the arguments.
    ///
    /// # Safety
    /// The tensors are alive, and match those that the plan was made for.
    pub unsafe fn run(
        &self,
        f: &Functions,
        tensors: &[Argument],
        momentum: f64,
    ) -> Result<Vec<u64>, NotComputed> {
        let made = self.make(f)?;
        let stream = self.stream(f)?;
        let mut workspace = Workspace::new(f, self.workspace + self.aside, self.device)
            .ok_or_else(|| NotComputed("no memory for a workspace".to_owned()))?;
        let addresses = self.addresses(tensors, &made, workspace.address())?;
        // SAFETY: the tensors are alive and have the plan's layouts, and the workspace has the plan's size.
        unsafe { self.execute(&addresses, workspace.address(), stream) }?;
        let written = addresses.iter().skip(self.inputs.len());
        for ((_, target), (_, from)) in self.outputs.iter().zip(written) {
            if let Target::Moved { count, dtype, to } = target
                && let Some(to) = tensors.get(*to)
            {
                // SAFETY: the plan has just written this many elements, and was made for a tensor of as many of the same type.
                unsafe { advance(*from, to.data, *count, *dtype, momentum) };
            }
        }
        for at in &self.sums {
            if let (Some(of), Some(about)) = (made.get(*at), self.made.get(*at)) {
                let count = about.dims.iter().product::<i64>();
                // SAFETY: the tensor was made with this many floats in host memory, without gaps, and nothing else has it yet.
                unsafe { settle(of.data, usize::try_from(count).unwrap_or(0)) };
            }
        }
        for (from, to) in &self.copies {
            let to = match to {
                CopyTo::Made(at) => made.get(*at).map(Owned::handle),
                CopyTo::Given(at) => tensors.get(*at).map(|of| of.handle),
            };
            if let (Some(from), Some(to)) = (made.get(*from), to) {
                // SAFETY: the tensors are alive, those of the call as this function requires.
                unsafe { from.copy_to(to) }?;
            }
        }
        workspace.done();
        self.answer(f, made, tensors)
    }

    /// The new tensors.
    fn make<'a>(&self, f: &'a Functions) -> Result<Vec<Owned<'a>>, NotComputed> {
        self.made.iter().map(|made| Owned::new(f, made, self.device)).collect()
    }

    fn stream(&self, f: &Functions) -> Result<Stream, NotComputed> {
        if self.place == Place::Host {
            return Ok(Stream::default());
        }
        let mut stream = ptr::null_mut();
        let current = f.stream.ok_or_else(|| NotComputed("PyTorch reported no stream".to_owned()))?;
        // SAFETY: the function writes only to the local `stream`.
        if unsafe { current(self.device.1, &raw mut stream) } != 0 {
            return Err(NotComputed(f.error()));
        }
        Ok(Stream::new(stream.addr()))
    }

    /// The address of each tensor of the graph.
    fn addresses(
        &self,
        tensors: &[Argument],
        made: &[Owned],
        workspace: *mut c_void,
    ) -> Result<Vec<(i64, *mut c_void)>, NotComputed> {
        let absent = || NotComputed("a tensor is missing".to_owned());
        let mut addresses = Vec::with_capacity(self.inputs.len() + self.outputs.len());
        for (uid, at) in &self.inputs {
            addresses.push((*uid, tensors.get(*at).ok_or_else(absent)?.data));
        }
        let mut offset = self.workspace.next_multiple_of(PART);
        for (uid, target) in &self.outputs {
            let address = match target {
                Target::Made(at) => made.get(*at).ok_or_else(absent)?.data,
                Target::Given(at) => tensors.get(*at).ok_or_else(absent)?.data,
                Target::Moved { .. } => workspace.wrapping_byte_add(offset),
            };
            offset += target.aside();
            addresses.push((*uid, address));
        }
        Ok(addresses)
    }

    /// # Safety
    /// The memory belongs to the plan's tensors, and to a workspace.
    unsafe fn execute(
        &self,
        addresses: &[(i64, *mut c_void)],
        workspace: *mut c_void,
        stream: Stream,
    ) -> Result<(), NotComputed> {
        let failed = |error: hipdnn::Error| NotComputed(error.to_string());
        let _entered = self.place.enter(stream).map_err(|error| NotComputed(error.to_string()))?;
        let before = self.bound.lock().take();
        let bound = match before {
            Some(bound) if bound.addresses == addresses && bound.workspace == workspace => bound,
            _ => {
                let pack = VariantPack::new(&self.session.backend, addresses, workspace).map_err(failed)?;
                Bound { addresses: addresses.to_vec(), workspace, pack }
            }
        };
        // SAFETY: the stream is PyTorch's current one, the memory the plan's, as this function requires; PyTorch reports captures itself.
        let done = unsafe {
            let is_captured = stream.is_captured(self.place);
            let execute = |handle: &Handle| self.plan.execute(handle, &bound.pack);
            self.session.execute(self.place, stream, is_captured, execute)
        };
        *self.bound.lock() = Some(bound);
        done.map_err(failed)
    }

    fn answer(&self, f: &Functions, made: Vec<Owned>, tensors: &[Argument]) -> Result<Vec<u64>, NotComputed> {
        let mut made: Vec<Option<Owned>> = made.into_iter().map(Some).collect();
        let mut answers = Vec::with_capacity(self.answers.len());
        for answer in &self.answers {
            answers.push(match answer {
                Answer::Made(at) => made.get_mut(*at).and_then(Option::take).map_or(0, Owned::give),
                Answer::Nothing => Owned::undefined(f)?.give(),
                Answer::Same(at) => tensors.get(*at).map_or(0, |of| of.handle.expose_provenance() as u64),
            });
        }
        Ok(answers)
    }

    /// The call's tensor that is also its result.
    pub fn same(&self) -> Option<usize> {
        self.answers.iter().find_map(|of| if let Answer::Same(at) = of { Some(*at) } else { None })
    }
}

impl Target {
    /// Its bytes in the workspace.
    fn aside(self) -> usize {
        match self {
            Self::Made(_) | Self::Given(_) => 0,
            Self::Moved { count, dtype, .. } => (count * size_of(dtype) + PART).next_multiple_of(PART),
        }
    }
}

/// Moves numbers towards others by the momentum, as running statistics move.
///
/// # Safety
/// `from` is readable and `to` writable for `count` numbers of the type, at any alignment, and they do not overlap.
unsafe fn advance(from: *const c_void, to: *mut c_void, count: usize, dtype: i32, momentum: f64) {
    let (new, old) = (momentum as f32, (1.0 - momentum) as f32);
    for at in 0..count {
        // SAFETY: both have `count` numbers of this type, as this function requires.
        unsafe {
            if dtype == dtype::DOUBLE {
                let (from, to) = (from.cast::<f64>().add(at), to.cast::<f64>().add(at));
                let moved = momentum * from.read_unaligned() + (1.0 - momentum) * to.read_unaligned();
                to.write_unaligned(moved);
            } else {
                let (from, to) = (from.cast::<f32>().add(at), to.cast::<f32>().add(at));
                to.write_unaligned(new * from.read_unaligned() + old * to.read_unaligned());
            }
        }
    }
}

/// Replaces -∞ by 0: PyTorch's gradient takes e^(score - sum), which is 0 for a row without keys only if the sum is finite.
///
/// # Safety
/// `sums` is readable and writable for `count` floats, at any alignment.
unsafe fn settle(sums: *mut c_void, count: usize) {
    for at in 0..count {
        // SAFETY: the memory has `count` floats, as this function requires.
        unsafe {
            let sum = sums.cast::<f32>().add(at);
            if sum.read_unaligned() == f32::NEG_INFINITY {
                sum.write_unaligned(0.0);
            }
        }
    }
}

/// What a plan depends on besides the call.
#[derive(Clone, Copy)]
pub struct Switches {
    /// Whether it is a matrix product or convolution.
    pub is_product: bool,
    pub is_exact: bool,
    /// Whether an item of a batch must have the same bits in every batch.
    pub is_invariant: bool,
}

/// The knob that keeps an item's bits independent of its batch.
const BATCH_INVARIANT: &str = "batch_invariant";

impl Switches {
    /// The knobs of an engine's plan; `None` if it lacks one that results need.
    fn settings(self, engine: &Engine) -> hipdnn::Result<Option<Vec<KnobSetting>>> {
        let wanted = [(self.is_exact, "cudnn.deterministic"), (self.is_invariant, BATCH_INVARIANT)];
        if wanted.iter().all(|(is_wanted, _)| !is_wanted) {
            return Ok(Some(Vec::new()));
        }
        let known = engine.knobs()?;
        let has = |id: &str| known.iter().any(|knob| knob.id == id);
        let on = wanted.into_iter().filter(|(is_wanted, id)| *is_wanted && has(id));
        let on = on.map(|(_, id)| KnobSetting { id: id.to_owned(), value: KnobValue::Int(1) }).collect();
        Ok((!self.is_invariant || has(BATCH_INVARIANT)).then_some(on))
    }
}
