//! `hipdnn run --invariant`: whether an item of the batch depends on its own operands alone, by bits.

use std::collections::HashMap;

use serde_json::Value;

use super::Outcome;
use crate::batch::Batch;
use crate::cli;
use crate::computation::{Arrays, Computation, Loaded, inputs, place_of, plan, settings};
use crate::double;
use crate::failure::{Failure, Result};
use crate::graph::{Graph, Tensor};
use crate::steps;
use crate::table::Table;
use crate::tensor::{Array, Bits};
use hipdnn::{EngineInfo, Handle};

/// The sizes of batches that are tried besides the graph's own.
const SIZES: [usize; 5] = [1, 2, 3, 7, 32];

/// The numbers of threads that are tried.
const THREADS: [u32; 5] = [1, 2, 4, 7, 16];

/// A way to compute items.
struct Run {
    name: String,
    items: Vec<usize>,
    threads: Option<u32>,
    is_displaced: bool,
}

impl Run {
    fn new(name: impl Into<String>, items: Vec<usize>) -> Self {
        Self { name: name.into(), items, threads: None, is_displaced: false }
    }
}

/// The results of an item.
type Results = Vec<(i64, Bits)>;

/// The results of an item, with the run that computed them.
struct Known {
    run: String,
    results: Results,
}

/// A graph whose batch is known.
struct Items<'a> {
    handle: &'a Handle,
    graph: &'a Graph,
    text: Value,
    batch: &'a Batch,
    /// Operands of more items than any run has.
    pool: Arrays,
}

/// Runs a graph with batches of other sizes, orders, addresses and threads, and compares the bits of each item.
pub fn run_invariant(
    handle: &Handle,
    (loaded, batch): (&Loaded, &Batch),
    (engine, knobs): (&EngineInfo, &[String]),
    data: &cli::Data,
) -> Result<Outcome> {
    let graph = &loaded.graph;
    let own = usize::try_from(batch.size).unwrap_or(0);
    let mut items =
        Items { handle, graph, text: double::text(&loaded.operations)?, batch, pool: Arrays::new() };
    items.pool = items.operands(&inputs(graph, &data.inputs, data.common.seed)?, data)?;
    let has_threads = settings(&loaded.operations, engine, &["threads=1".to_owned()]).is_ok();
    let mut known: HashMap<usize, Known> = HashMap::new();
    let mut table = Table::new(&["RUN", "BITS", "ALGORITHM"]);
    let (mut differences, mut count, mut first) = (0, 0, None);
    for run in runs(own, has_threads) {
        let (algorithm, results) = items.compute(engine, knobs, &run, data)?;
        let mut found = None;
        for (item, results) in run.items.iter().zip(results) {
            let before = known
                .entry(*item)
                .or_insert_with(|| Known { run: run.name.clone(), results: results.clone() });
            found = found.or_else(|| difference(graph, *item, (&results, &run.name), before));
        }
        count += 1;
        differences += usize::from(found.is_some());
        table.row([run.name, found.as_ref().map_or("equal", |_| "differ").to_owned(), algorithm]);
        first = first.or(found);
    }
    let mut text = format!("{}, batch {}\n\n{}", engine.name, items.batch.size, table.text());
    let Some(first) = first else {
        text.push_str("\neach item has the same bits in every run\n");
        return Ok(Outcome::from(text));
    };
    text.push_str(&format!("\nthe first difference: {first}\n"));
    let failure =
        format!("{} does not compute items alike: {differences} of {count} runs differ", engine.name);
    Ok(Outcome { text, failure: Some(Failure::work(failure)) })
}

/// The runs, the graph's own first.
fn runs(own: usize, has_threads: bool) -> Vec<Run> {
    let first = |size: usize| (0..size).collect::<Vec<_>>();
    let largest = *SIZES.iter().max().unwrap_or(&1);
    let mut runs = vec![Run::new(format!("batch {own}"), first(own))];
    let sizes = SIZES.into_iter().filter(|size| *size != own);
    runs.extend(sizes.map(|size| Run::new(format!("batch {size}"), first(size))));
    if own > 1 {
        runs.push(Run::new("batch 1, the last item", vec![own - 1]));
    }
    let two = if own == largest { vec![own] } else { vec![own, largest] };
    for size in two {
        if size > 1 {
            runs.push(Run::new(format!("batch {size}, permuted"), permuted(size)));
        }
        let name = format!("batch {size}, other addresses");
        runs.push(Run { is_displaced: true, ..Run::new(name, first(size)) });
        for threads in THREADS.into_iter().filter(|_| has_threads) {
            let name = format!("batch {size}, threads {threads}");
            runs.push(Run { threads: Some(threads), ..Run::new(name, first(size)) });
        }
    }
    runs
}

/// Numbers below `size`, no two neighbours beside each other if there are enough.
fn permuted(size: usize) -> Vec<usize> {
    let is_coprime =
        |step: &usize| (2..=*step).all(|by| !step.is_multiple_of(by) || !size.is_multiple_of(by));
    let step = (1..=size * 2 / 3).rev().find(is_coprime).unwrap_or(1);
    (0..size).map(|place| (place * step + 1) % size).collect()
}

