//! The kernel.

#![expect(
    clippy::indexing_slicing,
    reason = "tiles and statistics are in tables made here, of the sizes that loops run over"
)]

use super::layout::{Layout, Passing, Way};
use super::scores::{Context, LOG2_E};
use super::staging::{Rows, copy};
use super::{Attention, Scale, Tensor};
use crate::builder::{At, Builder};
use crate::form::{Index, Local, Memory, Order, Pointer, Role, Tile, Unary, Value};
use crate::product::{Launch, engine};
use crate::scalar::Scalar;
use crate::target::{Language, MatrixShape, Target};

/// The sizes of a workgroup's work.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Subgroups, and tiles of queries of each.
    groups: usize,
    tiles: usize,
    /// Keys of a block.
    keys: usize,
}

/// The most shared memory: two workgroups should fit a compute unit.
const SHARED: usize = 100 << 10;
/// Registers that a thread may hold queries in.
const HELD: usize = 64;

struct Plan {
    shape: MatrixShape,
    sizes: Sizes,
    layout: Layout,
    /// The elements of queries and of values, with padding to whole tiles.
    depth: usize,
    value_depth: usize,
}

impl Plan {
    fn of(attention: &Attention, target: &Target) -> Option<Self> {
        let operand = attention.q.scalar;
        let known = |shape: &&MatrixShape| {
            shape.operand == operand && shape.sum == Scalar::F32 && shape.fragments.is_some()
        };
        let shape = target.shapes.iter().find(known).cloned().unwrap_or_else(|| target.plain(operand));
        let wide = attention.depth.max(attention.value_depth) > 128;
        let cuda = target.language == Language::Cuda && shape.is_matrix();
        let all: &[(usize, usize, usize)] = match (cuda, shape.is_matrix()) {
            (true, _) if attention.depth.max(attention.value_depth) <= 64 => {
                &[(4, 2, 64), (4, 1, 64), (2, 1, 32), (1, 1, 32)]
            }
            (true, _) => &[(4, 1, 64), (4, 1, 32), (2, 1, 32), (1, 1, 32)],
            (_, true) if wide => &[(4, 1, 32), (2, 1, 32), (2, 1, 16), (1, 1, 16)],
            (_, true) => &[(4, 1, 64), (4, 1, 32), (2, 1, 32), (1, 1, 32), (1, 1, 16)],
            _ => &[(2, 1, 32), (1, 1, 32), (1, 1, 64)],
        };
        let plans = all.iter().map(|(groups, tiles, keys)| {
            let least = shape.n.max(shape.m).max(shape.k) as usize;
            let sizes = Sizes { groups: *groups, tiles: *tiles, keys: (*keys).max(least) };
            let layout = Layout::of(&shape, target.subgroup, sizes.keys);
            let (_, size) = layout.sizes(&shape);
            let depth = attention.depth.next_multiple_of(shape.k as usize);
            let value_depth = attention.value_depth.next_multiple_of(size);
            Self { shape: shape.clone(), sizes, layout, depth, value_depth }
        });
        let few = |plan: &Self| {
            // A small number of queries needs no more subgroups.
            plan.sizes.groups == 1
                || plan.queries() < 2 * attention.queries.max(plan.layout.sizes(&plan.shape).0)
        };
        let fitting: Vec<Self> = plans.filter(|plan| plan.shared() <= target.shared.min(SHARED)).collect();
        let first = fitting.iter().position(few).unwrap_or(fitting.len().saturating_sub(1));
        fitting.into_iter().nth(first)
    }

    fn queries(&self) -> usize {
        self.sizes.groups * self.sizes.tiles * self.layout.sizes(&self.shape).0
    }

    /// Bytes of shared memory, or a little more.
    fn shared(&self) -> usize {
        let size = self.shape.operand.size();
        let pad = 2 * (16 / size);
        let turned = (self.sizes.keys + pad) * self.value_depth;
        let values = turned.max(self.sizes.keys * (self.value_depth + pad));
        let scores =
            if self.layout.passing == Passing::Shared { self.queries() * (self.sizes.keys + pad) } else { 0 };
        ((self.queries() + self.sizes.keys) * (self.depth + pad) + values + scores) * size + 64
    }
}

