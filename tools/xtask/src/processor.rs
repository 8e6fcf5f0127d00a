//! The processor time of the programs that the steps run.

use std::cell::Cell;
use std::io;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Linux's clock tick in seconds, the same on every machine.
const TICK: f64 = 0.01;

/// How often a running program is looked at.
const PAUSE: Duration = Duration::from_millis(5);

thread_local! {
    static SPENT: Cell<f64> = const { Cell::new(0.0) };
}

/// The seconds of the programs for which this thread waited by [`wait`], with all that they started and waited for.
pub fn of_this_thread() -> f64 {
    SPENT.get()
}

/// The seconds of all programs that have ended.
pub fn of_all() -> f64 {
    seconds("self", 2, 2)
}

/// Waits until a program has ended, or for the limit. True if it has ended.
pub fn ends_within(child: &Child, limit: Duration) -> bool {
    let process = child.id().to_string();
    let started = Instant::now();
    // A program that has ended keeps its times until somebody waits for it.
    while state(&process).is_some_and(|state| state != "Z") {
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// Waits for a program and counts its time for this thread.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    ends_within(child, Duration::MAX);
    SPENT.set(SPENT.get() + seconds(&child.id().to_string(), 0, 4));
    child.wait()
}

fn state(process: &str) -> Option<String> {
    fields(process).first().cloned()
}

/// The sum of some of a process's four times: its own in user and system mode, and its children's.
fn seconds(process: &str, first: usize, count: usize) -> f64 {
    const TIMES: usize = 11;
    let fields = fields(process);
    let times = fields.iter().skip(TIMES + first).take(count);
    times.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() * TICK
}

/// The fields after the program's name, which may contain spaces. None on systems without `/proc`.
fn fields(process: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    fields.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{command, run};

    #[test]
    fn the_time_of_programs_is_counted_for_all_and_for_their_thread() {
        let (all, own) = (of_all(), of_this_thread());
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        run(&mut command("sh", ["-c", busy])).unwrap();
        assert!(of_all() > all && of_this_thread() > own);
        let other = std::thread::spawn(of_this_thread).join().unwrap();
        assert!(other == 0.0);
    }
}
