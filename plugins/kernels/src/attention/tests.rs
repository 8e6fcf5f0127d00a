use super::limits::Limit;
use super::{Attention, Band, Dropout, HeadFactor, Mask, Scale, Start, Tensor, parts, write};
use crate::interpret::{Argument, run};
use crate::product::tests::{numbers, random, targets};
use crate::scalar::Scalar;
use crate::target::{Target, VulkanDevice};

pub(super) fn tensor(scalar: Scalar, [_, heads, rows, elements]: [usize; 4]) -> Tensor {
    // Heads inside rows, as frameworks have them.
    let strides = [rows * heads * elements, elements, heads * elements, 1];
    Tensor { scalar, strides, alignment: 16, start: Start::Even }
}

pub(crate) fn attention(scalar: Scalar, [queries, keys, depth, value_depth]: [usize; 4]) -> Attention {
    let (batch, heads, key_heads) = (2, 2, 1);
    Attention {
        batch,
        heads,
        key_heads,
        value_heads: key_heads,
        queries,
        keys,
        depth,
        value_depth,
        q: tensor(scalar, [batch, heads, queries, depth]),
        k: tensor(scalar, [batch, key_heads, keys, depth]),
        v: tensor(scalar, [batch, key_heads, keys, value_depth]),
        o: tensor(Scalar::F32, [batch, heads, queries, value_depth]),
        scale: Scale::Value(0.5),
        mask: None,
        band: Band::default(),
        slopes: None,
        lengths: None,
        sink: None,
        statistics: [Some(tensor(Scalar::F32, [batch, heads, queries, 1])); 3],
        dropout: None,
        block_mask: None,
        factors: [None; 3],
        scales: [None; 3],
        largest: [false; 2],
        is_invariant: false,
    }
}

fn check(attention: &Attention, target: &Target) {
    check_parts(attention, target, 1);
}

