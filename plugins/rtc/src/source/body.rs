//! The text of functions that gather: loops over windows, offsets and loads.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the number of spatial dimensions, at most MAX_SPATIAL"
)]

use std::fmt::Write;

use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::convolution::Convolution;

use super::value::{Real, element};
use crate::Refusal;

/// The text of a function under construction.
pub(super) struct Body {
    pub text: String,
    depth: usize,
}

impl Body {
    pub fn new() -> Self {
        Self { text: String::new(), depth: 1 }
    }

    pub fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.text, "{:1$}{2}", "", self.depth * 4, text.as_ref());
    }

    /// Begins a loop.
    pub fn each(&mut self, text: impl AsRef<str>) {
        self.line(format!("for ({}) {{", text.as_ref()));
        self.depth += 1;
    }

    /// Begins the loop over a window along an axis: `r` counts its elements, `reach` is each element's
    /// distance from the first, and `p` its position in x.
    pub fn window(&mut self, axis: usize, (size, stride, padding): (usize, usize, usize), reach: &str) {
        self.each(format!("index_t r{axis} = 0; r{axis} < {size}u; r{axis}++"));
        // Positions before x wrap around to large numbers, which are beyond its end.
        self.line(format!("const index_t p{axis} = i{} * {stride}u + {reach} - {padding}u;", axis + 2));
    }

    /// Begins the loop over a convolution's filter along an axis, with only the elements whose `p` is inside x. `t` is the
    /// place in the filter.
    pub fn filter_axis(&mut self, p: &Convolution, axis: usize) {
        let reach = format!("r{axis} * {}u", p.dilation[axis]);
        self.window(axis, (p.window[axis], p.stride[axis], p.pre_padding[axis]), &reach);
        self.line(format!("if (p{axis} >= {}u) continue;", p.input[axis]));
        let turned = if p.mirrored { format!("{}u - ", p.window[axis] - 1) } else { String::new() };
        self.line(format!("const index_t t{axis} = {turned}r{axis};"));
    }

    /// Ends this many loops.
    pub fn end(&mut self, loops: usize) {
        for _ in 0..loops {
            self.depth -= 1;
            self.line("}");
        }
    }
}

/// The sum of these indices times their strides.
pub(super) fn offset(terms: &[(String, usize)]) -> String {
    let terms: Vec<String> = terms.iter().map(|(index, stride)| format!("{index} * {stride}u")).collect();
    if terms.is_empty() { "0u".to_owned() } else { terms.join(" + ") }
}

/// An element converted to a value.
pub(super) fn load(name: &str, operand: &Operand, at: &str, real: Real) -> Result<String, Refusal> {
    Ok(format!("({}){}::load({name}[{at}])", real.name(), element(operand.data_type)?))
}

/// Indices `letter`0, `letter`1 and so on with the strides of the spatial dimensions.
pub(super) fn spatial(letter: &str, operand: &Operand, count: usize) -> Vec<(String, usize)> {
    let strides = operand.layout.strides();
    (0..count).map(|axis| (format!("{letter}{axis}"), strides[axis + 2])).collect()
}
