//! Searches for the fastest engine and knobs, measured by Python functions.

use std::time::Duration;

use hipdnn::tuning::{
    Configuration, Problem, Store, Target, Trial, Tuning, candidates, device, plugin, tune as search,
};
use hipdnn::{Handle, KnobValue, OperationGraph};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::Error;

/// An engine's id, and its knob settings.
type Chosen = (i64, Vec<(String, Py<PyAny>)>);

/// A trial: the configuration, milliseconds per execution, runs, when it was tried, and why it failed.
type Tried = (Chosen, Option<f64>, usize, f64, Option<String>);

/// All trials, the indices of those measured, best first, and the speedup of the first over the default choice.
pub type Answer = (Vec<Tried>, Vec<usize>, f64);

/// The settings of a search.
pub struct Wish {
    /// The name of the strategy.
    pub strategy: String,
    /// The most seconds that it may take.
    pub budget: f64,
    /// The number of values tried per knob; 1 leaves all knobs at their defaults.
    pub values: usize,
    /// The engines.
    pub engines: Vec<i64>,
}

/// Plans, executes and reports by Python functions. The first exception that is not an engine's ends the search.
struct Functions<'py> {
    py: Python<'py>,
    prepare: Bound<'py, PyAny>,
    execute: Bound<'py, PyAny>,
    raised: Option<PyErr>,
}

fn value(py: Python<'_>, of: &KnobValue) -> PyResult<Py<PyAny>> {
    Ok(match of {
        KnobValue::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
        KnobValue::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
        KnobValue::Text(value) => value.into_pyobject(py)?.into_any().unbind(),
    })
}

fn chosen(py: Python<'_>, configuration: &Configuration) -> PyResult<Chosen> {
    let setting = |setting: &hipdnn::KnobSetting| Ok((setting.id.clone(), value(py, &setting.value)?));
    Ok((configuration.engine, configuration.knobs.iter().map(setting).collect::<PyResult<_>>()?))
}

impl<'py> Functions<'py> {
    /// A function's result; its error as text if another configuration may succeed.
    fn keep<T>(&mut self, answer: PyResult<T>) -> Result<T, String> {
        answer.map_err(|error| {
            let words = error.to_string();
            if !error.is_instance_of::<Error>(self.py) {
                self.raised.get_or_insert(error);
            }
            words
        })
    }

    fn seconds(&mut self, answer: PyResult<Bound<'py, PyAny>>) -> Result<Duration, String> {
        let seconds = answer.and_then(|answer| answer.extract::<f64>());
        let seconds = self.keep(seconds)?;
        Duration::try_from_secs_f64(seconds).map_err(|error| format!("{seconds} seconds: {error}"))
    }
}

impl<'py> Target for Functions<'py> {
    type Ready = Bound<'py, PyAny>;

    fn prepare(&mut self, configuration: &Configuration) -> Result<(Self::Ready, Duration), String> {
        if self.raised.is_some() {
            return Err("an exception was raised".to_owned());
        }
        let made =
            chosen(self.py, configuration).and_then(|(engine, knobs)| self.prepare.call1((engine, knobs)));
        let ready = self.keep(made)?;
        let first = self.execute.call1((&ready, 1));
        let first = self.seconds(first)?;
        Ok((ready, first))
    }

    fn execute(&mut self, ready: &mut Self::Ready, count: u32) -> Result<Duration, String> {
        if self.raised.is_some() {
            return Err("an exception was raised".to_owned());
        }
        let taken = self.execute.call1((&*ready, count));
        self.seconds(taken)
    }
}

/// Searches, passes the ranking to the library, and stores the best engine with its knobs.
pub fn tune(
    py: Python<'_>,
    handle: &Handle,
    graph: &OperationGraph,
    wish: &Wish,
    [prepare, execute, progress]: [Bound<'_, PyAny>; 3],
) -> PyResult<Answer> {
    let failed = |error: hipdnn::Error| Error::new_err(error.to_string());
    let found = plugin::load(handle.backend());
    let strategies = plugin::strategies(&found);
    let strategy = strategies.iter().find(|(name, _)| *name == wish.strategy).ok_or_else(|| {
        let known: Vec<&str> = strategies.iter().map(|(name, _)| name.as_str()).collect();
        PyValueError::new_err(format!(
            "strategy is {:?}, expected one of {}",
            wish.strategy,
            known.join(", ")
        ))
    })?;
    let budget = Duration::try_from_secs_f64(wish.budget).map_err(|_| {
        PyValueError::new_err(format!("the budget is {} seconds, expected a time", wish.budget))
    })?;
    let plain = graph.graph().map_err(failed)?;
    let device = device();
    let store = Store::of_device(&device).filter(|_| wish.values > 1);
    let engines = handle.engines().map_err(failed)?;
    let id_of = |name: &str| {
        let engine = engines.iter().find(|engine| engine.name == name)?;
        wish.engines.contains(&engine.id).then_some(engine.id)
    };
    let similar = store.as_ref().map(|store| store.similar(&plain)).unwrap_or_default();
    let problem = Problem {
        graph: graph.bytes().map_err(failed)?,
        device,
        candidates: candidates(handle, graph, &wish.engines, wish.values, false).map_err(failed)?,
        similar: similar.iter().filter_map(|found| found.configuration(id_of)).collect(),
        budget,
    };
    let mut functions = Functions { py, prepare, execute, raised: None };
    let mut shown: PyResult<()> = Ok(());
    let tuned = search(&mut functions, &problem, &*strategy.1, &mut |took, trials| {
        let best = trials.iter().filter_map(Trial::time).min().map(|time| time.as_secs_f64() * 1e3);
        let part = (took.as_secs_f64() / wish.budget).min(1.0);
        if shown.is_ok() {
            shown = progress.call1((part, trials.len(), best)).map(drop);
        }
    });
    if let Some(raised) = functions.raised {
        return Err(raised);
    }
    shown?;
    let Ok(tuned) = tuned else { return Ok((Vec::new(), Vec::new(), 1.0)) };
    // Nothing is known of engines that failed. A library that keeps no rankings plans as before.
    let measured = |(_, time): &(i64, Option<Duration>)| time.is_some();
    let ranking: Vec<_> = tuned.engines(&problem).into_iter().filter(measured).collect();
    let _ = handle.write_times(graph, &ranking);
    let ms = |trial: &Trial| trial.time().map(|time| time.as_secs_f64() * 1e3);
    if let (Some(store), Some(best)) = (&store, tuned.best()) {
        let name = engines.iter().find(|engine| engine.id == best.configuration.engine);
        let name = name.map(|engine| engine.name.as_str()).unwrap_or_default();
        let own = tuned.best_time().unwrap_or_default();
        let default = tuned.default_time().unwrap_or(own);
        let [own, default] = [own, default].map(|time| time.as_secs_f64() * 1e3);
        let kept = store.keep(&Tuning::new(&plain, name, &best.configuration, own, default));
        // If storing fails, the next search knows less.
        let _ = kept;
    }
    let tried = tuned.trials.iter().map(|trial| {
        let at = trial.at.as_secs_f64();
        Ok((chosen(py, &trial.configuration)?, ms(trial), trial.runs.len(), at, trial.failure.clone()))
    });
    Ok((tried.collect::<PyResult<_>>()?, tuned.ranking.clone(), tuned.gain))
}
