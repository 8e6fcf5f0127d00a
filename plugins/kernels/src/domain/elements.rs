//! Kernels without reductions: each thread computes elements side by side.

use super::axes::Axes;
use super::{Access, Origin, Place, Program, Scope, Written, declare, group, groups};
use crate::builder::Builder;
use crate::form::Index;
use crate::target::Target;

/// Threads of a workgroup.
const THREADS: u32 = 128;
/// Bytes of the largest vector.
pub(super) const VECTOR: usize = 16;
/// Elements of a thread, at most.
const LANES: usize = 8;

/// Whether a program needs the indices of its elements.
pub(super) fn needs_indices(program: &Program) -> bool {
    program.nodes.iter().any(|node| matches!(node.origin, Origin::Index(_) | Origin::Gather(..)))
}

pub(super) fn write(program: &Program, name: &str, target: &Target) -> Option<Written> {
    let accesses: Vec<&Access> = program.accesses().collect();
    let guide = accesses
        .iter()
        .rev()
        .max_by_key(|access| covers(program, access))
        .map(|access| access.strides.clone());
    let all: Vec<usize> = (0..program.dims.len()).collect();
    let keeps = needs_indices(program);
    let axes = Axes::new(&program.dims, &all, &guide.unwrap_or_default(), &accesses, keeps);
    let lanes = if keeps { 1 } else { lanes(&axes, None, &accesses) };
    let threads = THREADS.min(target.threads);
    let items = axes.count() / lanes;
    let groups = groups(items.div_ceil(threads as usize))?;
    let mut b = Builder::new(name, threads, target);
    let pointers = declare(&mut b, program);
    let own = group(&mut b, groups);
    let first = b.mul(own, threads);
    let thread = b.index(Index::Thread);
    let item = b.add(first, thread);
    let inside = b.less(item, items);
    b.when(inside, |b| {
        let number = b.mul(item, lanes);
        let indices = axes.split(b, number);
        let zero = b.number(0);
        let mut scope = Scope {
            program,
            pointers: &pointers,
            known: vec![None; program.nodes.len()],
            lanes,
            place: Place {
                indices: &|_, axis| axes.index(axis, &indices).unwrap_or(zero),
                offset: &|b, access| axes.offset(b, access, &indices),
                apart: &|access| axes.strides(access).last().copied().unwrap_or(0),
                together: &|_| lanes,
            },
        };
        for store in &program.stores {
            scope.store(b, store);
        }
    });
    Some(Written { kernel: b.finish(), groups })
}

/// How many elements of the domain an access reaches.
fn covers(program: &Program, access: &Access) -> usize {
    let dims = program.dims.iter().zip(&access.strides);
    dims.filter(|(_, stride)| **stride > 0).map(|(dim, _)| dim).product()
}

/// How many neighbouring elements all accesses can take at once. Offsets along the axes `beside` are added, and must keep
/// vectors aligned, too.
pub(super) fn lanes(axes: &Axes, beside: Option<&Axes>, accesses: &[&Access]) -> usize {
    let Some(innermost) = axes.dims.last() else { return 1 };
    let mut lanes = LANES;
    let begins = |access: &Access, lanes: usize| {
        let strides = beside.map(|axes| axes.strides(access)).unwrap_or_default();
        strides.iter().all(|stride| stride.is_multiple_of(lanes))
    };
    let fits = |lanes: usize| {
        innermost.is_multiple_of(lanes)
            && accesses.iter().all(|access| {
                let strides = axes.strides(access);
                let Some((inner, others)) = strides.split_last() else { return true };
                let bytes = lanes * access.scalar.size();
                match inner {
                    0 => true,
                    1 => {
                        bytes <= VECTOR
                            && access.alignment.is_multiple_of(bytes)
                            && others.iter().all(|stride| stride.is_multiple_of(lanes))
                            && begins(access, lanes)
                    }
                    _ => false,
                }
            })
    };
    while lanes > 1 && !fits(lanes) {
        lanes /= 2;
    }
    lanes
}
