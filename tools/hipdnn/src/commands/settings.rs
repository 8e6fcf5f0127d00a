//! The settings of knobs that are worth measuring.

use crate::computation::{Loaded, plan_with};
use crate::data_type::DataType;
use crate::failure::Result;
use crate::graph::Graph;
use crate::steps;
use hipdnn::{Engine, EngineInfo, ExecutionPlan, Knob, KnobSetting, KnobValue};

/// With more combinations of knob values than this, one knob is changed at a time.
const MOST_COMBINATIONS: usize = 32;

/// An engine with its knobs set.
pub struct Configuration {
    /// The engine.
    pub engine: EngineInfo,
    /// Its knobs, all but those that stay as they are.
    pub settings: Vec<KnobSetting>,
}

/// Every engine with every combination of its knobs' values, or with one knob changed at a time where there are too many.
pub fn configurations(loaded: &Loaded, engines: &[EngineInfo], values: usize) -> Result<Vec<Configuration>> {
    let mut configurations = Vec::new();
    for engine in engines {
        let made = Engine::new(&loaded.operations, engine.id);
        // An engine whose knobs cannot be read is measured as it is.
        let knobs = made.as_ref().ok().and_then(|made| made.knobs().ok()).unwrap_or_default();
        let plan = |settings: &[KnobSetting]| plan_with(made.as_ref().ok()?, settings).ok();
        let default = OfDefault::of(plan(&[]).as_ref());
        let samples: Vec<Vec<KnobSetting>> = knobs
            .iter()
            .filter(|knob| !knob.deprecated)
            .map(|knob| {
                let setting = |value| KnobSetting { id: knob.id.clone(), value };
                let takes = |value: &KnobValue| plan(&[setting(value.clone())]).is_some();
                samples(knob, values, &loaded.graph, default, takes).into_iter().map(setting).collect()
            })
            .filter(|samples: &Vec<_>| samples.len() > 1)
            .collect();
        let make = |settings| Configuration { engine: engine.clone(), settings };
        configurations.extend(combinations(&samples).into_iter().map(make));
    }
    Ok(configurations)
}

/// What an engine's plan with the default settings tells.
#[derive(Clone, Copy, Debug, Default)]
struct OfDefault {
    /// How many steps it has, as far as it tells.
    steps: usize,
    /// Whether it has nothing to do for a second thread, as far as it tells.
    has_one_thread: bool,
    /// Bytes of workspace that it asks for.
    workspace_size: usize,
}

impl OfDefault {
    fn of(plan: Option<&ExecutionPlan>) -> Self {
        let Some(plan) = plan else { return Self::default() };
        let steps = steps::of(plan).ok().flatten();
        Self {
            steps: steps.as_ref().map_or(0, Vec::len),
            has_one_thread: steps.is_some_and(|steps| steps.iter().all(|step| step.threads == 1)),
            workspace_size: plan.workspace_size().unwrap_or(0),
        }
    }
}

/// The values of a knob that are tried: only the default where no other can matter for the graph, not more threads than there are
/// processors, no limit that the workspace keeps anyhow, and no place behind the end of a list of kernels.
fn samples(
    knob: &Knob,
    most: usize,
    graph: &Graph,
    default: OfDefault,
    takes: impl Fn(&KnobValue) -> bool,
) -> Vec<KnobValue> {
    let has = |operation: &str| graph.nodes.iter().any(|node| node.operation.starts_with(operation));
    let has_floats = || graph.tensors.iter().any(|tensor| tensor.data_type == DataType::Float);
    let mut samples = knob.samples(most);
    let matters = match knob.id.as_str() {
        "convolution" => has("Convolution"),
        "constant_weights" => has("Convolution") || has("Matmul"),
        id if id.ends_with(".tf32") => (has("Convolution") || has("Matmul")) && has_floats(),
        id if id.ends_with(".share_rows") => default.steps > 1,
        "threads" => {
            let processors =
                std::thread::available_parallelism().map_or(i64::MAX, |count| count.get() as i64);
            for value in &mut samples {
                if let KnobValue::Int(threads) = value {
                    *threads = (*threads).min(processors);
                }
            }
            let mut seen = Vec::new();
            samples.retain(|value| {
                !seen.contains(value) && {
                    seen.push(value.clone());
                    true
                }
            });
            !default.has_one_thread
        }
        "global.workspace_size_limit" => {
            let narrows = |value: &KnobValue| matches!(value, KnobValue::Int(limit) if (*limit as usize) < default.workspace_size);
            samples.retain(|value| *value == knob.default || narrows(value));
            true
        }
        // Places in a list, the best first: behind one that there is not is no other.
        id if id.ends_with(".engine") || id.ends_with(".algorithm") => {
            let mut is_there = true;
            samples.retain(|value| {
                is_there = *value == knob.default || is_there && takes(value);
                is_there
            });
            true
        }
        _ => true,
    };
    samples.truncate(if matters { most.max(1) } else { 1 });
    samples
}

