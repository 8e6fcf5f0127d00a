use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType};

use super::{DETERMINISTIC, MIOPEN, ORDERS, TYPES, TYPES_WITHOUT_BFLOAT16};
use crate::case::{Case, Order};

/// A convolution with the same numbers along every spatial dimension.
struct Shape {
    name: &'static str,
    x: &'static [i64],
    w: &'static [i64],
    padding: i64,
    /// How much more is padded behind each of the spatial dimensions.
    more: &'static [i64],
    stride: i64,
    dilation: i64,
}

/// Padding that is the same before and behind.
const EQUAL: &[i64] = &[0; 3];

const SHAPES: [Shape; 8] = [
    Shape {
        name: "3x3",
        x: &[2, 8, 9, 7],
        w: &[6, 8, 3, 3],
        padding: 1,
        more: EQUAL,
        stride: 1,
        dilation: 1,
    },
    Shape {
        name: "1x1",
        x: &[2, 16, 6, 6],
        w: &[24, 16, 1, 1],
        padding: 0,
        more: EQUAL,
        stride: 1,
        dilation: 1,
    },
    Shape {
        name: "2 groups, stride 2",
        x: &[2, 4, 8, 8],
        w: &[6, 2, 3, 3],
        padding: 1,
        more: EQUAL,
        stride: 2,
        dilation: 1,
    },
    Shape {
        name: "dilation 2",
        x: &[1, 4, 9, 9],
        w: &[4, 4, 3, 3],
        padding: 2,
        more: EQUAL,
        stride: 1,
        dilation: 2,
    },
    // As who pads to the same size with a stride, and with filters of even size.
    Shape {
        name: "padding behind",
        x: &[2, 4, 8, 6],
        w: &[6, 4, 3, 3],
        padding: 0,
        more: &[1, 1],
        stride: 2,
        dilation: 1,
    },
    Shape {
        name: "padding before",
        x: &[2, 4, 5, 6],
        w: &[6, 4, 2, 3],
        padding: 2,
        more: &[-2, -1],
        stride: 1,
        dilation: 1,
    },
    Shape {
        name: "padding behind, 3-D",
        x: &[1, 4, 5, 4, 6],
        w: &[4, 4, 2, 3, 2],
        padding: 0,
        more: &[1, 0, 1],
        stride: 1,
        dilation: 1,
    },
    Shape {
        name: "3-D",
        x: &[1, 4, 5, 6, 7],
        w: &[4, 4, 3, 3, 3],
        padding: 1,
        more: EQUAL,
        stride: 1,
        dilation: 1,
    },
];

impl Shape {
    fn y(&self) -> Vec<i64> {
        let mut y: Vec<i64> = self.x.iter().take(1).chain(self.w.iter().take(1)).copied().collect();
        for ((x, w), more) in self.x.iter().zip(self.w).skip(2).zip(self.more) {
            y.push((x + 2 * self.padding + more - self.dilation * (w - 1) - 1) / self.stride + 1);
        }
        y
    }

    /// Forward, backward data, backward filter.
    fn case(&self, direction: &str, data_type: DataType, order: Order) -> Case {
        let mut case =
            Case::new(format!("convolution {direction} {} {} {order:?}", self.name, data_type.name()));
        let spatial = self.x.len() - 2;
        let [padding, stride, dilation] =
            [self.padding, self.stride, self.dilation].map(|value| vec![value; spatial]);
        let post_padding: Vec<i64> =
            padding.iter().zip(self.more).map(|(padding, more)| padding + more).collect();
        let (pre_padding, conv_mode) = (padding, ConvMode::CrossCorrelation);
        let y = self.y();
        let range = [-1.0, 1.0];
        case.tolerance = 1e-5;
        match direction {
            "forward" => {
                let x = case.input(data_type, self.x, order, range);
                let w = case.input(data_type, self.w, order, range);
                let y = case.output(data_type, &y, order);
                case.node(ConvolutionForward {
                    x,
                    w,
                    y,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    conv_mode,
                });
            }
            "backward data" => {
                let dy = case.input(data_type, &y, order, range);
                let w = case.input(data_type, self.w, order, range);
                let dx = case.output(data_type, self.x, order);
                case.node(ConvolutionBackwardData {
                    dy,
                    w,
                    dx,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    conv_mode,
                });
            }
            _ => {
                let x = case.input(data_type, self.x, order, range);
                let dy = case.input(data_type, &y, order, range);
                let dw = case.output(data_type, self.w, order);
                case.node(ConvolutionBackwardFilter {
                    x,
                    dy,
                    dw,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    conv_mode,
                });
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
