//! The reference pooling against hand-computed results and windows over padded arrays, and its gradient
//! against sums over windows.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{ResampleBackward, ResampleForward};
use hipdnn_plugin_sdk::graph::{DataType, PaddingMode, ResampleMode};

use super::common::{Case, Random, Strides, channels_last, packed};
use super::limits::assert_near;

/// A pooling of one to five spatial dimensions.
#[derive(Clone, Debug)]
struct Pooling {
    x: Vec<i64>,
    y: Vec<i64>,
    pre: Vec<i64>,
    post: Vec<i64>,
    stride: Vec<i64>,
    window: Vec<i64>,
    mode: ResampleMode,
    padding: PaddingMode,
}

impl Pooling {
    fn forward_case(&self, layout: Strides, with_index: bool) -> Case {
        let mut case = Case::new();
        let x = case.tensor_with(DataType::Float, &self.x, &layout(&self.x));
        let y = case.tensor(DataType::Float, &self.y);
        let index = with_index.then(|| case.tensor_with(DataType::Int32, &self.y, &layout(&self.y)));
        case.node(ResampleForward {
            x,
            y,
            index,
            pre_padding: self.pre.clone(),
            post_padding: self.post.clone(),
            stride: self.stride.clone(),
            window: self.window.clone(),
            resample_mode: self.mode,
            padding_mode: self.padding,
            generate_index: Some(with_index),
        });
        case
    }

    fn backward_case(&self, layout: Strides, with_index: bool) -> Case {
        let mut case = Case::new();
        let dx = case.tensor_with(DataType::Float, &self.x, &layout(&self.x));
        let dy = case.tensor(DataType::Float, &self.y);
        let index = with_index.then(|| case.tensor_with(DataType::Int32, &self.y, &layout(&self.y)));
        case.node(ResampleBackward {
            dy,
            dx,
            index,
            pre_padding: self.pre.clone(),
            post_padding: self.post.clone(),
            stride: self.stride.clone(),
            window: self.window.clone(),
            resample_mode: self.mode,
            padding_mode: self.padding,
        });
        case
    }

    fn forward_run(&self, layout: Strides, with_index: bool, x: &[f64]) -> Case {
        let mut case = self.forward_case(layout, with_index);
        case.fill(1, x);
        case.run(planner(1));
        case
    }

    /// Returns the values of y, and those of the index tensor: none without one.
    fn forward(&self, layout: Strides, with_index: bool, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let case = self.forward_run(layout, with_index, x);
        (case.values(2), if with_index { case.values(3) } else { vec![] })
    }

    fn backward(&self, layout: Strides, dy: &[f64], index: Option<&[f64]>) -> Vec<f64> {
        self.backward_run(layout, dy, index).values(1)
    }

    fn backward_run(&self, layout: Strides, dy: &[f64], index: Option<&[f64]>) -> Case {
        let mut case = self.backward_case(layout, index.is_some());
        case.fill(2, dy);
        if let Some(index) = index {
            case.fill(3, index);
        }
        case.run(planner(1));
        case
    }

    fn is_maximum(&self) -> bool {
        self.mode == ResampleMode::Maxpool
    }

    /// For each element of y, the elements of x in its window in window order; `None` outside x.
    fn windows(&self) -> Vec<Vec<Option<usize>>> {
        let spatial = self.window.len();
        let plane: i64 = self.x[2..].iter().product();
        let outputs: i64 = self.y[2..].iter().product();
        let positions: i64 = self.window.iter().product();
        let unfold = |mut place: i64, dims: &[i64]| {
            let mut index = vec![0; dims.len()];
            for axis in (0..dims.len()).rev() {
                (index[axis], place) = (place % dims[axis], place / dims[axis]);
            }
            index
        };
        let mut windows = vec![];
        for nc in 0..self.x[0] * self.x[1] {
            for output in 0..outputs {
                let output = unfold(output, &self.y[2..]);
                let element = |position: i64| {
                    let position = unfold(position, &self.window);
                    let mut place = 0;
                    for axis in 0..spatial {
                        let at = output[axis] * self.stride[axis] + position[axis] - self.pre[axis];
                        if !(0..self.x[axis + 2]).contains(&at) {
                            return None;
                        }
                        place = place * self.x[axis + 2] + at;
                    }
                    Some((nc * plane + place) as usize)
                };
                windows.push((0..positions).map(element).collect());
            }
        }
        windows
    }
}

fn line(x: i64, y: i64, pre: i64, post: i64, stride: i64, window: i64) -> Pooling {
    Pooling {
        x: vec![1, 1, x],
        y: vec![1, 1, y],
        pre: vec![pre],
        post: vec![post],
        stride: vec![stride],
        window: vec![window],
        mode: ResampleMode::Maxpool,
        padding: PaddingMode::NegInfPad,
    }
}

