//! Forward convolution, pooling and its gradient: each output gathers the window around it.
//!
//! One thread computes one output, whatever the layouts are. This is far from peak, and only for what no
//! library computes; depthwise convolutions are computed in [strips](super::strip).

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the number of spatial dimensions, at most MAX_SPATIAL"
)]

use hipdnn_plugin_lowering::window_limits::{check_convolution, check_pooling};
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::convolution::{Convolution, Direction, MAX_SPATIAL};
use hipdnn_plugin_planner::problem::resample::{Pooling, Resample};

use super::body::{Body, load, offset, spatial};
use super::strip::Strip;
use super::value::Real;
use crate::Refusal;

/// A node whose outputs gather windows.
#[derive(Debug)]
pub enum Window {
    /// A forward convolution.
    Convolution(Convolution),
    /// A pooling or its gradient.
    Pooling(Resample),
}

impl Window {
    /// The window of a convolution; the refusal states what is not supported, as for pooling.
    pub fn convolution(p: Convolution) -> Result<Self, Refusal> {
        if p.direction != Direction::Forward {
            return Err(
                "operation: is the gradient of a convolution, expected a forward convolution".to_owned()
            );
        }
        check_convolution(&p).map(|()| Self::Convolution(p))
    }

    /// The window of a pooling or its gradient.
    pub fn pooling(p: Resample) -> Result<Self, Refusal> {
        if p.has_other_index() {
            return Err("index: is of another type, expected int32".to_owned());
        }
        check_pooling(&p).map(|()| Self::Pooling(p))
    }

    /// The output tensor.
    pub fn output(&self) -> &Operand {
        match self {
            Self::Convolution(p) => &p.y,
            Self::Pooling(p) if p.backward => &p.x,
            Self::Pooling(p) => &p.y,
        }
    }

    /// The inputs, with their names in the functions.
    pub fn inputs(&self) -> impl Iterator<Item = (&'static str, &Operand)> {
        let [first, second] = match self {
            Self::Convolution(p) => [("x", &p.x), ("w", &p.w)].map(Some),
            Self::Pooling(p) if p.backward => {
                [Some(("dy", &p.y)), p.index.as_ref().map(|index| ("index", index))]
            }
            Self::Pooling(p) => [Some(("x", &p.x)), None],
        };
        first.into_iter().chain(second)
    }

    /// The tensors that must have a floating-point type.
    pub fn floats(&self) -> impl Iterator<Item = (&'static str, &Operand)> {
        let name = match self {
            Self::Pooling(p) if p.backward => "dx",
            _ => "y",
        };
        self.inputs().filter(|(name, _)| *name != "index").chain([(name, self.output())])
    }

    /// The strips that the output is computed in, where that is faster than one element at a time.
    pub fn strip(&self) -> Option<Strip> {
        match self {
            Self::Convolution(p) => Strip::of(p),
            Self::Pooling(_) => None,
        }
    }

    /// The function body of the output.
    pub fn body(&self, strip: Option<&Strip>, real: Real) -> Result<String, Refusal> {
        match self {
            Self::Convolution(p) => strip.map_or_else(|| convolution(p, real), |strip| strip.body(p, real)),
            Self::Pooling(p) if p.backward => pooling_gradient(p, real),
            Self::Pooling(p) => match p.pooling {
                Pooling::Maximum { .. } => maximum(p, real, "best"),
                Pooling::MeanInside | Pooling::MeanOfWindow => mean(p, real),
            },
        }
    }

    /// The index of a maximum: the tensor, the type that holds it, and its function.
    pub fn index(&self, real: Real) -> Result<Option<(&Operand, Real, String)>, Refusal> {
        let Self::Pooling(p) = self else { return Ok(None) };
        let Some(index) = p.index.as_ref().filter(|_| !p.backward) else { return Ok(None) };
        // Beyond 2^24 elements float cannot represent every index.
        let plane: usize = p.input[..p.spatial].iter().product();
        let real = if plane <= 1 << 24 { real } else { Real::Double };
        Ok(Some((index, real, maximum(p, real, "at")?)))
    }
}

/// Accumulates products, channel by channel at each position of the window.
fn convolution(p: &Convolution, real: Real) -> Result<String, Refusal> {
    let (xs, ws) = (p.x.layout.strides(), p.w.layout.strides());
    let mut body = Body::new();
    body.line(format!("{} sum = 0;", real.name()));
    body.line(format!("x += i0 * {}u + i1 / {}u * {}u;", xs[0], p.out_channels, p.in_channels * xs[1]));
    body.line(format!("w += i1 * {}u;", ws[0]));
    (0..p.spatial).for_each(|axis| body.filter_axis(p, axis));
    body.line(format!("const index_t at_x = {};", offset(&spatial("p", &p.x, p.spatial))));
    body.line(format!("const index_t at_w = {};", offset(&spatial("t", &p.w, p.spatial))));
    body.each(format!("index_t c = 0; c < {}u; c++", p.in_channels));
    let x = load("x", &p.x, &format!("at_x + c * {}u", xs[1]), real)?;
    let w = load("w", &p.w, &format!("at_w + c * {}u", ws[1]), real)?;
    body.line(format!("sum = m_fma({x}, {w}, sum);"));
    body.end(p.spatial + 1);
    body.line("return sum;");
    Ok(body.text)
}

/// Begins the loops over a window, whose positions are `p`0, `p`1 and so on: those inside x, or all of them
/// with `outside`.
fn positions(p: &Resample, body: &mut Body, outside: bool) {
    for axis in 0..p.spatial {
        body.window(axis, (p.window[axis], p.stride[axis], p.pre_padding[axis]), &format!("r{axis}"));
        if !outside {
            body.line(format!("if (p{axis} >= {}u) continue;", p.input[axis]));
        }
    }
}