/// The offset of a sequence's head.
fn base(b: &mut Builder, tensor: &Tensor, sequence: Value, head: Value) -> Value {
    let sequence = b.mul(sequence, tensor.strides[0]);
    let head = b.mul(head, tensor.strides[1]);
    b.add(sequence, head)
}

/// Parameters that may be absent.
struct Pointers {
    q: Pointer,
    k: Pointer,
    v: Pointer,
    o: Pointer,
    scale: Option<Pointer>,
    mask: Option<Pointer>,
    lengths: Option<[Pointer; 2]>,
    sink: Option<Pointer>,
    statistics: [Option<Pointer>; 3],
}

impl Pointers {
    fn new(b: &mut Builder, attention: &Attention) -> Self {
        let [q, k, v] = [&attention.q, &attention.k, &attention.v].map(|tensor| b.pointer(tensor.scalar));
        Self {
            q,
            k,
            v,
            o: b.output(attention.o.scalar),
            scale: match attention.scale {
                Scale::Value(_) => None,
                Scale::Memory(scalar) => Some(b.pointer(scalar)),
            },
            mask: attention.mask.map(|mask| b.pointer(mask.tensor.scalar)),
            lengths: attention.lengths.map(|lengths| lengths.map(|(scalar, _)| b.pointer(scalar))),
            sink: attention.sink.map(|(scalar, _)| b.pointer(scalar)),
            statistics: attention.statistics.map(|tensor| tensor.map(|tensor| b.output(tensor.scalar))),
        }
    }
}

/// A number of the sequence, between 0 and `most`.
fn length(b: &mut Builder, pointer: Pointer, stride: usize, sequence: Value, most: usize) -> Value {
    let at = b.mul(sequence, stride);
    let own = b.load(Memory::Global(pointer), at);
    let own = b.max(own, 0);
    let own = b.min(own, most);
    b.convert(own, Scalar::I32)
}

/// Writes the kernel of an attention.
///
/// # Errors
/// What is not supported.
pub fn write(attention: &Attention, target: &Target, name: &str) -> Result<Launch, String> {
    let operand = attention.q.scalar;
    if !matches!(operand, Scalar::F16 | Scalar::Bf16 | Scalar::F32)
        || [attention.k.scalar, attention.v.scalar] != [operand; 2]
    {
        return Err(format!(
            "q, k and v are {}, {} and {}, expected all half, bfloat16 or float",
            operand.name(),
            attention.k.scalar.name(),
            attention.v.scalar.name()
        ));
    }
    let plan = Plan::of(attention, target).ok_or_else(|| {
        let depth = attention.depth.max(attention.value_depth);
        format!(
            "heads of {depth} elements need more shared memory than the {} bytes there are",
            target.shared
        )
    })?;
    let threads = plan.sizes.groups as u32 * target.subgroup;
    let mut b = Builder::new(name, threads, target);
    let pointers = Pointers::new(&mut b, attention);
    let blocks = attention.queries.div_ceil(plan.queries());
    let (group, grid) = engine::groups(&mut b, attention.batch * attention.heads * blocks)?;
    let (which, block) = b.div_rem(group, blocks);
    // With a band, the last blocks have most to do: they begin first.
    let last = b.number(blocks - 1);
    let block = b.sub(last, block);
    let (sequence, head) = b.div_rem(which, attention.heads);
    let first_query = b.mul(block, plan.queries());
    let mut kernel = Forward::new(&mut b, attention, &plan, &pointers, [sequence, head, first_query]);
    kernel.run(&mut b);
    Ok(Launch { kernel: b.finish(), grid })
}

