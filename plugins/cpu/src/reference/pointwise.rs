//! The pointwise modes: a function of up to three numbers for each, and the loop over the elements.

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::dtype::element::{Element, Real};
use crate::kernel::{Kernel, Refusal};
use crate::layout::{Layout, MAX_RANK, Walk};
use crate::problem::Operand;
use crate::problem::pointwise::{Activation, Pointwise};
use crate::reference::memory::{Memory, View};

/// The numbers of the activations in the compute type.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<R> {
    /// Where RELU begins.
    pub lower_clip: R,
    /// Where RELU ends; none where it does not.
    pub upper_clip: Option<R>,
    /// The slope of RELU below its beginning.
    pub lower_clip_slope: R,
    /// β of SWISH.
    pub swish_beta: R,
    /// α of ELU.
    pub elu_alpha: R,
    /// β of SOFTPLUS.
    pub softplus_beta: R,
}

impl<R: Real> Numbers<R> {
    /// The numbers as the compute type has them.
    pub fn of(activation: &Activation) -> Self {
        let real = |value: f32| R::from_f64(f64::from(value));
        Self {
            lower_clip: real(activation.lower_clip),
            upper_clip: activation.upper_clip.map(real),
            lower_clip_slope: real(activation.lower_clip_slope),
            swish_beta: real(activation.swish_beta),
            elu_alpha: real(activation.elu_alpha),
            softplus_beta: real(activation.softplus_beta),
        }
    }
}

/// What a mode makes of in_0, in_1 and in_2; operands that the mode does not read are ignored.
pub type Function<R> = fn([R; 3], &Numbers<R>) -> R;

/// The function of a mode; none for `Unset` and for `GenIndex`, which depends on the place and not on the operand.
pub fn function<R: Real>(mode: PointwiseMode) -> Option<Function<R>> {
    use PointwiseMode as M;
    Some(match mode {
        M::Unset | M::GenIndex => return None,
        M::Abs => |[x, ..], _| x.abs(),
        M::Neg => |[x, ..], _| -x,
        M::Identity => |[x, ..], _| x,
        M::Ceil => |[x, ..], _| x.ceil(),
        M::Floor => |[x, ..], _| x.floor(),
        M::Erf => |[x, ..], _| x.erf(),
        M::Exp => |[x, ..], _| x.exp(),
        M::Log => |[x, ..], _| x.ln(),
        M::Sin => |[x, ..], _| x.sin(),
        M::Tan => |[x, ..], _| x.tan(),
        M::Sqrt => |[x, ..], _| x.sqrt(),
        M::Rsqrt => |[x, ..], _| R::ONE / x.sqrt(),
        M::Reciprocal => |[x, ..], _| R::ONE / x,
        M::Add => |[x, y, _], _| x + y,
        M::Sub => |[x, y, _], _| x - y,
        M::Mul => |[x, y, _], _| x * y,
        M::Div => |[x, y, _], _| x / y,
        M::AddSquare => |[x, y, _], _| x + y * y,
        // NaN wins in both, as in the comparison's absence of an order.
        M::Max => |[x, y, _], _| if x >= y || x.is_nan() { x } else { y },
        M::Min => |[x, y, _], _| if x <= y || x.is_nan() { x } else { y },
        M::CmpEq => |[x, y, _], _| truth(x == y),
        M::CmpNeq => |[x, y, _], _| truth(x != y),
        M::CmpGe => |[x, y, _], _| truth(x >= y),
        M::CmpGt => |[x, y, _], _| truth(x > y),
        M::CmpLe => |[x, y, _], _| truth(x <= y),
        M::CmpLt => |[x, y, _], _| truth(x < y),
        M::LogicalAnd => |[x, y, _], _| truth(x != R::ZERO && y != R::ZERO),
        M::LogicalOr => |[x, y, _], _| truth(x != R::ZERO || y != R::ZERO),
        M::LogicalNot => |[x, ..], _| truth(x == R::ZERO),
        M::BinarySelect => |[x, y, z], _| if z != R::ZERO { x } else { y },
        M::ReluFwd => |[x, ..], n| {
            let upper = n.upper_clip.unwrap_or(R::LARGEST);
            if x <= n.lower_clip {
                // A slope of 0 is flat also at minus infinity.
                let below = if n.lower_clip_slope == R::ZERO {
                    R::ZERO
                } else {
                    n.lower_clip_slope * (x - n.lower_clip)
                };
                below + n.lower_clip
            } else if x >= upper {
                upper
            } else {
                x
            }
        },
        M::ReluBwd => |[dy, x, _], n| {
            if x <= n.lower_clip {
                // A slope of 0 lets nothing through, not even an infinite gradient.
                if n.lower_clip_slope == R::ZERO { R::ZERO } else { n.lower_clip_slope * dy }
            } else if n.upper_clip.is_some_and(|upper| x > upper) {
                R::ZERO
            } else {
                dy
            }
        },
        M::SigmoidFwd => |[x, ..], _| sigmoid(x),
        M::SigmoidBwd => |[dy, x, _], _| {
            let s = sigmoid(x);
            dy * s * (R::ONE - s)
        },
        M::TanhFwd => |[x, ..], _| x.tanh(),
        M::TanhBwd => |[dy, x, _], _| {
            let t = x.tanh();
            dy * (R::ONE - t * t)
        },
        M::GeluFwd => |[x, ..], _| half::<R>() * x * (R::ONE + (x * inv_sqrt_2()).erf()),
        M::GeluBwd => |[dy, x, _], _| {
            let below = half::<R>() * (R::ONE + (x * inv_sqrt_2()).erf());
            let density = (-(half::<R>() * x * x)).exp() * R::from_f64(INV_SQRT_2_PI);
            dy * (below + x * density)
        },
        M::GeluApproxTanhFwd => |[x, ..], _| half::<R>() * x * (R::ONE + gelu_argument(x).tanh()),
        M::GeluApproxTanhBwd => |[dy, x, _], _| {
            let t = gelu_argument(x).tanh();
            let slope = R::from_f64(SQRT_2_OVER_PI) * (R::ONE + R::from_f64(3.0 * GELU_CUBIC) * x * x);
            dy * (half::<R>() * (R::ONE + t) + half::<R>() * x * (R::ONE - t * t) * slope)
        },
        M::SwishFwd => |[x, ..], n| x / (R::ONE + (-(n.swish_beta * x)).exp()),
        M::SwishBwd => |[dy, x, _], n| {
            let s = sigmoid(n.swish_beta * x);
            dy * (s + n.swish_beta * x * s * (R::ONE - s))
        },
        M::EluFwd => |[x, ..], n| if x > R::ZERO { x } else { n.elu_alpha * x.exp_m1() },
        M::EluBwd => |[dy, x, _], n| if x > R::ZERO { dy } else { dy * n.elu_alpha * x.exp() },
        M::SoftplusFwd => |[x, ..], n| {
            // ln(1 + eᶻ) = max(z, 0) + ln(1 + e^-|z|), which does not overflow.
            let z = n.softplus_beta * x;
            let relu = if z > R::ZERO { z } else { R::ZERO };
            (relu + (-z.abs()).exp().ln_1p()) / n.softplus_beta
        },
        M::SoftplusBwd => |[dy, x, _], n| dy * sigmoid(n.softplus_beta * x),
    })
}

