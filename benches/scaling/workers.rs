//! Single-threaded processes, which share only the machine. They wait between measurements, which alternate with those of threads.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::processors::keep_to_one;

/// The variable that makes a process a worker, with its number.
const NUMBER: &str = "HIPDNN_BENCH_WORKER";

/// The work that a worker repeats on request.
#[derive(Clone, Copy)]
pub enum Work {
    Flows,
    Executions,
}

/// Worker processes.
pub struct Workers(RefCell<Vec<Worker>>);

struct Worker {
    process: Child,
    orders: ChildStdin,
    rates: BufReader<ChildStdout>,
}

impl Workers {
    /// Starts `count` workers.
    pub fn start(count: usize) -> Self {
        let start = |number: usize| {
            let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
            again.env(NUMBER, number.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = again.spawn().expect("the program starts");
            let orders = process.stdin.take().expect("there is a pipe");
            let rates = BufReader::new(process.stdout.take().expect("there is a pipe"));
            Worker { process, orders, rates }
        };
        Self(RefCell::new((0..count).map(start).collect()))
    }

    /// The total rate of `count` workers per second.
    pub fn rate(&self, work: Work, count: usize) -> f64 {
        let mut workers = self.0.borrow_mut();
        let workers = workers.get_mut(..count).expect("there are as many workers");
        let order: &[u8] = match work {
            Work::Flows => b"flows\n",
            Work::Executions => b"executions\n",
        };
        for worker in &mut *workers {
            worker.orders.write_all(order).expect("the worker waits");
        }
        let rate = |worker: &mut Worker| -> f64 {
            let mut line = String::new();
            worker.rates.read_line(&mut line).expect("the worker answers");
            line.trim().parse().expect("a number")
        };
        workers.iter_mut().map(rate).sum()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for Worker { mut process, orders, .. } in self.0.get_mut().drain(..) {
            // Ends the worker.
            drop(orders);
            let _ = process.wait();
        }
    }
}

/// Whether this process is a worker. If so, pins it to a processor as `keep_to_one` does.
pub fn is_worker() -> bool {
    let number = std::env::var(NUMBER).ok().and_then(|number| number.parse().ok());
    number.is_some_and(|number| {
        keep_to_one(number);
        true
    })
}

/// Works until there are no more orders.
pub fn work(mut rate: impl FnMut(Work) -> f64) {
    for order in stdin().lines() {
        let work = match order.expect("an order").as_str() {
            "flows" => Work::Flows,
            _ => Work::Executions,
        };
        println!("{}", rate(work));
    }
}
