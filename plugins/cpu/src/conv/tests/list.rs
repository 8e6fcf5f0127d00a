//! Which entry of the list is chosen, and how the choice is reported.

use std::collections::HashSet;

use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Graph, Node};

#[cfg(target_arch = "x86_64")]
use crate::conv;
#[cfg(target_arch = "x86_64")]
use crate::conv::direct::problem::{Direct, Scheme};
use crate::conv::list::List;
use crate::conv::tests::{Case, DIRECTIONS, plain};
#[cfg(target_arch = "x86_64")]
use crate::conv::winograd::choice::fastest;
#[cfg(target_arch = "x86_64")]
use crate::dtype::element::Compute;
use crate::fusion::graph::parts_at;
use crate::fusion::node::plan_node_at;
use crate::kernel::Kernel;
use crate::plan::planner::fast_knobs;
use crate::plan::steps::Plan;
use crate::prepare::{CheckedNode, prepare};
use crate::problem::Problem;
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::simd::vector::has_special_cases;
use crate::testing::{Array, packed};
use crate::threading::partition::Threads;

/// Channels in and out, side of the image and of the window, stride: the convolutions of ResNet-50, and some
/// with few channels or small images.
#[cfg(target_arch = "x86_64")]
const LAYERS: &[[i64; 5]] = &[
    [3, 64, 224, 7, 2],
    [64, 64, 56, 1, 1],
    [64, 64, 56, 3, 1],
    [64, 256, 56, 1, 1],
    [256, 64, 56, 1, 1],
    [256, 128, 56, 1, 1],
    [128, 128, 56, 3, 2],
    [128, 512, 28, 1, 1],
    [256, 512, 56, 1, 2],
    [512, 128, 28, 1, 1],
    [128, 128, 28, 3, 1],
    [512, 256, 28, 1, 1],
    [256, 256, 28, 3, 2],
    [256, 1024, 14, 1, 1],
    [512, 1024, 28, 1, 2],
    [1024, 256, 14, 1, 1],
    [256, 256, 14, 3, 1],
    [1024, 512, 14, 1, 1],
    [512, 512, 14, 3, 2],
    [512, 2048, 7, 1, 1],
    [1024, 2048, 14, 1, 2],
    [2048, 512, 7, 1, 1],
    [512, 512, 7, 3, 1],
    [3, 16, 8, 3, 1],
    [16, 32, 8, 3, 1],
    [32, 64, 8, 3, 2],
    [32, 32, 14, 3, 2],
    [64, 24, 6, 5, 1],
    [8, 8, 32, 3, 1],
    [16, 16, 32, 5, 2],
    [48, 48, 4, 3, 1],
    [64, 10, 4, 4, 1],
    [7, 19, 9, 2, 1],
];

/// Depthwise ones, the last of which have several filters per channel.
#[cfg(target_arch = "x86_64")]
const DEPTHWISE: &[[i64; 5]] = &[
    [32, 32, 112, 3, 1],
    [96, 96, 112, 3, 2],
    [576, 576, 14, 3, 1],
    [960, 960, 7, 3, 1],
    [24, 24, 1, 1, 1],
    [1, 1, 28, 5, 1],
    [32, 64, 14, 5, 2],
    [16, 96, 14, 3, 1],
];

/// Layers that are also planned for other dtypes.
#[cfg(target_arch = "x86_64")]
const TYPED: [usize; 5] = [0, 2, 6, 7, 28];

/// A layer of these dtypes, with tensors without memory.
fn layer(types: [DataType; 3], batch: i64, [channels, rows, side, window, stride]: [i64; 5]) -> Case {
    let padding = window / 2;
    let output = (side + 2 * padding - window) / stride + 1;
    let mut case = plain([1, 1, 1, 1], [1, 1, 1, 1], stride, 0, ConvMode::CrossCorrelation);
    (case.pre, case.post) = (vec![padding; 2], vec![padding; 2]);
    if types[0] == DataType::Double {
        case.compute = DataType::Double;
    }
    let tensor = |array: &mut Array, data_type, dims: [i64; 4]| {
        array.tensor = packed(array.tensor.uid, data_type, &dims);
    };
    tensor(&mut case.x, types[0], [batch, channels, side, side]);
    tensor(&mut case.w, types[1], [rows, channels, window, window]);
    tensor(&mut case.y, types[2], [batch, rows, output, output]);
    case
}

