//! Convolutions of ResNet-50 and MobileNet-v2.

use serde_json::json;

use crate::case::{Case, Model, Work};

/// A convolution with a square image, window, step and padding.
#[derive(Clone, Copy)]
pub struct Layer {
    channels: i64,
    filters: i64,
    image: i64,
    window: i64,
    stride: i64,
    is_depthwise: bool,
}

const fn layer(channels: i64, filters: i64, image: i64, window: i64, stride: i64) -> Layer {
    Layer { channels, filters, image, window, stride, is_depthwise: false }
}

const fn depthwise(channels: i64, image: i64, stride: i64) -> Layer {
    Layer { channels, filters: channels, image, window: 3, stride, is_depthwise: true }
}

/// The distinct convolutions of ResNet-50, in the variant with strides in the 3 × 3 convolutions.
pub const RESNET50: &[Layer] = &[
    layer(3, 64, 224, 7, 2),
    layer(64, 64, 56, 1, 1),
    layer(64, 64, 56, 3, 1),
    layer(64, 256, 56, 1, 1),
    layer(256, 64, 56, 1, 1),
    layer(256, 128, 56, 1, 1),
    layer(128, 128, 56, 3, 2),
    layer(128, 512, 28, 1, 1),
    layer(256, 512, 56, 1, 2),
    layer(512, 128, 28, 1, 1),
    layer(128, 128, 28, 3, 1),
    layer(512, 256, 28, 1, 1),
    layer(256, 256, 28, 3, 2),
    layer(256, 1024, 14, 1, 1),
    layer(512, 1024, 28, 1, 2),
    layer(1024, 256, 14, 1, 1),
    layer(256, 256, 14, 3, 1),
    layer(1024, 512, 14, 1, 1),
    layer(512, 512, 14, 3, 2),
    layer(512, 2048, 7, 1, 1),
    layer(1024, 2048, 14, 1, 2),
    layer(2048, 512, 7, 1, 1),
    layer(512, 512, 7, 3, 1),
];

/// The distinct depthwise convolutions of MobileNet-v2.
const MOBILENET_V2: &[Layer] = &[
    depthwise(32, 112, 1),
    depthwise(96, 112, 2),
    depthwise(144, 56, 1),
    depthwise(144, 56, 2),
    depthwise(192, 28, 1),
    depthwise(192, 28, 2),
    depthwise(384, 14, 1),
    depthwise(576, 14, 1),
    depthwise(576, 14, 2),
    depthwise(960, 7, 1),
];

/// The epilogue of a convolution.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Relu,
    ResidualRelu,
    Relu6,
}

impl Layer {
    fn padding(&self) -> i64 {
        self.window / 2
    }

    fn result(&self) -> i64 {
        (self.image + 2 * self.padding() - self.window) / self.stride + 1
    }

    fn groups(&self) -> i64 {
        if self.is_depthwise { self.channels } else { 1 }
    }

    pub fn x(&self, batch: i64) -> [i64; 4] {
        [batch, self.channels, self.image, self.image]
    }

    pub fn w(&self) -> [i64; 4] {
        [self.filters, self.channels / self.groups(), self.window, self.window]
    }

    pub fn y(&self, batch: i64) -> [i64; 4] {
        [batch, self.filters, self.result(), self.result()]
    }

    /// Two operations for each product.
    pub fn operations(&self, batch: i64) -> f64 {
        let [n, k, p, q] = self.y(batch);
        let [_, c, r, s] = self.w();
        2.0 * (n * k * p * q * c * r * s) as f64
    }

    pub fn parameters(&self) -> serde_json::Value {
        let (padding, stride) = (self.padding(), self.stride);
        json!({"parameters": {
            "pre_padding": [padding, padding], "post_padding": [padding, padding],
            "stride": [stride, stride], "dilation": [1, 1], "conv_mode": "CROSS_CORRELATION",
        }})
    }

    pub fn name(&self, batch: i64) -> String {
        let Layer { channels, filters, image, window, stride, is_depthwise } = self;
        let step = if *stride > 1 { format!("/{stride}") } else { String::new() };
        match is_depthwise {
            true => format!("{batch}×{channels} {image}² {window}×{window}{step}"),
            false => format!("{batch}×{channels}→{filters} {image}² {window}×{window}{step}"),
        }
    }

    /// The attributes of ONNX's Conv.
    pub fn attributes(&self) -> serde_json::Value {
        let (padding, stride) = (self.padding(), self.stride);
        json!({"pads": [padding, padding, padding, padding], "strides": [stride, stride], "group": self.groups()})
    }

    fn onednn(&self, kind: &str, batch: i64, rest: &str) -> String {
        format!(
            "{kind} n={batch} c={} h={} k={} r={} stride={} pad={} groups={} images=own {rest}",
            self.channels,
            self.image,
            self.filters,
            self.window,
            self.stride,
            self.padding(),
            self.groups()
        )
    }

