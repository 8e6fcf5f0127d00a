//! Splits a kernel with few long rows into several, so that workgroups share a row.
//!
//! For each pass over the rows, one kernel reduces parts of them and a second one combines the partial
//! results, both in an order determined by the dims alone; a last kernel computes the elements from the
//! results. Tensors in the workspace connect them.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the rank of the domain, and numbers are named by the places they were given"
)]

use std::collections::BTreeMap;

use hipdnn_plugin_lowering::spelling::unused;
use hipdnn_plugin_planner::layout::MAX_RANK;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Tensor};

use super::group::{Domain, Group, MAX_TENSORS, access};
use super::kernel::walk;
use super::value::{Access, Level, Origin, Place, Real, Store, Value};
use crate::Refusal;

/// Up to this many workgroups leave so much of a device idle that further kernels are worthwhile.
const FEW: usize = 32;
/// Minimum number of elements per such workgroup.
const LONG: usize = 1 << 16;
/// Number of workgroups that keep a device busy.
const WANTED: usize = 512;
/// Minimum number of elements of a part of a row.
const PART: usize = 1 << 12;
/// Minimum number of parts that makes up for reading the elements again.
const PARTS: usize = 4;
/// Maximum vector length, if it divides the length of a part.
const LANES: usize = 8;

/// The kernels that replace one kernel: itself, unless its rows are few and long.
///
/// # Errors
/// When a tensor that connects them would be too large.
pub fn split(group: Group, graph: &mut Graph) -> Result<Vec<Group>, Refusal> {
    let Some(cut) = Cut::of(&group) else { return Ok(vec![group]) };
    let needed = group.needed();
    let last = needed.iter().map(|value| group.values[*value].pass).max().unwrap_or(0);
    let is_row = |value: usize| group.values[value].level == Level::Row && group.values[value].pass > 0;
    // A row value that is also read by another kernel than the one that computes it.
    let is_shared = |value: &usize| {
        let pass = group.values[*value].pass;
        let mut readers = needed.iter().filter(|reader| group.inputs(**reader).contains(value));
        is_row(*value) && readers.any(|reader| !is_row(*reader) || group.values[*reader].pass > pass)
    };
    let shared: Vec<usize> = needed.iter().copied().filter(is_shared).collect();
    let is_joined = |value: &usize| matches!(group.values[*value].origin, Origin::Reduce { .. });
    let joined: Vec<usize> = needed.iter().copied().filter(is_joined).collect();
    if group.tensors + shared.len() + joined.len() > MAX_TENSORS {
        return Ok(vec![group]);
    }
    let mut tensors = |values: &[usize], dims: &[usize]| -> Result<BTreeMap<usize, Access>, Refusal> {
        values.iter().map(|value| Ok((*value, between(graph, dims, group.values[*value].real)?))).collect()
    };
    let whole = tensors(&shared, &group.domain.rows().unwrap_or_default())?;
    let parts = tensors(&joined, &cut.parts().dims)?;

    let divided = cut.divided(&group);
    let stores = |wanted: &dyn Fn(Level, usize) -> bool| -> Vec<Store> {
        let is_wanted = |store: &&Store| {
            let value = &group.values[store.value];
            wanted(value.level, value.pass)
        };
        divided.stores.iter().filter(is_wanted).cloned().collect()
    };
    let mut kernels = Vec::new();
    for pass in 0..last {
        let is_of_pass = |value: &&usize| group.values[**value].pass == pass + 1;
        let mut of_elements = stores(&|level, own| level == Level::Element && own == pass);
        let mut of_rows =
            stores(&|level, own| level == Level::Row && (own == pass + 1 || own == 0 && pass == 0));
        of_rows.extend(shared.iter().filter(is_of_pass).map(|value| store(*value, &whole[value])));
        let mut joins = divided.clone();
        for value in joined.iter().filter(is_of_pass) {
            of_elements.push(store(*value, &parts[value]));
            joins.accesses.push(parts[value].clone());
            let part = joins.values.len();
            joins.values.push(Value {
                level: Level::Element,
                real: group.values[*value].real,
                pass: 0,
                origin: Origin::Load(joins.accesses.len() - 1),
            });
            if let Origin::Reduce { input, .. } = &mut joins.values[*value].origin {
                *input = part;
            }
        }
        kernels.push(kernel(&divided, cut.elements(), &whole, pass, of_elements));
        kernels.push(kernel(&joins, cut.parts(), &whole, pass, of_rows));
    }
    let of_elements = group.stores.iter().filter(|store| {
        let value = &group.values[store.value];
        value.level == Level::Element && value.pass == last
    });
    let of_elements: Vec<Store> = of_elements.cloned().collect();
    if !of_elements.is_empty() {
        let domain = Domain { dims: group.domain.dims.clone(), reduced: None };
        kernels.push(kernel(&group, domain, &whole, last, of_elements));
    }
    Ok(kernels)
}

/// Adds a dense tensor in the workspace to the graph. It is broadcast along dims of 1.
fn between(graph: &mut Graph, dims: &[usize], real: Real) -> Result<Access, Refusal> {
    let dims: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
    let data_type = if real == Real::Double { DataType::Double } else { DataType::Float };
    let uid = unused(graph);
    let tensor = Tensor { is_virtual: true, ..Tensor::packed(uid, data_type, &dims) };
    let mut spread = [0; MAX_RANK];
    for (axis, (dim, stride)) in tensor.dims.iter().zip(&tensor.strides).enumerate() {
        spread[axis] = if *dim == 1 { 0 } else { *stride as usize };
    }
    let access = access(&tensor, Place::Memory(uid), spread)?;
    graph.tensors.push(tensor);
    Ok(access)
}