/// A layer whose filters have one channel each.
#[cfg(target_arch = "x86_64")]
fn depthwise(types: [DataType; 3], batch: i64, sizes: [i64; 5]) -> Case {
    let mut case = layer(types, batch, sizes);
    case.w.tensor = packed(case.w.tensor.uid, types[1], &[sizes[1], 1, sizes[3], sizes[3]]);
    case
}

fn graph(case: &Case, direction: Direction) -> Graph {
    let node = Node { name: String::new(), compute_type: case.compute, operation: case.operation(direction) };
    let tensors = [&case.x, &case.w, &case.y].map(|array| array.tensor.clone()).to_vec();
    Graph { tensors, nodes: vec![node], ..Graph::default() }
}

fn kernel(case: &Case, direction: Direction, isa: Isa, settings: Settings) -> Box<dyn Kernel> {
    let graph = graph(case, direction);
    let node = &graph.nodes[0];
    let problem = Problem::of(&graph, &node.operation).unwrap();
    plan_node_at(&graph, &CheckedNode { place: 0, node, problem: &problem }, isa, settings).unwrap()
}

fn settings(convolution: Algorithm, constant_weights: bool) -> Settings {
    let threads = Threads { most: 2, ..Threads::default() };
    Settings { threads, constant_weights, convolution, ..Settings::default() }
}

#[cfg(target_arch = "x86_64")]
type Layer = fn([DataType; 3], i64, [i64; 5]) -> Case;

/// The names of the entries for an instruction set, with the problems that select them.
#[cfg(target_arch = "x86_64")]
fn choices(isa: Isa) -> Vec<String> {
    use DataType::{Bfloat16, Double, Float, Fp8E4m3, Half, Int8, Int32, Int64, Uint8};
    let mut lines = Vec::new();
    let mut one = |of: Layer, types: [DataType; 3], batch, sizes: [i64; 5], direction| {
        let constant = direction == Direction::Forward;
        let kernel =
            kernel(&of(types, batch, sizes), direction, isa, settings(Algorithm::Automatic, constant));
        // Previously both variants of direct convolution had one name.
        let name = |name| if name == "direct-two-tiles" { "direct" } else { name };
        let names: Vec<_> = kernel.choices().iter().map(|choice| name(choice.name)).collect();
        let [channels, rows, side, window, stride] = sizes;
        let dtypes: Vec<_> = types.iter().map(|data_type| data_type.name()).collect();
        lines.push(format!(
            "{direction:?} {batch}x{channels}-{rows} {side} {window}/{stride} {}: {}",
            dtypes.join(","),
            names.join("/")
        ));
    };
    for sizes in LAYERS {
        one(layer, [Float; 3], 1, *sizes, Direction::Forward);
        one(layer, [Float; 3], 16, *sizes, Direction::Forward);
        one(layer, [Float; 3], 16, *sizes, Direction::BackwardData);
    }
    for sizes in TYPED.map(|number| LAYERS[number]) {
        one(layer, [Float; 3], 16, sizes, Direction::BackwardFilter);
        one(layer, [Double; 3], 16, sizes, Direction::BackwardFilter);
        for types in [[Double; 3], [Half; 3], [Fp8E4m3, Fp8E4m3, Float]] {
            one(layer, types, 16, sizes, Direction::Forward);
        }
        // Instructions that not every processor with AVX-512 has.
        for types in [[Bfloat16; 3], [Int8, Int8, Int32], [Uint8, Int8, Float]] {
            one(layer, types, 16, sizes, Direction::Forward);
        }
    }
    for sizes in DEPTHWISE {
        for direction in DIRECTIONS {
            for types in [[Float; 3], [Fp8E4m3, Fp8E4m3, Float]] {
                one(depthwise, types, 16, *sizes, direction);
            }
        }
        one(depthwise, [Float; 3], 1, *sizes, Direction::Forward);
        one(depthwise, [Int8, Int8, Int32], 16, *sizes, Direction::Forward);
        one(depthwise, [Float, Int64, Float], 16, *sizes, Direction::Forward);
    }
    lines
}