/// All combinations of one of each, the first of each first; or those that differ from the first in one place.
fn combinations<T: Clone>(of: &[Vec<T>]) -> Vec<Vec<T>> {
    let count = of.iter().try_fold(1_usize, |count, values| count.checked_mul(values.len()));
    if count.is_some_and(|count| count <= MOST_COMBINATIONS) {
        return of.iter().fold(vec![Vec::new()], |all, values| {
            all.iter()
                .flat_map(|begun| values.iter().map(|value| [begun.clone(), vec![value.clone()]].concat()))
                .collect()
        });
    }
    let first: Vec<T> = of.iter().filter_map(|values| values.first().cloned()).collect();
    let mut all = vec![first.clone()];
    for (place, values) in of.iter().enumerate() {
        for value in values.iter().skip(1) {
            let mut changed = first.clone();
            if let Some(slot) = changed.get_mut(place) {
                *slot = value.clone();
            }
            all.push(changed);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{convolution, graph, pointwise, tensor};
    use hipdnn::KnobRange;

    #[test]
    fn combinations_are_all_or_one_at_a_time() {
        assert_eq!(combinations::<u8>(&[]), [Vec::<u8>::new()]);
        assert_eq!(combinations(&[vec![1, 2], vec![3, 4]]), [[1, 3], [1, 4], [2, 3], [2, 4]]);
        let many = combinations(&[(0..8).collect::<Vec<_>>(), (0..8).collect()]);
        assert_eq!(many.len(), 15);
        assert_eq!(many[..3], [[0, 0], [1, 0], [2, 0]]);
    }

    #[test]
    fn knobs_that_cannot_matter_keep_their_default() {
        let knob = |id: &str, greatest| Knob {
            id: id.to_owned(),
            description: String::new(),
            default: KnobValue::Int(0),
            range: KnobRange::Int { bounds: Some((0, greatest, 1)), values: vec![] },
            deprecated: false,
        };
        let tensors = || (1..=3).map(|uid| tensor(uid, "", &[4], false)).collect();
        let pointwise = graph("", tensors(), vec![pointwise("", "exp", 1, None, 2)]);
        let convolution = graph("", tensors(), vec![convolution("", 1, 2, 3)]);
        let of = |has_one_thread| OfDefault {
            steps: if has_one_thread { 1 } else { 2 },
            has_one_thread,
            workspace_size: 2,
        };
        let all = |_: &KnobValue| true;
        let count = |id: &str, graph: &Graph, one| samples(&knob(id, 3), 8, graph, of(one), all).len();
        for id in ["convolution", "constant_weights"] {
            assert_eq!([count(id, &pointwise, false), count(id, &convolution, false)], [1, 4], "{id}");
        }
        assert_eq!([count("speed", &pointwise, false), count("speed", &convolution, true)], [4, 4]);
        let processors = std::thread::available_parallelism().unwrap().get() as i64;
        let threads = samples(&knob("threads", 1 << 40), 8, &pointwise, of(false), all);
        assert_eq!(threads.iter().filter(|value| **value == KnobValue::Int(processors)).count(), 1);
        assert!(
            threads.iter().all(|value| matches!(value, KnobValue::Int(threads) if *threads <= processors))
        );
        assert_eq!(samples(&knob("threads", 256), 8, &pointwise, of(true), all), [KnobValue::Int(0)]);
        assert_eq!([count("x.tf32", &pointwise, false), count("x.tf32", &convolution, false)], [1, 4]);
        assert_eq!(
            [count("x.share_rows", &pointwise, true), count("x.share_rows", &pointwise, false)],
            [1, 4]
        );
        // 0 is the default, and 2 is what the plan keeps anyhow.
        assert_eq!(count("global.workspace_size_limit", &pointwise, false), 2);
        let first_two = |value: &KnobValue| matches!(value, KnobValue::Int(..2));
        let places = samples(&knob("x.engine", 255), 12, &pointwise, of(false), first_two);
        assert_eq!(places, [0, 1].map(KnobValue::Int));
    }
}
