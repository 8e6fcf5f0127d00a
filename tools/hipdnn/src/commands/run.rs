//! `hipdnn run`

use std::time::Duration;

use super::invariant::run_invariant;
use super::{Outcome, chosen, read_graph};
use crate::batch::Batch;
use crate::cli;
use crate::comparison::{Changes, Judged, OF_CHANGE, judge};
use crate::computation::{
    Computation, Loaded, REFERENCE, check_outputs, choose_engines, first_that_works, inputs, place_of, plan,
    reference, save_outputs,
};
use crate::failure::{Failure, Result};
use crate::graph::shape;
use crate::rounding::Limits;
use crate::table::Table;
use crate::tensor::{Array, Comparison};
use hipdnn::{Backend, EngineInfo, ExecutionPlan, Handle};

/// Runs a graph once.
pub fn run(backend: &Backend, arguments: &cli::Run) -> Result<Outcome> {
    let operations = read_graph(backend, &arguments.graph)?;
    let on = arguments.data.common.on;
    let handle = on.handle(backend)?;
    let loaded = Loaded::new(&handle, operations, &arguments.graph)?;
    let (engine, knobs) = chosen(&handle, &loaded, &arguments.choice)?;
    let engines = choose_engines(&handle, &loaded, engine.as_deref(), on.device)?;
    let batch = arguments.invariant.then(|| Batch::of(&loaded.graph)).transpose()?;
    let (outcome, told) = first_that_works(&engines, |engine| {
        if let Some(batch) = &batch {
            return run_invariant(&handle, (&loaded, batch), (engine, &knobs), &arguments.data);
        }
        let plan = plan(&loaded.operations, engine, &knobs)?;
        run_plan(&handle, &loaded, engine, plan, &arguments.data)
    })?;
    Ok(Outcome { text: told + &outcome.text, ..outcome })
}

/// Runs a plan once and describes the results.
pub fn run_plan(
    handle: &Handle,
    loaded: &Loaded,
    engine: &EngineInfo,
    plan: ExecutionPlan,
    data: &cli::Data,
) -> Result<Outcome> {
    let graph = &loaded.graph;
    check_outputs(graph, &data.outputs)?;
    let inputs = inputs(graph, &data.inputs, data.common.seed)?;
    let place = place_of(engine, data.common.memory);
    let mut computation = Computation::new(handle, graph, plan, &inputs, place)?;
    let took = computation.execute(handle).map_err(|failure| failure.during(&engine.name))?;
    let outputs = computation.outputs(graph)?;
    save_outputs(graph, &data.outputs, &outputs)?;
    let mut text = format!(
        "{} ({} {}): {} in the first execution, workspace {} bytes\n\n",
        engine.name,
        engine.plugin,
        engine.version,
        milliseconds(took),
        computation.workspace_size()
    );
    let mut table = Table::new(&["UID", "RESULT", "TYPE", "SHAPE", "MIN", "MAX", "MEAN", "NAN"]);
    for (uid, array) in &outputs {
        let Some(tensor) = graph.tensor(*uid) else { continue };
        let (least, greatest, mean, not_numbers) = summary(array);
        table.row([
            uid.to_string(),
            tensor.label(),
            tensor.data_type.to_string(),
            shape(&tensor.dims),
            short(least),
            short(greatest),
            short(mean),
            not_numbers.to_string(),
        ]);
    }
    text.push_str(&table.text());
    if !data.check {
        return Ok(Outcome::from(text));
    }
    let reference = reference(handle, &loaded.operations, graph, &inputs)?;
    let judged = judge(
        handle,
        loaded,
        (&inputs, &outputs),
        (&reference, Some(&reference), &Changes::new()),
        Limits { steps: computation.steps().as_deref(), factor: data.common.tolerance },
    )?;
    text.push_str(&format!("\ncompared with {REFERENCE}:\n"));
    let mut failed = Vec::new();
    for Judged { tensor, comparison, change, is_wrong } in &judged {
        text.push_str(&format!("  {}: {}\n", tensor.label(), verdict(comparison)));
        if let Some(change) = change {
            text.push_str(&format!(
                "    inputs moved by a unit in their last place change the reference by up to {}, of which {OF_CHANGE} times \
                 is allowed: {}\n",
                short(*change),
                if *is_wrong { "WRONG" } else { "ok, ill-conditioned" }
            ));
        }
        if *is_wrong {
            failed.push(tensor.label());
        }
    }
    let failure = (!failed.is_empty())
        .then(|| Failure::work(format!("{} differs from {REFERENCE} in {}", engine.name, failed.join(", "))));
    Ok(Outcome { text, failure })
}

/// The result of a comparison in words.
pub fn verdict(comparison: &Comparison) -> String {
    let elements = format!("{} elements", comparison.count);
    if comparison.used == 0.0 {
        return format!("{elements}, all equal");
    }
    let index: Vec<_> = comparison.worst.iter().map(usize::to_string).collect();
    let (result, reference) = comparison.pair;
    let verdict = match comparison.beyond {
        0 => "ok".to_owned(),
        beyond => format!("{beyond} BEYOND THE TOLERANCE"),
    };
    format!(
        "{elements}, largest difference {}, {} of the tolerance at [{}] ({} for {}): {verdict}",
        short(comparison.largest),
        short(comparison.used),
        index.join(", "),
        short(result),
        short(reference)
    )
}

/// The minimum, the maximum and the mean of the values, and the number of NaNs.
fn summary(array: &Array) -> (f64, f64, f64, usize) {
    let numbers = || array.values.iter().copied().filter(|value| !value.is_nan());
    let count = numbers().count();
    if count == 0 {
        return (f64::NAN, f64::NAN, f64::NAN, array.values.len());
    }
    let least = numbers().fold(f64::INFINITY, f64::min);
    let greatest = numbers().fold(f64::NEG_INFINITY, f64::max);
    (least, greatest, numbers().sum::<f64>() / count as f64, array.values.len() - count)
}

/// A number with few digits.
fn short(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if number.fract() == 0.0 && size < 1e9 => format!("{number}"),
        _ if !number.is_finite() => format!("{number}"),
        _ if (1e-3..1e6).contains(&size) => format!("{number:.4}"),
        _ => format!("{number:.3e}"),
    }
}

/// A duration in milliseconds.
pub fn milliseconds(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_summarized() {
        let array = Array { dims: vec![4], values: vec![1.0, f64::NAN, -3.0, 5.0] };
        assert_eq!(summary(&array), (-3.0, 5.0, 1.0, 1));
        assert_eq!(
            [short(0.25), short(3.0), short(1e-7), short(f64::NAN)],
            ["0.2500", "3", "1.000e-7", "NaN"]
        );
    }
}
