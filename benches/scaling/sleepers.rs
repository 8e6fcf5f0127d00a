//! The cost of a flow while other threads sleep.

use std::process::Command;
use std::sync::Barrier;

use crate::api::{Api, ok};
use crate::processors::keep_to_one;
use crate::subject::{median, time};

/// The variable that makes a process measure one round.
const ROUND: &str = "HIPDNN_BENCH_SLEEPERS";

const SLEEPERS: usize = 256;

/// Costs relative to the flow alone, before and after.
#[derive(Default)]
pub struct Ratios {
    /// With threads that never used the library: the cost of threads themselves.
    pub beside_others: Vec<f64>,
    /// With threads that used the library.
    pub beside_users: Vec<f64>,
    /// After these have ended.
    pub after_users: Vec<f64>,
}

/// Measures a round in its own process: ended threads leave records behind, which would affect the next round.
pub fn round(ratios: &mut Ratios) {
    let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
    let output = again.env(ROUND, "1").output().expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let costs: Vec<f64> = text.split_whitespace().map(|cost| cost.parse().expect("a number")).collect();
    let &[first, beside_others, alone, beside_users, last] = costs.as_slice() else {
        panic!("{text:?} are not five costs");
    };
    ratios.beside_others.push(2.0 * beside_others / (first + alone));
    ratios.beside_users.push(2.0 * beside_users / (alone + last));
    ratios.after_users.push(last / alone);
}

/// Whether this process measures one round.
pub fn is_round() -> bool {
    std::env::var_os(ROUND).is_some()
}

/// Prints the cost of a flow alone and with sleepers, in turn.
pub fn print(api: &Api, flow: impl Fn()) {
    keep_to_one(0);
    let cost = || median((0..5).map(|_| time(10_000, &flow)).collect());
    // Not with a single thread, for which glibc avoids atomic operations.
    let end = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| end.wait());
        let use_library = || {
            let handle = api.handle();
            // SAFETY: the handle is this thread's own.
            ok(unsafe { (api.destroy)(handle) });
        };
        let first = cost();
        let beside_others = beside(|| (), cost);
        let alone = cost();
        let beside_users = beside(use_library, cost);
        let last = cost();
        println!("{first} {beside_others} {alone} {beside_users} {last}");
        end.wait();
    });
}

/// The cost of the flow with threads that sleep after `prepare`.
fn beside(prepare: impl Fn() + Sync, cost: impl Fn() -> f64) -> f64 {
    let (all_are_there, end) = (Barrier::new(SLEEPERS + 1), Barrier::new(SLEEPERS + 1));
    std::thread::scope(|scope| {
        for _ in 0..SLEEPERS {
            scope.spawn(|| {
                prepare();
                all_are_there.wait();
                end.wait();
            });
        }
        all_are_there.wait();
        let cost = cost();
        end.wait();
        cost
    })
}
