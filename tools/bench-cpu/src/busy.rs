//! Our engine with busy threads in the same process: the cost of an execution when processors are shared.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hipdnn::{Backend, Handle};
use hipdnn_tool::failure::Result;

use crate::case::Case;
use crate::measure::median;
use crate::ours::{Ours, Weights, inputs};

/// Rounds of bursts, alternating without and with busy threads.
const ROUNDS: usize = 5;

/// A burst with busy threads spans many scheduler time slices, each of some milliseconds.
const BURST: Duration = Duration::from_millis(400);

/// Threads that compute continuously, like those of another thread pool.
pub struct Busy {
    /// The number of busy threads.
    pub count: usize,
    /// Threads of an execution.
    pub threads: usize,
    /// Processors of this process.
    pub processors: usize,
}

impl Busy {
    /// The slowdown of an execution if every thread of the process gets an equal share of the processors.
    fn ideal(&self) -> f64 {
        let [busy, threads, processors] =
            [self.count, self.threads, self.processors].map(|count| count as f64);
        let alone = threads.min(processors);
        let share = (processors * threads / (threads + busy)).min(alone);
        alone / share
    }

    /// Measures cases, and prints a line for each.
    pub fn measure(&self, backend: &Backend, handle: &Handle, engine: i64, cases: &[Case]) -> Result<()> {
        println!(
            "{} threads of ours and {} busy ones on {} processors; medians of the means of {ROUNDS} bursts, in milliseconds\n",
            self.threads, self.count, self.processors
        );
        println!("{:>10} {:>10} {:>10} {:>16}  CASE", "ALONE", "BUSY", "IDEAL", "BUSY / IDEAL");
        for case in cases {
            let ours = Ours::new(handle, backend, engine, case, inputs(case))?;
            let (mut alone, mut beside) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                alone.push(ours.burst(Weights::Any, BURST / 4)?);
                beside.push(self.beside(|| ours.burst(Weights::Any, BURST))?);
            }
            let (alone, beside) = (median(&alone), median(&beside));
            let ideal = alone * self.ideal();
            println!(
                "{alone:>10.3} {beside:>10.3} {ideal:>10.3} {:>16.2}  {} {}",
                beside / ideal,
                case.suite,
                case.name
            );
        }
        Ok(())
    }

    /// Calls a function while the threads are busy.
    fn beside<T>(&self, work: impl FnOnce() -> T) -> T {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..self.count {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let result = work();
            is_over.store(true, Ordering::Relaxed);
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_an_equal_share_for_every_thread() {
        let ideal = |count, threads, processors| Busy { count, threads, processors }.ideal();
        assert_eq!(ideal(0, 16, 16), 1.0);
        assert_eq!(ideal(16, 16, 16), 2.0);
        assert_eq!(ideal(16, 16, 2), 2.0);
        assert_eq!(ideal(8, 8, 16), 1.0);
    }
}