/// The same where so many workgroups share the keys.
pub(super) fn check_parts(attention: &Attention, target: &Target, parts: usize) {
    let Attention { batch, heads, queries, keys, depth, value_depth, .. } = *attention;
    let scalar = attention.q.scalar;
    let (mut q, q_numbers) = random(batch * heads * queries * depth, scalar, 1);
    let (mut k, k_numbers) = random(batch * attention.key_heads * keys * depth, scalar, 2);
    let (mut v, v_numbers) = random(batch * attention.value_heads * keys * value_depth, scalar, 3);
    let mut o = vec![0xff; batch * heads * queries * value_depth * attention.o.scalar.size()];
    let rows = batch * heads * queries;
    let mut statistics = [vec![0xff; 4 * rows], vec![0xff; 4 * rows], vec![0xff; 4 * rows]];
    let mask = attention.mask.map(|mask| {
        let count = batch * heads * queries * keys;
        let (bytes, numbers) = random(count, mask.tensor.scalar, 4);
        if mask.tensor.scalar == Scalar::Bool {
            let odd: Vec<u8> = numbers.iter().map(|number| u8::from(*number as i64 & 1 != 0)).collect();
            let numbers: Vec<f64> = odd.iter().map(|byte| f64::from(*byte)).collect();
            return (odd, numbers);
        }
        (bytes, numbers)
    });
    let (mut mask_bytes, mask_numbers) = mask.unwrap_or_default();
    let mut lengths = [[queries as i32, queries as i32 / 2], [keys as i32 / 2, keys as i32]]
        .map(|lengths| lengths.map(i32::to_le_bytes).concat());
    let (mut sink, sink_numbers) = random(heads, Scalar::F32, 5);
    let mut dropped = Dropped::new(attention);
    // A bit for each block of a sequence.
    let mut blocks = vec![0b01, 0b10, 0b11, 0b01];
    let block = |sequence: usize, query: usize, key: usize| {
        [[1, 2], [3, 1]][sequence][query / 128] >> (key / 128) & 1 != 0
    };
    let (factors, factor_numbers) = random(batch * heads, Scalar::F32, 9);
    let mut largest = [vec![0xff; 4 * rows], vec![0xff; 4 * rows]];
    let (launch, second) = if parts == 1 {
        (write(attention, target, "attention").unwrap(), None)
    } else {
        let shared = parts::write(attention, target, "attention", parts).unwrap();
        (shared.first, Some(shared.second))
    };
    assert!(launch.kernel.shared_bytes() <= target.shared, "{} {attention:?}", target.name);
    let real = if scalar == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
    let mut between = attention
        .between(parts, real)
        .map(|(_, dims)| vec![0xff; dims.iter().product::<usize>() * real.size()]);
    let [of_o, maxima, sums] = &mut between;
    let mut arguments = vec![
        Argument::Memory(&mut q),
        Argument::Memory(&mut k),
        Argument::Memory(&mut v),
        Argument::Memory(if second.is_some() { of_o } else { &mut o }),
    ];
    if attention.mask.is_some() {
        arguments.push(Argument::Memory(&mut mask_bytes));
    }
    if attention.lengths.is_some() {
        arguments.extend(lengths.iter_mut().map(|bytes| Argument::Memory(bytes)));
    }
    arguments.extend(dropped.bytes.iter_mut().map(|bytes| Argument::Memory(bytes)));
    if attention.block_mask.is_some() {
        arguments.push(Argument::Memory(&mut blocks));
    }
    let mut factors = [(); 3].map(|()| factors.clone());
    let [of_q, of_k, of_v] = &mut factors;
    if attention.factors[0].is_some() {
        arguments.extend([Argument::Memory(of_q), Argument::Memory(of_k)]);
    }
    if attention.sink.is_some() {
        arguments.push(Argument::Memory(&mut sink));
    }
    if second.is_some() {
        arguments.extend([maxima, sums].map(|bytes| Argument::Memory(bytes)));
    } else {
        arguments.extend(statistics.iter_mut().map(|bytes| Argument::Memory(bytes)));
    }
    if attention.factors[2].is_some() {
        arguments.push(Argument::Memory(of_v));
    }
    if attention.largest[0] {
        arguments.extend(largest.iter_mut().map(|bytes| Argument::Memory(bytes)));
    }
    run(&launch.kernel, launch.grid, &mut arguments)
        .unwrap_or_else(|error| panic!("{} {attention:?}: {error}", target.name));
    if let Some(second) = second {
        let results = [&mut o].into_iter().chain(&mut statistics);
        let mut arguments: Vec<Argument<'_>> =
            between.iter_mut().chain(results).map(|bytes| Argument::Memory(bytes)).collect();
        run(&second.kernel, second.grid, &mut arguments)
            .unwrap_or_else(|error| panic!("{} {attention:?}: {error}", target.name));
    }
    let got = numbers(&o, attention.o.scalar);
    let statistics = statistics.map(|bytes| numbers(&bytes, Scalar::F32));
    let at = |own: &Tensor, index: [usize; 4]| -> usize {
        index.iter().zip(own.strides).map(|(index, stride)| index * stride).sum()
    };
    let largest = largest.map(|bytes| numbers(&bytes, Scalar::F32));
    let largest = |place: usize| largest.each_ref().map(|all| all[place]);
    // Factors of scores and of results are the same numbers.
    let factor = |sequence: usize, head: usize| match attention.factors[0] {
        Some(_) => factor_numbers[sequence * heads + head],
        None => 1.0,
    };
    let scales = attention.scales.map(|scale| match scale {
        Some(Scale::Value(scale)) => scale,
        _ => 1.0,
    });
    let (of_result, of_statistics) = (Limit::of_result(attention), Limit::of_statistics(attention));
    for place in 0..rows {
        let (sequence, head, query) = (place / (heads * queries), place / queries % heads, place % queries);
        let own = |of: usize| head / (heads / of);
        let (mut own_queries, mut own_keys) = (queries as i64, keys as i64);
        if attention.lengths.is_some() {
            own_queries = if sequence == 0 { queries as i64 } else { queries as i64 / 2 };
            own_keys = if sequence == 0 { keys as i64 / 2 } else { keys as i64 };
        }
        let Scale::Value(scale) = attention.scale else { panic!() };
        let diagonal = query as i64 + if attention.band.bottom_right { own_keys - own_queries } else { 0 };
        let scores: Vec<f64> = (0..keys)
            .map(|key| {
                let dot: f64 = (0..depth)
                    .map(|i| {
                        q_numbers[at(&attention.q, [sequence, head, query, i])]
                            * k_numbers[at(&attention.k, [sequence, own(attention.key_heads), key, i])]
                    })
                    .sum();
                let mut score = dot * scale * factor(sequence, head).powi(2);
                let mut seen = (key as i64) < own_keys && (query as i64) < own_queries;
                seen &= attention.band.left.is_none_or(|left| key as i64 >= diagonal - left as i64);
                seen &= attention.band.right.is_none_or(|right| key as i64 <= diagonal + right as i64);
                seen &= attention.block_mask.is_none() || block(sequence, query, key);
                if let Some(slopes) = &attention.slopes {
                    score -= slopes[head] * (diagonal - key as i64).abs() as f64;
                }
                if let Some(mask) = attention.mask {
                    let own = mask_numbers[at(&mask.tensor, [sequence, head, query, key])];
                    if mask.tensor.scalar == Scalar::Bool {
                        seen &= own != 0.0;
                    } else {
                        score += own;
                    }
                }
                if seen { score } else { f64::NEG_INFINITY }
            })
            .collect();
        let counts = (query as i64) < own_queries;
        let sink = if attention.sink.is_some() && counts { sink_numbers[head] } else { f64::NEG_INFINITY };
        let greatest = scores.iter().copied().fold(sink, f64::max);
        let base = if greatest == f64::NEG_INFINITY { 0.0 } else { greatest };
        let sum: f64 = scores.iter().map(|score| (score - base).exp()).sum::<f64>() + (sink - base).exp();
        let expected = [if sum > 0.0 { greatest + sum.ln() } else { f64::NEG_INFINITY }, greatest, sum];
        let row = at(&tensor(Scalar::F32, [batch, heads, queries, 1]), [sequence, head, query, 0]);
        for (was, expected) in statistics.iter().map(|all| all[row]).zip(expected) {
            let fits = of_statistics.holds(was, expected, expected.abs().max(1.0));
            assert!(fits, "{} {attention:?} {place}: {was}, expected {expected}", target.name);
        }
        let mut greatest_result = 0.0_f64;
        // The elements of v are at most 1 in magnitude, and dropout enlarges those that it keeps.
        let kept = (0..keys).map(|key| dropped.kept([sequence, head, query, key])).fold(1.0, f64::max);
        let scale = kept * factor(sequence, head).abs() * scales.iter().product::<f64>();
        for element in 0..value_depth {
            let total: f64 = scores
                .iter()
                .enumerate()
                .map(|(key, score)| {
                    let index = [sequence, own(attention.value_heads), key, element];
                    let kept = dropped.kept([sequence, head, query, key]);
                    (score - base).exp() * kept * v_numbers[at(&attention.v, index)]
                })
                .sum();
            let expected = if sum > 0.0 { total / sum } else { 0.0 };
            let expected = expected * factor(sequence, head) * scales[0] * scales[1];
            greatest_result = greatest_result.max(expected.abs());
            let expected = expected * scales[2];
            let was = got[at(&attention.o, [sequence, head, query, element])];
            let fits = of_result.holds(was, expected, scale);
            assert!(fits, "{} {attention:?} {place} {element}: {was}, expected {expected}", target.name);
        }
        if attention.largest[0] {
            let probability = if sum > 0.0 { 1.0 / sum } else { 0.0 };
            for (was, expected) in largest(place).into_iter().zip([probability, greatest_result]) {
                let fits = of_result.holds(was, expected, expected.max(1.0));
                assert!(fits, "{} {place}: {was}, expected {expected}", target.name);
            }
        }
    }
}

