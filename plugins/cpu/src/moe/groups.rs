//! Which rows belong to which expert, and where they come from and go to; tensors define this at execution.

use std::ops::Range;

use hipdnn_plugin_planner::problem::attention::shape::Integers;
use hipdnn_plugin_planner::problem::mixture::{Mixture, MixtureGradient, Routing};

use crate::kernel::Refusal;
use crate::tensor::view::Pointers;

/// The rows of each expert.
pub(crate) struct Groups {
    first: Integers,
    pub(crate) rows: usize,
    pub(crate) experts: usize,
}

impl Groups {
    pub(crate) fn of(mixture: &Mixture) -> Self {
        Self { first: mixture.first, rows: mixture.rows, experts: mixture.weight.dims[0] }
    }

    pub(crate) fn of_gradient(gradient: &MixtureGradient) -> Self {
        Self { first: gradient.first, rows: gradient.token.dims[0], experts: gradient.d_weight.dims[0] }
    }

    pub(crate) fn count(&self) -> usize {
        self.first.dims[0]
    }

    /// The rows of a group, whose offsets were checked.
    pub(crate) fn rows(&self, tensors: Pointers<'_>, group: usize) -> Range<usize> {
        let first = |group| tensors.integer(&self.first, [group, 0]) as usize;
        first(group)..if group + 1 < self.count() { first(group + 1) } else { self.rows }
    }

    /// Copies the first row of each group and, last, the end, clamped in case they changed after the check.
    pub(crate) fn copy(&self, tensors: Pointers<'_>, to: &mut [usize]) {
        let mut least = 0;
        for (group, to) in to.iter_mut().enumerate() {
            let first = if group < self.count() { self.rows(tensors, group).start } else { self.rows };
            least = first.clamp(least, self.rows);
            *to = least;
        }
    }

    pub(crate) fn check(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        let (mut least, most) = (0, self.rows as i64);
        for group in 0..self.count() {
            let first = tensors.integer(&self.first, [group, 0]);
            if !(least..=most).contains(&first) {
                return Err(format!("first_token_offset[{group}] is {first}, expected {least} to {most}"));
            }
            least = first;
        }
        Ok(())
    }
}

/// The sources and targets of the groups' rows.
pub(crate) struct Routes {
    routing: Routing,
    /// Rows of `token` and of `output`.
    tokens: usize,
    results: usize,
}

impl Routes {
    pub(crate) fn of(mixture: &Mixture) -> Self {
        Self { routing: mixture.routing, tokens: mixture.token.dims[0], results: mixture.output.dims[0] }
    }

    /// Checks the routes of all rows from the first row of a group on.
    pub(crate) fn check(&self, tensors: Pointers<'_>, groups: &Groups) -> Result<(), Refusal> {
        (groups.rows(tensors, 0).start..groups.rows).try_for_each(|row| self.check_row(tensors, row))
    }

    /// The rows of `token` and `output` for a row of the groups, whose routes were checked; clamped in case
    /// they changed since.
    pub(crate) fn route(&self, tensors: Pointers<'_>, row: usize) -> (usize, usize) {
        let (from, to) = self.unbounded(tensors, row);
        (from.min(self.tokens - 1), to.min(self.results - 1))
    }

    fn unbounded(&self, tensors: Pointers<'_>, row: usize) -> (usize, usize) {
        let integer = |integers: &Integers| tensors.integer(integers, [row, 0]) as usize;
        match &self.routing {
            Routing::None => (row, row),
            Routing::Gather(index) => (integer(index), row),
            Routing::Scatter { index, ks, top_k } => {
                (row, integer(index).wrapping_mul(*top_k).wrapping_add(integer(ks)))
            }
        }
    }

    fn check_row(&self, tensors: Pointers<'_>, row: usize) -> Result<(), Refusal> {
        let below = |name: &str, entry: i64, end: usize| {
            if usize::try_from(entry).is_ok_and(|entry| entry < end) {
                Ok(())
            } else {
                Err(format!("{name}[{row}] is {entry}, expected 0 to {}", end.saturating_sub(1)))
            }
        };
        let integer = |integers: &Integers| tensors.integer(integers, [row, 0]);
        match &self.routing {
            Routing::None => Ok(()),
            Routing::Gather(index) => below("token_index", integer(index), self.tokens),
            Routing::Scatter { index, ks, top_k } => {
                let (token, k) = (integer(index), integer(ks));
                let rows = self.results;
                below("token_ks", k, *top_k)?;
                below("token_index", token, rows.div_ceil(*top_k))?;
                let written = token as usize * top_k + k as usize;
                if written < rows {
                    return Ok(());
                }
                Err(format!(
                    "token_index[{row}] is {token} and token_ks[{row}] is {k}, which makes row {written}, expected 0 to {}",
                    rows - 1
                ))
            }
        }
    }
}
