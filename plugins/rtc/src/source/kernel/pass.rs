//! The loop of a pass over a row: what is loaded, computed and stored for each element.

use std::collections::BTreeSet;

use super::{Pass, Writer, sum};
use crate::source::value::{Origin, Place, element};

impl Writer<'_> {
    /// An element converted to a value.
    pub(super) fn loaded(&self, access: usize, offset: &str, real: &str) -> String {
        let argument = self.argument_of[access];
        let tag = self.tag(access);
        match self.accesses[access].place {
            Place::Offset => format!("({real})({offset})"),
            Place::Argument(_) => format!("({real}){tag}::load({tag}::store(a{argument}))"),
            Place::Memory(_) => format!("({real}){tag}::load(a{argument}[{offset}])"),
        }
    }

    pub(super) fn stored(&self, access: usize, offset: &str, value: usize) -> String {
        format!("a{}[{offset}] = {}::store(v{value});", self.argument_of[access], self.tag(access))
    }

    pub(super) fn tag(&self, access: usize) -> &'static str {
        element(self.accesses[access].data_type).unwrap_or_default()
    }

    fn is_vector(&self, access: usize) -> bool {
        self.walk.vector(access, &self.accesses[access]).is_some()
    }

    /// The vector type of an access, for the elements that a thread takes at once.
    pub(super) fn pack(&self, access: usize) -> String {
        format!("pack<{}, {}>", self.tag(access), self.walk.lanes)
    }

    /// The access from whose vectors a value is loaded, if any.
    pub(super) fn pack_of(&self, value: usize) -> Option<usize> {
        match self.group.values[value].origin {
            Origin::Load(access) => Some(access).filter(|access| self.is_vector(*access)),
            _ => None,
        }
    }

    /// One pass over this thread's elements; the loop is unrolled only for few elements.
    pub(super) fn pass(&mut self, pass: &Pass, kept: &BTreeSet<usize>, is_unrolled: bool) {
        let walk = self.walk;
        for value in &pass.reduces {
            if let Origin::Reduce { start, .. } = self.group.values[*value].origin {
                let real = self.group.values[*value].real;
                self.line(format!("{} s{value} = {};", real.name(), real.literal(start)));
            }
        }
        let items = walk.elements.count() / walk.lanes;
        let mut item = "lane".to_owned();
        if walk.reduces {
            self.line(if is_unrolled { "#pragma unroll" } else { "#pragma unroll 4" });
            self.line(format!("for (int k = 0; k < {}; k++) {{", walk.rounds));
            self.indent += 1;
            item = format!("k * {}u + lane", walk.threads);
        }
        // Threads beyond the end load the first element, so that no branch keeps loads from overlapping.
        let taken = walk.threads * if walk.reduces { walk.rounds } else { walk.grid() };
        let mut guards = Vec::new();
        if taken == items {
            self.line(format!("const index_t item = {item};"));
        } else {
            self.line(format!("const bool inside = {item} < {items}u;"));
            self.line(format!("const index_t item = inside ? {item} : 0u;"));
            guards.push("inside");
        }
        let first = if walk.lanes == 1 { "item".to_owned() } else { format!("item * {}u", walk.lanes) };
        self.split(&first, &walk.elements, "e");
        self.elements(pass, kept, &mut guards);
        if walk.reduces {
            self.indent -= 1;
            self.line("}");
        }
    }

    /// Processes the elements that a thread takes at once.
    fn elements(&mut self, pass: &Pass, kept: &BTreeSet<usize>, guards: &mut Vec<&str>) {
        let walk = self.walk;
        let first_store = self.group.accesses.len();
        let loads: Vec<usize> = pass
            .computed
            .iter()
            .flat_map(|value| match &self.group.values[*value].origin {
                Origin::Load(access) => std::slice::from_ref(access),
                Origin::Gather { indices, .. } => indices,
                _ => &[],
            })
            .copied()
            .collect();
        let stores: Vec<usize> = pass.stores.iter().map(|store| first_store + store).collect();
        for access in loads.iter().chain(&stores) {
            let base = if walk.reduces { format!("b{access} + ") } else { String::new() };
            let offset = sum(&walk.elements, *access, "e");
            self.line(format!("const index_t o{access} = {base}{offset};"));
        }
        let round = if walk.reduces { "k" } else { "0" };
        for value in &pass.computed {
            if let Some(access) = self.pack_of(*value) {
                let pack = self.pack(access);
                let own = if kept.contains(value) {
                    format!("p{access}[{round}]")
                } else {
                    format!("const {pack} p{access}")
                };
                self.line(format!("{own} = *(const {pack} *)(a{} + o{access});", self.argument_of[access]));
            }
        }
        for (place, access) in pass.stores.iter().zip(&stores) {
            if self.is_vector(*access) {
                let real = self.group.values[self.group.stores[*place].value].real.name();
                self.line(format!("{real} w{access}[{}];", walk.lanes));
            }
        }
        self.strips(pass);
        if walk.lanes > 1 {
            self.line("#pragma unroll");
            self.line(format!("for (int i = 0; i < {}; i++) {{", walk.lanes));
            self.indent += 1;
        }
        let lane = if walk.lanes > 1 { "i" } else { "0" };
        for value in pass.fetched.union(&pass.computed) {
            let own = &self.group.values[*value];
            let real = own.real.name();
            let text = match &own.origin {
                Origin::Load(access) if self.is_vector(*access) => {
                    let round = if kept.contains(value) { format!("[{round}]") } else { String::new() };
                    format!("({real})p{access}{round}.at(i)")
                }
                _ if pass.fetched.contains(value) => format!("k{value}[{round}][{lane}]"),
                Origin::Load(access) => self.loaded(*access, &self.lane_offset(*access), real),
                Origin::Compute { text, .. } => text.clone(),
                Origin::Gather { .. } if self.group.strip.is_some() => format!("g{value}[i]"),
                Origin::Gather { whole, indices, .. } => {
                    let tensors = whole.iter().map(|(_, access)| format!("a{}", self.argument_of[*access]));
                    let indices = indices.iter().map(|access| format!("o{access}"));
                    let arguments: Vec<String> = tensors.chain(indices).collect();
                    format!("{}_v{value}({})", self.name, arguments.join(", "))
                }
                Origin::Reduce { .. } => continue,
            };
            self.line(format!("const {real} v{value} = {text};"));
            if kept.contains(value) && !pass.fetched.contains(value) && self.pack_of(*value).is_none() {
                self.line(format!("k{value}[{round}][{lane}] = v{value};"));
            }
        }
        for value in &pass.reduces {
            if let Origin::Reduce { join, input, .. } = self.group.values[*value].origin {
                let name = self.group.name(input, self.group.values[*value].real);
                let inside = if guards.is_empty() { "" } else { "if (inside) " };
                self.line(format!("{inside}s{value} = {join}::of(s{value}, {name});"));
            }
        }
        if !self.all_active() {
            guards.push("active");
        }
        let guard = if guards.is_empty() { String::new() } else { format!("if ({}) ", guards.join(" && ")) };
        for (place, access) in pass.stores.iter().zip(&stores) {
            let value = self.group.stores[*place].value;
            let text = if self.is_vector(*access) {
                format!("w{access}[i] = v{value};")
            } else {
                format!("{guard}{}", self.stored(*access, &self.lane_offset(*access), value))
            };
            self.line(text);
        }
        if walk.lanes > 1 {
            self.indent -= 1;
            self.line("}");
        }
        for access in &stores {
            if self.is_vector(*access) {
                let (pack, argument) = (self.pack(*access), self.argument_of[*access]);
                self.line(format!("{guard}*({pack} *)(a{argument} + o{access}) = {pack}::of(w{access});"));
            }
        }
    }

    /// The numbers that are gathered in strips.
    fn strips(&mut self, pass: &Pass) {
        let Some(strip) = &self.group.strip else { return };
        for value in &pass.computed {
            let own = &self.group.values[*value];
            let Origin::Gather { whole, indices, .. } = &own.origin else { continue };
            let tensors = whole.iter().map(|(name, access)| match *name {
                "w" => format!("staged_v{value}"),
                _ => format!("a{}", self.argument_of[*access]),
            });
            let indices = indices.iter().map(|access| format!("o{access}"));
            let arguments: Vec<String> = tensors.chain(indices).collect();
            let call = format!("{}_v{value}(g{value}, {});", self.name, arguments.join(", "));
            self.line(format!("{} g{value}[{}];", own.real.name(), strip.count));
            self.line(call);
        }
    }

    fn lane_offset(&self, access: usize) -> String {
        match (self.walk.lanes, self.walk.elements.innermost(access)) {
            (1, _) | (_, 0) => format!("o{access}"),
            (_, 1) => format!("o{access} + i"),
            (_, stride) => format!("o{access} + i * {stride}u"),
        }
    }
}
