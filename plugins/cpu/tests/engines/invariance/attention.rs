//! Attention: sequences of a batch, and one sequence in pieces.

use hipdnn_cpu_plugin::settings::Settings;
use hipdnn_cpu_plugin::threading::partition::Threads;
use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment};

use super::super::common::{Case, Random, Strides, packed, strides};
use super::{Batch, Problem, at_each_level, check, execute};

const FLOAT: DataType = DataType::Float;

/// The shape of an attention.
#[derive(Clone, Copy, Debug)]
struct Shape {
    of: DataType,
    /// Of queries, and of keys and values.
    heads: [i64; 2],
    queries: i64,
    keys: i64,
    depth: i64,
}

/// What is asked of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Causal,
    Window,
    Mask,
    Alibi,
    Lengths,
    Pages,
}

impl Asked {
    const ALL: [Self; 7] =
        [Self::Nothing, Self::Causal, Self::Window, Self::Mask, Self::Alibi, Self::Lengths, Self::Pages];
}

/// Positions before heads, as in a projection's result.
fn positions_first(dims: &[i64]) -> Vec<i64> {
    strides(dims, &[0, 2, 1, 3])
}

impl Shape {
    fn q(&self, batch: i64) -> [i64; 4] {
        [batch, self.heads[0], self.queries, self.depth]
    }

    fn k(&self, batch: i64) -> [i64; 4] {
        [batch, self.heads[1], self.keys, self.depth]
    }

    /// One number for each sequence.
    fn lengths(batch: &mut Batch<'_>, most: i64) -> i64 {
        let lengths: Vec<f64> = batch.items.iter().map(|item| 1.0 + (item % most as u64) as f64).collect();
        let uid = batch.case.tensor(DataType::Int32, &[batch.len(), 1, 1, 1]);
        batch.case.fill(uid, &lengths);
        uid
    }

    fn operands(&self, batch: &mut Batch<'_>, asked: Asked, order: Strides) -> Sdpa {
        let Self { of, queries, keys, depth, heads } = *self;
        let count = batch.len();
        let q = batch.items(of, &self.q(count), order);
        let is_paged = asked == Asked::Pages;
        // Blocks of 16 keys; those of a sequence follow each other, except that the first two change places.
        let pages = (keys + 15) / 16;
        let of_keys = if is_paged { [count * pages, heads[1], 16, depth] } else { self.k(count) };
        let [k, v] = [(); 2].map(|()| batch.items(of, &of_keys, if is_paged { packed } else { order }));
        let o = batch.result(of, &self.q(count), order);
        let mut node = Sdpa::new(q, k, v, o);
        node.attn_scale_value = Some(0.3);
        match asked {
            Asked::Nothing => {}
            Asked::Causal => node.causal_mask = true,
            Asked::Window => (node.left_bound, node.right_bound) = (Some(keys / 3), Some(0)),
            Asked::Mask => node.attn_mask = Some(batch.items(FLOAT, &[count, 1, queries, keys], packed)),
            Asked::Alibi => (node.alibi_mask, node.causal_mask) = (true, true),
            Asked::Lengths | Asked::Pages => {
                node.padding_mask = true;
                node.seq_len_q = Some(Self::lengths(batch, queries));
                node.seq_len_kv = Some(Self::lengths(batch, keys));
            }
        }
        if is_paged {
            let table = batch.case.tensor(DataType::Int32, &[count, 1, pages, 1]);
            let swapped = |page: i64| if page < 2 && pages > 1 { 1 - page } else { page };
            let of = |sequence: i64| (0..pages).map(move |page| (sequence * pages + swapped(page)) as f64);
            batch.case.fill(table, &(0..count).flat_map(of).collect::<Vec<_>>());
            (node.page_table_k, node.page_table_v) = (Some(table), Some(table));
            node.max_seq_len_kv = i32::try_from(keys).ok();
        }
        node
    }

    fn forward(self, asked: Asked, order: Strides) -> Problem {
        let layout = if order(&[2, 3, 4, 5])[1] == 5 { ", positions first" } else { "" };
        Problem::new(format!("attention with {asked:?}{layout}, {self:?}"), move |batch| {
            let mut node = self.operands(batch, asked, order);
            let rows = [batch.len(), self.heads[0], self.queries, 1];
            node.stats = Some(batch.result(FLOAT, &rows, packed));
            batch.case.node(node);
        })
    }

    fn backward(self, asked: Asked) -> Problem {
        let problem = Problem::new(format!("gradient of attention with {asked:?}, {self:?}"), move |batch| {
            let mut node = self.operands(batch, asked, packed);
            let count = batch.len();
            let stats = batch.result(FLOAT, &[count, self.heads[0], self.queries, 1], packed);
            node.stats = Some(stats);
            let d_o = batch.items(self.of, &self.q(count), packed);
            let gradients = [self.q(count), self.k(count), self.k(count)]
                .map(|dims| batch.result(self.of, &dims, packed));
            let backward = SdpaBackward::of(&node, [d_o, stats], gradients);
            batch.case.node(node);
            batch.case.node(backward);
        });
        Problem { may_be_spoiled: false, ..problem }
    }
}