impl Items<'_> {
    /// Operands of as many items as the largest run has. Those of files come again and again.
    fn operands(&self, given: &Arrays, data: &cli::Data) -> Result<Arrays> {
        let most = SIZES.into_iter().map(|size| size as i64).chain([self.batch.size]).max().unwrap_or(1);
        let (_, graph) = double::load(self.handle, &self.batch.resized(self.graph, &self.text, most)?)?;
        let random = inputs(&graph, &[], data.common.seed)?;
        let is_of_file = |uid: i64| {
            let tensor = self.graph.tensor(uid);
            tensor.is_some_and(|tensor| data.inputs.iter().any(|file| file.names(tensor)))
        };
        let one = |(uid, own): &(i64, Array)| {
            let more = random.iter().find(|(other, _)| other == uid).map(|(_, array)| array);
            match (self.batch.tensors.contains(uid), more) {
                (true, Some(_)) if is_of_file(*uid) => {
                    let size = own.dims.first().copied().unwrap_or(1).max(1);
                    (
                        *uid,
                        chosen(
                            own,
                            &(0..most.unsigned_abs() as usize).map(|at| at % size).collect::<Vec<_>>(),
                        ),
                    )
                }
                (true, Some(more)) => (*uid, more.clone()),
                _ => (*uid, own.clone()),
            }
        };
        Ok(given.iter().map(one).collect())
    }

    /// The plan's algorithms, and the results of each item.
    fn compute(
        &self,
        engine: &EngineInfo,
        knobs: &[String],
        run: &Run,
        data: &cli::Data,
    ) -> Result<(String, Vec<Results>)> {
        let size = run.items.len();
        let text = self.batch.resized(self.graph, &self.text, size as i64)?;
        let (operations, graph) = double::load(self.handle, &text).map_err(|it| it.during(&run.name))?;
        let is_turned = |knob: &&String| run.threads.is_none() || !knob.starts_with("threads=");
        let mut knobs: Vec<String> = knobs.iter().filter(is_turned).cloned().collect();
        knobs.extend(run.threads.map(|threads| format!("threads={threads}")));
        let plan = plan(&operations, engine, &knobs).map_err(|it| it.during(&run.name))?;
        let steps = steps::of(&plan)?.unwrap_or_default();
        let algorithm: Vec<String> = steps.iter().map(|step| step.name().to_owned()).collect();
        let one = |(uid, array): &(i64, Array)| match self.batch.tensors.contains(uid) {
            true => (*uid, chosen(array, &run.items)),
            false => (*uid, array.clone()),
        };
        let inputs: Arrays = self.pool.iter().map(one).collect();
        let place = place_of(engine, data.common.memory);
        let make = if run.is_displaced { Computation::displaced } else { Computation::new };
        let mut computation = make(self.handle, &graph, plan, &inputs, place)?;
        computation.execute(self.handle).map_err(|failure| failure.during(&engine.name))?;
        let results = computation.bits(&graph)?;
        let of_item = |at: usize| results.iter().map(|(uid, bits)| (*uid, bits.part(at, size))).collect();
        Ok((algorithm.join(", "), (0..size).map(of_item).collect()))
    }
}

/// Some items of an array, in order.
fn chosen(array: &Array, items: &[usize]) -> Array {
    let size: usize = array.dims.iter().skip(1).product();
    let mut dims = array.dims.clone();
    dims.iter_mut().take(1).for_each(|dim| *dim = items.len());
    let mut values = Vec::with_capacity(items.len() * size);
    for item in items {
        values.extend_from_slice(array.values.get(item * size..(item + 1) * size).unwrap_or_default());
    }
    Array { dims, values }
}

/// The first element of an item whose bits differ, in words.
fn difference(
    graph: &Graph,
    item: usize,
    (results, run): (&[(i64, Bits)], &str),
    known: &Known,
) -> Option<String> {
    results.iter().zip(&known.results).find_map(|((uid, after), (_, before))| {
        let tensor = graph.tensor(*uid)?;
        let (at, [(bits, value), (old_bits, old)]) = after.first_difference(before)?;
        let digits = tensor.data_type.bits().div_ceil(4);
        let index: Vec<String> = index(tensor, at).iter().map(usize::to_string).collect();
        Some(format!(
            "{}, item {item}, element [{}]: {value} (0x{bits:0digits$x}) in \"{run}\", {old} (0x{old_bits:0digits$x}) in \"{}\"",
            tensor.label(),
            index.join(", "),
            known.run
        ))
    })
}

/// The index of an element inside an item.
fn index(tensor: &Tensor, mut at: usize) -> Vec<usize> {
    let mut index = Vec::new();
    for dim in tensor.dims.iter().skip(1).rev() {
        let dim = usize::try_from(*dim).unwrap_or(1).max(1);
        index.push(at % dim);
        at /= dim;
    }
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_chosen_in_order() {
        let array = Array { dims: vec![3, 2], values: vec![0.0, 1.0, 10.0, 11.0, 20.0, 21.0] };
        let chosen = chosen(&array, &[2, 0]);
        assert_eq!(chosen, Array { dims: vec![2, 2], values: vec![20.0, 21.0, 0.0, 1.0] });
    }

    #[test]
    fn the_own_batch_comes_first_and_each_size_once() {
        let names: Vec<String> = runs(3, false).into_iter().map(|run| run.name).collect();
        assert_eq!(names[..5], ["batch 3", "batch 1", "batch 2", "batch 7", "batch 32"]);
        assert_eq!(runs(32, true).iter().filter(|run| run.threads.is_some()).count(), 5);
    }

    #[test]
    fn every_item_has_another_place_in_a_permutation() {
        assert_eq!((permuted(1), permuted(2), permuted(5)), (vec![0], vec![1, 0], vec![1, 4, 2, 0, 3]));
        for size in 2..70 {
            let mut items = permuted(size);
            assert!(items.iter().enumerate().any(|(place, item)| place != *item), "{size}");
            items.sort_unstable();
            assert_eq!(items, (0..size).collect::<Vec<_>>());
        }
    }
}
