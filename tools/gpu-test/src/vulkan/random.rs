//! Random graphs: chains of pointwise operations and reductions, products and convolutions with epilogues, pooling, attention, block scales and mixtures of experts
//! of random shapes, strides and types.

mod attention;
mod narrow;
mod products;

use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction, ResampleForward};
use hipdnn_plugin_sdk::graph::{DataType, PaddingMode, PointwiseMode, ReductionMode, ResampleMode};

use crate::case::{Case, Order};

/// Random numbers (Numerical Recipes' generator).
pub struct Random(u64);

impl Random {
    fn next(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count.max(1)
    }

    fn size(&mut self, most: u64) -> i64 {
        1 + self.next(most) as i64
    }

    fn of<T: Copy>(&mut self, all: &[T], first: T) -> T {
        all.get(self.next(all.len() as u64) as usize).copied().unwrap_or(first)
    }

    fn data_type(&mut self) -> DataType {
        self.of(&[DataType::Float, DataType::Float, DataType::Half, DataType::Bfloat16], DataType::Float)
    }

    fn order(&mut self) -> Order {
        self.of(&[Order::ChannelsFirst, Order::ChannelsLast], Order::ChannelsFirst)
    }
}

/// How the names of random graphs begin.
pub const NAME: &str = "random ";

/// What comes before its kind.
pub const OF_KIND: &str = ": ";

/// The kind of a graph by its name.
pub fn kind(name: &str) -> &str {
    let after = name.strip_prefix(NAME).and_then(|rest| rest.split_once(OF_KIND));
    after.map_or("case", |(_, kind)| kind)
}

