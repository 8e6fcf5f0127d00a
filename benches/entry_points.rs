//! What a call costs, logging off, through a plugin that does nothing.
//!
//! Costs are counted in uncontended pthread mutex lock + unlock pairs, measured in the same run and interleaved, so that they
//! can be compared between machines. The figures to reach, and those of AMD's C++ library of November 2025, are printed
//! beside them.
//!
//! Since glibc 2.34 a mutex costs a fourth while a process has only one thread, so there are two units: the one before any other
//! thread was started, which the figures to reach are in, and the one of a program with threads.
//!
//! `cargo bench --bench entry_points`. A word after `--` measures only the rows with that word, for a profiler. With `HIPDNN_BENCH_LIBRARY`
//! another library that exports the same functions is measured.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at the first failure")]

#[path = "entry_points/api.rs"]
mod api;
#[path = "entry_points/graph_size.rs"]
mod graph_size;

use std::cell::UnsafeCell;
use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::Api;
use hipdnn_abi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type,
    hipdnnBackendDescriptorType_t as Kind,
};
use hipdnn_plugin_sdk::graph::operation::ConvolutionForward;
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Graph, Node, Tensor};
use hipdnn_plugin_sdk::wire::{self, Layout};

type Handle = *mut c_void;
type Descriptor = *mut c_void;

const HANDLE: c_int = Type::HIPDNN_TYPE_HANDLE as c_int;
const INT64: c_int = Type::HIPDNN_TYPE_INT64 as c_int;
const VOID_PTR: c_int = Type::HIPDNN_TYPE_VOID_PTR as c_int;
const HEUR_MODE: c_int = Type::HIPDNN_TYPE_HEUR_MODE as c_int;
const BACKEND_DESCRIPTOR: c_int = Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR as c_int;

const ENGINECFG: c_int = Kind::HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR as c_int;
const ENGINEHEUR: c_int = Kind::HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR as c_int;
const EXECUTION_PLAN: c_int = Kind::HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR as c_int;
const VARIANT_PACK: c_int = Kind::HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR as c_int;

#[inline]
fn ok(status: c_int) {
    assert_eq!(status, 0);
}

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

/// Nanoseconds that one call of `f` takes, over `count` calls. Only this thread's own time counts, so that it does not matter what else
/// runs on the machine.
fn time(count: u32, mut f: impl FnMut()) -> f64 {
    let start = thread_time();
    for _ in 0..count {
        f();
    }
    (thread_time() - start) / f64::from(count)
}

/// Nanoseconds that this thread has run.
fn thread_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one struct.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().expect("there are values")
}

/// One row: what is measured, the figure to reach, that of the C++ library, and the costs of each round in pairs.
struct Row<'a> {
    name: &'static str,
    goal: f64,
    peer: f64,
    calls: u32,
    run: Box<dyn FnMut() + 'a>,
    costs: Vec<f64>,
}

/// What turns the cache of plans off, as every row but one has it.
const CACHE: &str = "HIPDNN_PLAN_CACHE_BYTES";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_cached = std::env::var_os(CACHE).is_some_and(|bytes| bytes != "0");
    if !is_cached {
        // SAFETY: no other thread is there yet.
        unsafe { std::env::set_var(CACHE, "0") };
    }
    let library = std::env::var_os("HIPDNN_BENCH_LIBRARY").map_or_else(built_library, PathBuf::from);
    let api = Api::load(&library);
    let plugin = null_plugin(root);
    let path = CString::new(plugin.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the array holds one path.
    ok(unsafe { (api.set_paths)(1, [path.as_ptr()].as_ptr(), 1) });

    let handle = api.handle();
    let bytes = convolution();
    let [_, _, _, plan] = api.plan(handle, &bytes);
    #[repr(align(64))]
    struct Memory([f32; 64]);
    let mut memory = Memory([0.0; 64]);
    let pointers = [memory.0.as_mut_ptr().cast::<c_void>(); 3];
    let pack = api.pack(&pointers);

    let mutex = Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let execute = |handle, pack| {
        // SAFETY: the plugin does nothing with the memory.
        ok(unsafe { (api.execute)(handle, plan, pack) });
    };
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
    // For a profiler that counts instructions, and makes each call a hundred times slower.
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
        // The variable is read once in a process.
        let mut again = Command::new(std::env::current_exe().expect("the program has a path"));
        again.env(CACHE, "16777216").arg("found again").status().expect("the program starts");
    }
    if quick || word.is_some() {
        return;
    }
    let ratio = median((0..9).map(|_| two_threads(&api, plan, &pointers)).collect());
    let mark = if ratio >= 1.7 { "" } else { "  missed" };
    println!(
        "{:<50} {:>8.2} {:>8.2} {:>14}{mark}",
        "two threads sharing a plan, times one thread", ratio, 1.7, "0.5 to 0.8"
    );
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let ratio = median((0..9).map(|_| many_flows(&api, &bytes, &pointers, threads)).collect());
    let mark = if ratio >= 0.8 { "" } else { "  missed" };
    println!("one convolution on {threads:>3} threads, of linear{ratio:>19.2} {:>8.2}{mark}", 0.8);
    let ratio = beside_sleepers(&api, flow);
    let mark = if ratio <= 1.1 { "" } else { "  missed" };
    println!(
        "{:<50} {:>8.2} {:>8.2}{mark}",
        "one convolution beside 256 sleeping threads, times alone", ratio, 1.1
    );
    graph_size::print(&api, handle);
}