/// What dropout reads, and which probabilities it drops.
pub(super) struct Dropped {
    /// Arguments.
    pub(super) bytes: Vec<Vec<u8>>,
    attention: Attention,
    mask: Vec<f64>,
}

const SEED: i64 = 0x299f_31d0_a409_3822;
const OFFSET: i32 = -7;

/// Philox 4x32-10 of a number, in 64 bits.
fn word(index: u64) -> u32 {
    let low = |wide: u64| wide & 0xffff_ffff;
    let offset = i64::from(OFFSET) as u64;
    let high = |wide: u64| wide >> 32;
    let mut counter = [low(index / 4), high(index / 4), low(offset), high(offset)];
    let mut key = [low(SEED as u64), high(SEED as u64)];
    for _ in 0..10 {
        let [a, b] = [counter[0] * 0xD251_1F53, counter[2] * 0xCD9E_8D57];
        counter = [high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)];
        key = [low(key[0] + 0x9E37_79B9), low(key[1] + 0xBB67_AE85)];
    }
    counter[index as usize % 4] as u32
}

impl Dropped {
    pub(super) fn new(attention: &Attention) -> Self {
        let Attention { batch, heads, queries, keys, .. } = *attention;
        let (mut bytes, mut mask) = (Vec::new(), Vec::new());
        match attention.dropout {
            None => {}
            Some(Dropout::Random { .. }) => {
                bytes = vec![SEED.to_le_bytes().to_vec(), OFFSET.to_le_bytes().to_vec()];
            }
            Some(Dropout::Mask { .. }) => {
                mask = (0..batch * heads * queries * keys).map(|place| (place % 7 % 3) as f64).collect();
                bytes = vec![mask.iter().flat_map(|own| (*own as f32).to_le_bytes()).collect()];
            }
        }
        Self { bytes, attention: attention.clone(), mask }
    }

