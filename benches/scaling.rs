//! How planning and executing scale with threads, each with a handle of its own, through a plugin that does nothing.
//!
//! `cargo bench --bench scaling` prints a CSV line for each figure: what, threads, value, unit. Shares of linear are medians of nine pairs
//! of runs. What the machine itself allows, where two processors may be one core's, is told by a loop of additions, and by as many
//! processes with one thread each, which share nothing but the machine. On a machine without a C compiler `HIPDNN_BENCH_PLUGIN` names
//! the compiled plugin, and `HIPDNN_BENCH_LIBRARY` the library.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at the first failure")]

#[path = "entry_points/api.rs"]
mod api;
#[path = "entry_points/subject.rs"]
mod subject;
#[path = "entry_points/threads.rs"]
mod threads;

use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::{Api, ok};
use subject::{CACHE, convolution, library, median, null_plugin};
use threads::{beside_sleepers, executions, flows, together};

/// Additions a second, which nothing is shared by.
fn additions(threads: usize) -> f64 {
    together(threads, || {
        let mut sum = 0_u64;
        let add = move || {
            for term in 0..1000 {
                sum = black_box(sum.wrapping_add(term));
            }
            1000
        };
        (add, || ())
    })
}

/// What a child process is told: the moment to begin at, in milliseconds since 1970.
const BEGIN: &str = "HIPDNN_BENCH_BEGIN";

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    u64::try_from(since.as_millis()).expect("milliseconds fit")
}

/// The flows a second of so many processes, each with one thread.
fn processes(count: usize) -> f64 {
    // Enough for all to start.
    let begin = (now() + 300).to_string();
    let start = || {
        let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
        again.env(BEGIN, &begin).stdout(Stdio::piped()).spawn().expect("the program starts")
    };
    let children: Vec<_> = (0..count).map(|_| start()).collect();
    let rate = |child: std::process::Child| -> f64 {
        let output = child.wait_with_output().expect("the program ends");
        String::from_utf8(output.stdout).expect("a number").trim().parse().expect("a number")
    };
    children.into_iter().map(rate).sum()
}

/// Prints what threads reach together, as a share of what one reaches alone times their number.
fn print(what: &str, rate: impl Fn(usize) -> f64) {
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let alone = median((0..9).map(|_| rate(1)).collect());
    println!("{what},1,{:.0},ns", 1e9 / alone);
    for threads in std::iter::successors(Some(2), |threads| Some(2 * threads)).take_while(|n| *n <= most) {
        let shares = (0..9).map(|_| rate(threads) / rate(1) / threads as f64);
        println!("{what},{threads},{:.3},of linear", median(shares.collect()));
    }
}

fn main() {
    // The variable is read once in a process: one with the cache of plans, one without.
    let cached = std::env::var_os(CACHE).is_some_and(|bytes| bytes != "0");
    if std::env::var_os(CACHE).is_none() {
        println!("what,threads,value,unit");
        for bytes in ["0", "16777216"] {
            let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
            let status = again.env(CACHE, bytes).status().expect("the program starts");
            assert!(status.success(), "the program ends well with {CACHE}={bytes}");
        }
        return;
    }
    let api = Api::load(&library());
    let plugin = null_plugin();
    let path = CString::new(plugin.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the array holds one path.
    ok(unsafe { (api.set_paths)(1, [path.as_ptr()].as_ptr(), 1) });
    let handle = api.handle();
    let bytes = convolution();
    #[repr(align(64))]
    struct Memory([f32; 64]);
    let mut memory = Memory([0.0; 64]);
    let pointers = [memory.0.as_mut_ptr().cast::<c_void>(); 3];
    if let Some(begin) = std::env::var(BEGIN).ok().and_then(|begin| begin.parse::<u64>().ok()) {
        api.flow(handle, &bytes, &pointers);
        std::thread::sleep(Duration::from_millis(begin.saturating_sub(now())));
        println!("{}", flows(&api, &bytes, &pointers, 1));
        return;
    }
    let what = if cached { "one convolution, found again" } else { "one convolution, uncached" };
    print(what, |threads| flows(&api, &bytes, &pointers, threads));
    print(&format!("{what}, in processes"), processes);
    if !cached {
        let [_, _, _, plan] = api.plan(handle, &bytes);
        print("execution of a shared plan", |threads| executions(&api, plan, &pointers, threads));
        print("additions", additions);
    }
    let ratio = beside_sleepers(&api, || api.flow(handle, &bytes, &pointers));
    println!("{what} beside 256 sleeping threads,1,{ratio:.3},times alone");
}
