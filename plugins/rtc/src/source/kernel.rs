//! Generates the source of one kernel.

#![expect(
    clippy::indexing_slicing,
    reason = "numbers and accesses are named by their places, and each walk has strides for every access"
)]

mod pass;

use std::collections::BTreeSet;
use std::fmt::Write;

use hipdnn_plugin_planner::plan::StepTensors;
use hipdnn_plugin_sdk::Numerics;
use hipdnn_plugin_sdk::graph::DataType;

use super::group::Group;
use super::value::{Access, Level, Origin, Place, Real, Store, element};
use super::walk::{Axes, MANY, Walk};
use crate::Refusal;

/// Maximum number of 4-byte values that a thread keeps from one pass over its row to the next.
const MAX_KEPT: usize = 96;
/// Number of registers that a workgroup's threads share on all devices, and how many per thread are needed
/// otherwise.
const REGISTERS: usize = 1 << 16;
const OTHERS: usize = 24;

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The address of a tensor.
    Memory {
        /// The tensor.
        uid: i64,
        /// Required alignment of the address.
        alignment: usize,
    },
    /// The only element of a tensor, as a double.
    Number {
        /// The tensor.
        uid: i64,
        /// The type of the element.
        data_type: DataType,
    },
}

impl Argument {
    /// The tensor.
    pub fn uid(&self) -> i64 {
        match self {
            Self::Memory { uid, .. } | Self::Number { uid, .. } => *uid,
        }
    }
}

/// The source of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// The nodes that it computes.
    pub nodes: Vec<usize>,
    /// Its source text.
    pub text: String,
    /// What is passed to it.
    pub arguments: Vec<Argument>,
    /// Threads per workgroup.
    pub block: u32,
    /// Number of workgroups along the first axis of the grid.
    pub grid: u32,
    /// Along the second.
    pub down: u32,
    /// Bytes of shared memory that its source does not declare.
    pub shared: usize,
    /// Whether it needs the definitions of `hipdnn-kernels` instead of this crate's.
    pub is_tiled: bool,
    /// What it does to numbers, beside what its nodes do.
    pub numerics: Numerics,
}

impl Kernel {
    /// The tensors of the arguments.
    pub fn tensors(&self) -> StepTensors {
        self.arguments.iter().map(Argument::uid).collect::<Vec<_>>().into()
    }
}

/// A group's loads followed by its stores, and how its threads iterate over them.
pub(super) fn walk(group: &Group) -> (Vec<Access>, Walk) {
    let mut accesses = group.accesses.clone();
    accesses.extend(group.stores.iter().map(|store| store.access.clone()));
    let domain = &group.domain;
    let walk = match &group.strip {
        Some(strip) => Walk::in_strips(&domain.dims, &accesses, strip),
        // A gathering function is work enough for a thread.
        None => {
            let rows = group.batch_invariant.then_some(MANY);
            Walk::for_rows(rows, &domain.dims, domain.reduced.as_deref(), &accesses, group.gathers())
        }
    };
    (accesses, walk)
}

/// Writes the kernel of a group, whose stores are those that go to memory.
pub fn write(group: &Group, name: String) -> Result<Kernel, Refusal> {
    let (accesses, walk) = walk(group);
    let (block, grid) = (walk.block(), walk.grid());
    let fits = block.checked_mul(grid).and_then(|threads| u32::try_from(threads).ok());
    let (Ok(block), Ok(grid), Some(_)) = (u32::try_from(block), u32::try_from(grid), fits) else {
        return Err(format!("dims {:?} need more threads than can be launched at once", group.domain.dims));
    };
    let mut arguments = Vec::new();
    let mut argument_of = Vec::with_capacity(accesses.len());
    for (place, access) in accesses.iter().enumerate() {
        argument_of.push(argument(&mut arguments, access, walk.vector(place, access)));
    }
    let mut writer = Writer {
        name: &name,
        group,
        walk: &walk,
        accesses: &accesses,
        argument_of: &argument_of,
        text: String::new(),
        indent: 1,
    };
    writer.body();
    let (functions, body) = (writer.functions(), writer.text);
    let parameters = parameters(&arguments, &accesses, &group.stores)?;
    let mut text = format!("{functions}KERNEL({block}) {name}({parameters})\n{{\n");
    text.push_str(&body);
    text.push_str("}\n");
    Ok(Kernel {
        name,
        nodes: group.nodes.clone(),
        text,
        arguments,
        block,
        grid,
        down: 1,
        shared: 0,
        is_tiled: false,
        numerics: if walk.threads > 1 && walk.reduces {
            Numerics::default().parts(walk.threads as u32)
        } else {
            Numerics::default()
        },
    })
}

