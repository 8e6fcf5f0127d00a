//! The kernel.

#![expect(
    clippy::indexing_slicing,
    reason = "tiles and statistics are in tables made here, of the sizes that loops run over"
)]

use super::layout::{Passing, Way};
use super::plan::{HELD, Plan};
use super::scores::{Context, LOG2_E};
use super::staging::{Rows, base, copy};
use super::{Attention, Scale, Tensor};
use crate::builder::{At, Builder};
use crate::form::{Index, Local, Memory, Order, Parameter, Pointer, Role, Shared, Tile, Value};
use crate::product::{Launch, engine};
use crate::scalar::Scalar;
use crate::target::{Language, Target};

/// Parameters that may be absent.
pub(super) struct Pointers {
    pub(super) q: Pointer,
    pub(super) k: Pointer,
    pub(super) v: Pointer,
    pub(super) o: Pointer,
    pub(super) scale: Option<Pointer>,
    pub(super) mask: Option<Pointer>,
    pub(super) lengths: Option<[Pointer; 2]>,
    pub(super) sink: Option<Pointer>,
    pub(super) statistics: [Option<Pointer>; 3],
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
                Scale::Passed => Some(b.parameter(Parameter::Number(Scalar::F64))),
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
pub(super) fn length(
    b: &mut Builder,
    pointer: Pointer,
    stride: usize,
    sequence: Value,
    most: usize,
) -> Value {
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
    if !matches!(operand, Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64)
        || [attention.k.scalar, attention.v.scalar] != [operand; 2]
    {
        return Err(format!(
            "q, k and v are {}, {} and {}, expected all half, bfloat16, float or double",
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
    let threads = plan.sizes.groups as u32 * plan.subgroup;
    let mut b = Builder::new(name, threads, &Target { subgroup: plan.subgroup, ..target.clone() });
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

pub(super) struct Forward<'a> {
    pub(super) attention: &'a Attention,
    pub(super) plan: &'a Plan,
    pub(super) pointers: &'a Pointers,
    pub(super) context: Context<'a>,
    pub(super) sequence: Value,
    pub(super) head: Value,
    pub(super) first_query: Value,
    /// Queries of this sequence.
    pub(super) queries: Value,
    pub(super) thread: Value,
    /// The lane's part of a query and of a key.
    pub(super) lane_query: Value,
    pub(super) lane_key: Value,
    /// The first query of the subgroup in the workgroup.
    pub(super) own_query: Value,
    pub(super) lane: Value,
    /// The distinct queries of a thread's slots.
    pub(super) rows: Vec<usize>,
    /// The maximum and the sum of each.
    pub(super) statistics: Vec<Vec<[Local; 2]>>,
    pub(super) scores: Vec<Vec<Tile>>,
    pub(super) outputs: Vec<Vec<Tile>>,
    pub(super) q_rows: Rows,
    pub(super) k_rows: Rows,
    pub(super) v_rows: Rows,
    /// Where lanes exchange numbers of rows, on devices whose subgroups are not known.
    pub(super) exchange: Option<Shared>,
}

impl<'a> Forward<'a> {
    fn new(
        b: &mut Builder,
        attention: &'a Attention,
        plan: &'a Plan,
        pointers: &'a Pointers,
        [sequence, head, first_query]: [Value; 3],
    ) -> Self {
        let Plan { shape, sizes, layout, depth, value_depth, .. } = plan;
        let real = shape.sum;
        let thread = b.index(Index::Thread);
        let [lane, subgroup] = [b.index(Index::Lane), b.index(Index::Subgroup)];
        let [mut queries, mut keys] = [b.number(attention.queries), b.number(attention.keys)];
        if let (Some(of), Some([(_, q), (_, k)])) = (pointers.lengths, attention.lengths) {
            queries = length(b, of[0], q, sequence, attention.queries);
            keys = length(b, of[1], k, sequence, attention.keys);
        }
        let zero = b.number(0);
        let diagonal = if attention.band.bottom_right { b.sub(keys, queries) } else { zero };
        let passed = [pointers.scale, pointers.mask];
        let context = Context::new(b, attention, real, passed, [sequence, head, keys, diagonal]);
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
        let mut first = [b.float(f64::NEG_INFINITY, real), b.float(0.0, real)];
        if let (Some(pointer), Some((_, stride))) = (pointers.sink, attention.sink) {
            let at = b.mul(head, stride);
            let sink = b.load(Memory::Global(pointer), at);
            let sink = b.convert(sink, real);
            let sink = b.mul(sink, LOG2_E);
            // One of the lanes that share a row counts it.
            let own = b.equal(lane_key, 0);
            let there = b.greater(sink, f64::NEG_INFINITY);
            let own = b.and(own, there);
            let one = b.float(1.0, real);
            first = [sink, b.select(own, one, 0.0)];
        }
        let statistics = (0..sizes.tiles)
            .map(|_| rows.iter().map(|_| first.map(|first| b.local(real, first))).collect())
            .collect();
        let mut tiles = |count: usize| -> Vec<Vec<Tile>> {
            (0..sizes.tiles).map(|_| (0..count).map(|_| b.sums(shape)).collect()).collect()
        };
        let (scores, outputs) = (tiles(sizes.keys / key_size), tiles(value_depth / key_size));
        let turned = layout.way == Way::Keys;
        let (k, v) = (&attention.k, &attention.v);
        let (k_rows, v_rows) = if plan.beside {
            let k_rows = Rows::new(b, k, sizes.keys, *depth, false);
            (k_rows, Rows::new(b, v, sizes.keys, *value_depth, turned))
        } else {
            let (_, of_keys) = Rows::sizes(k, sizes.keys, *depth, false);
            let (_, of_values) = Rows::sizes(v, sizes.keys, *value_depth, turned);
            let array = b.shared(k.scalar, of_keys.max(of_values));
            let k_rows = Rows::within(array, k, sizes.keys, *depth, false);
            (k_rows, Rows::within(array, v, sizes.keys, *value_depth, turned))
        };
        let exchange = plan.exchanges.then(|| b.shared(real, plan.exchanged()));
        Self {
            attention,
            plan,
            pointers,
            exchange,
            context,
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
            k_rows,
            v_rows,
        }
    }

    pub(super) fn threads(&self, b: &Builder) -> usize {
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

    pub(super) fn load(&self, b: &mut Builder, tile: Tile, rows: &Rows, first: Value, order: Order) {
        let stride = b.number(rows.stride);
        let aligned = (16 / self.plan.shape.operand.size()).min(self.plan.shape.k as usize);
        b.tile_load(tile, At { memory: Memory::Shared(rows.array), index: first, stride, order, aligned });
    }

    /// A tile of queries: the left operand as it lies, or the right one.
    fn load_queries(&self, b: &mut Builder, tile: Tile, number: usize, near: Value) {
        let (size, _) = self.plan.layout.sizes(&self.plan.shape);
        let row = b.add(self.own_query, number * size);
        let row = b.mul(row, self.q_rows.stride);
        let first = b.add(row, near);
        let order = if self.plan.layout.way == Way::Queries { Order::Rows } else { Order::Columns };
        self.load(b, tile, &self.q_rows, first, order);
    }

    /// Adds to the scores the products along elements from `near` on.
    fn score(&self, b: &mut Builder, queries: &[Tile], key: Tile, near: Value) {
        let Plan { shape, sizes, layout, .. } = self.plan;
        let (_, size) = layout.sizes(shape);
        for column in 0..sizes.keys / size {
            let first = b.add(near, column * size * self.k_rows.stride);
            let order = if layout.way == Way::Queries { Order::Columns } else { Order::Rows };
            self.load(b, key, &self.k_rows, first, order);
            for (number, query) in queries.iter().enumerate() {
                self.multiply(b, self.scores[number][column], *query, key);
            }
        }
    }

    /// Adds to the output the products along keys from `near` on.
    fn add_values(&self, b: &mut Builder, powers: &[Tile], value: Tile, near: Value) {
        let Plan { shape, layout, .. } = self.plan;
        let (_, size) = layout.sizes(shape);
        for column in 0..self.outputs[0].len() {
            let first = if layout.way == Way::Queries {
                let line = b.mul(near, self.v_rows.stride);
                b.add(line, column * size)
            } else {
                b.add(near, column * size * self.v_rows.stride)
            };
            self.load(b, value, &self.v_rows, first, Order::Rows);
            for (number, own) in powers.iter().enumerate() {
                self.multiply(b, self.outputs[number][column], *own, value);
            }
        }
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
        if self.plan.beside {
            self.copy_keys(b, begin);
            b.async_wait(1);
        } else {
            b.async_wait(0);
        }
        b.barrier();
        let steps = depth / shape.k as usize;
        let slots = shape.fragment(of_queries).map_or(0, |fragment| fragment.slots.len());
        // A thread of RDNA needs the registers for sums.
        let most = if b.target().language == Language::Cuda { HELD } else { HELD / 2 };
        let held = shape.is_matrix() && steps * sizes.tiles * slots * shape.operand.size() / 4 <= most;
        let count = if held { steps } else { 1 };
        let queries: Vec<Vec<Tile>> =
            (0..count).map(|_| (0..sizes.tiles).map(|_| b.tile(of_queries, shape)).collect()).collect();
        if held {
            for (step, tiles) in queries.iter().enumerate() {
                for (number, tile) in tiles.iter().enumerate() {
                    let near = b.number(step * shape.k as usize);
                    self.load_queries(b, *tile, number, near);
                }
            }
        }
        let key = b.tile(of_keys, shape);
        let value = b.tile(of_keys, shape);
        // From shared memory they are taken one by one.
        let powers = if layout.passing == Passing::Shared { 1 } else { sizes.keys / shape.k as usize };
        let passed: Vec<Vec<Tile>> =
            (0..sizes.tiles).map(|_| (0..powers).map(|_| b.tile(of_queries, shape)).collect()).collect();
        let scratch = (layout.passing == Passing::Shared).then(|| {
            let (size, _) = layout.sizes(shape);
            let tensor = Tensor { scalar: shape.operand, strides: [0; 4], alignment: 1 };
            Rows::new(b, &tensor, sizes.groups * sizes.tiles * size, sizes.keys, false)
        });
        b.for_range(begin, end, sizes.keys, |b, first_key| {
            if self.plan.beside {
                self.copy_values(b, first_key);
                b.async_wait(1);
            } else {
                self.copy_keys(b, first_key);
                b.async_wait(0);
            }
            b.barrier();
            for tile in self.scores.iter().flatten() {
                b.tile_fill(*tile, 0);
            }
            if held {
                for (step, tiles) in queries.iter().enumerate() {
                    let near = b.number(step * shape.k as usize);
                    self.score(b, tiles, key, near);
                }
            } else {
                // Not unrolled: loads would be moved ahead of each other until registers run out.
                b.for_range(0, steps * shape.k as usize, shape.k, |b, near| {
                    for (number, tile) in queries[0].iter().enumerate() {
                        self.load_queries(b, *tile, number, near);
                    }
                    self.score(b, &queries[0], key, near);
                });
            }
            b.barrier();
            if self.plan.beside {
                let next = b.add(first_key, sizes.keys);
                self.copy_keys(b, next);
            } else {
                self.copy_values(b, first_key);
            }
            for (number, powers) in passed.iter().enumerate() {
                self.weigh(b, number, first_key, powers, scratch.as_ref());
            }
            b.async_wait(usize::from(self.plan.beside));
            b.barrier();
            if let Some(scratch) = &scratch {
                b.for_range(0, sizes.keys, shape.k, |b, near| {
                    let own: Vec<Tile> = passed.iter().filter_map(|tiles| tiles.first().copied()).collect();
                    self.take(b, &own, scratch, near);
                    self.add_values(b, &own, value, near);
                });
            } else {
                for step in 0..sizes.keys / shape.k as usize {
                    let own: Vec<Tile> = passed.iter().filter_map(|tiles| tiles.get(step).copied()).collect();
                    let near = b.number(step * shape.k as usize);
                    self.add_values(b, &own, value, near);
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
}
