//! Checks of the engines on AMD's libraries: making each call fail in turn, the calls made, and others.

mod below;
mod capture;
pub mod checks;
mod failing;
mod older;
mod trace;

use std::path::Path;
use std::time::Instant;

use hipdnn_plugin_sdk::hip::Hip;

use crate::Failure;
use crate::cases;
use crate::gate::Fail;
use crate::is_wanted;

/// A check with its name.
type Check = (String, Box<dyn Fn(&Path, &'static Hip) -> Result<String, Failure>>);

/// Runs all checks, or one part of several, and of these those whose names contain one of the words. Returns how many failed.
pub fn check(library: &Path, hip: &'static Hip, (part, parts): (usize, usize), words: &[String]) -> usize {
    let checks: Vec<Check> = [failing::checks(), trace::checks(), older::checks(), capture::checks()]
        .into_iter()
        .flatten()
        .collect();
    let (mut passed, mut failed) = (0, 0);
    for (place, (name, check)) in checks.into_iter().enumerate() {
        if !is_wanted(&name, words) || place % parts != part {
            continue;
        }
        let start = Instant::now();
        let result = check(library, hip);
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(note) => {
                passed += 1;
                println!("{name:<90} {note}  {seconds:5.2} s");
            }
            Err(failure) => {
                failed += 1;
                println!("{name:<90} FAILED: {failure}");
            }
        }
    }
    println!("{passed} passed");
    failed
}

/// Runs a case in this child process and prints the calls, one per line: the name, and the second argument.
///
/// The arguments are an engine, a case, a file, and options: `KNOB=NUMBER`, or a function to fail. If the file exists, its plan
/// is run; otherwise a new plan is run and saved there.
pub fn child(library: &Path, hip: &'static Hip, arguments: &[String]) -> Result<(), Failure> {
    let [engine, name, saved, options @ ..] = arguments else {
        return Err(Failure("expected an engine, a case and a file".to_owned()));
    };
    let mut case = cases::named(engine, name)?;
    let mut fail = Fail::Nothing;
    for option in options {
        match option.split_once('=') {
            Some((knob, number)) => {
                let number = number.parse().map_err(|error| Failure(format!("{option}: {error}")))?;
                case.knobs.push((knob.to_owned().leak(), number));
            }
            None => fail = Fail::Function(option.clone().leak()),
        }
    }
    trace::child(library, hip, engine, &case, Path::new(saved), fail)
}
