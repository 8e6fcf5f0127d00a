use super::super::limits::Limit;
use super::super::tests::{Dropped, all, attention, dropouts, some, tensor};
use super::super::{Attention, Band, Mask, Scale, Start, Tensor};
use super::{Gradients, Of, row_sums, write};
use crate::interpret::{Argument, run};
use crate::product::tests::{numbers, random};
use crate::scalar::Scalar;
use crate::target::Target;

fn at(own: &Tensor, index: [usize; 4]) -> usize {
    index.iter().zip(own.strides).map(|(index, stride)| index * stride).sum()
}

/// The gradients in double precision, each as a function of its place.
struct Expected<'a> {
    own: &'a Gradients,
    q: &'a [f64],
    k: &'a [f64],
    v: &'a [f64],
    d_o: &'a [f64],
    stats: &'a [f64],
    sums: &'a [f64],
    mask: &'a [f64],
    lengths: [[usize; 2]; 2],
    dropped: &'a Dropped,
    /// Those of all scores.
    slopes: Vec<[f64; 2]>,
}

impl Expected<'_> {
    /// Computes all slopes, each of which many gradients need.
    fn with_slopes(mut self) -> Self {
        let Attention { batch, heads, queries, keys, .. } = self.own.attention;
        let scores = 0..batch * heads * queries * keys;
        let index = |at| {
            [at / (heads * queries * keys), at / (queries * keys) % heads, at / keys % queries, at % keys]
        };
        self.slopes = scores.map(|at| self.computed(index(at))).collect();
        self
    }

    /// A probability with its dropout, and the gradient of its score.
    fn slope(&self, [sequence, head, query, key]: [usize; 4]) -> [f64; 2] {
        let Attention { heads, queries, keys, .. } = self.own.attention;
        self.slopes[((sequence * heads + head) * queries + query) * keys + key]
    }

    fn computed(&self, [sequence, head, query, key]: [usize; 4]) -> [f64; 2] {
        let Attention { heads, key_heads, value_heads, depth, value_depth, band, .. } = self.own.attention;
        let a = &self.own.attention;
        let [queries, keys] = self.lengths[sequence].map(|length| length as i64);
        let diagonal = query as i64 + if band.bottom_right { keys - queries } else { 0 };
        let mut seen = (key as i64) < keys && (query as i64) < queries;
        seen &= band.left.is_none_or(|left| key as i64 >= diagonal - left as i64);
        seen &= band.right.is_none_or(|right| key as i64 <= diagonal + right as i64);
        let dot =
            |x: &[f64], y: &[f64], xs: &Tensor, ys: &Tensor, of: [usize; 4], other: [usize; 4], n: usize| {
                let element = |i: usize| {
                    x[at(xs, [of[0], of[1], of[2], i])] * y[at(ys, [other[0], other[1], other[2], i])]
                };
                (0..n).map(element).sum::<f64>()
            };
        let of_query = [sequence, head, query, 0];
        let of_key = [sequence, head / (heads / key_heads), key, 0];
        let of_value = [sequence, head / (heads / value_heads), key, 0];
        let Scale::Value(scale) = a.scale else { panic!() };
        let mut score = scale * dot(self.q, self.k, &a.q, &a.k, of_query, of_key, depth);
        if let Some(slopes) = &a.slopes {
            score -= slopes[head] * (diagonal - key as i64).abs() as f64;
        }
        if let Some(mask) = a.mask {
            score += self.mask[at(&mask.tensor, [sequence, head, query, key])];
        }
        let stats = self.stats[at(&self.own.stats, of_query)];
        if !seen || stats == f64::NEG_INFINITY {
            return [0.0; 2];
        }
        let product = dot(self.d_o, self.v, &self.own.d_o, &a.v, of_query, of_value, value_depth);
        let power = (score - stats).exp();
        let kept = self.dropped.kept([sequence, head, query, key]);
        [power * kept, power * (product * kept - self.sums[at(&self.own.sums, of_query)])]
    }

    fn gradient(&self, of: Of, [sequence, head, row, element]: [usize; 4]) -> f64 {
        let Attention { heads, key_heads, value_heads, queries, keys, .. } = self.own.attention;
        let a = &self.own.attention;
        let Scale::Value(scale) = a.scale else { panic!() };
        let group = heads / if of == Of::Keys { key_heads } else { value_heads };
        let shared = head * group..(head + 1) * group;
        match of {
            Of::Queries => (0..keys)
                .map(|key| {
                    let own = self.k[at(&a.k, [sequence, head / (heads / key_heads), key, element])];
                    scale * self.slope([sequence, head, row, key])[1] * own
                })
                .sum(),
            Of::Keys => shared
                .flat_map(|head| (0..queries).map(move |query| (head, query)))
                .map(|(head, query)| {
                    let own = self.q[at(&a.q, [sequence, head, query, element])];
                    scale * self.slope([sequence, head, query, row])[1] * own
                })
                .sum(),
            Of::Values => shared
                .flat_map(|head| (0..queries).map(move |query| (head, query)))
                .map(|(head, query)| {
                    let own = self.d_o[at(&self.own.d_o, [sequence, head, query, element])];
                    self.slope([sequence, head, query, row])[0] * own
                })
                .sum(),
            Of::Mask => (0..a.batch).map(|sequence| self.slope([sequence, head, row, element])[1]).sum(),
        }
    }
}