/// The index of an access among the arguments, for vectors of this many bytes or for single elements.
fn argument(arguments: &mut Vec<Argument>, access: &Access, vector: Option<usize>) -> usize {
    let bytes = vector.or_else(|| access.data_type.size()).unwrap_or(1);
    let wanted = match access.place {
        Place::Memory(uid) => Argument::Memory { uid, alignment: bytes },
        Place::Argument(uid) => Argument::Number { uid, data_type: access.data_type },
        Place::Offset => return usize::MAX,
    };
    for (place, known) in arguments.iter_mut().enumerate() {
        match (known, wanted) {
            (Argument::Memory { uid, alignment }, Argument::Memory { uid: same, .. }) if *uid == same => {
                *alignment = bytes.max(*alignment);
                return place;
            }
            (known, wanted) if *known == wanted => return place,
            _ => {}
        }
    }
    arguments.push(wanted);
    arguments.len() - 1
}

fn parameters(arguments: &[Argument], accesses: &[Access], stores: &[Store]) -> Result<String, Refusal> {
    let mut parameters = Vec::with_capacity(arguments.len());
    for (place, argument) in arguments.iter().enumerate() {
        parameters.push(match argument {
            Argument::Number { .. } => format!("double a{place}"),
            Argument::Memory { uid, .. } => {
                let access = accesses.iter().find(|access| access.place == Place::Memory(*uid));
                let tag = element(access.map_or(DataType::Unset, |access| access.data_type))?;
                let constant = if stores.iter().any(|store| store.uid == *uid) { "" } else { "const " };
                format!("{constant}{tag}::type *__restrict__ a{place}")
            }
        });
    }
    Ok(parameters.join(", "))
}

struct Writer<'a> {
    name: &'a str,
    group: &'a Group,
    walk: &'a Walk,
    /// Loads, then stores.
    accesses: &'a [Access],
    argument_of: &'a [usize],
    text: String,
    indent: usize,
}

/// One pass over the rows.
#[derive(Default)]
struct Pass {
    /// Values computed for each element.
    computed: BTreeSet<usize>,
    /// Values that an earlier pass kept.
    fetched: BTreeSet<usize>,
    /// Row values that it reduces.
    reduces: Vec<usize>,
    /// Indices of stores.
    stores: Vec<usize>,
}

