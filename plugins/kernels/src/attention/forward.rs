//! The kernel.

use super::Attention;
use super::layout::{Passing, Way};
use super::plan::{Plan, Staging};
use super::pointers::Pointers;
use super::scores::{Context, LOG2_E};
use super::sequence::{Sequence, Source};
use super::staging::{Copy, Rows, copy};
use crate::builder::Builder;
use crate::form::{Index, Local, Memory, Role, Shared, Tile, Value};
use crate::product::{Launch, engine};
use crate::scalar::Scalar;
use crate::target::Target;

/// Whether matrices of these types can be multiplied.
fn check(attention: &Attention) -> Result<(), String> {
    let all = [&attention.q, &attention.k, &attention.v].map(|tensor| tensor.scalar);
    let is_byte = |scalar| matches!(scalar, Scalar::Fp8E4m3 | Scalar::Fp8E5m2);
    let fits = match all[0] {
        Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64 => all == [all[0]; 3],
        _ => all.into_iter().all(is_byte),
    };
    if fits {
        return Ok(());
    }
    let [q, k, v] = all.map(Scalar::name);
    Err(format!(
        "q, k and v are {q}, {k} and {v}, expected all half, bfloat16, float or double, or 8-bit floats"
    ))
}

/// Writes the kernel of an attention.
///
/// # Errors
/// What is not supported.
pub fn write(attention: &Attention, target: &Target, name: &str) -> Result<Launch, String> {
    written(attention, target, name, 1)
}

/// The kernel in which so many workgroups share the keys; then outputs and statistics have a place for each part of each sequence.
pub(super) fn written(
    attention: &Attention,
    target: &Target,
    name: &str,
    parts: usize,
) -> Result<Launch, String> {
    check(attention)?;
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
    let (group, grid) = engine::groups(&mut b, attention.batch * attention.heads * blocks * parts)?;
    let (group, part) = match parts {
        1 => (group, None),
        _ => {
            let (group, part) = b.div_rem(group, parts);
            (group, Some((part, parts)))
        }
    };
    let (which, block) = b.div_rem(group, blocks);
    // With a band, the last blocks have most to do: they begin first.
    let last = b.number(blocks - 1);
    let block = b.sub(last, block);
    let (sequence, head) = b.div_rem(which, attention.heads);
    let first_query = b.mul(block, plan.queries());
    let place = [sequence, head, first_query];
    let mut kernel = Forward::new(&mut b, attention, &plan, &pointers, place, part);
    kernel.run(&mut b);
    Ok(Launch { kernel: b.finish(), grid })
}