fn check(attention: &Attention, target: &Target) {
    let Attention { batch, heads, key_heads, value_heads, queries, keys, depth, value_depth, .. } =
        *attention;
    let scalar = attention.q.scalar;
    let mut attention = attention.clone();
    attention.o = tensor(scalar, [batch, heads, queries, value_depth]);
    let real = Gradients::real(&attention);
    let own = Gradients {
        stats: tensor(Scalar::F32, [batch, heads, queries, 1]),
        d_o: tensor(scalar, [batch, heads, queries, value_depth]),
        sums: Tensor {
            scalar: real,
            strides: [heads * queries, queries, 1, 1],
            alignment: 8,
            start: Start::Even,
        },
        attention,
    };
    let a = &own.attention;
    let (mut q, q_numbers) = random(batch * heads * queries * depth, scalar, 1);
    let (mut k, k_numbers) = random(batch * key_heads * keys * depth, scalar, 2);
    let (mut v, v_numbers) = random(batch * value_heads * keys * value_depth, scalar, 3);
    let (mut o, o_numbers) = random(batch * heads * queries * value_depth, scalar, 4);
    let (mut d_o, d_o_numbers) = random(batch * heads * queries * value_depth, scalar, 5);
    let stats_numbers: Vec<f64> = (0..batch * heads * queries)
        .map(|place| if place % 11 == 5 { f64::NEG_INFINITY } else { 3.0 + (place % 7) as f64 / 8.0 })
        .collect();
    let mut stats: Vec<u8> = stats_numbers.iter().flat_map(|own| (*own as f32).to_le_bytes()).collect();
    let (mut mask, mask_numbers) =
        a.mask.map(|mask| random(heads * queries * keys, mask.tensor.scalar, 6)).unwrap_or_default();
    let lengths =
        if a.lengths.is_some() { [[queries, keys / 2], [queries / 2, keys]] } else { [[queries, keys]; 2] };
    let mut passed = [0, 1].map(|which| {
        lengths.iter().flat_map(|own: &[usize; 2]| (own[which] as i32).to_le_bytes()).collect::<Vec<u8>>()
    });
    let mut sums = vec![0xff; batch * heads * queries * real.size()];
    let written = row_sums(&own, target, "row_sums").unwrap();
    let mut arguments = [&mut o, &mut d_o, &mut sums].map(|bytes| Argument::Memory(bytes));
    run(&written.kernel, written.groups, &mut arguments).unwrap();
    let sums_numbers = numbers(&sums, real);
    for (place, own) in sums_numbers.iter().enumerate() {
        let index = [place / (heads * queries), place / queries % heads, place % queries];
        let element = |i| at(&a.o, [index[0], index[1], index[2], i]);
        let expected: f64 = (0..value_depth).map(|i| o_numbers[element(i)] * d_o_numbers[element(i)]).sum();
        // Sums of these numbers are exact.
        assert_eq!(*own, expected, "{} {place}", target.name);
    }
    let dropped = Dropped::new(a);
    let mut of_dropout = dropped.bytes.clone();
    let expected = Expected {
        own: &own,
        q: &q_numbers,
        k: &k_numbers,
        v: &v_numbers,
        d_o: &d_o_numbers,
        stats: &stats_numbers,
        sums: &sums_numbers,
        mask: &mask_numbers,
        lengths,
        dropped: &dropped,
        slopes: Vec::new(),
    }
    .with_slopes();
    for (of, dims) in [
        (Of::Queries, [batch, heads, queries, depth]),
        (Of::Keys, [batch, key_heads, keys, depth]),
        (Of::Values, [batch, value_heads, keys, value_depth]),
        (Of::Mask, [1, heads, queries, keys]),
    ] {
        if of == Of::Mask && a.mask.is_none() {
            continue;
        }
        let result = tensor(Scalar::F32, dims);
        let launch = write(&own, of, &result, [dims[0], dims[1]], target, "gradient").unwrap();
        assert!(launch.kernel.shared_bytes() <= target.shared, "{} {of:?} {a:?}", target.name);
        let mut bytes = vec![0xff; 4 * dims.iter().product::<usize>()];
        let mut arguments: Vec<Argument<'_>> =
            [&mut q, &mut k, &mut v, &mut d_o, &mut stats, &mut sums, &mut bytes]
                .into_iter()
                .map(|bytes| Argument::Memory(bytes))
                .collect();
        if a.mask.is_some() {
            arguments.push(Argument::Memory(&mut mask));
        }
        if a.lengths.is_some() {
            arguments.extend(passed.iter_mut().map(|bytes| Argument::Memory(bytes)));
        }
        arguments.extend(of_dropout.iter_mut().map(|bytes| Argument::Memory(bytes)));
        run(&launch.kernel, launch.grid, &mut arguments)
            .unwrap_or_else(|error| panic!("{} {of:?} {a:?}: {error}", target.name));
        let got = numbers(&bytes, Scalar::F32);
        let largest = got.iter().fold(1.0_f64, |most, own| most.max(own.abs()));
        let limit = Limit::of_gradients(a);
        for place in 0..dims.iter().product() {
            let [_, heads, rows, elements] = dims;
            let line = place / elements;
            let index = [line / (heads * rows), line / rows % heads, line % rows, place % elements];
            let (was, expected) = (got[at(&result, index)], expected.gradient(of, index));
            let fits = limit.holds(was, expected, largest);
            assert!(fits, "{} {of:?} {a:?} {index:?}: {was}, expected {expected}", target.name);
        }
    }
}