struct Forward<'a> {
    attention: &'a Attention,
    plan: &'a Plan,
    pointers: &'a Pointers,
    context: Context<'a>,
    sequence: Value,
    head: Value,
    first_query: Value,
    /// Queries of this sequence.
    queries: Value,
    thread: Value,
    /// The lane's part of a query and of a key.
    lane_query: Value,
    lane_key: Value,
    /// The first query of the subgroup in the workgroup.
    own_query: Value,
    lane: Value,
    /// The distinct queries of a thread's slots.
    rows: Vec<usize>,
    /// The maximum and the sum of each.
    statistics: Vec<Vec<[Local; 2]>>,
    scores: Vec<Vec<Tile>>,
    outputs: Vec<Vec<Tile>>,
    q_rows: Rows,
    k_rows: Rows,
    v_rows: Rows,
}

impl<'a> Forward<'a> {
    fn new(
        b: &mut Builder,
        attention: &'a Attention,
        plan: &'a Plan,
        pointers: &'a Pointers,
        [sequence, head, first_query]: [Value; 3],
    ) -> Self {
        let Plan { shape, sizes, layout, depth, value_depth } = plan;
        let thread = b.index(Index::Thread);
        let [lane, subgroup] = [b.index(Index::Lane), b.index(Index::Subgroup)];
        let [mut queries, mut keys] = [b.number(attention.queries), b.number(attention.keys)];
        if let (Some(of), Some([(_, q), (_, k)])) = (pointers.lengths, attention.lengths) {
            queries = length(b, of[0], q, sequence, attention.queries);
            keys = length(b, of[1], k, sequence, attention.keys);
        }
        let zero = b.number(0);
        let diagonal = if attention.band.bottom_right { b.sub(keys, queries) } else { zero };
        let scale = match (attention.scale, pointers.scale) {
            (Scale::Memory(_), Some(pointer)) => {
                let own = b.load(Memory::Global(pointer), zero);
                let own = b.convert(own, Scalar::F32);
                b.mul(own, LOG2_E)
            }
            (Scale::Value(scale), _) => b.float(scale * LOG2_E, Scalar::F32),
            _ => b.float(LOG2_E, Scalar::F32),
        };
        let mask = match (pointers.mask, attention.mask) {
            (Some(pointer), Some(mask)) => Some((pointer, base(b, &mask.tensor, sequence, head))),
            _ => None,
        };
        let slope = attention.slopes.as_ref().map(|slopes| {
            let mut slope = b.float(0.0, Scalar::F32);
            for (number, own) in slopes.iter().enumerate() {
                let here = b.equal(head, number);
                slope = b.select(here, own * LOG2_E, slope);
            }
            slope
        });
        let (query_size, key_size) = layout.sizes(shape);
        let fragment = shape.fragment(Role::Accumulator).cloned();
        let mut rows: Vec<usize> =
            fragment.iter().flat_map(|own| &own.slots).map(|slot| layout.axes(*slot).0).collect();
        rows.sort_unstable();
        rows.dedup();
        let (mut lane_query, mut lane_key) = (zero, zero);
        if let Some(fragment) = &fragment {
            let (query, key) = layout.parts(fragment);
            lane_query = b.lane_part(lane, query);
            lane_key = b.lane_part(lane, key);
        }
        let own_query = b.mul(subgroup, sizes.tiles * query_size);
        let mut first = [b.float(f64::NEG_INFINITY, Scalar::F32), b.float(0.0, Scalar::F32)];
        if let (Some(pointer), Some((_, stride))) = (pointers.sink, attention.sink) {
            let at = b.mul(head, stride);
            let sink = b.load(Memory::Global(pointer), at);
            let sink = b.convert(sink, Scalar::F32);
            let sink = b.mul(sink, LOG2_E);
            // One of the lanes that share a row counts it.
            let own = b.equal(lane_key, 0);
            let there = b.greater(sink, f64::NEG_INFINITY);
            let own = b.and(own, there);
            let one = b.float(1.0, Scalar::F32);
            first = [sink, b.select(own, one, 0.0)];
        }
        let statistics = (0..sizes.tiles)
            .map(|_| rows.iter().map(|_| first.map(|first| b.local(Scalar::F32, first))).collect())
            .collect();
        let mut tiles = |count: usize| -> Vec<Vec<Tile>> {
            (0..sizes.tiles).map(|_| (0..count).map(|_| b.sums(shape)).collect()).collect()
        };
        let (scores, outputs) = (tiles(sizes.keys / key_size), tiles(value_depth / key_size));
        let turned = layout.way == Way::Keys;
        Self {
            attention,
            plan,
            pointers,
            context: Context { attention, scale, mask, slope, keys, diagonal },
            sequence,
            head,
            first_query,
            queries,
            thread,
            lane_query,
            lane_key,
            own_query,
            lane,
            rows,
            statistics,
            scores,
            outputs,
            q_rows: Rows::new(b, &attention.q, plan.queries(), *depth, false),
            k_rows: Rows::new(b, &attention.k, sizes.keys, *depth, false),
            v_rows: Rows::new(b, &attention.v, sizes.keys, *value_depth, turned),
        }
    }