/// `choices.txt` records the cascade of conditions that the list replaced.
#[cfg(target_arch = "x86_64")]
#[test]
fn entries_are_chosen_as_before() {
    use crate::gemm::pairs::Pairs;
    for isa in Isa::available() {
        let (column, has_pairs) = match isa {
            Isa::Portable => (0, true),
            Isa::Avx2 => (1, true),
            // Not every processor with AVX-512 has instructions for pairs of 16 bits.
            Isa::Avx512 => (2 + usize::from(isa.has_whole_vectors()), Pairs::of(*isa).bfloat16),
        };
        let got = choices(*isa);
        let expected: Vec<&str> = include_str!("choices.txt").lines().skip(1).collect();
        assert_eq!(got.len(), expected.len());
        let mut others = Vec::new();
        for (got, expected) in got.into_iter().zip(expected) {
            let (problem, entries) = expected.split_once(": ").unwrap();
            let expected = entries.split(' ').nth(column).unwrap();
            let needs_pairs = got.contains("bfloat16,");
            if got != format!("{problem}: {expected}") && (has_pairs || !needs_pairs) {
                others.push(format!("{got} instead of {expected}"));
            }
        }
        assert!(others.is_empty(), "{isa:?}: {others:#?}");
    }
}

#[test]
fn the_knob_names_every_entry() {
    let entries = List::<f32>::ENTRIES;
    let names: HashSet<_> = entries.iter().map(|entry| entry.algorithm.name()).collect();
    assert_eq!(names.len(), entries.len());
    let text = &fast_knobs().iter().find(|knob| knob.knob_id == "convolution").unwrap().description;
    for (number, algorithm) in Algorithm::VALUES.into_iter().enumerate() {
        assert!(text.contains(&format!(" {number} {}: ", algorithm.name())), "{text}");
        let of_x86 = [Algorithm::Automatic, Algorithm::DirectBfloat16];
        assert!(names.contains(algorithm.name()) || of_x86.contains(&algorithm), "{algorithm:?}");
    }
    assert!(entries.iter().all(|entry| Algorithm::VALUES.contains(&entry.algorithm)));
}

