use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType};

use super::{DETERMINISTIC, MIOPEN, ORDERS, TYPES, TYPES_WITHOUT_BFLOAT16};
use crate::case::{Case, Order};

/// A convolution with the same parameters along every spatial dimension.
#[derive(Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    x: &'static [i64],
    w: &'static [i64],
    padding: i64,
    /// Additional post-padding of each spatial dimension.
    more: &'static [i64],
    stride: i64,
    dilation: i64,
}

/// Symmetric padding.
const EQUAL: &[i64] = &[0; 3];

/// The defaults of shapes.
const PLAIN: Shape = Shape { name: "", x: &[], w: &[], padding: 0, more: EQUAL, stride: 1, dilation: 1 };

/// The shapes; asymmetric padding as for "same" padding with a stride, and with filters of even size.
#[rustfmt::skip]
pub const SHAPES: [Shape; 8] = [
    Shape { name: "3x3", x: &[2, 8, 9, 7], w: &[6, 8, 3, 3], padding: 1, ..PLAIN },
    Shape { name: "1x1", x: &[2, 16, 6, 6], w: &[24, 16, 1, 1], ..PLAIN },
    Shape { name: "2 groups, stride 2", x: &[2, 4, 8, 8], w: &[6, 2, 3, 3], padding: 1, stride: 2, ..PLAIN },
    Shape { name: "dilation 2", x: &[1, 4, 9, 9], w: &[4, 4, 3, 3], padding: 2, dilation: 2, ..PLAIN },
    Shape { name: "padding behind", x: &[2, 4, 8, 6], w: &[6, 4, 3, 3], more: &[1, 1], stride: 2, ..PLAIN },
    Shape { name: "padding before", x: &[2, 4, 5, 6], w: &[6, 4, 2, 3], padding: 2, more: &[-2, -1], ..PLAIN },
    Shape { name: "padding behind, 3-D", x: &[1, 4, 5, 4, 6], w: &[4, 4, 2, 3, 2], more: &[1, 0, 1], ..PLAIN },
    Shape { name: "3-D", x: &[1, 4, 5, 6, 7], w: &[4, 4, 3, 3, 3], padding: 1, ..PLAIN },
];

/// Few results of long dot products: the gradient of the first's filter, and the second's forward.
#[rustfmt::skip]
pub const LONG: [Shape; 2] = [
    Shape { name: "many pixels", x: &[8, 8, 28, 28], w: &[8, 8, 3, 3], padding: 1, ..PLAIN },
    Shape { name: "many channels", x: &[1, 512, 3, 3], w: &[32, 512, 3, 3], padding: 1, ..PLAIN },
];

/// Enough channels for matrix tiles also forward, and short dot products that workgroups do not share.
#[rustfmt::skip]
pub const TILED: Shape = Shape { name: "16 channels", x: &[2, 16, 9, 7], w: &[24, 16, 1, 3], padding: 1, ..PLAIN };

/// Depthwise convolutions that generated kernels make in strips, with channels last.
#[rustfmt::skip]
pub const DEPTHWISE: [Shape; 4] = [
    Shape { name: "depthwise 5x3", x: &[4, 32, 32, 32], w: &[32, 1, 5, 3], padding: 1, ..PLAIN },
    Shape { name: "depthwise, stride 2", x: &[4, 48, 64, 64], w: &[48, 1, 3, 3], padding: 1, stride: 2, ..PLAIN },
    Shape { name: "depthwise, dilation 2", x: &[2, 40, 32, 28], w: &[40, 1, 3, 3], padding: 2, dilation: 2, ..PLAIN },
    Shape { name: "depthwise, 3-D", x: &[2, 16, 12, 14, 20], w: &[16, 1, 3, 3, 3], padding: 1, ..PLAIN },
];

/// A node with the parameters of a shape.
macro_rules! node {
    ($shape:expr, $operation:ident { $($tensor:ident),+ }) => {{
        let [pre_padding, post_padding, stride, dilation] = $shape.numbers();
        let conv_mode = ConvMode::CrossCorrelation;
        $operation { $($tensor,)+ pre_padding, post_padding, stride, dilation, conv_mode }
    }};
}

impl Shape {
    fn y(&self) -> Vec<i64> {
        let mut y: Vec<i64> = self.x.iter().take(1).chain(self.w.iter().take(1)).copied().collect();
        for ((x, w), more) in self.x.iter().zip(self.w).skip(2).zip(self.more) {
            y.push((x + 2 * self.padding + more - self.dilation * (w - 1) - 1) / self.stride + 1);
        }
        y
    }

    /// Pre-padding, post-padding, stride, dilation.
    fn numbers(&self) -> [Vec<i64>; 4] {
        let spatial = self.x.len() - 2;
        let all = |value| vec![value; spatial];
        let behind = self.more.iter().take(spatial).map(|more| self.padding + more).collect();
        [all(self.padding), behind, all(self.stride), all(self.dilation)]
    }

    /// Forward, backward data, backward filter.
    pub fn case(&self, direction: &str, data_type: DataType, order: Order) -> Case {
        let mut case =
            Case::new(format!("convolution {direction} {} {} {order:?}", self.name, data_type.name()));
        let dims = self.y();
        let range = [-1.0, 1.0];
        match direction {
            "forward" => {
                let x = case.input(data_type, self.x, order, range);
                let w = case.input(data_type, self.w, order, range);
                let y = case.output(data_type, &dims, order);
                case.node(node!(self, ConvolutionForward { x, w, y }));
            }
            "backward data" => {
                let dy = case.input(data_type, &dims, order, range);
                let w = case.input(data_type, self.w, order, range);
                let dx = case.output(data_type, self.x, order);
                case.node(node!(self, ConvolutionBackwardData { dy, w, dx }));
            }
            _ => {
                let x = case.input(data_type, self.x, order, range);
                let dy = case.input(data_type, &dims, order, range);
                let dw = case.output(data_type, self.w, order);
                case.node(node!(self, ConvolutionBackwardFilter { x, dy, dw }));
            }
        }
        case
    }
}

pub fn cases() -> Vec<(&'static str, Case)> {
    let mut cases = Vec::new();
    for shape in &SHAPES {
        for direction in ["forward", "backward data", "backward filter"] {
            let types = if shape.more == EQUAL { &TYPES[..] } else { &TYPES_WITHOUT_BFLOAT16 };
            for data_type in types.iter().copied() {
                for order in ORDERS {
                    cases.push((MIOPEN, shape.case(direction, data_type, order)));
                }
            }
            cases.push((DETERMINISTIC, shape.case(direction, DataType::Float, Order::ChannelsFirst)));
        }
    }
    cases
}
