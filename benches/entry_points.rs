//! Measures the cost of calls with logging off, through a plugin that does nothing.
//!
//! Costs are in uncontended pthread mutex lock + unlock pairs, measured in the same run and interleaved, so that machines can be
//! compared. The goals, and the costs of AMD's C++ library of November 2025, are printed beside them.
//!
//! Since glibc 2.34 a mutex costs only a fourth while a process has one thread, so there are two units: before any other thread was
//! started, which the goals use, and in a program with threads.
//!
//! The cost of the profile and the trace per execution is in nanoseconds.
//!
//! `cargo bench --bench entry_points`. A word after `--` measures only the rows with that word, for a profiler. With `HIPDNN_BENCH_LIBRARY`
//! another library that exports the same functions is measured.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at the first failure")]

#[path = "entry_points/api.rs"]
mod api;
#[path = "entry_points/first_plan.rs"]
mod first_plan;
#[path = "entry_points/graph_size.rs"]
mod graph_size;
#[path = "entry_points/processors.rs"]
mod processors;
#[path = "entry_points/profile.rs"]
mod profile;
#[path = "entry_points/subject.rs"]
mod subject;
#[path = "entry_points/threads.rs"]
mod threads;

use std::cell::UnsafeCell;
use std::ffi::{CString, c_void};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use api::{Api, ok};
use subject::{CACHE, PLUGIN, convolution, library, median, null_plugin, time};
use threads::executions;

/// A pthread mutex, the unit of cost.
struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

impl Mutex {
    fn pair(&self) {
        // SAFETY: the mutex was initialized statically and is used on this thread only.
        unsafe {
            libc::pthread_mutex_lock(self.0.get());
            libc::pthread_mutex_unlock(self.0.get());
        }
    }
}

/// A row: its name, the goal, the C++ library's cost, and each round's cost in pairs.
struct Row<'a> {
    name: &'static str,
    goal: f64,
    peer: f64,
    calls: u32,
    run: Box<dyn FnMut() + 'a>,
    costs: Vec<f64>,
}

fn main() {
    if first_plan::is_measurement() {
        first_plan::measure();
        return;
    }
    // All rows but one run without the plan cache.
    let is_cached = std::env::var_os(CACHE).is_some_and(|bytes| bytes != "0");
    if !is_cached {
        // SAFETY: no other thread is there yet.
        unsafe { std::env::set_var(CACHE, "0") };
    }
    let library = library();
    let api = Api::load(&library);
    let plugin = null_plugin();
    if std::env::var_os(PLUGIN).is_none() {
        // For child processes.
        // SAFETY: no other thread is there yet.
        unsafe { std::env::set_var(PLUGIN, &plugin) };
    }
    let path = CString::new(plugin.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the array holds one path.
    ok(unsafe { (api.set_paths)(1, [path.as_ptr()].as_ptr(), 1) });

    let handle = api.handle();
    let bytes = convolution();
    let [_, _, _, plan] = api.plan(handle, &bytes);
    // Disjoint; the plugin does not access the memory.
    let pointers = [1_usize, 2, 3].map(|place| std::ptr::without_provenance_mut::<c_void>(place << 32));
    let pack = api.pack(&pointers);

    let mutex = Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let execute = |handle, pack| {
        // SAFETY: the plugin does nothing with the memory.
        ok(unsafe { (api.execute)(handle, plan, pack) });
    };
    if profile::is_measurement() {
        profile::measure(|| execute(handle, pack));
        return;
    }
    let flow = || api.flow(handle, &bytes, &pointers);
    let row = |name, goal, peer, calls, run| Row { name, goal, peer, calls, run, costs: Vec::new() };
    let mut rows = vec![
        row(
            "hipdnnBackendExecute, 3 pointers",
            4.5,
            13.2,
            200_000,
            Box::new(|| execute(handle, pack)) as Box<dyn FnMut()>,
        ),
        row(
            "pack: create, set, finalize, execute, destroy",
            20.0,
            55.0,
            50_000,
            Box::new(|| {
                let pack = api.pack(&pointers);
                execute(handle, pack);
                api.drop(pack);
            }),
        ),
        if is_cached {
            row("one convolution: the same, found again", 64.0, 313.0, 10_000, Box::new(flow))
        } else {
            row("one convolution: bytes to result, destroy all", 130.0, 313.0, 10_000, Box::new(flow))
        },
        row(
            "error path: hipdnnDestroy(NULL)",
            10.0,
            126.0,
            100_000,
            Box::new(|| {
                // SAFETY: any value may be passed.
                assert_eq!(unsafe { (api.destroy)(std::ptr::null_mut()) }, 3);
            }),
        ),
        row(
            "second handle: create, destroy",
            10.0,
            21.0,
            100_000,
            Box::new(|| {
                let handle = api.handle();
                // SAFETY: any value may be passed.
                ok(unsafe { (api.destroy)(handle) });
            }),
        ),
    ];

    // Cargo adds `--bench` to what the user passes.
    let word = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if let Some(word) = &word {
        rows.retain(|row| row.name.contains(word));
    }
    // For instruction-counting profilers, which make each call a hundred times slower.
    let quick = std::env::var_os("HIPDNN_BENCH_QUICK").is_some();
    let (rounds, divisor) = if quick { (1, 100) } else { (31, 1) };
    let mut measure = || {
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            let pair = time(200_000 / divisor, || mutex.pair());
            pairs.push(pair);
            for row in &mut rows {
                let nanoseconds = time(row.calls / divisor, &mut row.run);
                row.costs.push(nanoseconds / pair);
            }
        }
        let costs = rows.iter_mut().map(|row| median(std::mem::take(&mut row.costs)));
        (median(pairs), costs.collect::<Vec<_>>())
    };
    let (pair, costs) = measure();
    let ended = AtomicBool::new(false);
    let (shared_pair, shared_costs) = std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                std::thread::park();
            }
        });
        let measured = measure();
        ended.store(true, Ordering::Relaxed);
        sleeper.thread().unpark();
        measured
    });
    println!("library: {}", library.display());
    println!(
        "one pthread mutex lock + unlock: {pair:.2} ns; {shared_pair:.2} ns in a process with two threads\n"
    );
    println!(
        "{:<50} {:>8} {:>12} {:>8} {:>14}",
        "cost in pairs (median of 31 rounds)", "measured", "two threads", "to reach", "C++ Nov. 2025"
    );
    for ((row, cost), shared) in rows.iter().zip(costs).zip(shared_costs) {
        let mark = if cost <= row.goal { "" } else { "  missed" };
        println!("{:<50} {cost:>8.1} {shared:>12.1} {:>8.1} {:>14.1}{mark}", row.name, row.goal, row.peer);
    }
    drop(rows);

    if word.is_none() && !is_cached {
        // The variable is read once per process.
        let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
        again.env(CACHE, "16777216").arg("found again").status().expect("the program starts");
    }
    if quick || word.is_some() {
        return;
    }
    let together = || executions(&api, plan, &pointers, 2) / executions(&api, plan, &pointers, 1);
    let ratio = median((0..9).map(|_| together()).collect());
    let mark = if ratio >= 1.7 { "" } else { "  missed" };
    println!(
        "{:<50} {:>8.2} {:>8.2} {:>14}{mark}",
        "two threads sharing a plan, times one thread", ratio, 1.7, "0.5 to 0.8"
    );
    graph_size::print(&api, handle);
    profile::print();
    first_plan::print();
}