    fn threads(&self, b: &Builder) -> usize {
        self.plan.sizes.groups * b.target().subgroup as usize
    }

    fn copy_keys(&self, b: &mut Builder, first: Value) {
        let (tensor, threads) = (&self.attention.k, self.threads(b));
        let head = b.div(self.head, self.attention.heads / self.attention.key_heads);
        let base = base(b, tensor, self.sequence, head);
        let of = (self.pointers.k, tensor, self.attention.depth);
        copy(b, [self.thread, base, first, self.context.keys], of, &self.k_rows, threads, &|_, row| row);
        b.async_commit();
    }

    fn copy_values(&self, b: &mut Builder, first: Value) {
        let (tensor, threads) = (&self.attention.v, self.threads(b));
        let head = b.div(self.head, self.attention.heads / self.attention.value_heads);
        let base = base(b, tensor, self.sequence, head);
        let of = (self.pointers.v, tensor, self.attention.value_depth);
        let layout = &self.plan.layout;
        let place = |b: &mut Builder, row: Value| {
            if layout.is_ordered() {
                return row;
            }
            let mut place = b.number(0);
            for (bit, to) in layout.bits.iter().enumerate() {
                let shifted = b.div(row, 1 << bit);
                let own = b.and(shifted, 1);
                let own = b.mul(own, *to);
                place = b.add(place, own);
            }
            place
        };
        copy(b, [self.thread, base, first, self.context.keys], of, &self.v_rows, threads, &place);
        b.async_commit();
    }

    fn load(&self, b: &mut Builder, tile: Tile, rows: &Rows, first: Value, order: Order) {
        let stride = b.number(rows.stride);
        let aligned = (16 / self.plan.shape.operand.size()).min(self.plan.shape.k as usize);
        b.tile_load(tile, At { memory: Memory::Shared(rows.array), index: first, stride, order, aligned });
    }

    /// A tile of queries: the left operand as it lies, or the right one.
    fn load_queries(&self, b: &mut Builder, tile: Tile, number: usize, step: usize) {
        let (size, _) = self.plan.layout.sizes(&self.plan.shape);
        let row = b.add(self.own_query, number * size);
        let row = b.mul(row, self.q_rows.stride);
        let first = b.add(row, step * self.plan.shape.k as usize);
        let order = if self.plan.layout.way == Way::Queries { Order::Rows } else { Order::Columns };
        self.load(b, tile, &self.q_rows, first, order);
    }