/// Calls `f` with the problems of some layers with settings, and the name of the choice for each.
#[cfg(target_arch = "x86_64")]
fn for_each_choice(settings: Settings, mut f: impl FnMut(&conv::problem::Problem<'_>, &str)) {
    let layers = LAYERS.iter().map(|sizes| layer([DataType::Float; 3], 16, *sizes));
    let depthwise = DEPTHWISE.iter().map(|sizes| depthwise([DataType::Float; 3], 16, *sizes));
    let covering = layer([DataType::Float; 3], 16, [64, 10, 1, 1, 1]);
    for case in layers.chain(depthwise).chain([covering]) {
        for direction in DIRECTIONS {
            let graph = graph(&case, direction);
            let convolution = crate::testing::convolution_of(&graph, &graph.nodes[0].operation);
            for isa in Isa::available() {
                let kernel = kernel(&case, direction, *isa, settings);
                let problem =
                    conv::problem::Problem::new(&convolution, Compute::Single, *isa, settings, None);
                f(&problem, kernel.choices()[0].name);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_order_decides_and_then_the_estimates() {
    let mut estimated = 0;
    for_each_choice(settings(Algorithm::Automatic, true), |problem, chosen| {
        let supported = List::<f32>::ENTRIES.iter().filter(|entry| (entry.supports)(problem).is_ok());
        let supported: Vec<_> =
            supported.map(|entry| (entry.algorithm.name(), (entry.estimate)(problem).unwrap())).collect();
        // Entries with estimates come last.
        assert!(supported.is_sorted_by_key(|(_, time)| time.is_some()));
        let (first, time) = supported[0];
        if time.is_none() {
            assert_eq!(chosen, first);
            return;
        }
        estimated += 1;
        let time = |(_, time): &&(_, Option<f64>)| time.unwrap();
        let least = supported.iter().min_by(|one, other| time(one).total_cmp(&time(other)));
        assert_eq!(chosen, least.unwrap().0);
    });
    assert!(estimated > 0);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_knob_selects_entries() {
    for entry in List::<f32>::ENTRIES {
        let mut times = 0;
        for_each_choice(settings(entry.algorithm, true), |problem, chosen| {
            if (entry.supports)(problem).is_ok() && (entry.estimate)(problem).is_ok() {
                // These algorithms ignore how the knob makes a GEMM read its input.
                let is_before = chosen == "depthwise" && entry.also.is_empty();
                assert!(chosen == entry.algorithm.name() || is_before, "{:?}: {chosen}", entry.algorithm);
                times += usize::from(!is_before);
            }
        });
        let of_other_types = [Algorithm::Converted, Algorithm::DirectBfloat16, Algorithm::DirectInt8];
        // Pairs of tiles are for processors with full vector units, short rows for masked vectors.
        let of_other_processors = match entry.algorithm {
            Algorithm::DirectTwoTiles => !Isa::detect().has_whole_vectors(),
            Algorithm::DirectSmall => !has_special_cases::<f32>(Isa::detect()),
            _ => false,
        };
        assert!(
            times > 0 || of_other_types.contains(&entry.algorithm) || of_other_processors,
            "{:?}",
            entry.algorithm
        );
    }
}

#[test]
fn a_choice_names_the_entries_passed_over() {
    let case = layer([DataType::Float; 3], 1, [64, 64, 56, 3, 1]);
    let choice = |algorithm, isa| {
        let kernel = kernel(&case, Direction::Forward, isa, settings(algorithm, true));
        let [choice] = kernel.choices()[..] else { panic!("{:?}", kernel.choices()) };
        choice.clone()
    };
    for isa in Isa::available() {
        let names: Vec<_> = List::<f32>::ENTRIES.iter().map(|entry| entry.algorithm.name()).collect();
        let automatic = choice(Algorithm::Automatic, *isa);
        let passed_over: Vec<_> = automatic.passed_over.iter().map(|(name, _)| *name).collect();
        let end = names.iter().position(|name| *name == automatic.name).unwrap();
        assert_eq!(passed_over, names[..end]);
        assert!(automatic.passed_over.iter().all(|(_, reason)| !reason.is_empty()));
        assert_eq!(choice(Algorithm::Winograd, *isa).name, "winograd-2x2");
        // If estimates decide, the reasons contain both times.
        let free = settings(Algorithm::Automatic, false);
        let kernel = kernel(&layer([DataType::Float; 3], 1, [5, 7, 9, 5, 1]), Direction::Forward, *isa, free);
        let [estimated] = kernel.choices()[..] else { panic!() };
        assert!(estimated.estimate.is_some());
        let others =
            ["direct", "unrolled", "implicit-gemm"].into_iter().filter(|name| *name != estimated.name);
        for name in others {
            let (_, reason) = estimated.passed_over.iter().find(|(other, _)| *other == name).unwrap();
            assert!(reason.contains("estimated at") && reason.contains(" ms, "), "{reason}");
        }
    }
    let covering = plain([5, 3, 8, 8], [10, 3, 8, 8], 1, 0, ConvMode::CrossCorrelation);
    for direction in DIRECTIONS {
        let kernel = kernel(&covering, direction, Isa::detect(), Settings::default());
        assert_eq!(kernel.choices()[0].name, "matmul");
    }
    // Winograd has no 5 × 5 filters, and direct and im2col have no strides in backward data.
    let five = layer([DataType::Float; 3], 1, [64, 64, 14, 5, 2]);
    for algorithm in [Algorithm::Winograd4, Algorithm::Im2col, Algorithm::Direct] {
        let kernel = kernel(&five, Direction::BackwardData, Isa::detect(), settings(algorithm, true));
        let [choice] = kernel.choices()[..] else { panic!() };
        assert!(choice.passed_over.iter().any(|(name, _)| *name == algorithm.name()), "{choice:?}");
        let general = ["implicit-gemm", "unrolled"].contains(&choice.name);
        assert!(algorithm == Algorithm::Winograd4 || general, "{choice:?}");
    }
}

#[test]
fn the_reference_is_last() {
    let mut case = layer([DataType::Float; 3], 1, [2, 2, 4, 1, 1]);
    for (array, dims) in
        [(&mut case.x, [1, 2, 1, 20_005]), (&mut case.w, [2, 2, 1, 20_000]), (&mut case.y, [1, 2, 1, 6])]
    {
        array.tensor = packed(array.tensor.uid, DataType::Float, &dims);
    }
    let prepared = prepare(&graph(&case, Direction::Forward)).unwrap();
    let plan =
        Plan::in_parts(&prepared, |prepared| parts_at(prepared, Isa::detect(), Settings::default())).unwrap();
    let [(0, choice)] = plan.choices()[..] else { panic!("{:?}", plan.choices()) };
    assert_eq!(choice.name, "reference");
    let [(_, reason)] = &choice.passed_over[..] else { panic!("{choice:?}") };
    assert!(reason.contains("implicit-gemm: the window has 20000 elements"), "{reason}");
}

/// Small images divide among threads: a direct convolution into blocks of rows, and Winograd's few tiles not at all.
#[cfg(target_arch = "x86_64")]
#[test]
fn small_images_divide_among_threads() {
    let with = |most, deterministic| {
        let threads = Threads { most, deterministic, ..Threads::default() };
        Settings { threads, ..settings(Algorithm::Automatic, true) }
    };
    let of = |sizes: [i64; 5], each: &dyn Fn(&conv::problem::Problem<'_>)| {
        let graph = graph(&layer([DataType::Float; 3], 1, sizes), Direction::Forward);
        let convolution = crate::testing::convolution_of(&graph, &graph.nodes[0].operation);
        for isa in Isa::available() {
            each(&conv::problem::Problem::new(&convolution, Compute::Single, *isa, with(1, false), None));
        }
    };
    of([512, 64, 14, 1, 1], &|problem| {
        let parts = |settings| {
            let operands = problem.operands().unwrap().clone();
            let scheme = Scheme::<f32>::unpaired(&operands, problem.isa, 2, None).unwrap();
            let direct = Direct::plan(operands, scheme, problem.isa, settings, 2, None).unwrap();
            direct.geometry.blocks() * direct.panels
        };
        assert!(parts(with(1, false)) <= 16, "{:?}", problem.isa);
        assert!(parts(with(8, false)) >= 5, "{:?}", problem.isa);
    });
    of([128, 32, 14, 3, 1], &|problem| {
        let size = |settings| fastest(problem.operands().unwrap(), problem.isa, settings);
        assert_eq!([size(with(1, false)), size(with(16, true))], [Some(4); 2], "{:?}", problem.isa);
        assert_ne!(size(with(16, false)), Some(4), "{:?}", problem.isa);
    });
}

/// Many threads transform no image that they share, unless the choice must not depend on their number.
#[cfg(target_arch = "x86_64")]
#[test]
fn many_threads_transform_whole_images() {
    for isa in Isa::available() {
        let chosen = |batch, most, deterministic| {
            let graph = graph(&layer([DataType::Float; 3], batch, [64, 64, 56, 3, 1]), Direction::Forward);
            let convolution = crate::testing::convolution_of(&graph, &graph.nodes[0].operation);
            let threads = Threads { most, deterministic, ..Threads::default() };
            let settings = Settings { threads, ..settings(Algorithm::Automatic, true) };
            let problem = conv::problem::Problem::new(&convolution, Compute::Single, *isa, settings, None);
            fastest(problem.operands().unwrap(), *isa, settings).is_some()
        };
        assert_eq!(chosen(1, 16, false), !isa.has_whole_vectors(), "{isa:?}");
        assert!(chosen(1, 4, false) && chosen(16, 16, false) && chosen(1, 16, true), "{isa:?}");
    }
}

/// For batches of any size the tile is one that no number of images makes slow: 4 × 4 outputs of a 7 × 7 image fill a quarter of a vector.
#[cfg(target_arch = "x86_64")]
#[test]
fn tiles_for_any_batch_suit_few_images_and_many() {
    let threads = Threads { batch_invariant: true, ..Threads::default() };
    for sizes in [[512, 512, 7, 3, 1], [128, 128, 28, 3, 1]] {
        let graph = graph(&layer([DataType::Float; 3], 1, sizes), Direction::Forward);
        let convolution = crate::testing::convolution_of(&graph, &graph.nodes[0].operation);
        for isa in Isa::available() {
            let settings = Settings { threads, ..settings(Algorithm::Automatic, true) };
            let problem = conv::problem::Problem::new(&convolution, Compute::Single, *isa, settings, None);
            let expected = match sizes[0] {
                // Full 512-bit vector units wait for that many transformed weights.
                512 => (!isa.has_whole_vectors()).then_some(2),
                _ => Some(4),
            };
            assert_eq!(fastest(problem.operands().unwrap(), *isa, settings), expected, "{isa:?} {sizes:?}");
        }
    }
}