fn shapes(of: DataType) -> Vec<Shape> {
    let shape = Shape { of, heads: [4, 4], queries: 20, keys: 20, depth: 16 };
    vec![
        shape,
        Shape { heads: [4, 2], queries: 1, keys: 150, ..shape },
        Shape { heads: [6, 1], queries: 70, keys: 300, depth: 24, ..shape },
        Shape { queries: 5, keys: 33, depth: 7, ..shape },
    ]
}

#[test]
fn sequences() {
    at_each_level("attention::sequences", || {
        let mut problems = Vec::new();
        for of in [FLOAT, DataType::Bfloat16] {
            for shape in shapes(of) {
                problems.extend(Asked::ALL.map(|asked| shape.forward(asked, packed)));
                problems.push(shape.forward(Asked::Causal, positions_first));
                problems.push(shape.backward(Asked::Causal));
                problems.push(shape.backward(Asked::Nothing));
            }
        }
        let large = |problem| Problem { large: 5, ..problem };
        check(problems.into_iter().map(large).collect());
    });
}

/// Fills a tensor of rows [1, heads, positions, depth] for positions from `first` on.
fn fill(case: &mut Case, uid: i64, first: i64) {
    let [_, heads, positions, depth] = case.memory(uid).tensor.dims[..] else { unreachable!() };
    let mut places = (0..heads).flat_map(|head| (0..positions).map(move |position| (head, position)));
    let (mut left, mut random) = (0, Random(0));
    case.memory(uid).fill(|| {
        if left == 0 {
            let (head, position) = places.next().unwrap();
            random = Random((((head << 20) | (first + position)) << 4 | uid) as u64);
            left = depth;
        }
        left -= 1;
        random.real(-1.0, 1.0)
    });
}

/// The bits of the results of some positions, which see those before: of each position a row of all heads.
fn piece(shape: Shape, window: Option<i64>, order: Strides, [first, end]: [i64; 2]) -> Vec<Vec<u64>> {
    let mut case = Case::new();
    let shape = Shape { queries: end - first, keys: end, ..shape };
    let q = case.tensor_with(shape.of, &shape.q(1), &order(&shape.q(1)));
    fill(&mut case, q, first);
    let [k, v] = [(); 2].map(|()| {
        let uid = case.tensor_with(shape.of, &shape.k(1), &order(&shape.k(1)));
        fill(&mut case, uid, 0);
        uid
    });
    let o = case.tensor(shape.of, &shape.q(1));
    let mut node = Sdpa::new(q, k, v, o);
    node.attn_scale_value = Some(0.3);
    node.diagonal_alignment = DiagonalAlignment::BottomRight;
    (node.left_bound, node.right_bound) = (window, Some(0));
    case.node(node);
    let threads = Threads { most: 1, batch_invariant: true, ..Threads::default() };
    execute(&mut case, Settings::from(threads));
    let values = case.values(o);
    let of_row = |position: i64| {
        let of_head = |head: i64| {
            let at = (head * shape.queries + position) * shape.depth;
            values[at as usize..][..shape.depth as usize].iter().map(|value| value.to_bits())
        };
        (0..shape.heads[0]).flat_map(of_head).collect()
    };
    (0..shape.queries).map(of_row).collect()
}

#[test]
fn pieces_of_a_sequence() {
    const LENGTH: i64 = 300;
    at_each_level("attention::pieces_of_a_sequence", || {
        for of in [FLOAT, DataType::Bfloat16] {
            let shape = Shape { of, heads: [4, 2], queries: 0, keys: 0, depth: 24 };
            for (window, order) in
                [(None, packed as Strides), (None, positions_first), (Some(40), packed), (Some(140), packed)]
            {
                let whole = piece(shape, window, order, [0, LENGTH]);
                let check = |pieces: [i64; 2]| {
                    let rows = piece(shape, window, order, pieces);
                    let same = rows == whole[pieces[0] as usize..pieces[1] as usize];
                    assert!(same, "{shape:?}, window {window:?}: positions {pieces:?} differ");
                };
                for chunk in [7, 64, 100, 129] {
                    (0..LENGTH)
                        .step_by(chunk as usize)
                        .for_each(|first| check([first, LENGTH.min(first + chunk)]));
                }
                [0, 1, 15, 16, 31, 63, 127, 128, 129, 200, 255, 256, 299]
                    .into_iter()
                    .for_each(|at| check([at, at + 1]));
            }
        }
    });
}