    fn run(&mut self, b: &mut Builder) {
        let Plan { shape, sizes, layout, depth, .. } = self.plan;
        let [of_queries, of_keys] = layout.roles();
        let threads = self.threads(b);
        let q = &self.attention.q;
        let of_head = base(b, q, self.sequence, self.head);
        let all = [self.thread, of_head, self.first_query, self.queries];
        copy(b, all, (self.pointers.q, q, self.attention.depth), &self.q_rows, threads, &|_, row| row);
        b.async_commit();
        let (begin, end) = self.range(b);
        self.copy_keys(b, begin);
        b.async_wait(1);
        b.barrier();
        let steps = depth / shape.k as usize;
        let slots = shape.fragment(of_queries).map_or(0, |fragment| fragment.slots.len());
        let held = steps * sizes.tiles * slots * shape.operand.size() / 4 <= HELD;
        let count = if held { steps } else { 1 };
        let queries: Vec<Vec<Tile>> =
            (0..count).map(|_| (0..sizes.tiles).map(|_| b.tile(of_queries, shape)).collect()).collect();
        if held {
            for (step, tiles) in queries.iter().enumerate() {
                for (number, tile) in tiles.iter().enumerate() {
                    self.load_queries(b, *tile, number, step);
                }
            }
        }
        let key = b.tile(of_keys, shape);
        let value = b.tile(of_keys, shape);
        let passed: Vec<Vec<Tile>> = (0..sizes.tiles)
            .map(|_| (0..sizes.keys / shape.k as usize).map(|_| b.tile(of_queries, shape)).collect())
            .collect();
        let scratch = (layout.passing == Passing::Shared).then(|| {
            let (size, _) = layout.sizes(shape);
            let tensor = Tensor { scalar: shape.operand, strides: [0; 4], alignment: 1 };
            Rows::new(b, &tensor, sizes.groups * sizes.tiles * size, sizes.keys, false)
        });
        b.for_range(begin, end, sizes.keys, |b, first_key| {
            self.copy_values(b, first_key);
            b.async_wait(1);
            b.barrier();
            for tile in self.scores.iter().flatten() {
                b.tile_fill(*tile, 0);
            }
            let (_, size) = layout.sizes(shape);
            for step in 0..steps {
                let tiles = &queries[if held { step } else { 0 }];
                if !held {
                    for (number, tile) in tiles.iter().enumerate() {
                        self.load_queries(b, *tile, number, step);
                    }
                }
                for column in 0..sizes.keys / size {
                    let first = b.number(column * size * self.k_rows.stride + step * shape.k as usize);
                    let order = if layout.way == Way::Queries { Order::Columns } else { Order::Rows };
                    self.load(b, key, &self.k_rows, first, order);
                    for (number, query) in tiles.iter().enumerate() {
                        self.multiply(b, self.scores[number][column], *query, key);
                    }
                }
            }
            b.barrier();
            let next = b.add(first_key, sizes.keys);
            self.copy_keys(b, next);
            for number in 0..sizes.tiles {
                self.weigh(b, number, first_key, &passed[number], scratch.as_ref());
            }
            b.async_wait(1);
            b.barrier();
            if let Some(scratch) = &scratch {
                self.take(b, &passed, scratch);
            }
            for step in 0..sizes.keys / shape.k as usize {
                for column in 0..self.outputs[0].len() {
                    let (line, near, order) = if layout.way == Way::Queries {
                        (step * shape.k as usize, column * size, Order::Rows)
                    } else {
                        (column * size, step * shape.k as usize, Order::Rows)
                    };
                    let first = b.number(line * self.v_rows.stride + near);
                    self.load(b, value, &self.v_rows, first, order);
                    for number in 0..sizes.tiles {
                        self.multiply(b, self.outputs[number][column], passed[number][step], value);
                    }
                }
            }
            b.barrier();
        });
        b.async_wait(0);
        for number in 0..sizes.tiles {
            self.finish(b, number);
        }
    }

    fn multiply(&self, b: &mut Builder, sum: Tile, of_query: Tile, of_key: Tile) {
        match self.plan.layout.way {
            Way::Queries => b.tile_multiply(sum, of_query, of_key),
            Way::Keys => b.tile_multiply(sum, of_key, of_query),
        }
    }

