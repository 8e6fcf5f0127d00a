//! The kernel of one gradient.

#![expect(
    clippy::indexing_slicing,
    reason = "sides, tiles and slots are in tables made here, of the sizes that loops run over"
)]

use super::super::plan::{Staging, WIDE};
use super::super::scores::{Context, Options};
use super::super::sequence::{Bound, Sequence, Source};
use super::super::staging::Rows;
use super::super::{Attention, Tensor};
use super::plan::Plan;
use super::{Gradients, Of};
use crate::builder::Builder;
use crate::form::{Index, Local, Role, Shared, Tile, Value};
use crate::product::{Launch, engine};
use crate::scalar::Scalar;
use crate::target::{Fragment, Target};

/// A kernel's parameters.
pub(super) struct Pointers {
    /// q, k, v and do.
    operands: [Bound; 4],
    /// The statistics and the row sums.
    pub(super) rows: [Bound; 2],
    pub(super) result: Bound,
    pub(super) options: Options,
}

impl Pointers {
    fn new(b: &mut Builder, gradients: &Gradients, of: Of, result: &Tensor) -> Self {
        let Gradients { attention, stats, d_o, sums } = gradients;
        let Attention { heads, key_heads, value_heads, depth, value_depth, .. } = *attention;
        let sizes = match of {
            Of::Queries => [heads, depth],
            Of::Keys => [key_heads, depth],
            Of::Values => [value_heads, value_depth],
            Of::Mask => [1, 1],
        };
        let all = [
            (&attention.q, heads, depth),
            (&attention.k, key_heads, depth),
            (&attention.v, value_heads, value_depth),
            (d_o, heads, value_depth),
        ];
        Self {
            operands: all.map(|(tensor, heads, depth)| Bound::new(b, tensor, [heads, depth], false)),
            rows: [stats, sums].map(|tensor| Bound::new(b, tensor, [heads, 1], false)),
            result: Bound::new(b, result, sizes, true),
            options: Options::new(b, attention),
        }
    }
}

/// An operand whose rows go through shared memory.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub(super) source: Source,
    /// Elements of a row with padding.
    pub(super) padded: usize,
    pub(super) array: Shared,
}

/// Writes the kernel of a gradient, with the tensor that receives it: for [`Of::Mask`] one without a broadcast of queries or keys.
///
/// # Errors
/// What is not supported.
pub fn write(
    gradients: &Gradients,
    of: Of,
    result: &Tensor,
    shared_mask: [usize; 2],
    target: &Target,
    name: &str,
) -> Result<Launch, String> {
    let attention = &gradients.attention;
    let operand = attention.q.scalar;
    let all = [operand, attention.k.scalar, attention.v.scalar, gradients.d_o.scalar];
    if !matches!(operand, Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64) || all != [operand; 4] {
        let names = all.map(Scalar::name);
        return Err(format!(
            "q, k, v and do are {}, expected all half, bfloat16, float or double",
            names.join(", ")
        ));
    }
    let plan = Plan::of(attention, of, target).ok_or_else(|| {
        format!("a tile of scores needs more shared memory than the {} bytes there are", target.shared)
    })?;
    let device = Target { subgroup: plan.subgroup, ..target.clone() };
    let mut b = Builder::new(name, plan.threads() as u32, &device);
    let pointers = Pointers::new(&mut b, gradients, of, result);
    let (rows, passed) = match of {
        Of::Queries | Of::Mask => (attention.queries, attention.keys),
        Of::Keys | Of::Values => (attention.keys, attention.queries),
    };
    let blocks = rows.div_ceil(plan.rows());
    let across = if of == Of::Mask { passed.div_ceil(plan.others) } else { 1 };
    let [batch, heads] = match of {
        Of::Queries => [attention.batch, attention.heads],
        Of::Keys => [attention.batch, attention.key_heads],
        Of::Values => [attention.batch, attention.value_heads],
        Of::Mask => shared_mask,
    };
    let (group, grid) = engine::groups(&mut b, batch * heads * blocks * across)?;
    let (group, column) = b.div_rem(group, across);
    let (which, block) = b.div_rem(group, blocks);
    let block = if Sweep::has_queries(of) && attention.band.right.is_some() {
        // The last queries see most keys: they begin first.
        let last = b.number(blocks - 1);
        b.sub(last, block)
    } else {
        block
    };
    let (sequence, head) = b.div_rem(which, heads);
    let first = b.mul(block, plan.rows());
    let column = b.mul(column, plan.others);
    let sweep = Sweep::new(&mut b, gradients, of, &plan, &pointers);
    let sums = sweep.run(&mut b, [sequence, head, first, column], [batch, heads]);
    sweep.store(&mut b, result, [sequence, head, first, column], &sums);
    Ok(Launch { kernel: b.finish(), grid })
}