/// Every `step`-th item from a target's place on; all of them if `HIPDNN_TEST_LONG` is set, as every night. The interpreter is slow.
fn sample<T, const N: usize>(items: [T; N], place: usize, step: usize) -> Vec<T> {
    let is_whole = std::env::var_os("HIPDNN_TEST_LONG").is_some();
    let chosen = |(at, item): (usize, T)| (is_whole || at % step == place % step).then_some(item);
    items.into_iter().enumerate().filter_map(chosen).collect()
}

#[test]
fn gradients_on_every_target() {
    for (place, target) in all().into_iter().enumerate() {
        for scalar in sample([Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64], place, 2) {
            check(&attention(scalar, [20, 40, 16, 24]), &target);
        }
        for sizes in sample([[9, 33, 40, 70], [9, 33, 24, 40]], place, 2) {
            check(&attention(Scalar::F32, sizes), &target);
        }
    }
}

#[test]
fn gradients_with_dropout() {
    for (place, target) in some().into_iter().enumerate() {
        let keys = if place % 2 == 0 { 44 } else { 45 };
        for dropout in dropouts(20, keys) {
            let mut own = Attention { dropout: Some(dropout), ..attention(Scalar::F16, [20, keys, 16, 16]) };
            let strides = [0, 20 * keys, keys, 1];
            let tensor = Tensor { scalar: Scalar::F32, strides, alignment: 4, start: Start::Even };
            own.mask = Some(Mask { tensor });
            check(&own, &target);
        }
    }
}

