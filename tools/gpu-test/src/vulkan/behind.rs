//! Executions recorded behind one another, without a wait between them: cases take turns in the same memory of the device, into which
//! their tensors are copied before each and out of which after it. Work that began too early would meet another case's tensors.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;

use super::bench::{Functions, Memory, Place};
use super::plugin;
use crate::Failure;
use crate::backend::Plan;
use crate::case::Case;
use crate::memory::unpack;

/// Cases that take turns.
const TURNS: usize = 24;

/// What tensors are aligned to.
const ALIGNMENT: usize = 256;

/// A case that was right when it was computed alone.
struct Waiting<'a> {
    case: Case,
    plan: Plan<'a>,
    expected: HashMap<i64, Vec<f32>>,
}

/// Cases that wait for their turn.
pub struct Behind<'a> {
    functions: Functions,
    waiting: Vec<Waiting<'a>>,
}

impl Waiting<'_> {
    /// All tensors, one after the other.
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        for tensor in self.case.bound() {
            all.extend(self.case.bytes(tensor)?);
            all.resize(all.len().next_multiple_of(ALIGNMENT), 0);
        }
        Ok(all)
    }

    /// The results among them.
    fn results(&self, mut all: &[u8]) -> Result<HashMap<i64, Vec<f32>>, Failure> {
        let mut results = HashMap::new();
        for tensor in self.case.bound() {
            let count = self.case.bytes(tensor)?.len();
            let (own, rest) = all.split_at_checked(count.next_multiple_of(ALIGNMENT)).unwrap_or_default();
            results.insert(tensor.uid, unpack(tensor.data_type, own.get(..count).unwrap_or_default())?);
            all = rest;
        }
        Ok(results)
    }

    /// The tensors from an address on.
    fn tensors(&self, from: *mut c_void) -> Result<Vec<(i64, *mut c_void)>, Failure> {
        let mut offset = 0;
        let mut place = |count: usize| {
            let place = from.wrapping_byte_add(offset);
            offset += count.next_multiple_of(ALIGNMENT);
            place
        };
        self.case.bound().map(|tensor| Ok((tensor.uid, place(self.case.bytes(tensor)?.len())))).collect()
    }
}

impl<'a> Behind<'a> {
    /// For the plugin beside a library.
    pub fn new(library: &Path) -> Result<Self, Failure> {
        let functions = Functions::load_from(&[&*plugin(library)?]);
        let functions = functions.map_err(|error| Failure(error.to_string()))?;
        Ok(Self { functions, waiting: Vec::new() })
    }

    /// Adds a case with its plan. Returns which cases were wrong when there were enough of them to take turns.
    pub fn add(
        &mut self,
        case: Case,
        plan: Plan<'a>,
        expected: HashMap<i64, Vec<f32>>,
    ) -> Vec<(String, Failure)> {
        self.waiting.push(Waiting { case, plan, expected });
        if self.waiting.len() < TURNS { Vec::new() } else { self.run() }
    }

    /// Runs the cases that wait. Returns which were wrong.
    pub fn run(&mut self) -> Vec<(String, Failure)> {
        let waiting = std::mem::take(&mut self.waiting);
        let all: Vec<&Waiting<'_>> = waiting.iter().collect();
        let results = match self.turns(&all) {
            Ok(results) => results,
            Err(failure) => {
                let names: Vec<&str> = all.iter().map(|own| own.case.name.as_str()).collect();
                return vec![(names.join(", "), failure)];
            }
        };
        let wrong = |(own, result): (&&Waiting<'_>, Vec<u8>)| {
            let compared =
                own.results(&result).and_then(|got| own.case.compare(&own.expected, &got, &own.plan));
            let failure = compared.err()?;
            Some((own.case.name.clone(), Failure(format!("behind other executions: {failure}"))))
        };
        all.iter().zip(results).filter_map(wrong).collect()
    }

    /// The memory of each case after its turn.
    fn turns(&self, all: &[&Waiting<'_>]) -> Result<Vec<Vec<u8>>, Failure> {
        let place = Place::Vulkan(&self.functions);
        let (mut own, mut after, mut largest) = (Vec::new(), Vec::new(), ALIGNMENT);
        for waiting in all {
            let bytes = waiting.bytes()?;
            largest = largest.max(bytes.len());
            own.push(Memory::with(place, &bytes)?);
            after.push(Memory::new(place, bytes.len())?);
        }
        let shared = Memory::new(place, largest)?;
        let copy = |to: &Memory<'_>, from: &Memory<'_>, bytes: usize| {
            // SAFETY: both are memory of the device, and have as many bytes.
            match unsafe { (self.functions.hipdnnVulkanCopy_ext)(0, to.pointer, from.pointer, bytes) } {
                0 => Ok(()),
                status => Err(Failure(format!("hipdnnVulkanCopy_ext: status {status}"))),
            }
        };
        for ((waiting, own), after) in all.iter().zip(&own).zip(&after) {
            copy(&shared, own, own.bytes)?;
            // SAFETY: every tensor has its bytes in the shared memory, which lives until the device is done; plans need no workspace.
            unsafe { waiting.plan.execute(&waiting.tensors(shared.pointer)?, std::ptr::null_mut()) }?;
            copy(after, &shared, own.bytes)?;
        }
        after.iter().map(Memory::content).collect()
    }
}
