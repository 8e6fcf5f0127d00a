use super::{Convolution, Direction, Tensor, write, write_as};
use crate::domain::{Access, Epilogue, Origin, Program, Store};
use crate::form::Parameter;
use crate::product::Launches;
use crate::product::parts::Parts;
use crate::product::plan::{Plan, Sharing, Work};
use crate::product::tests::{numbers, random, rough, run_all, targets};
use crate::scalar::Scalar;
use crate::target::Target;

/// The strides of dims, channels first or last.
fn tensor(scalar: Scalar, dims: &[usize], last: bool) -> Tensor {
    let mut strides = vec![1; dims.len()];
    let mut order: Vec<usize> = (0..dims.len()).collect();
    if last {
        order.remove(1);
        order.push(1);
    }
    let mut next = 1;
    for axis in order.into_iter().rev() {
        strides[axis] = next;
        next *= dims[axis];
    }
    Tensor { scalar, strides, alignment: 16 }
}

struct Case {
    sizes: [usize; 4],
    input: Vec<usize>,
    window: Vec<usize>,
    stride: usize,
    dilation: usize,
    padding: usize,
}

fn make(case: &Case, direction: Direction, scalar: Scalar, last: bool, mirrored: bool) -> Convolution {
    let [batch, groups, in_channels, out_channels] = case.sizes;
    let output: Vec<usize> = case
        .input
        .iter()
        .zip(&case.window)
        .map(|(input, window)| {
            (input + 2 * case.padding - (window - 1) * case.dilation - 1) / case.stride + 1
        })
        .collect();
    let dims = |first: usize, second: usize, rest: &[usize]| [&[first, second], rest].concat();
    let of = |wanted: Direction| if wanted == direction { Scalar::F32 } else { scalar };
    Convolution {
        direction,
        batch,
        groups,
        in_channels,
        out_channels,
        x: tensor(of(Direction::Data), &dims(batch, groups * in_channels, &case.input), last),
        w: tensor(of(Direction::Filter), &dims(groups * out_channels, in_channels, &case.window), last),
        y: tensor(of(Direction::Forward), &dims(batch, groups * out_channels, &output), last),
        stride: vec![case.stride; output.len()],
        dilation: vec![case.dilation; output.len()],
        padding: vec![case.padding; output.len()],
        input: case.input.clone(),
        window: case.window.clone(),
        output,
        mirrored,
        epilogue: None,
    }
}

/// The result's dims, and its place among the tensors.
fn result(c: &Convolution) -> (Vec<usize>, usize) {
    let [.., place] = c.places();
    let (first, second, rest) = match place {
        0 => (c.batch, c.groups * c.in_channels, &c.input),
        1 => (c.groups * c.out_channels, c.in_channels, &c.window),
        _ => (c.batch, c.groups * c.out_channels, &c.output),
    };
    ([&[first, second], rest.as_slice()].concat(), place)
}

/// max(result + a bias of its second dimension + an element of another tensor with its layout, 0), with its layout.
fn epilogue(c: &Convolution) -> Epilogue {
    let (dims, place) = result(c);
    let strides = c.tensor(place).strides.clone();
    let of_second = (0..dims.len()).map(|axis| usize::from(axis == 1)).collect();
    let access = |parameter, scalar, strides| Access { parameter, scalar, strides, alignment: 16 };
    let memory = |scalar: Scalar, written| Parameter::Memory { scalar, written, alignment: scalar.size() };
    let parameters = vec![memory(Scalar::F32, false), memory(Scalar::F16, false), memory(Scalar::F32, true)];
    let mut program = Program { dims, parameters, ..Program::default() };
    let sum = program.push(Origin::Given, Scalar::F32);
    let bias = program.push(Origin::Load(access(0, Scalar::F32, of_second)), Scalar::F32);
    let other = program.push(Origin::Load(access(1, Scalar::F16, strides.clone())), Scalar::F32);
    let value = program.compute(Scalar::F32, &[sum, bias, other], |b, x| {
        let moved = b.add(x[0], x[1]);
        let all = b.add(moved, x[2]);
        b.max(all, 0.0)
    });
    program.stores.push(Store { value, access: access(2, Scalar::F32, strides) });
    Epilogue { program, scalar: Scalar::F32 }
}

fn groups_of(case: &Case) -> usize {
    case.sizes[1]
}

fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let count = dims.iter().product();
    let split = |mut index: usize| {
        let mut parts = vec![0; dims.len()];
        for (part, dim) in parts.iter_mut().zip(dims).rev() {
            (*part, index) = (index % dim, index / dim);
        }
        parts
    };
    (0..count).map(split).collect()
}

fn at(tensor: &Tensor, first: usize, second: usize, rest: &[usize]) -> usize {
    let rest: usize = rest.iter().zip(&tensor.strides[2..]).map(|(index, stride)| index * stride).sum();
    first * tensor.strides[0] + second * tensor.strides[1] + rest
}

fn check(c: &Convolution, target: &Target) {
    check_written(c, target, &write(c, target, "convolution", true).unwrap());
}

fn check_written(c: &Convolution, target: &Target, launches: &Launches) {
    let count = |first: usize, second: usize, rest: &[usize]| first * second * rest.iter().product::<usize>();
    let sizes = [
        count(c.batch, c.groups * c.in_channels, &c.input),
        count(c.groups * c.out_channels, c.in_channels, &c.window),
        count(c.batch, c.groups * c.out_channels, &c.output),
    ];
    let tensors = [&c.x, &c.w, &c.y];
    let (dims, result) = result(c);
    let mut inputs: Vec<(Vec<u8>, Vec<f64>)> =
        (0..3).map(|i| random(sizes[i], tensors[i].scalar, i as u64 + 1)).collect();
    inputs[result].0.fill(0xff);
    let mut bytes: Vec<Vec<u8>> = inputs.iter().map(|(bytes, _)| bytes.clone()).collect();
    // Those of the epilogue: a bias, what is added, and what is stored instead of the result.
    let (bias, biases) = random(dims[1], Scalar::F32, 7);
    let (added, others) = random(sizes[result], Scalar::F16, 9);
    bytes.extend([bias, added, bytes[result].clone()]);
    run_all(launches, target, &mut bytes).unwrap_or_else(|error| panic!("{} {c:?}: {error}", target.name));
    let got = numbers(&bytes[if c.epilogue.is_some() { 5 } else { result }], Scalar::F32);
    let mut expected = vec![0.0; sizes[result]];
    for image in 0..c.batch {
        for group in 0..c.groups {
            for (k, ch) in (0..c.out_channels).flat_map(|k| (0..c.in_channels).map(move |ch| (k, ch))) {
                for pixel in indices(&c.output) {
                    for element in indices(&c.window) {
                        let places: Vec<i64> = (0..pixel.len())
                            .map(|i| {
                                (pixel[i] * c.stride[i] + element[i] * c.dilation[i]) as i64
                                    - c.padding[i] as i64
                            })
                            .collect();
                        if places
                            .iter()
                            .zip(&c.input)
                            .any(|(place, size)| *place < 0 || *place >= *size as i64)
                        {
                            continue;
                        }
                        let places: Vec<usize> = places.iter().map(|place| *place as usize).collect();
                        let turned: Vec<usize> = element
                            .iter()
                            .zip(&c.window)
                            .map(|(i, size)| if c.mirrored { size - 1 - i } else { *i })
                            .collect();
                        let x = at(&c.x, image, group * c.in_channels + ch, &places);
                        let w = at(&c.w, group * c.out_channels + k, ch, &turned);
                        let y = at(&c.y, image, group * c.out_channels + k, &pixel);
                        match c.direction {
                            Direction::Forward => expected[y] += inputs[0].1[x] * inputs[1].1[w],
                            Direction::Data => expected[x] += inputs[2].1[y] * inputs[1].1[w],
                            Direction::Filter => expected[w] += inputs[0].1[x] * inputs[2].1[y],
                        }
                    }
                }
            }
        }
    }
    if c.epilogue.is_some() {
        for index in indices(&dims) {
            let place = at(tensors[result], index[0], index[1], &index[2..]);
            expected[place] = f64::max(expected[place] + biases[index[1]] + others[place], 0.0);
        }
    }
    for (place, (was, expected)) in got.iter().zip(&expected).enumerate() {
        // Sums of these numbers are exact.
        assert_eq!(was, expected, "{} {c:?} {place}", target.name);
    }
}