/// The random graph of a number.
pub fn case(number: u32) -> Case {
    let mut random = Random(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // Kernels of attention take long to compile, so there are fewer.
    let names = [
        "chain",
        "product",
        "convolution",
        "pooling",
        "reduction",
        "attention",
        "attention gradients",
        "quantization",
        "way back",
        "mixture of experts",
        "gradient of experts",
    ];
    let kind = match random.next(16) {
        kind @ 10.. => kind - 5,
        kind => kind % 5,
    };
    let name = names.get(kind as usize).copied().unwrap_or("chain");
    let mut case = Case::new(format!("{NAME}{number}{OF_KIND}{name}"));
    case.seed(number);
    match kind {
        1 => products::product(&mut case, &mut random),
        2 => products::convolution(&mut case, &mut random),
        3 => pooling(&mut case, &mut random),
        4 => chain(&mut case, &mut random, true),
        5 => attention::forward(&mut case, &mut random),
        6 => attention::backward(&mut case, &mut random),
        7 => narrow::quantize(&mut case, &mut random),
        8 => narrow::dequantize(&mut case, &mut random),
        9 => narrow::mixture(&mut case, &mut random),
        10 => narrow::mixture_gradient(&mut case, &mut random),
        _ => chain(&mut case, &mut random, false),
    }
    case
}

const TWO: [PointwiseMode; 6] = [
    PointwiseMode::Add,
    PointwiseMode::Sub,
    PointwiseMode::Mul,
    PointwiseMode::Max,
    PointwiseMode::Min,
    PointwiseMode::AddSquare,
];
const ONE: [PointwiseMode; 11] = [
    PointwiseMode::Abs,
    PointwiseMode::Neg,
    PointwiseMode::Identity,
    PointwiseMode::Erf,
    PointwiseMode::Sin,
    PointwiseMode::ReluFwd,
    PointwiseMode::SigmoidFwd,
    PointwiseMode::TanhFwd,
    PointwiseMode::GeluFwd,
    PointwiseMode::SwishFwd,
    PointwiseMode::SoftplusFwd,
];
const REDUCTIONS: [ReductionMode; 7] = [
    ReductionMode::Add,
    ReductionMode::Avg,
    ReductionMode::Max,
    ReductionMode::Min,
    ReductionMode::Amax,
    ReductionMode::Norm1,
    ReductionMode::Norm2,
];

/// A chain of pointwise operations, and a reduction somewhere in it.
fn chain(case: &mut Case, random: &mut Random, reduces: bool) {
    let rank = 1 + random.next(4) as usize;
    let dims: Vec<i64> = (0..rank).map(|_| random.size(17)).collect();
    let order = random.order();
    let spread = |random: &mut Random| -> Vec<i64> {
        dims.iter().map(|dim| if random.next(4) == 0 { 1 } else { *dim }).collect()
    };
    let data_type = random.data_type();
    let mut last = case.input(data_type, &dims, order, [-2.0, 2.0]);
    let steps = 1 + random.next(4);
    for step in 0..steps {
        let is_last = step + 1 == steps && !reduces;
        let (own_type, own_order) = (random.data_type(), random.order());
        let other = if random.next(2) == 0 {
            let (of, order) = (random.data_type(), random.order());
            let dims = spread(random);
            Some(case.input(of, &dims, order, [-2.0, 2.0]))
        } else {
            None
        };
        let mode = match other {
            Some(_) => random.of(&TWO, PointwiseMode::Add),
            None => random.of(&ONE, PointwiseMode::Abs),
        };
        let out = if is_last {
            case.output(own_type, &dims, own_order)
        } else {
            case.between(own_type, &dims, own_order)
        };
        case.node(Pointwise::new(mode, last, other, out));
        last = out;
    }
    if reduces {
        let mut rows: Vec<i64> = dims.iter().map(|dim| if random.next(2) == 0 { 1 } else { *dim }).collect();
        // A reduction must reduce something.
        let is_same = rows == dims;
        if is_same {
            let long = dims.iter().position(|dim| *dim > 1);
            match long.and_then(|axis| rows.get_mut(axis)) {
                Some(dim) => *dim = 1,
                None => {
                    let out = case.output(DataType::Float, &dims, order);
                    case.node(Pointwise::new(PointwiseMode::Abs, last, None, out));
                    return;
                }
            }
        }
        let mode = random.of(&REDUCTIONS, ReductionMode::Add);
        let goes_on = random.next(2) == 0;
        let sum = if goes_on {
            case.between(DataType::Float, &rows, Order::ChannelsFirst)
        } else {
            case.output(DataType::Float, &rows, Order::ChannelsFirst)
        };
        case.node(Reduction { in_: last, out: sum, mode, is_deterministic: false });
        // Sums and differences may be smaller than what was rounded.
        case.rounded = Some(last);
        if goes_on {
            let out = case.output(DataType::Float, &dims, order);
            case.node(Pointwise::new(PointwiseMode::Sub, last, Some(sum), out));
        }
    }
}

fn pooling(case: &mut Case, random: &mut Random) {
    let (mut x, mut y) = (vec![random.size(3), random.size(6)], Vec::new());
    y.extend(&x);
    let [mut pre, mut post, mut stride, mut window] = [(); 4].map(|()| Vec::new());
    for _ in 0..2 {
        let (side, step, before, after) =
            (random.size(3), random.size(3), random.next(2) as i64, random.next(2) as i64);
        let input = side + random.next(8) as i64;
        x.push(input);
        y.push((input + before + after - side) / step + 1);
        pre.push(before);
        post.push(after);
        stride.push(step);
        window.push(side);
    }
    let (data_type, order) = (random.data_type(), random.order());
    let all =
        [ResampleMode::Maxpool, ResampleMode::AvgpoolExcludePadding, ResampleMode::AvgpoolIncludePadding];
    let resample_mode = random.of(&all, ResampleMode::Maxpool);
    let padding_mode = random.of(&[PaddingMode::NegInfPad, PaddingMode::ZeroPad], PaddingMode::ZeroPad);
    let x = case.input(data_type, &x, order, [-2.0, 2.0]);
    let y = case.output(data_type, &y, order);
    case.node(ResampleForward {
        x,
        y,
        index: None,
        pre_padding: pre,
        post_padding: post,
        stride,
        window,
        resample_mode,
        padding_mode,
        generate_index: None,
    });
}
