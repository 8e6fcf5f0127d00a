//! Named steps with their durations, and how many of them passed.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::processor;

const NAME: usize = 64;

/// The prefix of the note of a skipped step, before the reason.
pub const LEFT_OUT: &str = "left out: ";

/// The number of steps listed at the end.
const MOST: usize = 40;

/// A step with its name.
pub type Check<'a> = (String, Box<dyn Fn() -> Result<String, Failure> + Send + Sync + 'a>);

/// A step's times and result.
pub type Done = (Took, Result<String, Failure>);

/// How long a step took.
#[derive(Clone, Copy, Default)]
pub struct Took {
    /// By the clock.
    wall: Duration,
    /// The processor seconds of the programs that it ran.
    processor: f64,
}

/// Runs a step and measures it.
pub fn timed(step: impl FnOnce() -> Result<String, Failure>) -> Done {
    let (started, spent) = (Instant::now(), processor::of_this_thread());
    let result = step();
    let took = Took { wall: started.elapsed(), processor: processor::of_this_thread() - spent };
    (took, result)
}

/// Runs steps one after the other and remembers which failed.
pub struct Steps {
    started: Instant,
    passed: usize,
    failed: Vec<String>,
    left_out: Vec<String>,
    /// Every step with its times.
    took: Vec<(Took, String)>,
    /// The lines so far, if they are not printed yet.
    held: Option<String>,
}