pub(super) struct Sweep<'a> {
    pub(super) gradients: &'a Gradients,
    pub(super) of: Of,
    pub(super) plan: &'a Plan,
    pub(super) pointers: &'a Pointers,
    pub(super) fragment: Fragment,
    pub(super) thread: Value,
    /// The first row of the subgroup in the workgroup, and the lane's part of a row and of a column.
    pub(super) own_row: Value,
    pub(super) lane_row: Value,
    pub(super) lane_column: Value,
    /// The scores, and the products of dO and values, for each tile of rows.
    pub(super) scores: Vec<Vec<Tile>>,
    pub(super) products: Vec<Vec<Tile>>,
    /// Scores as operands, if they stay in registers.
    pub(super) operands: Vec<Vec<Tile>>,
    /// Own rows of both operands by step and tile, if a thread has registers for them.
    pub(super) held: [Vec<Vec<Tile>>; 2],
    /// Arrays of own rows and of the others.
    pub(super) own: [Shared; 2],
    others: [Shared; 2],
    pub(super) scratch: Option<Rows>,
    /// The statistics and row sums of the queries at hand.
    pub(super) statistics: [Shared; 2],
    /// Where a tile of results of each subgroup is before it is stored.
    pub(super) passed: Shared,
}

/// A block of a sequence's head.
pub(super) struct Block<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) own: [Side; 2],
    pub(super) others: [Side; 2],
    /// The first own row, and the first of the others.
    pub(super) first: Value,
    pub(super) other: Value,
    /// Where the statistics of the queries at hand begin.
    pub(super) statistics: Value,
}

impl<'a> Sweep<'a> {
    fn new(
        b: &mut Builder,
        gradients: &'a Gradients,
        of: Of,
        plan: &'a Plan,
        pointers: &'a Pointers,
    ) -> Self {
        let shape = &plan.shape;
        let thread = b.index(Index::Thread);
        let [lane, subgroup] = [b.index(Index::Lane), b.index(Index::Subgroup)];
        let fragment = shape.fragment(Role::Accumulator).cloned().unwrap_or(Fragment {
            row: crate::target::LanePart { divisor: 1, modulus: 1, factor: 0 },
            column: crate::target::LanePart { divisor: 1, modulus: 1, factor: 0 },
            slots: Vec::new(),
        });
        let lane_row = b.lane_part(lane, fragment.row);
        let lane_column = b.lane_part(lane, fragment.column);
        let own_row = b.mul(subgroup, shape.m as usize * plan.tiles);
        let columns = plan.others / shape.n as usize;
        let mut tiles = || -> Vec<Vec<Tile>> {
            (0..plan.tiles).map(|_| (0..columns).map(|_| b.sums(shape)).collect()).collect()
        };
        let scores = tiles();
        let products = if of == Of::Values { Vec::new() } else { tiles() };
        let steps = if plan.in_registers { plan.others / shape.k as usize } else { 0 };
        let operands =
            (0..plan.tiles).map(|_| (0..steps).map(|_| b.tile(Role::A, shape)).collect()).collect();
        let operand = shape.operand;
        // Two arrays take turns where one is filled beside other work.
        let turns = if plan.staging == Staging::Beside { 2 } else { 1 };
        let mut array = |rows: usize, elements: usize| {
            let (_, length) = Rows::sizes(operand, rows, elements, false);
            b.shared(operand, length)
        };
        let [depth, value_depth] = plan.depths;
        let (own, others) = match plan.part {
            Some(part) => ([array(plan.rows(), part); 2], [array(plan.others, part); 2]),
            None => {
                let others = [array(turns * plan.others, depth), array(turns * plan.others, value_depth)];
                if plan.held {
                    (others, others)
                } else {
                    let first = array(plan.rows(), depth);
                    let second = if of == Of::Values { first } else { array(plan.rows(), value_depth) };
                    ([first, second], others)
                }
            }
        };
        let mut hold = |depth: usize| -> Vec<Vec<Tile>> {
            let steps = if plan.held { depth / shape.k as usize } else { 0 };
            (0..steps).map(|_| (0..plan.tiles).map(|_| b.tile(Role::A, shape)).collect()).collect()
        };
        let held = [hold(depth), if of == Of::Values { Vec::new() } else { hold(value_depth) }];
        let has_scratch = of != Of::Mask && !plan.in_registers;
        let scratch = has_scratch.then(|| Rows::new(b, operand, plan.rows(), plan.others, false));
        let queries = if Self::has_queries(of) { plan.rows() } else { turns * plan.others };
        let statistics = [(); 2].map(|()| b.shared(shape.sum, queries));
        Self {
            gradients,
            of,
            plan,
            pointers,
            fragment,
            thread,
            own_row,
            lane_row,
            lane_column,
            scores,
            products,
            operands,
            held,
            own,
            others,
            scratch,
            statistics,
            passed: b.shared(shape.sum, plan.rows() * (shape.n as usize + 1)),
        }
    }

