//! Named steps with their durations, and how many of them passed.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::Failure;

const NAME: usize = 64;

/// Runs steps one after the other and remembers which failed.
pub struct Steps {
    started: Instant,
    passed: usize,
    failed: Vec<String>,
}

impl Steps {
    /// No step yet.
    pub fn new() -> Self {
        Self { started: Instant::now(), passed: 0, failed: Vec::new() }
    }

    /// A heading over the steps that follow.
    pub fn group(&self, name: &str) {
        println!("\n{name}");
    }

    /// Runs a step and prints its line. True when it passed.
    pub fn run(&mut self, name: &str, step: impl FnOnce() -> Result<String, Failure>) -> bool {
        print!("  {name} ");
        // The line is finished when the step is; a terminal that cannot show the half is no reason to stop.
        let _ = std::io::stdout().flush();
        let started = Instant::now();
        let result = step();
        self.finish(name, started.elapsed(), result)
    }

    /// Prints the line of a step that was run elsewhere.
    pub fn report(&mut self, name: &str, took: Duration, result: Result<String, Failure>) -> bool {
        print!("  {name} ");
        self.finish(name, took, result)
    }

    fn finish(&mut self, name: &str, took: Duration, result: Result<String, Failure>) -> bool {
        let dots = ".".repeat(NAME.saturating_sub(name.len()).max(2));
        let seconds = took.as_secs_f64();
        match result {
            Ok(note) => {
                let note = if note.is_empty() { note } else { format!("   {note}") };
                println!("{dots} ok     {seconds:6.1} s{note}");
                self.passed += 1;
                true
            }
            Err(failure) => {
                println!("{dots} FAILED {seconds:6.1} s");
                for line in failure.to_string().lines() {
                    println!("      {line}");
                }
                self.failed.push(name.to_owned());
                false
            }
        }
    }

    /// The summary: an error when a step failed.
    pub fn summary(self) -> Result<(), Failure> {
        let took = self.started.elapsed().as_secs_f64();
        println!("\n{} passed, {} failed, {took:.0} s", self.passed, self.failed.len());
        if self.failed.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("failed: {}", self.failed.join(", "))))
    }
}