impl Steps {
    /// Starts without steps.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            passed: 0,
            failed: Vec::new(),
            left_out: Vec::new(),
            took: Vec::new(),
            held: None,
        }
    }

    /// A heading over the steps that follow.
    pub fn group(&mut self, name: &str) {
        self.print(&format!("\n{name}\n"));
    }

    /// Runs lists of groups of steps in parallel, each list in order. A group's lines are printed when it is done.
    pub fn run_beside<G: Sync>(&mut self, lists: &[Vec<G>], run: impl Fn(&G, &mut Self) + Sync) {
        let list = |groups: &Vec<G>| {
            let mut steps = Self::new();
            for group in groups {
                steps.held = Some(String::new());
                run(group, &mut steps);
                print!("{}", steps.held.take().unwrap_or_default());
            }
            steps
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = lists.iter().map(|groups| scope.spawn(|| list(groups))).collect();
            for thread in threads {
                match thread.join() {
                    Ok(steps) => self.absorb(steps),
                    Err(_) => self.failed.push("a group that stopped".to_owned()),
                }
            }
        });
    }

    fn absorb(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.left_out.extend(other.left_out);
        self.took.extend(other.took);
    }

    fn print(&mut self, text: &str) {
        match &mut self.held {
            Some(held) => held.push_str(text),
            None => print!("{text}"),
        }
        // Ignore failures to show progress.
        let _ = std::io::stdout().flush();
    }

    /// Runs a step and prints its line. True when it passed.
    pub fn run(&mut self, name: &str, step: impl FnOnce() -> Result<String, Failure>) -> bool {
        self.print(&format!("  {name} "));
        let (took, result) = timed(step);
        if self.held.is_none() && std::io::stdout().is_terminal() {
            // The step may have overwritten the incomplete line.
            self.print(&format!("\r\x1b[K  {name} "));
        }
        self.finish(name, took, result)
    }

    /// Runs several lists of steps in parallel, each in order. When all are done, prints the lines in the order of the lists. True if
    /// all passed.
    pub fn run_lanes(&mut self, lanes: &[Vec<Check>]) -> bool {
        let lane =
            |checks: &Vec<Check>| -> Vec<Done> { checks.iter().map(|(_, check)| timed(check)).collect() };
        let done: Vec<Vec<Done>> = std::thread::scope(|scope| {
            let threads: Vec<_> = lanes.iter().map(|checks| scope.spawn(move || lane(checks))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
        });
        let failed = self.failed.len();
        for (checks, done) in lanes.iter().zip(done) {
            let mut done = done.into_iter();
            for (name, _) in checks {
                let (took, result) = done
                    .next()
                    .unwrap_or_else(|| (Took::default(), Err(Failure::new("the step did not finish"))));
                self.report(name, took, result);
            }
        }
        self.failed.len() == failed
    }

    /// Prints the line of a step that was run elsewhere.
    pub fn report(&mut self, name: &str, took: Took, result: Result<String, Failure>) -> bool {
        self.print(&format!("  {name} "));
        self.finish(name, took, result)
    }

    /// Prints the line of a step that cannot be done here.
    pub fn leave_out(&mut self, name: &str, reason: &str) {
        self.report(name, Took::default(), Ok(format!("{LEFT_OUT}{reason}")));
    }

    fn finish(&mut self, name: &str, took: Took, result: Result<String, Failure>) -> bool {
        let dots = ".".repeat(NAME.saturating_sub(name.len()).max(2));
        let seconds = took.wall.as_secs_f64();
        self.took.push((took, name.to_owned()));
        match result {
            Ok(note) if note.starts_with(LEFT_OUT) => {
                self.print(&format!("{dots} {note}\n"));
                self.left_out.push(name.to_owned());
                true
            }
            Ok(note) => {
                let note = if note.is_empty() { note } else { format!("   {note}") };
                self.print(&format!("{dots} ok     {seconds:6.1} s{note}\n"));
                self.passed += 1;
                true
            }
            Err(failure) => {
                let text = failure.to_string();
                let lines = text.lines().map(|line| format!("      {line}\n")).collect::<String>();
                self.print(&format!("{dots} FAILED {seconds:6.1} s\n{lines}"));
                self.failed.push(name.to_owned());
                false
            }
        }
    }

    /// The summary, with the steps of the most processor time if there are many; an error if a step failed.
    pub fn summary(mut self) -> Result<(), Failure> {
        let took = self.started.elapsed().as_secs_f64();
        if self.took.len() > MOST {
            self.took.sort_by(|a, b| b.0.processor.total_cmp(&a.0.processor));
            println!("\nthe {MOST} steps with the most processor time; time by the clock");
            for (took, name) in self.took.iter().take(MOST) {
                println!("  {:6.1} s {:6.1} s  {name}", took.processor, took.wall.as_secs_f64());
            }
        }
        if !self.left_out.is_empty() {
            println!("\nleft out: {}", self.left_out.join(", "));
        }
        println!("\n{}, {:.0} s of processor time", self.counts(took), processor::of_all());
        if self.failed.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("failed: {}", self.failed.join(", "))))
    }

    fn counts(&self, took: f64) -> String {
        let (failed, left_out) = (self.failed.len(), self.left_out.len());
        format!("{} passed, {failed} failed, {left_out} left out, {took:.0} s", self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_groups_are_counted_together() {
        let mut steps = Steps::new();
        steps.run_beside(&[vec!["a", "b"], vec!["c"]], |name, steps| {
            steps.group(name);
            steps.run(name, || if *name == "b" { Err(Failure::new("why")) } else { Ok(String::new()) });
        });
        assert_eq!(steps.counts(0.0), "2 passed, 1 failed, 0 left out, 0 s");
        assert!(steps.took.iter().map(|(_, name)| name.as_str()).eq(["a", "b", "c"]));
        assert_eq!(steps.failed, ["b"]);
    }

    #[test]
    fn skipped_steps_are_neither_passed_nor_failed() {
        let mut steps = Steps::new();
        assert!(steps.run("a", || Ok("12 tests".to_owned())));
        assert!(steps.run("b", || Ok(format!("{LEFT_OUT}no tool"))));
        assert!(!steps.run("c", || Err(Failure::new("why"))));
        steps.leave_out("d", "no headers");
        assert_eq!(steps.counts(1.6), "1 passed, 1 failed, 2 left out, 2 s");
        assert_eq!(steps.left_out, ["b", "d"]);
        assert!(steps.summary().is_err_and(|failure| failure.to_string() == "failed: c"));
    }
}