#[test]
fn gradients_of_masks_bands_and_lengths() {
    let both = |left, right, bottom_right| Band { left, right, bottom_right };
    let bands = [both(None, Some(0), false), both(None, Some(0), true), both(Some(7), Some(3), true)];
    for (place, target) in all().into_iter().enumerate() {
        for band in sample(bands, place, 3) {
            check(&Attention { band, ..attention(Scalar::F16, [40, 48, 16, 16]) }, &target);
        }
        let mut own = attention(Scalar::Bf16, [20, 24, 16, 16]);
        own.slopes = Some(vec![0.5, 0.25]);
        own.lengths = Some([(Scalar::I32, 1); 2]);
        own.band = both(None, Some(0), true);
        check(&own, &target);
        own.value_heads = 2;
        own.v = tensor(Scalar::Bf16, [2, 2, 24, 16]);
        let strides = [0, 20 * 24, 24, 1];
        own.mask =
            Some(Mask { tensor: Tensor { scalar: Scalar::F32, strides, alignment: 4, start: Start::Even } });
        check(&own, &target);
    }
}

/// Rows that do not fit shared memory go through it in parts.
#[test]
fn long_rows_go_through_shared_memory_in_parts() {
    for name in ["gfx1100", "sm_90"] {
        let mut target = Target::of(name).unwrap();
        target.shared = 20 << 10;
        check(&attention(Scalar::F32, [5, 20, 144, 80]), &target);
    }
}

/// Where there are registers for two tiles of rows of each subgroup.
#[test]
fn long_blocks_of_rows() {
    let target = Target::of("sm_90").unwrap();
    let mut own = attention(Scalar::F16, [70, 80, 16, 24]);
    own.band.right = Some(0);
    check(&own, &target);
    check(&Attention { dropout: Some(dropouts(70, 80)[0]), ..own }, &target);
    check(&attention(Scalar::Bf16, [66, 70, 72, 80]), &target);
}

/// Where a folder is named, sources of kernels of real sizes are left there, for compilers.
#[test]
fn gradients_of_real_sizes_are_written() {
    for (name, depth) in [("sm_90", 64), ("sm_90", 128), ("gfx1100", 128), ("gfx942", 128)] {
        let target = Target::of(name).unwrap();
        let mut attention = attention(Scalar::F16, [1024, 1024, depth, depth]);
        attention.band.right = Some(0);
        let result = tensor(Scalar::F16, [2, 2, 1024, depth]);
        let rows = tensor(Scalar::F32, [2, 2, 1024, 1]);
        let own = Gradients { stats: rows, d_o: result, sums: rows, attention };
        for of in [Of::Queries, Of::Keys, Of::Values] {
            let launch = write(&own, of, &result, [2, 2], &target, "gradient").unwrap();
            let text = crate::print::c::kernel(&launch.kernel, target.language);
            if let Some(folder) = std::env::var_os("PRINTED_KERNELS") {
                let path = std::path::Path::new(&folder).join(format!("gradient-{of:?}-{depth}-{name}.cpp"));
                std::fs::write(path, crate::print::c::preamble(target.language) + &text).unwrap();
            }
            assert!(text.contains("__global__"));
            let dropout = Some(dropouts(1024, 1024)[0]);
            let own = Gradients { attention: Attention { dropout, ..own.attention.clone() }, ..own.clone() };
            let launch = write(&own, of, &result, [2, 2], &target, "gradient").unwrap();
            let text = crate::print::c::kernel(&launch.kernel, target.language);
            if let Some(folder) = std::env::var_os("PRINTED_KERNELS") {
                let path = std::path::Path::new(&folder).join(format!("dropped-{of:?}-{depth}-{name}.cpp"));
                std::fs::write(path, crate::print::c::preamble(target.language) + &text).unwrap();
            }
        }
    }
}