    /// Whether the own rows are queries.
    pub(super) fn has_queries(of: Of) -> bool {
        matches!(of, Of::Queries | Of::Mask)
    }

    /// Computes the sums of a gradient.
    fn run(
        &self,
        b: &mut Builder,
        [sequence, head, first, column]: [Value; 4],
        [batch, heads]: [usize; 2],
    ) -> Vec<Vec<Tile>> {
        let Attention { batch: all, heads: all_heads, .. } = self.gradients.attention;
        let shape = &self.plan.shape;
        let width = match self.of {
            Of::Mask => self.plan.others,
            Of::Values => self.plan.depths[1],
            Of::Queries | Of::Keys => self.plan.depths[0],
        };
        let columns = width / shape.n as usize;
        let sums: Vec<Vec<Tile>> =
            (0..self.plan.tiles).map(|_| (0..columns).map(|_| b.sums(shape)).collect()).collect();
        // The sequences and heads of queries that are summed.
        let ranges = [(sequence, all / batch), (head, all_heads / heads)];
        let [(begin, end), (first_head, last_head)] = ranges.map(|(own, count)| {
            let begin = b.mul(own, count);
            (begin, b.add(begin, count))
        });
        b.for_range(begin, end, 1, |b, sequence| {
            b.for_range(first_head, last_head, 1, |b, head| {
                self.of_head(b, [sequence, head, first, column], &sums);
            });
        });
        sums
    }

