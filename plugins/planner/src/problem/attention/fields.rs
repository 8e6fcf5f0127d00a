//! The fields of an attention operation, validated together.

use hipdnn_plugin_sdk::graph::operation::{Sdpa, SdpaBackward};
use hipdnn_plugin_sdk::graph::{DataType, DiagonalAlignment, Graph, Operation};

use super::options::{Band, Dropout, Options, Scale};
use super::shape::{Integers, Sequences, Shape, Start, expect_dims, four};
use super::{Attention, AttentionGradients, Factors};
use crate::problem::{Operand, Operands, ragged_tensors};
use crate::{Refusal, in_own_frame};

/// The non-tensor fields of both directions.
struct Numbers {
    alibi: bool,
    padding: bool,
    causal: bool,
    causal_bottom_right: bool,
    left: Option<i64>,
    right: Option<i64>,
    alignment: DiagonalAlignment,
    scale: Option<f32>,
    probability: Option<f32>,
}

pub(super) struct Fields<'a> {
    pub(super) graph: &'a Graph,
    pub(super) operands: Operands<'a>,
    /// Names of the ragged tensors with the uids of their offsets, in the order of the pointers.
    pub(super) ragged: Vec<(&'static str, i64, i64)>,
    /// The index of the first offsets tensor among the pointers.
    pub(super) first_offsets: usize,
}

/// The optional outputs for each query.
struct Results {
    o: Sequences,
    stats: Option<Sequences>,
    max: Option<Sequences>,
    sum_exp: Option<Sequences>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(graph: &'a Graph, operation: &Operation) -> Self {
        Self {
            graph,
            operands: Operands::new(graph, operation),
            ragged: ragged_tensors(graph, operation),
            first_offsets: operation.tensors().len(),
        }
    }

    pub(super) fn attention(&self, sdpa: &Sdpa) -> Result<Box<Attention>, Refusal> {
        self.only_ragged(&["q", "k", "v", "o", "stats", "max", "sum_exp"])?;
        let [q, k, v] = ["q", "k", "v"].map(|name| self.tensor(name));
        let (q, k, v) = (q?, k?, v?);
        let tables = [self.table("page_table_k", "k", &k)?, self.table("page_table_v", "v", &v)?];
        let shape = self.shape([&q, &k, &v], tables, sdpa.max_seq_len_kv)?;
        let numbers = Numbers {
            alibi: sdpa.alibi_mask,
            padding: sdpa.padding_mask,
            causal: sdpa.causal_mask,
            causal_bottom_right: sdpa.causal_mask_bottom_right,
            left: sdpa.left_bound,
            right: sdpa.right_bound,
            alignment: sdpa.diagonal_alignment,
            scale: sdpa.attn_scale_value,
            probability: sdpa.dropout_probability,
        };
        let options = in_own_frame(|| self.options(&numbers, &shape).map(Box::new))?;
        if (tables[0].is_some() || tables[1].is_some()) && options.lengths.is_none() {
            return Err("seq_len_q: absent, expected a tensor as there is a page table".to_owned());
        }
        let paged = |start: Start, table: Option<Integers>| table.map_or(start, Start::Paged);
        let [ragged_q, ragged_k, ragged_v] =
            ["q", "k", "v"].map(|name| self.start(name, &shape, options.lengths.is_some()));
        let keyed = [("k", ragged_k.as_ref().ok(), tables[0]), ("v", ragged_v.as_ref().ok(), tables[1])];
        for (name, start, table) in keyed {
            if matches!(start, Some(Start::Ragged { .. })) && table.is_some() {
                return Err(format!("{name}: has ragged offsets, expected none as there is a page table"));
            }
        }
        let results = in_own_frame(|| self.results(&shape, &options).map(Box::new))?;
        match (sdpa.generate_stats, &results.stats) {
            (Some(true), None) => {
                return Err("stats: absent, expected a tensor as generate_stats is true".to_owned());
            }
            (Some(false), Some(_)) => {
                return Err("stats: given, expected none as generate_stats is false".to_owned());
            }
            _ => {}
        }
        let block_mask = self.block_mask(&shape)?;
        let rng_dump = self.operands.optional("rng_dump")?;
        if let Some(dump) = &rng_dump {
            expect_dims("rng_dump", dump, &shape.scores())?;
            if !matches!(options.dropout, Some(Dropout::Random { .. })) {
                return Err("rng_dump: given, expected none as there is no dropout with a seed".to_owned());
            }
        }
        if shape.packed {
            let dense = ["attn_mask", "dropout_mask", "block_mask", "rng_dump"];
            for name in dense {
                if self.operands.optional(name)?.is_some() {
                    return Err(format!(
                        "{name}: given, expected none as the queries of {} sequences are packed into one",
                        shape.batch
                    ));
                }
            }
        }
        let factors = in_own_frame(|| self.factors(&shape).map(Box::new))?;
        let (ragged_q, ragged_k, ragged_v) = (ragged_q?, ragged_k?, ragged_v?);
        let (sink, amax_s, amax_o) =
            (self.sink(&shape)?, self.optional_scalar("amax_s")?, self.optional_scalar("amax_o")?);
        let Results { o, stats, max, sum_exp } = &*results;
        Ok(in_own_frame(|| {
            Box::new(Attention {
                rows_of_query: 1,
                q: Sequences { operand: q, start: ragged_q },
                k: Sequences { operand: k, start: paged(ragged_k, tables[0]) },
                v: Sequences { operand: v, start: paged(ragged_v, tables[1]) },
                o: *o,
                block_mask,
                sink,
                factors: *factors,
                stats: *stats,
                max: *max,
                sum_exp: *sum_exp,
                rng_dump,
                amax_s,
                amax_o,
                shape,
                options: *options,
            })
        }))
    }

