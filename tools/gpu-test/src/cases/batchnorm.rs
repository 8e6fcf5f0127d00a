use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, BatchnormInference, BatchnormInferenceVariance,
};

use super::{MIOPEN, ORDERS, RTC, TYPES};
use crate::case::{Case, Order};

const EPSILON: f32 = 1e-4;

/// The shapes that are normalized: images and volumes.
const SHAPES: [&[i64]; 2] = [&[2, 3, 8, 7], &[2, 4, 3, 4, 5]];

struct Parts {
    case: Case,
    data_type: DataType,
    order: Order,
    dims: &'static [i64],
    parameter: Vec<i64>,
}

impl Parts {
    fn new(name: &str, dims: &'static [i64], data_type: DataType, order: Order) -> Self {
        let case = Case::new(format!("batchnorm {name} {}-D {} {order:?}", dims.len() - 2, data_type.name()));
        let mut parameter = vec![1; dims.len()];
        if let (Some(to), Some(from)) = (parameter.get_mut(1), dims.get(1)) {
            *to = *from;
        }
        Self { case, data_type, order, dims, parameter }
    }

    fn x(&mut self) -> i64 {
        self.case.input(self.data_type, self.dims, self.order, [-2.0, 3.0])
    }

    fn y(&mut self) -> i64 {
        self.case.output(self.data_type, self.dims, self.order)
    }

    fn given(&mut self, range: [f32; 2]) -> i64 {
        self.case.input(DataType::Float, &self.parameter, Order::ChannelsFirst, range)
    }

    fn made(&mut self) -> i64 {
        self.case.output(DataType::Float, &self.parameter, Order::ChannelsFirst)
    }
}

fn inference(dims: &'static [i64], data_type: DataType, order: Order) -> Case {
    let mut p = Parts::new("inference", dims, data_type, order);
    let node = BatchnormInference {
        x: p.x(),
        mean: p.given([-1.0, 1.0]),
        inv_variance: p.given([0.5, 2.0]),
        scale: p.given([-1.0, 2.0]),
        bias: p.given([-1.0, 1.0]),
        y: p.y(),
    };
    p.case.node(node);
    p.case
}

fn inference_variance(dims: &'static [i64], data_type: DataType, order: Order) -> Case {
    let mut p = Parts::new("inference with variance", dims, data_type, order);
    let node = BatchnormInferenceVariance {
        x: p.x(),
        mean: p.given([-1.0, 1.0]),
        variance: p.given([0.1, 2.0]),
        scale: p.given([-1.0, 2.0]),
        bias: p.given([-1.0, 1.0]),
        epsilon: p.case.value(EPSILON),
        y: p.y(),
    };
    p.case.node(node);
    p.case
}

fn training(dims: &'static [i64], data_type: DataType, order: Order, running: bool) -> Case {
    let name = if running { "training with running statistics" } else { "training" };
    let mut p = Parts::new(name, dims, data_type, order);
    let mut node = Batchnorm {
        x: p.x(),
        scale: p.given([-1.0, 2.0]),
        bias: p.given([-1.0, 1.0]),
        epsilon: p.case.value(EPSILON),
        y: p.y(),
        prev_running_mean: None,
        prev_running_variance: None,
        momentum: None,
        mean: Some(p.made()),
        inv_variance: Some(p.made()),
        next_running_mean: None,
        next_running_variance: None,
        peer_stats: Vec::new(),
    };
    if running {
        node.prev_running_mean = Some(p.given([-1.0, 1.0]));
        node.prev_running_variance = Some(p.given([0.1, 2.0]));
        node.momentum = Some(p.case.value(0.3));
        node.next_running_mean = Some(p.made());
        node.next_running_variance = Some(p.made());
    }
    p.case.node(node);
    p.case
}