    fn forward(&self, suite: &'static str, batch: i64, after: After) -> Case {
        let mut case = Case::new(suite, self.name(batch), Work::Operations(self.operations(batch)));
        let y = self.y(batch);
        let x = case.input("x", &self.x(batch));
        let w = case.weight("w", &self.w());
        let b = case.weight("b", &[1, self.filters, 1, 1]);
        let residual = (after == After::ResidualRelu).then(|| case.input("r", &y));
        let to = case.output("y", &y);
        let graph = &mut case.graph;
        let product = graph.between(&y);
        graph.node("ConvolutionFwdAttributes", &[("x", x), ("w", w)], &[("y", product)], self.parameters());
        let mut last = graph.between(&y);
        graph.pointwise("add", &[product, b], last, &[]);
        if let Some(residual) = residual {
            let sum = graph.between(&y);
            graph.pointwise("add", &[last, residual], sum, &[]);
            last = sum;
        }
        let clip: &[_] = if after == After::Relu6 { &[("relu_upper_clip", 6.0)] } else { &[] };
        graph.pointwise("relu_fwd", &[last], to, clip);

        let attributes = self.attributes();
        // ONNX has the bias with one dimension.
        let model = Model::default().layout("b", &[0, 1, 2, 3], &[self.filters]);
        let model = model.node("Conv", &["x", "w", "b"], &["c"], attributes);
        case.onnx.push(match after {
            After::Relu => model.node("Relu", &["c"], &["y"], json!({})),
            After::ResidualRelu => {
                model.node("Add", &["c", "r"], &["s"], json!({})).node("Relu", &["s"], &["y"], json!({}))
            }
            After::Relu6 => model.number("low", 0.0).number("high", 6.0).node(
                "Clip",
                &["c", "low", "high"],
                &["y"],
                json!({}),
            ),
        });
        let rest = match after {
            After::Relu => "after=relu",
            After::ResidualRelu => "after=residual",
            After::Relu6 => "after=relu6",
        };
        case.onednn = Some(self.onednn("conv", batch, rest));
        case
    }

    fn data_gradient(&self, suite: &'static str, batch: i64) -> Case {
        let name = format!("data {}", self.name(batch));
        let mut case = Case::new(suite, name, Work::Operations(self.operations(batch)));
        let dy = case.input("dy", &self.y(batch));
        let w = case.input("w", &self.w());
        let dx = case.output("dx", &self.x(batch));
        let inputs = [("dy", dy), ("w", w)];
        case.graph.node("ConvolutionBwdAttributes", &inputs, &[("dx", dx)], self.parameters());
        case.onednn = Some(self.onednn("data_gradient", batch, ""));
        case
    }

    fn filter_gradient(&self, suite: &'static str, batch: i64) -> Case {
        let name = format!("filter {}", self.name(batch));
        let mut case = Case::new(suite, name, Work::Operations(self.operations(batch)));
        let x = case.input("x", &self.x(batch));
        let dy = case.input("dy", &self.y(batch));
        let dw = case.output("dw", &self.w());
        let inputs = [("x", x), ("dy", dy)];
        case.graph.node("ConvolutionWrwAttributes", &inputs, &[("dw", dw)], self.parameters());
        case.onednn = Some(self.onednn("filter_gradient", batch, ""));
        case
    }
}

/// From 64 to 64 channels of 28², with bias and ReLU.
pub fn beside_busy_threads() -> Vec<Case> {
    [1, 16].map(|batch| layer(64, 64, 28, 3, 1).forward("busy", batch, After::Relu)).into()
}

/// With bias and ReLU.
pub fn resnet() -> Vec<Case> {
    let of = |batch| RESNET50.iter().map(move |layer| layer.forward("resnet", batch, After::Relu));
    of(1).chain(of(16)).collect()
}

/// With bias, a second operand and ReLU: the last convolution of each block.
pub fn residual() -> Vec<Case> {
    let ends = |layer: &&Layer| layer.window == 1 && layer.stride == 1 && layer.filters == 4 * layer.channels;
    let of = move |batch| {
        RESNET50.iter().filter(ends).map(move |layer| layer.forward("residual", batch, After::ResidualRelu))
    };
    of(1).chain(of(16)).collect()
}

/// Depthwise, with bias and ReLU up to 6.
pub fn depthwise_layers() -> Vec<Case> {
    let of = |batch| MOBILENET_V2.iter().map(move |layer| layer.forward("depthwise", batch, After::Relu6));
    of(1).chain(of(16)).collect()
}

/// The gradients of ResNet-50.
pub fn training() -> Vec<Case> {
    // The first layer needs no gradient of the image.
    let data = RESNET50.iter().skip(1).map(|layer| layer.data_gradient("backward", 16));
    data.chain(RESNET50.iter().map(|layer| layer.filter_gradient("backward", 16))).collect()
}