    fn results(&self, shape: &Shape, options: &Options) -> Result<Results, Refusal> {
        let result = [shape.batch_of_queries(), shape.heads, shape.queries, shape.value_depth];
        let row = [shape.batch_of_queries(), shape.heads, shape.queries, 1];
        let rows = |name: &'static str| self.optional_sequences(name, row, shape, options);
        Ok(Results {
            o: self.sequences("o", result, shape, options)?,
            stats: rows("stats")?,
            max: rows("max")?,
            sum_exp: rows("sum_exp")?,
        })
    }

    fn factors(&self, shape: &Shape) -> Result<Factors, Refusal> {
        Ok(Factors {
            descale_q: self.head_factor("descale_q", shape)?,
            descale_k: self.head_factor("descale_k", shape)?,
            descale_v: self.head_factor("descale_v", shape)?,
            descale_s: self.optional_scalar("descale_s")?,
            scale_s: self.optional_scalar("scale_s")?,
            scale_o: self.optional_scalar("scale_o")?,
        })
    }

    pub(super) fn gradients(&self, sdpa: &SdpaBackward) -> Result<Box<AttentionGradients>, Refusal> {
        self.only_ragged(&["q", "k", "v", "o", "do", "stats", "dq", "dk", "dv"])?;
        let [q, k, v] = ["q", "k", "v"].map(|name| self.tensor(name));
        let (q, k, v) = (q?, k?, v?);
        let shape = self.shape([&q, &k, &v], [None, None], None)?;
        let numbers = Numbers {
            alibi: sdpa.alibi_mask,
            padding: sdpa.padding_mask,
            causal: sdpa.causal_mask,
            causal_bottom_right: sdpa.causal_mask_bottom_right,
            left: sdpa.left_bound,
            right: sdpa.right_bound,
            alignment: sdpa.diagonal_alignment,
            scale: sdpa.attn_scale_value,
            probability: sdpa.dropout_probability,
        };
        let options = in_own_frame(|| self.options(&numbers, &shape).map(Box::new))?;
        // 1 / dropout_scale is redundant.
        self.optional_scalar("dropout_scale_inv")?;
        let dims = |operand: &Operand| four(operand.layout.dims(), 1);
        let result = [shape.batch, shape.heads, shape.queries, shape.value_depth];
        let dbias = self.operands.optional("dbias")?;
        match (&dbias, &options.mask) {
            (Some(dbias), Some(mask)) if mask.operand.data_type != DataType::Boolean => {
                expect_dims("dbias", dbias, mask.operand.layout.dims())?;
            }
            (Some(_), Some(_)) => {
                return Err("dbias: given, expected none as attn_mask is boolean".to_owned());
            }
            (Some(_), None) => {
                return Err("dbias: given, expected none as attn_mask is absent".to_owned());
            }
            (None, _) => {}
        }
        let asked = [
            ("o", result),
            ("do", result),
            ("stats", [shape.batch, shape.heads, shape.queries, 1]),
            ("dq", dims(&q)),
            ("dk", dims(&k)),
            ("dv", dims(&v)),
            ("q", dims(&q)),
            ("k", dims(&k)),
            ("v", dims(&v)),
        ];
        let found = in_own_frame(|| self.all_sequences(asked, &shape, &options))?;
        let [o, d_o, stats, dq, dk, dv, q, k, v] = &*found;
        Ok(in_own_frame(|| {
            Box::new(AttentionGradients {
                o: *o,
                d_o: *d_o,
                stats: *stats,
                dq: *dq,
                dk: *dk,
                dv: *dv,
                q: *q,
                k: *k,
                v: *v,
                dbias,
                shape,
                options: *options,
            })
        }))
    }