/// The throughput of threads that each build, plan, execute and destroy with a handle of their own, over as many times that of one.
fn many_flows(api: &Api, bytes: &[u8], pointers: &[*mut c_void; 3], threads: usize) -> f64 {
    let pointers = Shared(*pointers);
    let rate = |threads| {
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
    };
    rate(threads) / rate(1) / threads as f64
}

/// The number of calls a second of so many threads. `prepare` gives each what it does over and over, which says how often that was, and
/// what it does in the end.
fn together<W: FnMut() -> u64, E: FnOnce()>(threads: usize, prepare: impl Fn() -> (W, E) + Sync) -> f64 {
    let (barrier, prepare) = (&Barrier::new(threads), &prepare);
    std::thread::scope(|scope| {
        let work = move || {
            let (mut work, end) = prepare();
            barrier.wait();
            let (start, mut count) = (Instant::now(), 0);
            while start.elapsed() < Duration::from_millis(100) {
                count += work();
            }
            let rate = count as f64 / start.elapsed().as_secs_f64();
            barrier.wait();
            end();
            rate
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("the thread ends well")).sum()
    })
}

/// A value that threads share.
#[derive(Clone, Copy)]
struct Shared<T>(T);
// SAFETY: the values are opaque handles and addresses that nothing is written to, which any thread may use.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    fn get(&self) -> T {
        self.0
    }
}

/// What a flow costs beside threads that have used the library and sleep, over what it costs alone.
fn beside_sleepers(api: &Api, flow: impl Fn()) -> f64 {
    const SLEEPERS: usize = 256;
    let cost = || median((0..15).map(|_| time(10_000, &flow)).collect());
    let (all_are_there, end) = (Barrier::new(SLEEPERS + 1), Barrier::new(SLEEPERS + 1));
    std::thread::scope(|scope| {
        let before = cost();
        for _ in 0..SLEEPERS {
            let (all_are_there, end) = (&all_are_there, &end);
            scope.spawn(move || {
                let mut handle = std::ptr::null_mut();
                // SAFETY: the pointer is writable, and the handle is this thread's own.
                unsafe {
                    ok((api.create)(&mut handle));
                    ok((api.destroy)(handle));
                }
                all_are_there.wait();
                end.wait();
            });
        }
        all_are_there.wait();
        let beside = cost();
        end.wait();
        beside / before
    })
}

/// The throughput of two threads, each with a handle and a pack of its own, over that of one.
fn two_threads(api: &Api, plan: Descriptor, pointers: &[*mut c_void; 3]) -> f64 {
    let (plan, pointers) = (Shared(plan), Shared(*pointers));
    let rate = |threads| {
        together(threads, || {
            let plan = plan.get();
            let handle = api.handle();
            let pack = api.pack(&pointers.get());
            let execute = move || {
                for _ in 0..1000 {
                    // SAFETY: the plugin does nothing with the memory.
                    ok(unsafe { (api.execute)(handle, plan, pack) });
                }
                1000
            };
            let end = move || {
                api.drop(pack);
                // SAFETY: any value may be passed.
                ok(unsafe { (api.destroy)(handle) });
            };
            (execute, end)
        })
    };
    rate(2) / rate(1)
}

/// The bytes of one convolution in the layout of 2026.
fn convolution() -> Vec<u8> {
    let convolution = ConvolutionForward {
        x: 1,
        w: 2,
        y: 3,
        pre_padding: vec![1, 1],
        post_padding: vec![1, 1],
        stride: vec![1, 1],
        dilation: vec![1, 1],
        conv_mode: ConvMode::CrossCorrelation,
    };
    let node = Node { name: "conv".into(), compute_type: DataType::Float, operation: convolution.into() };
    let graph = Graph {
        name: "one convolution".into(),
        compute_type: DataType::Float,
        intermediate_type: DataType::Float,
        io_type: DataType::Float,
        tensors: vec![
            Tensor::new(1, DataType::Float, &[16, 64, 56, 56], &[200_704, 3136, 56, 1]),
            Tensor::new(2, DataType::Float, &[64, 64, 3, 3], &[576, 9, 3, 1]),
            Tensor::new(3, DataType::Float, &[16, 64, 56, 56], &[200_704, 3136, 56, 1]),
        ],
        nodes: vec![node],
        ..Graph::default()
    };
    wire::write(&graph, Layout::G2).expect("the graph can be written")
}

/// The library that cargo built together with this program.
fn built_library() -> PathBuf {
    let program = std::env::current_exe().expect("the program has a path");
    program.with_file_name("libhipdnn_backend.so")
}

/// Compiles the plugin that does nothing.
fn null_plugin(root: &Path) -> PathBuf {
    let out = std::env::temp_dir().join(format!("libhipdnn_null_plugin_{}.so", std::process::id()));
    let include = root.join("include/hipdnn");
    let status = Command::new("cc")
        .args(["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"])
        .arg(format!("-I{}", include.join("backend").display()))
        .arg(format!("-I{}", include.join("plugin").display()))
        .arg(root.join("c_tests/plugins/null_plugin.c"))
        .arg("-o")
        .arg(&out)
        .status();
    assert!(status.expect("a C compiler runs").success(), "the plugin compiles");
    out
}