impl Writer<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        for _ in 0..self.indent {
            self.text.push_str("    ");
        }
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    fn body(&mut self) {
        let needed = self.group.needed();
        let last = needed.iter().map(|value| self.group.values[*value].pass).max().unwrap_or(0);
        let (kept_passes, kept) = self.passes(&needed, last, true);
        let most = MAX_KEPT.min((REGISTERS / self.walk.block()).saturating_sub(OTHERS));
        let keeps = self.kept_words(&kept_passes) * self.walk.rounds <= most;
        let (passes, kept) = if keeps { (kept_passes, kept) } else { self.passes(&needed, last, false) };
        self.place();
        self.stage(&needed);
        for value in &kept {
            let (rounds, lanes) = (self.walk.rounds, self.walk.lanes);
            match self.pack_of(*value) {
                Some(access) => self.line(format!("{} p{access}[{rounds}];", self.pack(access))),
                None => {
                    let name = self.group.values[*value].real.name();
                    self.line(format!("{name} k{value}[{rounds}][{lanes}];"));
                }
            }
        }
        for real in [Real::Single, Real::Double] {
            let count = self.reductions(&needed, real).count();
            if count > 0 && self.walk.threads > 1 {
                let (name, shared) = (real.name(), self.shared(count));
                self.line(format!("__shared__ {name} shared_{name}[{shared}::all];"));
            }
        }
        for (number, pass) in passes.iter().enumerate() {
            self.rows(&needed, number);
            if !pass.reduces.is_empty() || !pass.stores.is_empty() {
                // A row may have any length if nothing is kept.
                self.pass(pass, &kept, keeps && self.walk.rounds <= most);
            }
        }
        self.rows(&needed, passes.len());
    }

    /// The needed row values of a type that reduce others.
    fn reductions<'b>(&'b self, needed: &'b BTreeSet<usize>, real: Real) -> impl Iterator<Item = usize> + 'b {
        let values = &self.group.values;
        needed.iter().copied().filter(move |value| {
            values[*value].real == real && matches!(values[*value].origin, Origin::Reduce { .. })
        })
    }

    /// Declares the shared memory for this many reductions.
    fn shared(&self, count: usize) -> String {
        let stride = if self.walk.along_row { 1 } else { self.walk.rows_at_once };
        format!("shared_words<{}, {stride}, {}, {count}>", self.walk.threads, self.walk.block())
    }

    /// Maximum number of 4-byte values kept between two passes, per `lanes` elements.
    fn kept_words(&self, passes: &[Pass]) -> usize {
        let words = |value: &usize| {
            let size = self.pack_of(*value).and_then(|access| self.accesses[access].data_type.size());
            let own = if self.group.values[*value].real == Real::Double { 8 } else { 4 };
            (size.unwrap_or(own) * self.walk.lanes).div_ceil(4)
        };
        let between = |end: usize| {
            let (before, after) = passes.split_at(end);
            let later: BTreeSet<usize> = after.iter().flat_map(|pass| &pass.fetched).copied().collect();
            let made = later.iter().filter(|value| before.iter().any(|pass| pass.computed.contains(value)));
            made.map(words).sum::<usize>()
        };
        (1..passes.len()).map(between).max().unwrap_or(0)
    }

    /// The gathering functions.
    fn functions(&self) -> String {
        let mut text = String::new();
        for value in self.group.needed() {
            let own = &self.group.values[value];
            let Origin::Gather { whole, indices, body } = &own.origin else { continue };
            let strip = self.group.strip.as_ref();
            let real = own.real.name();
            let tensors = whole.iter().map(|(name, access)| match *name {
                "w" if strip.is_some() => format!("const {real} *w"),
                name => format!("const {}::type *{name}", self.tag(*access)),
            });
            let indices = (0..indices.len()).map(|axis| format!("index_t i{axis}"));
            let out = strip.map(|_| format!("{real} *out"));
            let parameters: Vec<String> = out.into_iter().chain(tensors).chain(indices).collect();
            let result = if strip.is_some() { "void" } else { real };
            let _ = writeln!(text, "DEVICE {result} {}_v{value}({})", self.name, parameters.join(", "));
            let _ = writeln!(text, "{{\n{body}}}");
        }
        text
    }

    /// Brings the filters of strips to shared memory. All threads of a workgroup have the same channels.
    fn stage(&mut self, needed: &BTreeSet<usize>) {
        let Some(strip) = &self.group.strip else { return };
        for value in needed {
            let own = &self.group.values[*value];
            let Origin::Gather { whole, .. } = &own.origin else { continue };
            let Some((_, w)) = whole.iter().find(|(name, _)| *name == "w") else { continue };
            let of_channels = self.walk.elements.count() / self.walk.lanes / self.walk.elements.dims[0];
            let first = format!("lane / {of_channels}u * {}u", strip.channels);
            let (to, argument) = (format!("staged_v{value}"), format!("a{}", self.argument_of[*w]));
            let lines = strip.stage(&argument, self.tag(*w), &to, &first, own.real);
            self.line(format!("__shared__ {} {to}[{}];", own.real.name(), strip.staged()));
            lines.into_iter().for_each(|line| self.line(line));
        }
    }

    fn is_row(&self, value: usize) -> bool {
        match self.group.values[value].origin {
            Origin::Load(access) => self.walk.elements.repeats(access),
            _ => self.group.values[value].level == Level::Row,
        }
    }

    /// Whether a value is computed from a single other one by additions and multiplications, so that keeping
    /// that one is enough.
    fn is_cheap(&self, value: usize) -> bool {
        let Origin::Compute { text, inputs } = &self.group.values[value].origin else { return false };
        let inputs: BTreeSet<usize> = inputs.iter().copied().filter(|input| !self.is_row(*input)).collect();
        let calls = text.as_bytes().windows(2).any(|pair| pair[1] == b'(' && pair[0].is_ascii_alphanumeric());
        inputs.len() == 1 && !calls && !text.contains('/')
    }

    /// The passes, and the values that are kept for later ones.
    fn passes(&self, needed: &BTreeSet<usize>, last: usize, keeps: bool) -> (Vec<Pass>, BTreeSet<usize>) {
        let mut passes = Vec::new();
        let mut computed: BTreeSet<usize> = BTreeSet::new();
        let mut kept = BTreeSet::new();
        for number in 0..=last {
            let mut pass = Pass::default();
            let mut wanted = Vec::new();
            for value in needed {
                if let Origin::Reduce { input, .. } = self.group.values[*value].origin
                    && self.group.values[*value].pass == number + 1
                {
                    pass.reduces.push(*value);
                    wanted.push(input);
                }
            }
            for (place, store) in self.group.stores.iter().enumerate() {
                let value = &self.group.values[store.value];
                if value.level == Level::Element && value.pass == number {
                    pass.stores.push(place);
                    wanted.push(store.value);
                }
            }
            while let Some(value) = wanted.pop() {
                if self.is_row(value) || pass.computed.contains(&value) || pass.fetched.contains(&value) {
                    continue;
                }
                if keeps && computed.contains(&value) && !self.is_cheap(value) {
                    pass.fetched.insert(value);
                } else {
                    pass.computed.insert(value);
                    wanted.extend(self.group.inputs(value));
                }
            }
            computed.extend(&pass.computed);
            kept.extend(&pass.fetched);
            passes.push(pass);
        }
        (passes, kept)
    }

    /// Computes which rows and elements belong to this thread, and the rows' offsets.
    fn place(&mut self) {
        let walk = self.walk;
        let block = if self.group.backward {
            format!("({}u - blockIdx.x)", walk.grid().saturating_sub(1))
        } else {
            "blockIdx.x".to_owned()
        };
        if walk.reduces {
            let (threads, at_once) = (walk.threads, walk.rows_at_once);
            let (lane, row) = if walk.along_row {
                (format!("threadIdx.x % {threads}u"), format!("threadIdx.x / {threads}u"))
            } else {
                (format!("threadIdx.x / {at_once}u"), format!("threadIdx.x % {at_once}u"))
            };
            self.line(format!("const index_t lane = {lane};"));
            self.line(format!("const index_t row = {block} * {at_once}u + {row};"));
            if self.all_active() {
                self.split("row", &walk.rows, "r");
            } else {
                self.line(format!("const bool active = row < {}u;", walk.rows.count()));
                self.split("active ? row : 0u", &walk.rows, "r");
            }
            for access in 0..self.accesses.len() {
                let offset = sum(&walk.rows, access, "r");
                self.line(format!("const index_t b{access} = {offset};"));
            }
        } else {
            self.line(format!("const index_t lane = {block} * {}u + threadIdx.x;", walk.threads));
        }
    }

    /// Whether every thread of every workgroup has a row.
    fn all_active(&self) -> bool {
        !self.walk.reduces || self.walk.rows.count().is_multiple_of(self.walk.rows_at_once)
    }

    /// Splits a linear index into indices.
    fn split(&mut self, number: &str, axes: &Axes, letter: &str) {
        match axes.dims.as_slice() {
            [] => {}
            [_] => self.line(format!("const index_t {letter}0 = {number};")),
            dims => {
                self.line(format!("index_t {letter} = {number};"));
                for (axis, dim) in dims.iter().enumerate().skip(1).rev() {
                    self.line(format!("const index_t {letter}{axis} = {letter} % {dim}u;"));
                    self.line(format!("{letter} /= {dim}u;"));
                }
                self.line(format!("const index_t {letter}0 = {letter};"));
            }
        }
    }

    /// Computes the row values that are known after this many passes.
    fn rows(&mut self, needed: &BTreeSet<usize>, number: usize) {
        for value in needed {
            let own = &self.group.values[*value];
            if own.pass != number || !self.is_row(*value) {
                continue;
            }
            let real = own.real.name();
            let text = match &own.origin {
                Origin::Load(access) => {
                    let offset = if self.walk.reduces { format!("b{access}") } else { "0u".to_owned() };
                    self.loaded(*access, &offset, real)
                }
                Origin::Compute { text, .. } => text.clone(),
                Origin::Reduce { .. } if self.walk.threads == 1 => format!("s{value}"),
                // Gathered values are per element.
                Origin::Gather { .. } => continue,
                Origin::Reduce { join, .. } => {
                    let stride = if self.walk.along_row { 1 } else { self.walk.rows_at_once };
                    let threads = self.walk.threads;
                    let earlier =
                        self.reductions(needed, own.real).take_while(|other| other != value).count();
                    let place = format!("shared_{real} + {earlier} * {}::step", self.shared(1));
                    format!("across<{join}, {threads}, {stride}>(s{value}, {place}, lane)")
                }
            };
            self.line(format!("const {real} v{value} = {text};"));
        }
        for (place, store) in self.group.stores.iter().enumerate() {
            let value = &self.group.values[store.value];
            if value.level == Level::Row && value.pass == number {
                let access = self.group.accesses.len() + place;
                let text = self.stored(access, &format!("b{access}"), store.value);
                let active = if self.all_active() { "" } else { "active && " };
                self.line(format!("if ({active}lane == 0) {text}"));
            }
        }
    }
}

/// The offset of an access at the indices of these axes.
fn sum(axes: &Axes, access: usize, letter: &str) -> String {
    let mut text = String::new();
    for (axis, stride) in axes.strides[access].iter().enumerate() {
        if *stride > 0 {
            let plus = if text.is_empty() { "" } else { " + " };
            let factor = if *stride == 1 { String::new() } else { format!(" * {stride}u") };
            let _ = write!(text, "{plus}{letter}{axis}{factor}");
        }
    }
    if text.is_empty() { "0u".to_owned() } else { text }
}