/// 1/√(2π).
const INV_SQRT_2_PI: f64 = 0.398_942_280_401_432_7;

/// √(2/π).
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;

/// The factor of x³ in the approximation of GELU by tanh.
const GELU_CUBIC: f64 = 0.044_715;

fn truth<R: Real>(holds: bool) -> R {
    if holds { R::ONE } else { R::ZERO }
}

fn half<R: Real>() -> R {
    R::from_f64(0.5)
}

fn inv_sqrt_2<R: Real>() -> R {
    R::from_f64(std::f64::consts::FRAC_1_SQRT_2)
}

fn sigmoid<R: Real>(x: R) -> R {
    R::ONE / (R::ONE + (-x).exp())
}

fn gelu_argument<R: Real>(x: R) -> R {
    R::from_f64(SQRT_2_OVER_PI) * (x + R::from_f64(GELU_CUBIC) * x * x * x)
}

/// The result and the strides of up to three operands over its dims.
struct PortableVector<R> {
    function: Function<R>,
    numbers: Numbers<R>,
    layout: Layout,
    output: Memory<R>,
    inputs: [Option<Memory<R>>; 3],
    strides: [[usize; MAX_RANK]; 3],
}

/// The index along an axis, written as a double so that large ones stay exact whatever the compute type.
struct Index {
    layout: Layout,
    axis: usize,
    output: Memory<f64>,
}

fn memory<R: Real>(argument: &str, operand: &Operand) -> Result<Memory<R>, Refusal> {
    let element = Element::of(operand.data_type).map_err(|refusal| format!("{argument}: {refusal}"))?;
    Ok(Memory { slot: operand.slot, element })
}

pub(crate) fn plan<R: Real>(problem: Pointwise) -> Result<Box<dyn Kernel>, Refusal> {
    let layout = problem.output.layout;
    let Some(function) = function::<R>(problem.mode) else {
        return Ok(Box::new(Index { layout, axis: problem.axis, output: memory("out_0", &problem.output)? }));
    };
    let mut inputs = [None; 3];
    let mut strides = [[0; MAX_RANK]; 3];
    let places = inputs.iter_mut().zip(&mut strides).zip(["in_0", "in_1", "in_2"]);
    for (input, ((bound, stride), name)) in problem.inputs.iter().zip(places) {
        *bound = Some(memory(name, &input.operand)?);
        *stride = input.strides;
    }
    let numbers = Numbers::of(&problem.activation);
    Ok(Box::new(PortableVector {
        function,
        numbers,
        layout,
        output: memory("out_0", &problem.output)?,
        inputs,
        strides,
    }))
}

impl<R: Real> Kernel for PortableVector<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract; the walk is over
        // the result's dims, and the operands' strides over them stay inside the operands.
        unsafe {
            let output = self.output.bind(tensors);
            let [x, y, z] = self.inputs.map(|input| input.map(|memory| memory.bind(tensors)));
            let [x_strides, y_strides, z_strides] = &self.strides;
            let mut at =
                Walk::new(self.layout.dims(), [self.layout.strides(), x_strides, y_strides, z_strides]);
            let get = |view: &Option<View<R>>, offset: usize| match view {
                Some(view) => view.get(offset),
                None => R::ZERO,
            };
            loop {
                let [out_at, x_at, y_at, z_at] = at.offsets;
                let operands = [get(&x, x_at), get(&y, y_at), get(&z, z_at)];
                output.set(out_at, (self.function)(operands, &self.numbers));
                if !at.advance() {
                    break;
                }
            }
        }
    }
}

impl Kernel for Index {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract; the walk is over
        // the result's dims.
        unsafe {
            let output = self.output.bind(tensors);
            let mut at = Walk::new(self.layout.dims(), [self.layout.strides()]);
            loop {
                let index = at.index.get(self.axis).copied().unwrap_or(0);
                output.set(at.offsets[0], index as f64);
                if !at.advance() {
                    break;
                }
            }
        }
    }
}