    /// Several tensors, each with its dimensions.
    fn all_sequences<const N: usize>(
        &self,
        asked: [(&'static str, [usize; 4]); N],
        shape: &Shape,
        options: &Options,
    ) -> Result<Box<[Sequences; N]>, Refusal> {
        let found = asked.into_iter().map(|(name, dims)| self.sequences(name, dims, shape, options));
        let found = found.collect::<Result<Box<[_]>, _>>()?;
        found.try_into().map_err(|_| "there are other tensors than those asked for".to_owned())
    }

    fn only_ragged(&self, names: &[&str]) -> Result<(), Refusal> {
        match self.ragged.iter().find(|(name, ..)| !names.contains(name)) {
            Some((name, ..)) => Err(format!("{name}: has ragged offsets, expected a dense tensor")),
            None => Ok(()),
        }
    }

    /// A tensor of four dimensions.
    #[inline(never)]
    fn tensor(&self, name: &str) -> Result<Operand, Refusal> {
        let operand = self.operands.required(name)?;
        match operand.layout.rank() {
            4 => Ok(operand),
            _ => Err(format!(
                "{name}: dims are {:?}, expected batch, heads, sequence and elements",
                operand.layout.dims()
            )),
        }
    }

    #[inline(never)]
    fn shape(
        &self,
        [q, k, v]: [&Operand; 3],
        tables: [Option<Integers>; 2],
        longest: Option<i32>,
    ) -> Result<Shape, Refusal> {
        let [dims_q, dims_k, dims_v] = [q, k, v].map(|operand| four(operand.layout.dims(), 1));
        let [batch_q, heads, queries, depth] = dims_q;
        let sequences = tables.iter().flatten().map(|table| table.dims[0]).next();
        let packed = batch_q == 1 && sequences.is_some_and(|sequences| sequences != 1);
        let batch = if packed { sequences.unwrap_or(1) } else { batch_q };
        let keys_of = |name: &str, dims: [usize; 4], table: Option<Integers>| match table {
            Some(table) if table.dims[0] != batch => Err(format!(
                "page_table_{name}: has {} row(s), expected {batch}, one for each sequence",
                table.dims[0]
            )),
            Some(table) => table.dims[1].checked_mul(dims[2]).ok_or_else(|| {
                format!("page_table_{name}: {} blocks of {} overflow", table.dims[1], dims[2])
            }),
            None if dims[0] != batch => {
                Err(format!("{name}: dims are {dims:?}, expected {batch} sequence(s) as in q"))
            }
            None => Ok(dims[2]),
        };
        let (room_k, room_v) = (keys_of("k", dims_k, tables[0])?, keys_of("v", dims_v, tables[1])?);
        let dense = [(tables[0], room_k), (tables[1], room_v)].into_iter();
        let dense = dense.filter_map(|(table, room)| table.is_none().then_some(room)).next();
        // Blocks may have room for more keys than there are.
        let keys = match (dense, longest) {
            (Some(keys), Some(longest)) if usize::try_from(longest) != Ok(keys) => {
                return Err(format!(
                    "max_seq_len_kv: is {longest}, expected {keys} as k or v has so many keys"
                ));
            }
            (Some(keys), _) => keys,
            (None, Some(longest)) => {
                let room = room_k.min(room_v);
                usize::try_from(longest).ok().filter(|longest| (1..=room).contains(longest)).ok_or_else(
                    || format!("max_seq_len_kv: is {longest}, expected 1 to {room} as the page tables have room for"),
                )?
            }
            (None, None) => room_k.min(room_v),
        };
        for (name, room, table) in [("k", room_k, tables[0]), ("v", room_v, tables[1])] {
            if room < keys || (table.is_none() && room != keys) {
                return Err(format!("{name}: has {room} keys, expected {keys} as k and v belong together"));
            }
        }
        if dims_k[3] != depth {
            return Err(format!("k: dims are {dims_k:?}, expected {depth} elements for each key as in q"));
        }
        for (name, dims) in [("k", dims_k), ("v", dims_v)] {
            if !heads.is_multiple_of(dims[1]) {
                return Err(format!("{name}: has {} heads, expected a divisor of the {heads} of q", dims[1]));
            }
        }
        let shape = Shape {
            batch,
            heads,
            key_heads: dims_k[1],
            value_heads: dims_v[1],
            queries,
            keys,
            depth,
            value_depth: dims_v[3],
            packed,
        };
        // Scores are numbered up to this.
        let scores = shape.scores().iter().try_fold(1_usize, |n, dim| n.checked_mul(*dim));
        match scores.filter(|scores| *scores <= isize::MAX as usize) {
            Some(_) => Ok(shape),
            None => Err(format!("q and k: have {:?} scores, expected fewer than 2⁶³", shape.scores())),
        }
    }

    #[inline(never)]
    fn options(&self, numbers: &Numbers, shape: &Shape) -> Result<Options, Refusal> {
        let scale = match (self.optional_scalar("scale")?, numbers.scale) {
            (Some(scalar), _) => Scale::Tensor(scalar),
            (None, value) => Scale::Value(value.unwrap_or(1.0)),
        };
        let mask = self.spread("attn_mask", shape)?;
        Ok(Options {
            scale,
            mask,
            band: band(numbers)?,
            alibi: numbers.alibi,
            lengths: self.lengths(numbers.padding, shape)?,
            dropout: self.dropout(numbers.probability, shape)?,
        })
    }

    /// The sequence lengths: if given they apply, whatever the flag says.
    fn lengths(&self, padding: bool, shape: &Shape) -> Result<Option<[Integers; 2]>, Refusal> {
        let [queries, keys] =
            ["seq_len_q", "seq_len_kv"].map(|name| self.integers(name, &[DataType::Int32], shape.batch));
        let absent = |name: &str, other: &str| {
            let cause = if padding { "padding_mask is true".to_owned() } else { format!("{other} is given") };
            Err(format!("{name}: absent, expected a tensor as {cause}"))
        };
        match (queries?, keys?) {
            (Some(queries), Some(keys)) => Ok(Some([queries, keys])),
            (None, None) if !padding => Ok(None),
            (None, _) => absent("seq_len_q", "seq_len_kv"),
            (_, None) => absent("seq_len_kv", "seq_len_q"),
        }
    }

    fn dropout(&self, probability: Option<f32>, shape: &Shape) -> Result<Option<Dropout>, Refusal> {
        let one = |name: &'static str| self.integers(name, &[DataType::Int32, DataType::Int64], 1);
        let (seed, offset) = (one("seed")?, one("offset")?);
        let mask = self.spread("dropout_mask", shape)?;
        let scale = self.optional_scalar("dropout_scale")?;
        if let Some(probability) = probability
            && !(0.0..=1.0).contains(&probability)
        {
            return Err(format!("dropout_probability: is {probability}, expected 0 to 1"));
        }
        match (probability, seed, offset, mask, scale) {
            (None, None, None, None, None) => Ok(None),
            (None, None, None, Some(mask), Some(scale)) => Ok(Some(Dropout::Mask { mask, scale })),
            (None, None, None, Some(_), None) => {
                Err("dropout_scale: absent, expected a tensor as dropout_mask is given".to_owned())
            }
            (None, None, None, None, Some(_)) => {
                Err("dropout_mask: absent, expected a tensor as dropout_scale is given".to_owned())
            }
            (_, _, _, Some(_), _) => {
                Err("dropout_mask: given, expected none as there is a probability, a seed or an offset"
                    .to_owned())
            }
            (_, _, _, _, Some(_)) => {
                Err("dropout_scale: given, expected none as there is a probability, a seed or an offset"
                    .to_owned())
            }
            (None, ..) => {
                Err("dropout_probability: absent, expected a value as there is a seed or an offset"
                    .to_owned())
            }
            (Some(probability), Some(seed), Some(offset), ..) => {
                Ok(Some(Dropout::Random { probability, seed, offset }))
            }
            (Some(0.0), None, None, ..) => Ok(None),
            (Some(probability), None, ..) => {
                Err(format!("seed: absent, expected a tensor as dropout_probability is {probability}"))
            }
            (Some(probability), _, None, ..) => {
                Err(format!("offset: absent, expected a tensor as dropout_probability is {probability}"))
            }
        }
    }
}

/// The band defined by the bounds, flags and alignment together.
fn band(numbers: &Numbers) -> Result<Band, Refusal> {
    let bound = |name: &str, bound: Option<i64>| match bound {
        None | Some(-1) => Ok(None),
        Some(bound) => u64::try_from(bound)
            .map(Some)
            .map_err(|_| format!("{name}: is {bound}, expected at least -1 (-1: unbounded)")),
    };
    let (left, right) = (bound("left_bound", numbers.left)?, bound("right_bound", numbers.right)?);
    let aligned = numbers.alignment == DiagonalAlignment::BottomRight;
    let flag = match (numbers.causal, numbers.causal_bottom_right) {
        (false, false) => return Ok(Band { left, right, bottom_right: aligned }),
        (true, true) => {
            return Err("causal_mask_bottom_right: is true, expected false as causal_mask is true".to_owned());
        }
        (true, false) => "causal_mask",
        (false, true) => "causal_mask_bottom_right",
    };
    if left.is_some() || right.is_some() {
        let bound = if left.is_some() { "left_bound" } else { "right_bound" };
        return Err(format!("{bound}: given, expected none as {flag} is true"));
    }
    if numbers.causal && aligned {
        return Err(
            "diagonal_alignment: is BOTTOM_RIGHT, expected TOP_LEFT as causal_mask is true".to_owned()
        );
    }
    Ok(Band { left: None, right: Some(0), bottom_right: numbers.causal_bottom_right })
}