    /// What a probability is multiplied by.
    pub(super) fn kept(&self, [sequence, head, query, key]: [usize; 4]) -> f64 {
        let Attention { heads, queries, keys, .. } = self.attention;
        let index = ((sequence * heads + head) * queries + query) * keys + key;
        match self.attention.dropout {
            None => 1.0,
            Some(Dropout::Random { probability, .. }) => {
                let own = f64::from(word(index as u64)) / 4_294_967_296.0;
                if own >= probability { 1.0 / (1.0 - probability) } else { 0.0 }
            }
            Some(Dropout::Mask { scale, .. }) => {
                let Scale::Value(scale) = scale else { panic!() };
                self.mask[index] * scale
            }
        }
    }
}

/// Dropout by a seed and by a mask, for so many queries and keys.
pub(super) fn dropouts(queries: usize, keys: usize) -> [Dropout; 2] {
    let strides = [2 * queries * keys, queries * keys, keys, 1];
    let mask = Tensor { scalar: Scalar::F32, strides, alignment: 4, start: Start::Even };
    let random = Dropout::Random { probability: 0.3, scalars: [Scalar::I64, Scalar::I32] };
    [random, Dropout::Mask { mask, scale: Scale::Value(1.25) }]
}

/// The targets whose fragments differ most.
pub(super) fn some() -> Vec<Target> {
    let names = ["gfx1100", "sm_90", "gfx1200", "gfx90a", "gfx1030", "vulkan"];
    all().into_iter().filter(|target| names.contains(&target.name.as_str())).collect()
}

#[test]
fn dropout_on_every_target() {
    for (place, target) in some().into_iter().enumerate() {
        // Neighbours share a counter if rows have a multiple of 4 keys.
        for keys in [44, 45] {
            let [random, mask] = dropouts(20, keys);
            let own = Attention { dropout: Some(random), ..attention(Scalar::F16, [20, keys, 16, 16]) };
            check(&own, &target);
            if keys % 2 == place % 2 {
                check(&Attention { dropout: Some(mask), ..own }, &target);
                let own = attention(Scalar::F32, [20, keys, 16, 16]);
                check(&Attention { dropout: Some(random), ..own }, &target);
            }
        }
    }
}

#[test]
fn masks_of_blocks() {
    for target in some().into_iter().step_by(2) {
        let mut own = attention(Scalar::F16, [130, 150, 16, 16]);
        own.block_mask = Some([2, 0, 1, 1]);
        check(&own, &target);
    }
}

#[test]
fn bytes_with_factors_and_the_largest() {
    for (place, target) in some().into_iter().enumerate() {
        let scalar = if place % 2 == 0 { Scalar::Fp8E4m3 } else { Scalar::Fp8E5m2 };
        let mut own = attention(scalar, [20, 44, 16, 16]);
        let factor = HeadFactor { scalar: Scalar::F32, heads: 2, strides: [2, 1] };
        own.factors = [Some(factor); 3];
        own.scales = [Some(Scale::Value(0.5)), Some(Scale::Value(1.5)), Some(Scale::Value(0.25))];
        own.largest = [true; 2];
        own.lengths = Some([(Scalar::I32, 1); 2]);
        check(&own, &target);
    }
}

pub(super) fn all() -> Vec<Target> {
    let more = ["gfx908", "gfx950"].map(|name| Target::of(name).unwrap());
    let vulkan = [4, 64].map(|subgroup| {
        let name = "vulkan".to_owned();
        VulkanDevice { name, subgroup, shared: 32 << 10, threads: 128, units: 0, shapes: Vec::new() }.into()
    });
    targets().into_iter().chain(more).chain(vulkan).collect()
}

