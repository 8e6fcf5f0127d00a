//! Another version of this library as a peer: this program with that library, measuring on request.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use hipdnn::{Backend, Handle};
use hipdnn_tool::failure::{Failure, Result};
use serde_json::{Value, json};

use crate::case::Case;
use crate::ours::{Ours, Weights, engine, inputs};
use crate::peer::Files;

/// Serves requests until the input ends: `{"suite": NAME, "case": NAME}` prepares a case and writes its results,
/// `{"run": SECONDS}` executes it for that time.
pub fn serve(backend: &Path, cases: &[Case], folder: &Path) -> Result<()> {
    let library = Backend::open(Some(backend))?;
    let handle = Handle::new(&library)?;
    let engine = engine(&handle)?;
    answer(&json!({"ready": backend.display().to_string()}))?;
    let mut ready = None;
    for line in io::stdin().lines() {
        let line = line.map_err(|error| Failure::work(format!("standard input: {error}")))?;
        let request: Value =
            serde_json::from_str(&line).map_err(|error| Failure::input(format!("{line}: {error}")))?;
        let answered = match request.get("run").and_then(Value::as_f64) {
            Some(seconds) => run(ready.as_ref(), seconds),
            None => {
                // Free the previous case first, so that memory holds only one.
                ready = None;
                find(cases, &request)
                    .and_then(|case| make(&library, &handle, engine, case, &Files { folder }))
                    .map(|made| {
                        ready = Some(made);
                        json!({})
                    })
            }
        };
        answer(&answered.unwrap_or_else(|failure| json!({"failure": failure.to_string()})))?;
    }
    Ok(())
}

fn answer(value: &Value) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::work(format!("standard output: {error}")))
}

fn find<'c>(cases: &'c [Case], request: &Value) -> Result<&'c Case> {
    let word = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
    let (suite, name) = (word("suite"), word("case"));
    let found = cases.iter().find(|case| case.suite == suite && case.name == name);
    found.ok_or_else(|| Failure::input(format!("there is no case {suite} {name}")))
}

fn make<'b>(
    backend: &'b Backend,
    handle: &'b Handle,
    engine: i64,
    case: &Case,
    files: &Files,
) -> Result<Ours<'b>> {
    let made = Ours::new(handle, backend, engine, case, inputs(case))?;
    for output in &case.outputs {
        if let (Some(name), Some(array)) = (output.name, made.array(output.uid)) {
            array.write(&files.output(name))?;
        }
    }
    Ok(made)
}

fn run(ready: Option<&Ours>, seconds: f64) -> Result<Value> {
    let length = Duration::try_from_secs_f64(seconds)
        .map_err(|error| Failure::input(format!("run {seconds}: {error}")))?;
    let made = ready.ok_or_else(|| Failure::input("no case is ready"))?;
    Ok(json!({"ms": made.burst(Weights::Promised, length)?}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Work;

    #[test]
    fn cases_are_found_by_suite_and_name() {
        let cases = [Case::new("bert", "a", Work::Bytes(1.0)), Case::new("memory", "a", Work::Bytes(1.0))];
        let request = json!({"suite": "memory", "case": "a"});
        assert_eq!(find(&cases, &request).unwrap().suite, "memory");
        let failure = find(&cases, &json!({"suite": "memory", "case": "b"})).err().unwrap();
        assert_eq!(failure.to_string(), "there is no case memory b");
    }

    #[test]
    fn nothing_runs_before_a_case_is_ready() {
        assert_eq!(run(None, 0.1).unwrap_err().to_string(), "no case is ready");
        assert!(run(None, -1.0).unwrap_err().to_string().starts_with("run -1:"));
    }
}