    /// The keys that any query of the workgroup sees.
    fn range(&self, b: &mut Builder) -> (Value, Value) {
        let keys = self.plan.sizes.keys;
        let zero = b.number(0);
        let (mut begin, mut end) = (zero, self.context.keys);
        let band = &self.attention.band;
        if let Some(right) = band.right {
            let last = b.add(self.first_query, self.plan.queries() + right);
            let last = b.add(last, self.context.diagonal);
            let last = b.max(last, 0);
            end = b.min(end, last);
        }
        if let Some(left) = band.left {
            let first = b.add(self.first_query, self.context.diagonal);
            let first = b.sub(first, left);
            let first = b.max(first, 0);
            let block = b.div(first, keys);
            begin = b.mul(block, keys);
        }
        (begin, end)
    }

    /// Turns the scores of a tile's row into powers, and their sums into what they are worth so far.
    fn weigh(
        &self,
        b: &mut Builder,
        number: usize,
        first_key: Value,
        passed: &[Tile],
        scratch: Option<&Rows>,
    ) {
        let Plan { shape, sizes, layout, .. } = self.plan;
        let Some(fragment) = shape.fragment(Role::Accumulator).cloned() else { return };
        let (query_size, key_size) = layout.sizes(shape);
        let first = b.add(self.first_query, self.own_query);
        let first = b.add(first, number * query_size);
        let last = b.add(first, query_size - 1);
        let end = b.add(first_key, sizes.keys);
        let whole = self.context.is_whole(b, [first, last, first_key, end]);
        let first_own = b.add(first, self.lane_query);
        let key_own = b.add(first_key, self.lane_key);
        let each = |b: &mut Builder, modified: bool| {
            for (column, tile) in self.scores[number].iter().enumerate() {
                for (slot, place) in fragment.slots.iter().enumerate() {
                    let score = b.tile_get(*tile, slot);
                    let score = if modified {
                        let (query, key) = layout.axes(*place);
                        let query = b.add(first_own, query);
                        let key = b.add(key_own, column * key_size + key);
                        self.context.modified(b, score, query, key)
                    } else {
                        b.mul(score, self.context.scale)
                    };
                    b.tile_set(*tile, slot, score);
                }
            }
        };
        b.if_else(whole, |b| each(b, false), |b| each(b, true));
        let (_, part) = layout.parts(&fragment);
        let masks: Vec<u32> = (0..part.modulus.ilog2()).map(|bit| part.divisor << bit).collect();
        for (row, own) in self.rows.iter().enumerate() {
            let slots: Vec<usize> = (0..fragment.slots.len())
                .filter(|slot| layout.axes(fragment.slots[*slot]).0 == *own)
                .collect();
            let [maximum, sum] = self.statistics[number][row];
            let before = b.get(maximum);
            let mut greatest = before;
            for tile in &self.scores[number] {
                for slot in &slots {
                    let score = b.tile_get(*tile, *slot);
                    greatest = b.max_number(greatest, score);
                }
            }
            for mask in &masks {
                let other = b.shuffle_xor(greatest, *mask);
                greatest = b.max_number(greatest, other);
            }
            b.set(maximum, greatest);
            let nothing = b.equal(greatest, f64::NEG_INFINITY);
            let base = b.select(nothing, 0.0, greatest);
            let less = b.sub(before, base);
            let factor = b.unary(Unary::Exp2, less);
            let old = b.get(sum);
            let mut total = b.mul(old, factor);
            for tile in &self.scores[number] {
                for slot in &slots {
                    let score = b.tile_get(*tile, *slot);
                    let less = b.sub(score, base);
                    let power = b.unary(Unary::Exp2, less);
                    total = b.add(total, power);
                    b.tile_set(*tile, *slot, power);
                }
            }
            b.set(sum, total);
            for tile in &self.outputs[number] {
                for slot in &slots {
                    let value = b.tile_get(*tile, *slot);
                    let value = b.mul(value, factor);
                    b.tile_set(*tile, *slot, value);
                }
            }
        }
        self.pass(b, number, passed, scratch);
    }