/// Rows that are fetched by elements are too many for code of their own.
#[test]
fn rows_of_odd_length_are_copied_in_a_loop() {
    let name = "vulkan".to_owned();
    let device =
        VulkanDevice { name, subgroup: 32, shared: 48 << 10, threads: 1024, units: 0, shapes: Vec::new() };
    let target: Target = device.into();
    for sizes in [[40, 20, 39, 37], [3, 70, 75, 75]] {
        check(&attention(Scalar::F16, sizes), &target);
    }
    let [odd, even] = [65, 64].map(|depth| {
        let own = attention(Scalar::F16, [128, 128, depth, depth]);
        format!("{:?}", write(&own, &target, "attention").unwrap().kernel.body).len()
    });
    assert!(odd < 2 * even, "{odd} and {even} characters");
}

#[test]
fn plain_attention_on_every_target() {
    for target in all() {
        for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64] {
            check(&attention(scalar, [20, 70, 16, 16]), &target);
        }
        check(&attention(Scalar::F16, [33, 40, 40, 24]), &target);
    }
}

#[test]
fn keys_are_divided_alike_for_any_number_of_queries_if_they_must_be() {
    use super::plan::Plan;
    let keys = |target: &Target, queries: usize, depth: usize, is_invariant: bool| {
        let own = Attention { is_invariant, ..attention(Scalar::F16, [queries, 700, depth, depth]) };
        Plan::of(&own, target).map(|plan| (plan.sizes.keys, plan.shape))
    };
    let mut differ = 0;
    for target in all() {
        for depth in [64, 128, 256] {
            let many = keys(&target, 512, depth, true);
            for queries in [1, 3, 70] {
                assert_eq!(keys(&target, queries, depth, true), many, "{} {depth}", target.name);
                differ += usize::from(keys(&target, queries, depth, false) != many);
            }
        }
    }
    assert!(differ > 0, "every number of queries has the same blocks without that, too");
}

#[test]
fn masks_bands_lengths_and_sinks() {
    let both = |left, right, bottom_right| Band { left, right, bottom_right };
    for target in all() {
        for band in [both(None, Some(0), false), both(None, Some(0), true), both(Some(7), Some(3), true)] {
            check(&Attention { band, ..attention(Scalar::F16, [40, 48, 16, 16]) }, &target);
        }
        let mut own = attention(Scalar::Bf16, [20, 24, 16, 16]);
        own.slopes = Some(vec![0.5, 0.25]);
        own.lengths = Some([(Scalar::I32, 1); 2]);
        own.band = both(None, Some(0), true);
        check(&own, &target);
        own.sink = Some((Scalar::F32, 1));
        own.slopes = None;
        for scalar in [Scalar::F32, Scalar::Bool] {
            own.mask = Some(Mask {
                tensor: Tensor {
                    scalar,
                    strides: [2 * 20 * 24, 20 * 24, 24, 1],
                    alignment: 4,
                    start: Start::Even,
                },
            });
            check(&own, &target);
        }
    }
}

/// Where a folder is named, sources of kernels of real sizes are left there, for compilers.
#[test]
fn kernels_of_real_sizes_are_written() {
    for name in
        ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1200", "sm_80", "sm_90"]
    {
        let target = Target::of(name).unwrap();
        for depth in [64, 128, 256] {
            let mut own = attention(Scalar::F16, [1024, 1024, depth, depth]);
            own.o.scalar = Scalar::F16;
            own.band.right = Some(0);
            let launch = write(&own, &target, &format!("attention_{depth}")).unwrap();
            let text = crate::print::c::kernel(&launch.kernel, target.language);
            if let Some(folder) = std::env::var_os("PRINTED_KERNELS") {
                let path = std::path::Path::new(&folder).join(format!("attention-{depth}-{name}.cpp"));
                std::fs::write(path, crate::print::c::preamble(target.language) + &text).unwrap();
            }
            assert!(text.contains("__global__"));
        }
        let mut own = attention(Scalar::F16, [128, 160, 64, 64]);
        own.band.right = Some(0);
        own.dropout = Some(dropouts(128, 160)[0]);
        own.statistics = [None; 3];
        let launch = write(&own, &target, "dropped").unwrap();
        let text = crate::print::c::kernel(&launch.kernel, target.language);
        if let Some(folder) = std::env::var_os("PRINTED_KERNELS") {
            let path = std::path::Path::new(&folder).join(format!("dropout-{name}.cpp"));
            std::fs::write(path, crate::print::c::preamble(target.language) + &text).unwrap();
        }
    }
}
