//! Measures how planning and executing scale with threads, each with its own handle, through a plugin that does nothing.
//!
//! `cargo bench --bench scaling` prints a CSV line for each figure: what, threads, value, unit, and the quartiles of the rounds. A
//! number after `--` measures only that many threads. For comparison, loops of additions and single-threaded processes, which share
//! only the machine, show what the hardware allows (two processors may belong to one core). All rows take turns, so that noise
//! affects them equally. Under taskset each thread is pinned to one processor: name one processor per core to exclude SMT siblings.
//!
//! On a machine without a C compiler `HIPDNN_BENCH_PLUGIN` names the compiled plugin, and `HIPDNN_BENCH_LIBRARY` the library.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark stops at the first failure"
)]

#[path = "entry_points/api.rs"]
mod api;
#[path = "entry_points/processors.rs"]
mod processors;
#[path = "scaling/sleepers.rs"]
mod sleepers;
#[path = "entry_points/subject.rs"]
mod subject;
#[path = "entry_points/threads.rs"]
mod threads;
#[path = "scaling/workers.rs"]
mod workers;

use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::process::Command;

use api::{Api, ok};
use sleepers::Ratios;
use subject::{CACHE, PLUGIN, convolution, library, null_plugin};
use threads::{Shared, executions, together};
use workers::{Work, Workers};

const ROUNDS: usize = 9;

/// The flows per second of threads that each build, plan, execute and destroy with their own handle.
fn flows(api: &Api, bytes: &[u8], pointers: &[*mut c_void; 3], threads: usize) -> f64 {
    let pointers = Shared(*pointers);
    together(threads, || {
        let handle = api.handle();
        let flow = move || {
            for _ in 0..100 {
                api.flow(handle, bytes, &pointers.get());
            }
            100
        };
        // SAFETY: any value may be passed.
        (flow, move || ok(unsafe { (api.destroy)(handle) }))
    })
}

/// Additions per second without shared data, in `CHAINS` dependent chains. One chain leaves most of a core idle, so that two threads on
/// one core do not slow each other down; many chains do.
fn additions<const CHAINS: usize>(threads: usize) -> f64 {
    together(threads, || {
        let mut sums = [0_u64; CHAINS];
        let add = move || {
            for term in 0..1000 {
                for sum in &mut sums {
                    *sum = sum.wrapping_add(term) ^ term.rotate_left(7);
                }
                sums = black_box(sums);
            }
            1000
        };
        (add, || ())
    })
}

/// The name of a row, and its rate with a number of threads.
type Row<'a> = (String, Box<dyn Fn(usize) -> f64 + 'a>);

/// Prints the median of a row's values, and the quartiles.
fn print(what: &str, threads: usize, mut values: Vec<f64>, decimals: usize, unit: &str) {
    values.sort_by(f64::total_cmp);
    let [low, median, high] = [1, 2, 3].map(|quarter| values.get(quarter * values.len() / 4).unwrap());
    println!("{what},{threads},{median:.decimals$},{unit},{low:.decimals$},{high:.decimals$}");
}

/// Prints the parallel efficiency: the rate of all threads relative to their number times that of one.
fn print_shares(rows: &[Row], counts: &[usize]) {
    let mut alone = vec![Vec::new(); rows.len()];
    for &threads in counts {
        let mut shares = vec![Vec::new(); rows.len()];
        for round in 0..ROUNDS {
            for (((_, rate), shares), alone) in rows.iter().zip(&mut shares).zip(&mut alone) {
                let all_first = (round % 2 == 1).then(|| rate(threads));
                let one = rate(1);
                let all = all_first.unwrap_or_else(|| rate(threads));
                alone.push(1e9 / one);
                shares.push(all / one / threads as f64);
            }
        }
        for ((what, _), shares) in rows.iter().zip(shares) {
            print(what, threads, shares, 3, "of linear");
        }
    }
    for ((what, _), alone) in rows.iter().zip(alone) {
        print(what, 1, alone, 1, "ns");
    }
}

fn main() {
    // The variable is read once per process: one runs with the plan cache, one without.
    let cached = std::env::var_os(CACHE).is_some_and(|bytes| bytes != "0");
    if std::env::var_os(CACHE).is_none() {
        println!("what,threads,value,unit,low,high");
        let plugin = null_plugin();
        for bytes in ["0", "16777216"] {
            let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
            again.args(std::env::args_os().skip(1)).env(CACHE, bytes).env(PLUGIN, &plugin);
            let status = again.status();
            assert!(
                status.expect("the program starts").success(),
                "the program ends well with {CACHE}={bytes}"
            );
        }
        return;
    }
    let is_worker = workers::is_worker();
    let api = Api::load(&library());
    let plugin = null_plugin();
    let path = CString::new(plugin.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the array holds one path.
    ok(unsafe { (api.set_paths)(1, [path.as_ptr()].as_ptr(), 1) });
    let handle = api.handle();
    let bytes = convolution();
    // Disjoint; the plugin does not access the memory.
    let pointers = [1_usize, 2, 3].map(|place| std::ptr::without_provenance_mut::<c_void>(place << 32));
    let [_, _, _, plan] = api.plan(handle, &bytes);
    if is_worker {
        workers::work(|work| match work {
            Work::Flows => flows(&api, &bytes, &pointers, 1),
            Work::Executions => executions(&api, plan, &pointers, 1),
        });
        return;
    }
    if sleepers::is_round() {
        sleepers::print(&api, || api.flow(handle, &bytes, &pointers));
        return;
    }

    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let doubled = std::iter::successors(Some(2), |threads| Some(2 * threads));
    let mut counts: Vec<usize> = doubled.take_while(|threads| *threads <= most).collect();
    // Cargo adds `--bench` to what the user passes.
    if let Some(threads) = std::env::args().find_map(|argument| argument.parse().ok()) {
        counts = vec![threads];
    }
    let workers = Workers::start(counts.iter().copied().max().unwrap_or(1));
    let what = if cached { "one convolution, found again" } else { "one convolution, uncached" };
    let mut rows: Vec<Row> = vec![
        (what.to_owned(), Box::new(|threads| flows(&api, &bytes, &pointers, threads))),
        (format!("{what}, in processes"), Box::new(|count| workers.rate(Work::Flows, count))),
        ("additions".to_owned(), Box::new(additions::<1>)),
        ("additions, 16 at a time".to_owned(), Box::new(additions::<16>)),
    ];
    if !cached {
        rows.push((
            "execution of a shared plan".to_owned(),
            Box::new(|threads| executions(&api, plan, &pointers, threads)),
        ));
        rows.push((
            "execution, in processes".to_owned(),
            Box::new(|count| workers.rate(Work::Executions, count)),
        ));
    }
    print_shares(&rows, &counts);

    let mut ratios = Ratios::default();
    for _ in 0..ROUNDS {
        sleepers::round(&mut ratios);
    }
    let sleepers = "256 sleeping threads";
    print(
        &format!("{what}, beside {sleepers} that used the library"),
        1,
        ratios.beside_users,
        3,
        "times alone",
    );
    print(&format!("{what}, beside {sleepers} that never did"), 1, ratios.beside_others, 3, "times alone");
    print(
        &format!("{what}, after {sleepers} that used the library"),
        1,
        ratios.after_users,
        3,
        "times alone",
    );
}