    /// Makes powers an operand.
    fn pass(&self, b: &mut Builder, number: usize, passed: &[Tile], scratch: Option<&Rows>) {
        let Plan { shape, layout, .. } = self.plan;
        let Some(fragment) = shape.fragment(Role::Accumulator).cloned() else { return };
        let [role, _] = layout.roles();
        let count = shape.fragment(role).map_or(1, |fragment| fragment.slots.len());
        let (query_size, key_size) = layout.sizes(shape);
        let slots = fragment.slots.len();
        let operand = shape.operand;
        let low = (layout.passing == Passing::Halves).then(|| b.less(self.lane, 16));
        for (column, tile) in self.scores[number].iter().enumerate() {
            for slot in (0..slots).step_by(2.min(slots)) {
                let width = 2.min(slots);
                let parts: Vec<Value> = (slot..slot + width).map(|slot| b.tile_get(*tile, slot)).collect();
                let pair = b.build(&parts);
                let pair = b.convert(pair, operand);
                match (&layout.passing, low, scratch) {
                    (Passing::Halves, Some(low), _) => {
                        let bits = b.bits(pair, Scalar::I32);
                        let other = b.shuffle_xor(bits, 16);
                        let [first, second] = [b.select(low, bits, other), b.select(low, other, bits)];
                        for (half, bits) in [first, second].into_iter().enumerate() {
                            let pair = b.bits(bits, operand.by(2));
                            for lane in 0..width {
                                let part = b.extract(pair, lane);
                                b.tile_set(passed[column], half * slots + slot + lane, part);
                            }
                        }
                    }
                    (Passing::Shared, _, Some(scratch)) => {
                        for lane in 0..width {
                            let (query, key) = layout.axes(fragment.slots[slot + lane]);
                            let row = b.add(self.own_query, self.lane_query);
                            let row = b.add(row, number * query_size + query);
                            let row = b.mul(row, scratch.stride);
                            let key = b.add(self.lane_key, column * key_size + key);
                            let at = b.add(row, key);
                            let part = b.extract(pair, lane);
                            b.store(Memory::Shared(scratch.array), at, part);
                        }
                    }
                    _ => {
                        for lane in 0..width {
                            let target = column * slots + slot + lane;
                            let part = b.extract(pair, lane);
                            b.tile_set(passed[target / count], target % count, part);
                        }
                    }
                }
            }
        }
    }

    /// Loads powers from shared memory as operands.
    fn take(&self, b: &mut Builder, passed: &[Vec<Tile>], scratch: &Rows) {
        let (size, _) = self.plan.layout.sizes(&self.plan.shape);
        for (number, tiles) in passed.iter().enumerate() {
            for (step, tile) in tiles.iter().enumerate() {
                let row = b.add(self.own_query, number * size);
                let row = b.mul(row, scratch.stride);
                let first = b.add(row, step * self.plan.shape.k as usize);
                self.load(b, *tile, scratch, first, Order::Rows);
            }
        }
    }

