use hipdnn_plugin_sdk::graph::operation::{ResampleBackward, ResampleForward};
use hipdnn_plugin_sdk::graph::{DataType, PaddingMode, ResampleMode};

use super::{DETERMINISTIC, MIOPEN, RTC, TYPES_WITHOUT_BFLOAT16};
use crate::case::{Case, Order};

/// A pooling with the same parameters along every spatial dimension.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Its name, for people.
    pub name: &'static str,
    /// The dims of x.
    pub x: &'static [i64],
    window: i64,
    padding: i64,
    /// Additional post-padding.
    more: i64,
    stride: i64,
}

/// The defaults of shapes.
const PLAIN: Shape = Shape { name: "", x: &[], window: 2, padding: 0, more: 0, stride: 1 };

pub const SHAPES: [Shape; 4] = [
    Shape { name: "2x2", x: &[2, 3, 8, 6], stride: 2, ..PLAIN },
    Shape { name: "3x3 with padding", x: &[2, 3, 7, 9], window: 3, padding: 1, stride: 2, ..PLAIN },
    Shape { name: "1-D", x: &[2, 4, 9], window: 3, padding: 1, ..PLAIN },
    Shape { name: "3-D", x: &[1, 3, 4, 6, 5], ..PLAIN },
];

/// Shapes that MIOpen handles differently: the last windows reach beyond x, or are outside.
pub const REACHING: [Shape; 2] = [
    Shape { name: "2x2 reaching behind", x: &[2, 3, 7, 5], more: 1, stride: 2, ..PLAIN },
    Shape { name: "2x2 outside", x: &[1, 3, 5, 6], padding: 2, ..PLAIN },
];

const MODES: [ResampleMode; 3] =
    [ResampleMode::Maxpool, ResampleMode::AvgpoolExcludePadding, ResampleMode::AvgpoolIncludePadding];

impl Shape {
    /// The dims of y.
    pub fn y(&self) -> Vec<i64> {
        let spatial = self.x.iter().skip(2);
        let pooled = spatial.map(|x| (x + 2 * self.padding + self.more - self.window) / self.stride + 1);
        self.x.iter().take(2).copied().chain(pooled).collect()
    }

    /// The pooling; a maximum ignores padding.
    pub fn node(&self, mode: ResampleMode, x: i64, y: i64, index: Option<i64>) -> ResampleForward {
        let spatial = self.x.len() - 2;
        ResampleForward {
            x,
            y,
            index,
            pre_padding: vec![self.padding; spatial],
            post_padding: vec![self.padding + self.more; spatial],
            stride: vec![self.stride; spatial],
            window: vec![self.window; spatial],
            resample_mode: mode,
            padding_mode: PaddingMode::NegInfPad,
            generate_index: Some(index.is_some()),
        }
    }

    fn forward(&self, mode: ResampleMode, with_index: bool, data_type: DataType) -> Case {
        let order = Order::ChannelsFirst;
        let index = if with_index { " with index" } else { "" };
        let mut case = Case::new(format!("{} {}{index} {}", mode.name(), self.name, data_type.name()));
        let x = case.input(data_type, self.x, order, [-2.0, 2.0]);
        let y = case.output(data_type, &self.y(), order);
        let index = with_index.then(|| case.output(DataType::Int32, &self.y(), order));
        case.node(self.node(mode, x, y, index));
        case
    }

    /// The largest of windows in which everything is masked.
    fn masked(&self, with_index: bool, data_type: DataType) -> Case {
        let order = Order::ChannelsFirst;
        let index = if with_index { " with index" } else { "" };
        let mut case = Case::new(format!("maxpool {} of -inf{index} {}", self.name, data_type.name()));
        let count = self.x.iter().product::<i64>();
        let values =
            (0..count).map(|place| if place < count / 2 { f32::NEG_INFINITY } else { place as f32 % 7.0 });
        let x = case.input_of(data_type, self.x, values.collect());
        let y = case.output(data_type, &self.y(), order);
        let index = with_index.then(|| case.output(DataType::Int32, &self.y(), order));
        case.node(self.node(ResampleMode::Maxpool, x, y, index));
        case
    }

    /// The gradient; that of a maximum takes the first or the last element of a window as the largest.
    fn backward(&self, mode: ResampleMode, data_type: DataType) -> Case {
        let order = Order::ChannelsFirst;
        let mut case = Case::new(format!("{} backward {} {}", mode.name(), self.name, data_type.name()));
        let index = (mode == ResampleMode::Maxpool)
            .then(|| case.input_of(DataType::Int32, &self.y(), self.indices()));
        let dy = case.input(data_type, &self.y(), order, [-1.0, 1.0]);
        let dx = case.output(data_type, self.x, order);
        case.node(self.gradient(mode, dy, dx, index));
        case
    }

    /// For each element of y, the place of the first or the last element of its window in the image.
    fn indices(&self) -> Vec<f32> {
        let y = self.y();
        let index = |place: i64| {
            let (mut rest, mut index, mut size) = (place, 0, 1);
            for (x, y) in self.x.iter().zip(&y).skip(2).rev() {
                let first = rest % y * self.stride - self.padding;
                let end = if place % 2 == 0 { first.max(0) } else { (first + self.window).min(*x) - 1 };
                (rest, index, size) = (rest / y, index + end * size, size * x);
            }
            index as f32
        };
        (0..y.iter().product()).map(index).collect()
    }

    /// The gradient of [`Shape::node`].
    pub fn gradient(&self, mode: ResampleMode, dy: i64, dx: i64, index: Option<i64>) -> ResampleBackward {
        let ResampleForward { pre_padding, post_padding, stride, window, padding_mode, .. } =
            self.node(mode, dx, dy, index);
        ResampleBackward {
            dy,
            dx,
            index,
            pre_padding,
            post_padding,
            stride,
            window,
            resample_mode: mode,
            padding_mode,
        }
    }
}

pub fn cases() -> Vec<(&'static str, Case)> {
    let mut cases = Vec::new();
    for shape in &SHAPES {
        for data_type in TYPES_WITHOUT_BFLOAT16 {
            for mode in MODES {
                // MIOpen's largest of a window is finite.
                let engine = if mode == ResampleMode::Maxpool { RTC } else { MIOPEN };
                cases.push((engine, shape.forward(mode, false, data_type)));
                cases.push((MIOPEN, shape.backward(mode, data_type)));
            }
            cases.push((RTC, shape.forward(ResampleMode::Maxpool, true, data_type)));
            for with_index in [false, true] {
                cases.push((RTC, shape.masked(with_index, data_type)));
            }
        }
        cases.push((DETERMINISTIC, shape.backward(ResampleMode::AvgpoolExcludePadding, DataType::Float)));
    }
    cases
}