#[test]
fn maxima_and_their_indices() {
    let pool = line(4, 3, 1, 1, 2, 2);
    let x = [-3.0, -1.0, -1.0, -5.0];
    // Windows: outside, -3 | -1, -1 | -5, outside.
    let (y, index) = pool.forward(packed, true, &x);
    assert_eq!((y, index), (vec![-3.0, -1.0, -5.0], vec![0.0, 1.0, 3.0]));
    let zeros = Pooling { padding: PaddingMode::ZeroPad, ..pool.clone() };
    let (y, index) = zeros.forward(packed, true, &x);
    assert_eq!((y, index), (vec![0.0, -1.0, 0.0], vec![-1.0, 1.0, -1.0]));
    // The first of equal values wins: the zero outside at the beginning, the one inside at the end.
    let (_, index) = zeros.forward(packed, true, &[0.0, 1.0, 1.0, 0.0]);
    assert_eq!(index, [-1.0, 1.0, 3.0]);
    // Windows of padding have no maximum, and NaN is the largest.
    let (y, index) = pool.forward(packed, true, &[2.0, f64::NAN, 7.0, f64::NEG_INFINITY]);
    assert!(y[1].is_nan() && y[0] == 2.0 && y[2] == f64::NEG_INFINITY);
    assert_eq!(index, [0.0, 1.0, 3.0]);
    let outside = Pooling { padding: PaddingMode::NegInfPad, ..line(1, 3, 2, 2, 2, 1) };
    let (y, index) = outside.forward(packed, true, &[5.0]);
    assert_eq!((y, index), (vec![f64::NEG_INFINITY, 5.0, f64::NEG_INFINITY], vec![-1.0, 0.0, -1.0]));
}

#[test]
fn means_count_the_padding_or_not() {
    let include = Pooling { mode: ResampleMode::AvgpoolIncludePadding, ..line(4, 3, 1, 1, 2, 2) };
    let exclude = Pooling { mode: ResampleMode::AvgpoolExcludePadding, ..include.clone() };
    let x = [2.0, 4.0, 6.0, 8.0];
    assert_eq!(include.forward(packed, false, &x).0, [1.0, 5.0, 4.0]);
    assert_eq!(exclude.forward(packed, false, &x).0, [2.0, 5.0, 8.0]);
    assert_eq!(include.backward(packed, &[2.0, 4.0, 6.0], None), [1.0, 2.0, 2.0, 3.0]);
    assert_eq!(exclude.backward(packed, &[2.0, 4.0, 6.0], None), [2.0, 2.0, 2.0, 6.0]);
    // A window without an element of x.
    let outside = Pooling { mode: ResampleMode::AvgpoolExcludePadding, ..line(1, 3, 2, 2, 2, 1) };
    assert_eq!(outside.forward(packed, false, &[5.0]).0, [0.0, 5.0, 0.0]);
}

#[test]
fn gradients_of_maxima_follow_the_index() {
    let pool = line(4, 3, 1, 1, 2, 2);
    let dx = pool.backward(packed, &[1.0, 2.0, 4.0], Some(&[1.0, 1.0, 3.0]));
    assert_eq!(dx, [0.0, 3.0, 0.0, 4.0]);
    // Indices out of range are ignored, whatever they are.
    let far = [f64::from(i32::MIN), -1.0, f64::from(i32::MAX)];
    assert_eq!(pool.backward(packed, &[1.0, 2.0, 4.0], Some(&far)), [0.0; 4]);
    assert_eq!(pool.backward(packed, &[1.0, 2.0, 4.0], Some(&[4.0, 0.0, 4.0])), [2.0, 0.0, 0.0, 0.0]);
}

/// A window larger than memory is clipped, not walked.
#[test]
fn a_huge_window_costs_only_its_elements() {
    let huge = 1_i64 << 60;
    let include = Pooling { mode: ResampleMode::AvgpoolIncludePadding, ..line(4, 1, huge, huge, 1, huge) };
    let mut pool = Pooling { y: vec![1, 1, 5], ..include };
    pool.stride = vec![huge / 4 + 1];
    let (y, _) = pool.forward(packed, false, &[1.0; 4]);
    // The first window ends before the four elements, the last one begins behind them.
    let all = 4.0 / huge as f64;
    assert_eq!(y, [0.0, all, all, all, 0.0]);
}