    /// Divides by the sums, and stores the output and the statistics.
    fn finish(&self, b: &mut Builder, number: usize) {
        let Plan { shape, layout, .. } = self.plan;
        let Some(fragment) = shape.fragment(Role::Accumulator).cloned() else { return };
        let (query_size, key_size) = layout.sizes(shape);
        let (_, part) = layout.parts(&fragment);
        let first = b.add(self.first_query, self.own_query);
        let first = b.add(first, number * query_size);
        let first = b.add(first, self.lane_query);
        let o = &self.attention.o;
        let of_head = base(b, o, self.sequence, self.head);
        for (row, own) in self.rows.iter().enumerate() {
            let [maximum, sum] = self.statistics[number][row];
            let maximum = b.get(maximum);
            let mut total = b.get(sum);
            for bit in 0..part.modulus.ilog2() {
                let other = b.shuffle_xor(total, part.divisor << bit);
                total = b.add(total, other);
            }
            let query = b.add(first, *own);
            let counts = b.less(query, self.queries);
            let nothing = b.equal(total, 0.0);
            let inverse = b.unary(Unary::Reciprocal, total);
            let inverse = b.select(nothing, 0.0, inverse);
            let stored = b.less(query, self.attention.queries);
            let leader = b.equal(self.lane_key, 0);
            let leads = b.and(stored, leader);
            b.when(leads, |b| self.store_statistics(b, query, counts, maximum, total));
            let line = b.mul(query, o.strides[2]);
            let line = b.add(of_head, line);
            let slots: Vec<usize> = (0..fragment.slots.len())
                .filter(|slot| layout.axes(fragment.slots[*slot]).0 == *own)
                .collect();
            b.when(stored, |b| {
                for (column, tile) in self.outputs[number].iter().enumerate() {
                    for (run, width) in self.runs(&fragment.slots, &slots, part.factor as usize) {
                        let (_, element) = layout.axes(fragment.slots[run]);
                        let element = b.add(self.lane_key, column * key_size + element);
                        let values: Vec<Value> = (run..run + width)
                            .map(|slot| {
                                let value = b.tile_get(*tile, slot);
                                let value = b.mul(value, inverse);
                                let value = b.select(nothing, 0.0, value);
                                b.select(counts, value, 0.0)
                            })
                            .collect();
                        let along = b.mul(element, o.strides[3]);
                        let at = b.add(line, along);
                        let inside = b.less(element, self.attention.value_depth);
                        b.when(inside, |b| engine::store(b, self.pointers.o, at, &values, o.scalar));
                    }
                }
            });
        }
    }

    /// Slots whose elements are neighbours in the output and may be stored together.
    fn runs(&self, places: &[(u32, u32)], slots: &[usize], factor: usize) -> Vec<(usize, usize)> {
        let o = &self.attention.o;
        let fits = |width: usize| {
            o.strides[3] == 1
                && o.alignment.is_multiple_of(width * o.scalar.size())
                && width * o.scalar.size() <= 16
                && o.strides[..3].iter().all(|stride| stride.is_multiple_of(width))
                && self.attention.value_depth.is_multiple_of(width)
                && factor.is_multiple_of(width)
        };
        let mut runs = Vec::new();
        let mut next = 0;
        while let Some(slot) = slots.get(next) {
            let (_, element) = self.plan.layout.axes(places[*slot]);
            let follows = |i: usize| {
                slots.get(next + i).is_some_and(|other| {
                    *other == slot + i && self.plan.layout.axes(places[*other]).1 == element + i
                })
            };
            let mut width = 8;
            while width > 1 && !(fits(width) && element.is_multiple_of(width) && (1..width).all(follows)) {
                width /= 2;
            }
            runs.push((*slot, width));
            next += width;
        }
        runs
    }

    fn store_statistics(&self, b: &mut Builder, query: Value, counts: Value, maximum: Value, total: Value) {
        let natural = b.mul(maximum, std::f64::consts::LN_2);
        let log = b.unary(Unary::Log, total);
        let both = b.add(natural, log);
        let nothing = b.equal(maximum, f64::NEG_INFINITY);
        let both = b.select(nothing, f64::NEG_INFINITY, both);
        let all = [(both, f64::NEG_INFINITY), (natural, f64::NEG_INFINITY), (total, 0.0)];
        for (which, (value, otherwise)) in all.into_iter().enumerate() {
            let (Some(tensor), Some(pointer)) =
                (self.attention.statistics[which], self.pointers.statistics[which])
            else {
                continue;
            };
            let value = b.select(counts, value, otherwise);
            let value = b.convert(value, tensor.scalar);
            let of_head = base(b, &tensor, self.sequence, self.head);
            let line = b.mul(query, tensor.strides[2]);
            let at = b.add(of_head, line);
            b.store(Memory::Global(pointer), at, value);
        }
    }
}