fn store(value: usize, access: &Access) -> Store {
    let uid = if let Place::Memory(uid) = access.place { uid } else { -1 };
    Store { uid, value, access: access.clone() }
}

/// The kernel for these stores of a group's values, after this many passes whose row values are in tensors.
fn kernel(
    group: &Group,
    domain: Domain,
    rows: &BTreeMap<usize, Access>,
    passes: usize,
    stores: Vec<Store>,
) -> Group {
    let has_rows = domain.reduced.is_some();
    let mut kernel = Group::new(domain);
    kernel.tensors = group.tensors;
    kernel.nodes.clone_from(&group.nodes);
    kernel.values.clone_from(&group.values);
    kernel.stores = stores;
    let mut accesses = group.accesses.clone();
    for (value, access) in rows {
        let own = &mut kernel.values[*value];
        if own.pass <= passes {
            (own.level, own.origin) = (Level::Element, Origin::Load(accesses.len()));
            accesses.push(access.clone());
        }
    }
    let needed = kernel.needed();
    for value in 0..kernel.values.len() {
        let (earlier, own) = kernel.values.split_at_mut(value);
        let Some(own) = own.first_mut() else { continue };
        own.pass = 0;
        if !needed.contains(&value) {
            // It keeps its index, because texts refer to values by index.
            own.origin = Origin::Compute { text: String::new(), inputs: Vec::new() };
        }
        match &mut own.origin {
            Origin::Load(access) => {
                kernel.accesses.push(accesses[*access].clone());
                *access = kernel.accesses.len() - 1;
            }
            Origin::Compute { inputs, .. } => {
                own.pass = inputs.iter().map(|input| earlier[*input].pass).max().unwrap_or(0);
                // Without rows, values that depend on them are per element.
                if !has_rows && !inputs.is_empty() {
                    own.level = Level::Element;
                }
            }
            Origin::Reduce { .. } => own.pass = 1,
            Origin::Gather { .. } => {}
        }
    }
    kernel
}

/// How rows are divided: along whole axes, and along one axis that is split.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// The domain, with the inner half of a split axis appended.
    dims: Vec<usize>,
    /// The axes that extend within a part of a row.
    inner: Vec<bool>,
    /// The axes that enumerate the parts.
    outer: Vec<bool>,
    /// The axis that is split, if any.
    axis: Option<usize>,
}

impl Cut {
    fn of(group: &Group) -> Option<Self> {
        let reduced = group.domain.reduced.as_ref()?;
        let (_, walk) = walk(group);
        let length = walk.elements.count();
        if group.gathers() || walk.grid() > FEW || length.saturating_mul(walk.rows_at_once) < LONG {
            return None;
        }
        let wanted = (WANTED / walk.grid()).min(length / PART);
        let dims = &group.domain.dims;
        // Outermost in memory first.
        let distance = |axis: &usize| group.accesses.iter().map(|access| access.strides[*axis]).max();
        let mut axes: Vec<usize> = (0..dims.len()).filter(|axis| reduced[*axis] && dims[*axis] > 1).collect();
        axes.sort_by_key(|axis| std::cmp::Reverse(distance(axis)));
        let mut cut =
            Self { dims: dims.clone(), inner: reduced.clone(), outer: vec![false; dims.len()], axis: None };
        let mut parts = 1;
        for axis in axes {
            let more = wanted / parts;
            if more < 2 {
                break;
            }
            if dims[axis] <= more {
                (cut.inner[axis], cut.outer[axis]) = (false, true);
                parts *= dims[axis];
                continue;
            }
            let count = divisor(dims[axis], more);
            if count > 1 && dims.len() < MAX_RANK {
                cut.dims[axis] /= count;
                cut.dims.push(count);
                cut.inner.push(false);
                cut.outer.push(true);
                cut.axis = Some(axis);
                parts *= count;
            }
            break;
        }
        (parts >= PARTS).then_some(cut)
    }

    /// The domain for reducing the elements of each part.
    fn elements(&self) -> Domain {
        Domain { dims: self.dims.clone(), reduced: Some(self.inner.clone()) }
    }

    /// The domain for combining the parts of each row.
    fn parts(&self) -> Domain {
        let of_parts = |(dim, inner): (&usize, &bool)| if *inner { 1 } else { *dim };
        let dims = self.dims.iter().zip(&self.inner).map(of_parts).collect();
        Domain { dims, reduced: Some(self.outer.clone()) }
    }

    /// A group with its loads and stores mapped to the divided domain.
    fn divided(&self, group: &Group) -> Group {
        let mut divided = group.clone();
        if let Some(axis) = self.axis {
            let stores = divided.stores.iter_mut().map(|store| &mut store.access);
            for access in divided.accesses.iter_mut().chain(stores) {
                access.strides[self.dims.len() - 1] = access.strides[axis] * self.dims[axis];
            }
        }
        divided
    }
}

/// The largest divisor of a dim that is at most `most`; if possible a multiple of the vector length.
fn divisor(dim: usize, most: usize) -> usize {
    let fits = |count: &usize| dim.is_multiple_of(*count);
    let whole = |count: &usize| (dim / count).is_multiple_of(LANES);
    let divisors = || (2..=most).rev().filter(fits);
    divisors().find(whole).or_else(|| divisors().next()).unwrap_or(1)
}

#[cfg(test)]
mod tests;
