//! The engines on AMD's libraries: each call made to fail in turn, which calls there are, and other checks.

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

/// What is checked, with its name.
type Check = (String, Box<dyn Fn(&Path, &'static Hip) -> Result<String, Failure>>);

/// Checks everything, or what has one of the words in its name. Answers how many failed.
pub fn check(library: &Path, hip: &'static Hip, words: &[String]) -> usize {
    let checks: Vec<Check> = [failing::checks(), trace::checks(), older::checks(), capture::checks()]
        .into_iter()
        .flatten()
        .collect();
    let (mut passed, mut failed) = (0, 0);
    for (name, check) in checks {
        if !is_wanted(&name, words) {
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

/// Runs a case in a process of its own and prints the calls, one in a line: the name, and the second argument.
///
/// The arguments are an engine, a case, a file, and options: `KNOB=NUMBER`, or a function that is made to fail. Where the file
/// exists, the plan in it is run, otherwise the case's own is, and saved there.
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