#[test]
fn convolutions_of_all_directions_and_layouts() {
    let case = |sizes, input: &[usize], window: &[usize], [stride, dilation, padding]: [usize; 3]| Case {
        sizes,
        input: input.to_vec(),
        window: window.to_vec(),
        stride,
        dilation,
        padding,
    };
    let cases = [
        case([2, 1, 8, 16], &[6, 7], &[3, 3], [1, 1, 1]),
        case([1, 2, 3, 5], &[9, 8], &[3, 2], [2, 1, 1]),
        case([2, 1, 4, 6], &[11], &[3], [1, 2, 0]),
        case([1, 1, 2, 3], &[4, 5, 3], &[2, 2, 2], [2, 1, 1]),
        case([2, 4, 1, 1], &[6, 6], &[3, 3], [1, 1, 1]),
    ];
    let kinds = [
        (Scalar::F16, true, false),
        (Scalar::Bf16, false, false),
        (Scalar::F32, true, true),
        (Scalar::F16, false, true),
    ];
    // Every case with every direction and kind, on one target after the other.
    let mut targets = targets().into_iter().cycle();
    for case in &cases {
        for direction in [Direction::Forward, Direction::Data, Direction::Filter] {
            for (scalar, last, mirrored) in kinds {
                let Some(target) = targets.next() else { return };
                let mut c = make(case, direction, scalar, last, mirrored);
                check(&c, &target);
                c.epilogue = Some(epilogue(&c));
                check(&c, &target);
                let [m, n, k, batch] = [16, 16, 64, groups_of(case)];
                let work = Work { m, n, k, batch, operand: scalar, gathered: false, sharing: Sharing::Never };
                let Plan { tiling, .. } = Plan::of(&target, &work);
                let [rows, _] = super::sides::sides(&c);
                let plan = Plan { parts: Parts::of(rows.depth(), tiling.depth, 3), tiling };
                check_written(&c, &target, &write_as(&c, &target, "convolution", &plan).unwrap());
            }
        }
    }
}

/// The bytes of the first image of the result for numbers whose sums are rounded, and the parts of dot products.
fn first_image(c: &Convolution, target: &Target) -> (Vec<u8>, u32) {
    let launches = write(c, target, "convolution", false).unwrap();
    let [x, y] = [(c.in_channels, &c.input), (c.out_channels, &c.output)]
        .map(|(channels, rest)| c.groups * channels * rest.iter().product::<usize>());
    let w = c.groups * c.out_channels * c.in_channels * c.window.iter().product::<usize>();
    let (_, place) = result(c);
    let sizes = [c.batch * x, w, c.batch * y];
    let mut bytes: Vec<Vec<u8>> = (0..3).map(|of| rough(sizes[of], c.tensor(of).scalar)).collect();
    bytes[place].fill(0xff);
    run_all(&launches, target, &mut bytes).unwrap();
    let mut image = bytes.swap_remove(place);
    image.truncate(image.len() / c.batch);
    (image, launches.all[0].launch.kernel.parts)
}

#[test]
fn images_have_the_same_bits_whatever_their_number() {
    for target in targets() {
        for (direction, channels) in [(Direction::Forward, [160, 8]), (Direction::Data, [8, 160])] {
            for last in [true, false] {
                let [of_x, of_y] = channels;
                let of = |images| {
                    let (sizes, input, window) = ([images, 1, of_x, of_y], vec![3, 4], vec![3, 3]);
                    let case = Case { sizes, input, window, stride: 1, dilation: 1, padding: 1 };
                    first_image(&make(&case, direction, Scalar::F32, last, false), &target)
                };
                let (alone, parts) = of(1);
                assert!(parts > 1, "{} {direction:?} {last}", target.name);
                let (first, own) = of(6);
                assert_eq!(own, parts, "{} {direction:?} {last}", target.name);
                assert!(first == alone, "{} {direction:?} {last}", target.name);
            }
        }
    }
}

/// A window of several elements meets pixels again; one of a single element, or with a stride of its size, does not.
#[test]
fn pixels_that_a_window_meets_again_stay_near() {
    let target = Target::of("sm_90").unwrap();
    for (window, stride, near) in [(3, 1, true), (3, 2, true), (1, 1, false), (2, 2, false)] {
        let sizes = [1, 1, 16, 16];
        let case =
            Case { sizes, input: vec![8; 2], window: vec![window; 2], stride, dilation: 1, padding: 0 };
        for direction in [Direction::Forward, Direction::Filter] {
            let c = make(&case, direction, Scalar::F16, true, false);
            let launches = write(&c, &target, "convolution", false).unwrap();
            let text = crate::print::c::kernel(&launches.all[0].launch.kernel, target.language);
            assert!(text.contains("copy_beside<16, false>"), "{direction:?} {window}");
            assert_eq!(text.contains("copy_beside<16, true>"), near, "{direction:?} {window}");
        }
    }
}