#[test]
fn random_poolings_and_their_gradients() {
    let mut random = Random(8);
    let modes = &ResampleMode::ALL[1..];
    for round in 0..300 {
        let spatial = random.int(1, 5) as usize;
        // Small if there are many dimensions.
        let most = if spatial > 3 { 2 } else { 4 };
        let mut numbers = |low, high| (0..spatial).map(|_| random.int(low, high)).collect::<Vec<_>>();
        let (input, pre, post) = (numbers(1, most + 1), numbers(0, most / 2), numbers(0, most / 2));
        let (stride, mut window) = (numbers(1, 3), numbers(1, most));
        let mut y = vec![2, 3];
        for axis in 0..spatial {
            let padded = input[axis] + pre[axis] + post[axis];
            window[axis] = window[axis].min(padded);
            y.push((padded - window[axis]) / stride[axis] + 1);
        }
        let x = [vec![2, 3], input].concat();
        let padding = random.one_of(PaddingMode::ALL);
        let pool = Pooling { x, y, pre, post, stride, window, mode: random.one_of(modes), padding };
        let layout: Strides = if round % 2 == 0 { packed } else { channels_last };
        // Few different values, so that many are equal.
        let elements = pool.x.iter().product::<i64>() as usize;
        let x: Vec<f64> = (0..elements).map(|_| random.int(-3, 2) as f64).collect();
        let (y, index) = pool.forward(layout, pool.is_maximum(), &x);
        let dy: Vec<f64> = y.iter().map(|_| random.int(-9, 9) as f64).collect();
        let mut dx = vec![0.0; elements];
        let plane = pool.x[2..].iter().product::<i64>() as usize;
        for (place, window) in pool.windows().iter().enumerate() {
            let inside: Vec<usize> = window.iter().flatten().copied().collect();
            if pool.is_maximum() {
                let mut best = (f64::NEG_INFINITY, -1.0);
                for element in window {
                    let value = match element {
                        Some(element) => x[*element],
                        None if pool.padding == PaddingMode::NegInfPad => continue,
                        None => 0.0,
                    };
                    if value > best.0 {
                        best = (value, element.map_or(-1.0, |element| (element % plane) as f64));
                    }
                }
                assert_eq!((y[place], index[place]), best, "{pool:?} at {place}");
                if let Some(element) = inside.iter().find(|e| (*e % plane) as f64 == best.1) {
                    dx[*element] += dy[place];
                }
            } else {
                let count = match pool.mode {
                    ResampleMode::AvgpoolExcludePadding => inside.len().max(1),
                    _ => window.len(),
                };
                let sum: f64 = inside.iter().map(|element| x[*element]).sum();
                // The sum is exact, and the quotient is rounded once to each type.
                assert_eq!(y[place], f64::from((sum / count as f64) as f32), "{pool:?} at {place}");
                inside.iter().for_each(|element| dx[*element] += dy[place] / count as f64);
            }
        }
        let got = pool.backward_run(layout, &dy, pool.is_maximum().then_some(&index[..]));
        assert_near(&got, 1, &[(1, &dx)]);
    }
}

#[test]
fn mismatched_arguments_are_refused() {
    let good = line(4, 3, 1, 1, 2, 2);
    type Change = fn(&mut Pooling);
    let changes: [(Change, [&str; 2]); 9] = [
        (|p| p.mode = ResampleMode::NotSet, ["resample_mode", "not_set"]),
        (|p| p.window = vec![], ["window:", "has 0 entries, expected 1"]),
        (|p| p.window = vec![0], ["window[0]: is 0", "at least 1"]),
        (|p| p.stride = vec![-1], ["stride[0]: is -1", "at least 1"]),
        (|p| p.pre = vec![i64::MAX], ["pre_padding[0]", "at most"]),
        (|p| p.window = vec![7], ["window[0]: is 7", "the 6 of"]),
        (|p| p.y = vec![1, 1, 4], ["y: dims[2] is 4", "expected 3"]),
        (|p| p.y = vec![1, 2, 3], ["y: dims[1] is 2", "expected 1"]),
        (|p| p.y = vec![1, 3], ["y:", "has 2 entries, expected 3"]),
    ];
    for (change, parts) in changes {
        let mut pool = good.clone();
        change(&mut pool);
        for case in [pool.forward_case(packed, true), pool.backward_case(packed, true)] {
            let refusal = planner(0).plan(&case.graph).err().unwrap();
            assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
        }
    }
    let refusal = |case: &Case| planner(0).plan(&case.graph).err().unwrap();
    assert!(refusal(&good.backward_case(packed, false)).contains("index: absent"));
    let mean = Pooling { mode: ResampleMode::AvgpoolIncludePadding, ..good.clone() };
    assert!(refusal(&mean.forward_case(packed, true)).contains("index: given, but avgpool_include_padding"));
    let mut case = good.forward_case(packed, true);
    case.graph.tensors[2].data_type = DataType::Half;
    assert!(refusal(&case).contains("index: data type is half, expected int32, int64, int8 or uint8"));
    let mut case = good.forward_case(packed, true);
    case.graph.tensors[2].dims = vec![1, 3, 1];
    assert!(refusal(&case).contains("index: dims are [1, 3, 1], expected [1, 1, 3]"));
    let mut case = good.forward_case(packed, true);
    let operation = &mut case.graph.nodes[0].operation;
    let hipdnn_plugin_sdk::graph::Operation::ResampleForward(forward) = operation else { unreachable!() };
    forward.index = None;
    assert!(refusal(&case).contains("index: absent"), "generate_index wants a tensor");
}