    /// Adds what a head of queries contributes.
    fn of_head(&self, b: &mut Builder, [sequence, head, first, column]: [Value; 4], sums: &[Vec<Tile>]) {
        let attention = &self.gradients.attention;
        let options = &self.pointers.options;
        let sequence = Sequence::new(b, attention, options.lengths, sequence);
        let Sequence { queries, keys, .. } = sequence;
        let context = Context::new(b, attention, self.plan.shape.sum, options, &sequence, head);
        let diagonal = context.diagonal;
        let key_head = b.div(head, attention.heads / attention.key_heads);
        let value_head = b.div(head, attention.heads / attention.value_heads);
        let tensors = [(head, queries), (key_head, keys), (value_head, keys), (head, queries)];
        let mut side = |place: usize, array: Shared| {
            let (head, valid) = tensors[place];
            let padded = self.plan.depths[usize::from(place > 1)];
            Side { source: self.pointers.operands[place].of_head(b, &sequence, head, valid), padded, array }
        };
        let (own, others) = if Self::has_queries(self.of) { ([0, 3], [1, 2]) } else { ([1, 2], [0, 3]) };
        let own = [side(own[0], self.own[0]), side(own[1], self.own[1])];
        let others = [side(others[0], self.others[0]), side(others[1], self.others[1])];
        if self.plan.part.is_none() {
            self.stage(b, &own[0], first, self.plan.rows(), 0);
            if self.of != Of::Values {
                self.stage(b, &own[1], first, self.plan.rows(), 0);
            }
            b.async_commit();
            b.async_wait(0);
        }
        let rows = self.pointers.rows.map(|bound| bound.of_head(b, &sequence, head, queries));
        if Self::has_queries(self.of) {
            self.stage_statistics(b, &rows, first, self.plan.rows());
        }
        b.barrier();
        if self.plan.held {
            self.hold(b, &own);
            // The others' rows take their place.
            b.barrier();
        }
        let (begin, end) = match self.of {
            Of::Mask => (column, b.add(column, 1)),
            _ => self.range(b, first, [queries, keys, diagonal]),
        };
        let block = |statistics: Value, other: Value| Block {
            context: &context,
            own,
            others,
            first,
            other,
            statistics,
        };
        let zero = b.number(0);
        if self.plan.staging == Staging::InTurn {
            b.for_range(begin, end, self.plan.others, |b, other| {
                if !Self::has_queries(self.of) {
                    self.stage_statistics(b, &rows, other, self.plan.others);
                }
                self.of_block(b, &block(zero, other), sums);
            });
            // The next head's rows replace what others may still read.
            return b.barrier();
        }
        let fetch_statistics = |b: &mut Builder, other: Value| match Self::has_queries(self.of) {
            true => Vec::new(),
            false => self.fetch_statistics(b, &rows, other),
        };
        let keep_statistics = |b: &mut Builder, fetched: &[[Local; 2]], other: Value| {
            if !fetched.is_empty() {
                let begin = self.statistics_of(b, other);
                self.keep_statistics(b, fetched, begin);
            }
        };
        let statistics = fetch_statistics(b, begin);
        if self.plan.staging == Staging::Beside {
            self.stage_beside(b, &others, begin);
        } else {
            for side in &others {
                let fetched = self.fetch(b, side, begin);
                self.keep(b, side, begin, &fetched);
            }
        }
        keep_statistics(b, &statistics, begin);
        if self.plan.staging == Staging::Ahead {
            b.barrier();
        }
        b.for_range(begin, end, self.plan.others, |b, other| {
            let next = b.add(other, self.plan.others);
            if self.plan.staging == Staging::Beside {
                // All threads see this block now, and none reads the one before any more.
                b.async_wait(0);
                b.barrier();
                self.stage_beside(b, &others, next);
                let statistics = fetch_statistics(b, next);
                let at = self.statistics_of(b, other);
                self.of_block(b, &block(at, other), sums);
                return keep_statistics(b, &statistics, next);
            }
            let statistics = fetch_statistics(b, next);
            let block = block(zero, other);
            // The last product needs one side only: where registers are few, the other side's next rows are there before it.
            let last = usize::from(self.of == Of::Values);
            let [early, late] = [&others[1 - last], &others[last]];
            let is_long = self.plan.depths.iter().sum::<usize>() > WIDE;
            let of_early = self.fetch(b, early, next);
            let mut of_late = if is_long { Vec::new() } else { self.fetch(b, late, next) };
            self.multiply_block(b, &block);
            if is_long {
                b.barrier();
                self.keep(b, early, next, &of_early);
                of_late = self.fetch(b, late, next);
            }
            self.slopes(b, &block, sums);
            self.add_block(b, &block, sums);
            if !is_long {
                self.keep(b, early, next, &of_early);
            }
            self.keep(b, late, next, &of_late);
            keep_statistics(b, &statistics, next);
            b.barrier();
        });
        // Copies beyond the end are under way, too.
        if self.plan.staging == Staging::Beside {
            b.async_wait(0);
        }
        b.barrier();
    }

    /// The other rows that matter to any own row.
    fn range(&self, b: &mut Builder, first: Value, [queries, keys, diagonal]: [Value; 3]) -> (Value, Value) {
        let band = &self.gradients.attention.band;
        let zero = b.number(0);
        let rows = self.plan.rows();
        let of_queries = Self::has_queries(self.of);
        let (mut begin, mut end) = (zero, if of_queries { keys } else { queries });
        // A query's key is before the diagonal by at most `left`, and a key's query by at most `right`.
        let (before, after) = if of_queries { (band.left, band.right) } else { (band.right, band.left) };
        let place = if of_queries { b.add(first, diagonal) } else { b.sub(first, diagonal) };
        if let Some(after) = after {
            let last = b.add(place, rows + after);
            let last = b.max(last, 0);
            end = b.min(end, last);
        }
        if let Some(before) = before {
            let least = b.sub(place, before);
            let least = b.max(least, 0);
            let block = b.div(least, self.plan.others);
            begin = b.mul(block, self.plan.others);
        }
        (begin, end)
    }

    fn of_block(&self, b: &mut Builder, block: &Block<'_>, sums: &[Vec<Tile>]) {
        self.multiply_block(b, block);
        self.slopes(b, block, sums);
        self.add_block(b, block, sums);
    }
}