pub(super) struct Forward<'a> {
    pub(super) attention: &'a Attention,
    pub(super) plan: &'a Plan,
    pub(super) pointers: &'a Pointers,
    pub(super) context: Context<'a>,
    pub(super) sequence: Sequence,
    /// Where results of the sequence go.
    pub(super) to: Sequence,
    /// The part of the keys, and how many there are.
    pub(super) part: Option<(Value, usize)>,
    pub(super) head: Value,
    pub(super) first_query: Value,
    /// The rows of this sequence's head.
    sources: [Source; 3],
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
        part: Option<(Value, usize)>,
    ) -> Self {
        let Plan { shape, sizes, layout, depth, value_depth, .. } = plan;
        let real = shape.sum;
        let thread = b.index(Index::Thread);
        let [lane, subgroup] = [b.index(Index::Lane), b.index(Index::Subgroup)];
        let zero = b.number(0);
        let sequence = Sequence::new(b, attention, pointers.options.lengths, sequence);
        let mut to = sequence;
        if let Some((part, _)) = part {
            let before = b.mul(part, attention.batch);
            to.index = b.add(before, sequence.index);
        }
        let context = Context::new(b, attention, real, &pointers.options, &sequence, head);
        let [key_head, value_head] =
            [attention.key_heads, attention.value_heads].map(|heads| b.div(head, attention.heads / heads));
        let sources = [
            pointers.q.of_head(b, &sequence, head, sequence.queries),
            pointers.k.of_head(b, &sequence, key_head, sequence.keys),
            pointers.v.of_head(b, &sequence, value_head, sequence.keys),
        ];
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
            let sink = match part {
                None => sink,
                // So does one of the parts.
                Some((part, _)) => {
                    let first = b.equal(part, 0);
                    b.select(first, sink, f64::NEG_INFINITY)
                }
            };
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
        let operand = shape.operand;
        let (k_rows, v_rows) = if plan.staging == Staging::Turns {
            let twice = |b: &mut Builder, depth: usize| {
                let rows = Rows::new(b, operand, 2 * sizes.keys, depth, false);
                Rows { rows: sizes.keys, ..rows }
            };
            (twice(b, *depth), twice(b, *value_depth))
        } else if plan.staging != Staging::InTurn {
            let k_rows = Rows::new(b, operand, sizes.keys, *depth, false);
            (k_rows, Rows::new(b, operand, sizes.keys, *value_depth, turned))
        } else {
            let (_, of_keys) = Rows::sizes(operand, sizes.keys, *depth, false);
            let (_, of_values) = Rows::sizes(operand, sizes.keys, *value_depth, turned);
            let (_, of_queries) = Rows::sizes(operand, plan.queries(), *depth, false);
            let of_queries = if plan.holds_queries { of_queries } else { 0 };
            let array = b.shared(operand, of_keys.max(of_values).max(of_queries));
            let k_rows = Rows::within(array, operand, sizes.keys, *depth, false);
            (k_rows, Rows::within(array, operand, sizes.keys, *value_depth, turned))
        };
        let exchange = plan.exchanges.then(|| b.shared(real, plan.exchanged()));
        Self {
            attention,
            plan,
            pointers,
            exchange,
            context,
            sequence,
            to,
            part,
            head,
            first_query,
            sources,
            thread,
            lane_query,
            lane_key,
            own_query,
            lane,
            rows,
            statistics,
            scores,
            outputs,
            q_rows: match plan.holds_queries {
                true => Rows::within(k_rows.array, operand, plan.queries(), *depth, false),
                false => Rows::new(b, operand, plan.queries(), *depth, false),
            },
            k_rows,
            v_rows,
        }
    }

    pub(super) fn threads(&self, b: &Builder) -> usize {
        self.plan.sizes.groups * b.target().subgroup as usize
    }

    /// How keys are copied, from `first` on.
    fn of_keys<'b>(&'b self, b: &Builder, first: Value, to: &'b Rows) -> Copy<'b> {
        let threads = self.threads(b);
        Copy { thread: self.thread, first, source: &self.sources[1], from: 0, to, threads }
    }

    fn of_values<'b>(&'b self, b: &Builder, first: Value, to: &'b Rows) -> Copy<'b> {
        Copy { source: &self.sources[2], ..self.of_keys(b, first, to) }
    }

    /// Where keys and values from `first` on, a multiple of a block, are in shared memory.
    fn rows_of(&self, b: &mut Builder, first: Value) -> [Rows; 2] {
        let rows = [self.k_rows, self.v_rows];
        if self.plan.staging != Staging::Turns {
            return rows;
        }
        let turn = b.div(first, self.plan.sizes.keys);
        let turn = b.and(turn, 1);
        rows.map(|rows| {
            let begin = b.mul(turn, rows.length());
            Rows { begin: Some(begin), ..rows }
        })
    }

    /// Where a value's row goes.
    fn place(&self, b: &mut Builder, row: Value) -> Value {
        let layout = &self.plan.layout;
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
    }

    fn copy_keys(&self, b: &mut Builder, first: Value) {
        let [to, _] = self.rows_of(b, first);
        copy(b, &self.of_keys(b, first, &to), &|_, row| row);
        b.async_commit();
    }

    fn copy_values(&self, b: &mut Builder, first: Value) {
        let [_, to] = self.rows_of(b, first);
        copy(b, &self.of_values(b, first, &to), &|b, row| self.place(b, row));
        b.async_commit();
    }

    fn run(&mut self, b: &mut Builder) {
        let Plan { shape, sizes, layout, staging, .. } = self.plan;
        let [of_queries, of_keys] = layout.roles();
        let threads = self.threads(b);
        let queries = Copy {
            thread: self.thread,
            first: self.first_query,
            source: &self.sources[0],
            from: 0,
            to: &self.q_rows,
            threads,
        };
        copy(b, &queries, &|_, row| row);
        b.async_commit();
        let (begin, end) = self.range(b);
        match staging {
            Staging::Turns => {
                self.copy_keys(b, begin);
                self.copy_values(b, begin);
                b.async_wait(2);
            }
            Staging::Beside => {
                self.copy_keys(b, begin);
                b.async_wait(1);
            }
            _ => b.async_wait(0),
        }
        b.barrier();
        let held = self.hold(b);
        let key = b.tile(of_keys, shape);
        let value = b.tile(of_keys, shape);
        // From shared memory they are taken one by one.
        let powers = if layout.passing == Passing::Shared { 1 } else { sizes.keys / shape.k as usize };
        let passed: Vec<Vec<Tile>> =
            (0..sizes.tiles).map(|_| (0..powers).map(|_| b.tile(of_queries, shape)).collect()).collect();
        let scratch = (layout.passing == Passing::Shared).then(|| {
            let (size, _) = layout.sizes(shape);
            Rows::new(b, shape.operand, sizes.groups * sizes.tiles * size, sizes.keys, false)
        });
        if self.plan.holds_queries {
            // Every thread has its queries, and keys take their place.
            b.barrier();
        }
        if *staging == Staging::Ahead {
            let first = self.of_keys(b, begin, &self.k_rows);
            let fetched = first.fetch(b);
            first.keep(b, &fetched, &|_, row| row);
        }
        b.for_range(begin, end, sizes.keys, |b, first_key| {
            let next = b.add(first_key, sizes.keys);
            let [k_rows, v_rows] = self.rows_of(b, first_key);
            let keys = self.of_keys(b, next, &self.k_rows);
            let values = self.of_values(b, first_key, &self.v_rows);
            let mut fetched = Vec::new();
            match staging {
                Staging::Turns => {
                    // All threads see this block now, and none reads the one before any more.
                    b.async_wait(0);
                    b.barrier();
                    self.copy_keys(b, next);
                    self.copy_values(b, next);
                }
                Staging::Beside => {
                    self.copy_values(b, first_key);
                    b.async_wait(1);
                    b.barrier();
                }
                Staging::InTurn => {
                    self.copy_keys(b, first_key);
                    b.async_wait(0);
                    b.barrier();
                }
                Staging::Ahead => {
                    b.barrier();
                    fetched = values.fetch(b);
                }
            }
            for tile in self.scores.iter().flatten() {
                b.tile_fill(*tile, 0);
            }
            self.score_all(b, &k_rows, &held, key);
            match staging {
                Staging::Turns => (),
                Staging::Beside => {
                    b.barrier();
                    self.copy_keys(b, next);
                }
                Staging::InTurn => {
                    b.barrier();
                    self.copy_values(b, first_key);
                }
                Staging::Ahead => {
                    values.keep(b, &fetched, &|b, row| self.place(b, row));
                    fetched = keys.fetch(b);
                }
            }
            for (number, powers) in passed.iter().enumerate() {
                self.weigh(b, number, first_key, powers, scratch.as_ref());
            }
            if *staging != Staging::Turns {
                b.async_wait(usize::from(*staging == Staging::Beside));
                b.barrier();
            }
            if *staging == Staging::Ahead {
                keys.keep(b, &fetched, &|_, row| row);
            }
            if let Some(scratch) = &scratch {
                b.for_range(0, sizes.keys, shape.k, |b, near| {
                    let own: Vec<Tile> = passed.iter().filter_map(|tiles| tiles.first().copied()).collect();
                    self.take(b, &own, scratch, near);
                    self.add_values(b, &v_rows, &own, value, near);
                });
            } else {
                for step in 0..sizes.keys / shape.k as usize {
                    let own: Vec<Tile> = passed.iter().filter_map(|tiles| tiles.get(step).copied()).collect();
                    let near = b.number(step * shape.k as usize);
                    self.add_values(b, &v_rows, &own, value, near);
                }
            }
            if !matches!(staging, Staging::Ahead | Staging::Turns) {
                b.barrier();
            }
        });
        b.async_wait(0);
        for number in 0..sizes.tiles {
            self.finish(b, number);
        }
    }
}