fn backward(dims: &'static [i64], data_type: DataType, order: Order, saved: bool) -> Case {
    let name = if saved { "backward with saved statistics" } else { "backward" };
    let mut p = Parts::new(name, dims, data_type, order);
    let node = BatchnormBackward {
        dy: p.x(),
        x: p.x(),
        scale: p.given([-1.0, 2.0]),
        dx: p.y(),
        dscale: p.made(),
        dbias: p.made(),
        mean: saved.then(|| p.given([0.0, 1.0])),
        inv_variance: saved.then(|| p.given([0.5, 1.0])),
        peer_stats: Vec::new(),
    };
    p.case.node(node);
    p.case
}

/// As frontends and tests of November 2025: the results are virtual but bound, and the program does not query the workspace
/// size.
fn of_2025(mut case: Case) -> Case {
    case.name.push_str(", unmarked outputs, no workspace");
    case.unmark();
    case.without_workspace = true;
    case
}

/// The same with all tensors of the images' type.
fn with_half_parameters(mut case: Case) -> Case {
    case.name.push_str(", half parameters");
    let parameters = case.graph.tensors.iter_mut().filter(|tensor| tensor.value.is_none());
    parameters.for_each(|tensor| tensor.data_type = DataType::Half);
    case
}

/// Graphs that an engine may compute or refuse: MIOpen has no kernels for parameters in `half`.
pub fn half_parameters() -> Vec<Case> {
    let (dims, of, order) = (SHAPES[0], DataType::Half, Order::ChannelsFirst);
    let mut cases = vec![inference(dims, of, order), inference_variance(dims, of, order)];
    for with in [false, true] {
        cases.extend([training(dims, of, order, with), backward(dims, of, order, with)]);
    }
    cases.into_iter().map(of_2025).map(with_half_parameters).collect()
}

/// Training and its gradients by generated kernels: channels in one part, in many, and images of different kinds.
fn generated_training() -> impl Iterator<Item = (&'static str, Case)> {
    const PARTS: [&[i64]; 4] = [&[2, 3, 8, 7], &[16, 12, 30, 11], &[5, 3, 7, 11, 19], &[9, 2100]];
    let halves = [training, backward].map(|case| case(PARTS[1], DataType::Half, Order::ChannelsFirst, true));
    let mut cases: Vec<Case> = halves.into_iter().map(with_half_parameters).collect();
    for dims in PARTS {
        for (order, with) in ORDERS.into_iter().zip([true, false]) {
            cases.push(training(dims, DataType::Float, order, with));
            cases.push(backward(dims, DataType::Float, order, with));
        }
    }
    for data_type in TYPES {
        for case in [training, backward] {
            let mut case = case(PARTS[1], data_type, Order::ChannelsLast, true);
            case.name.push_str(" in parts");
            cases.push(case);
        }
    }
    cases.into_iter().map(|mut case| {
        case.name.push_str(", generated");
        (RTC, case)
    })
}

pub fn cases() -> Vec<(&'static str, Case)> {
    let mut cases = Vec::new();
    for dims in SHAPES {
        for data_type in TYPES {
            for order in ORDERS {
                cases.push(inference(dims, data_type, order));
                cases.push(inference_variance(dims, data_type, order));
                cases.push(of_2025(inference(dims, data_type, order)));
                cases.push(of_2025(inference_variance(dims, data_type, order)));
                for with in [false, true] {
                    cases.push(of_2025(training(dims, data_type, order, with)));
                    cases.push(of_2025(backward(dims, data_type, order, with)));
                    cases.push(training(dims, data_type, order, with));
                    cases.push(backward(dims, data_type, order, with));
                }
            }
        }
    }
    let cases = cases.into_iter().map(|case| (MIOPEN, case));
    // The generated kernels take parameters of any type, for inference.
    let generated = half_parameters().into_iter().filter(|case| case.name.contains("inference"));
    cases.chain(generated.map(|case| (RTC, case))).chain(generated_training()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use hipdnn_plugin_sdk::json;

    #[test]
    fn no_case_is_another_once_more() {
        let mut names = HashMap::new();
        for (engine, case) in super::cases() {
            let key = (engine, json::write(&case.graph), case.without_workspace);
            let other = names.insert(key, case.name.clone());
            assert_eq!(other, None, "{}", case.name);
        }
    }
}