fn begin_plane(p: &Resample, body: &mut Body) {
    let strides = p.x.layout.strides();
    body.line(format!("x += i0 * {}u + i1 * {}u;", strides[0], strides[1]));
}

/// The maximum of a window, `best`, or its index in the plane, `at`.
fn maximum(p: &Resample, real: Real, result: &str) -> Result<String, Refusal> {
    let zeros = p.pooling == (Pooling::Maximum { zeros: true });
    let mut body = Body::new();
    begin_plane(p, &mut body);
    body.line(format!("{} best = {};", real.name(), real.literal(f64::NEG_INFINITY)));
    body.line("int at = -1;");
    body.line("bool any = false;");
    positions(p, &mut body, zeros);
    let value = load("x", &p.x, &offset(&spatial("p", &p.x, p.spatial)), real)?;
    let place = offset(&plane(p));
    if zeros {
        let inside: Vec<String> =
            (0..p.spatial).map(|axis| format!("p{axis} < {}u", p.input[axis])).collect();
        body.line(format!("const bool inside = {};", inside.join(" && ")));
        body.line(format!("const {} value = inside ? {value} : 0;", real.name()));
        body.line(format!("const int place = inside ? (int)({place}) : -1;"));
    } else {
        body.line(format!("const {} value = {value};", real.name()));
        body.line(format!("const int place = (int)({place});"));
    }
    // The first NaN is the maximum.
    body.line("if (!any || value > best || (value != value && best == best)) {");
    body.line("    best = value;");
    body.line("    at = place;");
    body.line("    any = true;");
    body.line("}");
    body.end(p.spatial);
    body.line(format!("return {result};"));
    Ok(body.text)
}

/// Positions with the strides of a dense plane, as counted by indices.
fn plane(p: &Resample) -> Vec<(String, usize)> {
    let mut strides = [1_usize; MAX_SPATIAL];
    for axis in (1..p.spatial).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(p.input[axis]);
    }
    (0..p.spatial).map(|axis| (format!("p{axis}"), strides[axis])).collect()
}

/// The number of positions of a window, as a source expression.
fn window_size(p: &Resample, real: Real) -> String {
    real.literal(p.window[..p.spatial].iter().map(|extent| *extent as f64).product())
}

fn mean(p: &Resample, real: Real) -> Result<String, Refusal> {
    let mut body = Body::new();
    begin_plane(p, &mut body);
    body.line(format!("{} sum = 0;", real.name()));
    body.line("index_t count = 0;");
    positions(p, &mut body, false);
    let value = load("x", &p.x, &offset(&spatial("p", &p.x, p.spatial)), real)?;
    body.line(format!("sum += {value};"));
    body.line("count++;");
    body.end(p.spatial);
    body.line(match p.pooling {
        Pooling::MeanInside => format!("return sum / ({})(count == 0 ? 1u : count);", real.name()),
        _ => format!("return sum / {};", window_size(p, real)),
    });
    Ok(body.text)
}

/// The gradient of one element of x, from all windows that contain it.
fn pooling_gradient(p: &Resample, real: Real) -> Result<String, Refusal> {
    let strides = p.y.layout.strides();
    let mut body = Body::new();
    body.line(format!("{} sum = 0;", real.name()));
    body.line(format!("dy += i0 * {}u + i1 * {}u;", strides[0], strides[1]));
    if let Some(index) = &p.index {
        let strides = index.layout.strides();
        body.line(format!("index += i0 * {}u + i1 * {}u;", strides[0], strides[1]));
        let own: Vec<(String, usize)> = plane(p)
            .into_iter()
            .enumerate()
            .map(|(axis, (_, stride))| (format!("i{}", axis + 2), stride))
            .collect();
        body.line(format!("const int own = (int)({});", offset(&own)));
    }
    for axis in 0..p.spatial {
        let (window, stride, pre) = (p.window[axis], p.stride[axis], p.pre_padding[axis]);
        // Positions are counted from the beginning of the padding.
        body.line(format!("const index_t q{axis} = i{} + {pre}u;", axis + 2));
        body.each(format!(
            "index_t o{axis} = q{axis} < {window}u ? 0u : (q{axis} - {window}u) / {stride}u + 1u; \
             o{axis} < {}u && o{axis} * {stride}u <= q{axis}; o{axis}++",
            p.output[axis]
        ));
        if p.pooling == Pooling::MeanInside {
            let end = pre + p.input[axis];
            body.line(format!("const index_t b{axis} = o{axis} * {stride}u;"));
            body.line(format!(
                "const index_t e{axis} = b{axis} + {window}u < {end}u ? b{axis} + {window}u : {end}u;"
            ));
            body.line(format!("const index_t n{axis} = e{axis} - (b{axis} < {pre}u ? {pre}u : b{axis});"));
        }
    }
    let dy = load("dy", &p.y, &offset(&spatial("o", &p.y, p.spatial)), real)?;
    body.line(match (&p.index, p.pooling) {
        (Some(index), _) => {
            format!("if (index[{}] == own) sum += {dy};", offset(&spatial("o", index, p.spatial)))
        }
        (None, Pooling::MeanInside) => {
            let count: Vec<String> = (0..p.spatial).map(|axis| format!("n{axis}")).collect();
            format!("sum += {dy} / ({})({});", real.name(), count.join(" * "))
        }
        (None, _) => format!("sum += {dy} / {};", window_size(p, real)),
    });
    body.end(p.spatial);
    body.line("return sum;");
    Ok(body.text)
}
