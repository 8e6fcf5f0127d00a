//! With the knob `batch_invariant`, the bits of an item of the batch depend on its own operands only.
//!
//! Each problem is computed for single items, and then for batches of other sizes, orders, addresses and threads, and beside
//! items with infinities and NaN. Every instruction set of the processor runs in a process of its own.

mod attention;
mod images;
mod rows;

use std::process::Command;

use hipdnn_cpu_plugin::plan::planner::Planner;
use hipdnn_cpu_plugin::settings::Settings;
use hipdnn_cpu_plugin::threading::partition::Threads;
use hipdnn_plugin_sdk::graph::DataType;

use super::common::{Case, Memory, Random, Strides, packed};

/// The environment variable that limits the instructions.
const LIMIT: &str = "HIPDNN_CPU_MAX_ISA";

/// What it is set to, with the flag in `/proc/cpuinfo` of a processor that has the level's instructions.
const LEVELS: [(&str, &str); 7] = [
    ("sse", "sse2"),
    ("avx2", "avx2"),
    ("avx2_vnni", "avx_vnni"),
    ("avx512", "avx512f"),
    ("avx512_vnni", "avx512_vnni"),
    ("avx512_bf16", "avx512_bf16"),
    ("amx", "amx_tile"),
];

/// The levels of this processor; all if it does not tell.
fn levels() -> Vec<&'static str> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    let has = |flag: &str| flags.is_none_or(|(_, flags)| flags.split_whitespace().any(|own| own == flag));
    LEVELS.into_iter().filter(|(_, flag)| has(flag)).map(|(level, _)| level).collect()
}

/// Items from this number on hold infinities and NaN.
const SPOILED: u64 = 1 << 20;

/// A graph for a batch.
struct Batch<'a> {
    case: Case,
    /// The numbers of the items.
    items: &'a [u64],
    /// Tensors with an item at each place of their outermost dimension.
    results: Vec<i64>,
    /// Bytes by which tensors are displaced.
    shift: usize,
}

impl Batch<'_> {
    fn len(&self) -> i64 {
        self.items.len() as i64
    }

    fn place(&mut self, uid: i64) {
        let tensor = self.case.memory(uid).tensor.clone();
        *self.case.memory(uid) = Memory::new(&tensor, self.shift);
    }

    /// A value of an element.
    fn value(of: DataType, random: &mut Random) -> f64 {
        match of {
            DataType::Int8 => random.int(-127, 127) as f64,
            DataType::Uint8 => random.int(0, 255) as f64,
            _ => random.real(-1.0, 1.0),
        }
    }

    /// A tensor with the items.
    fn items(&mut self, of: DataType, dims: &[i64], order: Strides) -> i64 {
        let uid = self.case.tensor_with(of, dims, &order(dims));
        self.place(uid);
        let size = dims.iter().product::<i64>() as usize / self.items.len();
        let (mut place, mut random) = (0, Random(0));
        let items = self.items;
        self.case.memory(uid).fill(|| {
            let item = items[place / size];
            if place % size == 0 {
                random = Random(item << 8 | uid as u64);
            }
            place += 1;
            match random.next() % 40 {
                0 if item >= SPOILED => f64::INFINITY,
                1 if item >= SPOILED => f64::NAN,
                _ => Self::value(of, &mut random),
            }
        });
        uid
    }

    /// A tensor that all items share.
    fn shared(&mut self, of: DataType, dims: &[i64], order: Strides) -> i64 {
        let uid = self.case.tensor_with(of, dims, &order(dims));
        self.place(uid);
        let mut random = Random(uid as u64);
        self.case.memory(uid).fill(|| Self::value(of, &mut random));
        uid
    }

    /// A tensor for results of the items.
    fn result(&mut self, of: DataType, dims: &[i64], order: Strides) -> i64 {
        let uid = self.case.tensor_with(of, dims, &order(dims));
        self.place(uid);
        self.results.push(uid);
        uid
    }

    fn temporary(&mut self, of: DataType, dims: &[i64]) -> i64 {
        self.case.virtual_tensor(of, dims, &packed(dims))
    }
}

/// Describes a graph for a batch.
type Build = Box<dyn Fn(&mut Batch<'_>)>;

/// A graph for batches of any size.
struct Problem {
    name: String,
    build: Build,
    /// Whether items may hold infinities and NaN.
    may_be_spoiled: bool,
    constant_weights: bool,
    /// A batch as large as this has more than one block of work.
    large: u64,
}

impl Problem {
    fn new(name: impl Into<String>, build: impl Fn(&mut Batch<'_>) + 'static) -> Self {
        let (name, build) = (name.into(), Box::new(build));
        Self { name, build, may_be_spoiled: true, constant_weights: false, large: 33 }
    }

    /// The bits of each item's results.
    fn bits(&self, items: &[u64], shift: usize, most: usize) -> Vec<Vec<u64>> {
        let mut batch = Batch { case: Case::new(), items, results: Vec::new(), shift };
        (self.build)(&mut batch);
        let threads = Threads { most, batch_invariant: true, ..Threads::default() };
        let settings = Settings { constant_weights: self.constant_weights, ..Settings::from(threads) };
        execute(&mut batch.case, settings);
        let of_item = |place: usize| {
            let results = batch.results.iter().flat_map(|uid| {
                let values = batch.case.values(*uid);
                let size = values.len() / items.len();
                values[place * size..][..size].iter().map(|value| value.to_bits()).collect::<Vec<_>>()
            });
            results.collect()
        };
        (0..items.len()).map(of_item).collect()
    }

    /// The first run whose bits differ from those of single items.
    fn difference(&self) -> Option<String> {
        let first = |count: u64| (0..count).collect::<Vec<_>>();
        let alone: Vec<Vec<u64>> = first(4).iter().map(|item| self.bits(&[*item], 0, 1).remove(0)).collect();
        let mut runs = vec![(first(2), 0, 1), (vec![4, 3, 2, 1, 0], 3, 2), (first(self.large), 0, 3)];
        if self.may_be_spoiled {
            runs.push((vec![0, SPOILED, 1, 2, SPOILED + 1, 3], 0, 1));
        }
        runs.into_iter().find_map(|(items, shift, threads)| {
            let found = self.bits(&items, shift, threads);
            items.iter().zip(found).find_map(|(item, bits)| {
                let alone = alone.get(*item as usize)?;
                let at = alone.iter().zip(&bits).position(|(one, other)| one != other)?;
                let [one, other] = [alone[at], bits[at]].map(f64::from_bits);
                let run = format!("items {items:?}, shift {shift}, {threads} threads");
                Some(format!("{}: {run}: item {item}, value {at}: {other:e}, alone {one:e}", self.name))
            })
        })
    }
}

/// Runs a case with settings of CPU_ENGINE.
fn execute(case: &mut Case, settings: Settings) {
    case.run(Planner::Fast(settings));
}

/// Fails with every problem whose bits differ. A fifth of them is tried, all if `HIPDNN_TEST_LONG` is set, as every night.
fn check(problems: Vec<Problem>) {
    let step = if std::env::var_os("HIPDNN_TEST_LONG").is_some() { 1 } else { 5 };
    let problems: Vec<Problem> = problems.into_iter().step_by(step).collect();
    let differences: Vec<String> = problems.iter().filter_map(Problem::difference).collect();
    assert!(
        differences.is_empty(),
        "{} of {} problems differ:\n{}",
        differences.len(),
        problems.len(),
        differences.join("\n")
    );
}

/// Runs a test in a process for each instruction set; in these processes, runs `work`.
fn at_each_level(test: &str, work: impl FnOnce()) {
    if std::env::var_os(LIMIT).is_some() || !cfg!(target_arch = "x86_64") {
        return work();
    }
    let program = std::env::current_exe().unwrap();
    let start = |level| {
        let mut command = Command::new(&program);
        command.args(["--exact", &format!("engines::invariance::{test}"), "--nocapture"]).env(LIMIT, level);
        (level, command.output().unwrap())
    };
    let failed = |output: &std::process::Output| !output.status.success() || !ran(output);
    let told = |(level, output): (&str, std::process::Output)| {
        failed(&output).then(|| format!("{level}:\n{}", String::from_utf8_lossy(&output.stderr)))
    };
    let failures: Vec<String> = levels().into_iter().map(start).filter_map(told).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Whether a process ran its test.
fn ran(output: &std::process::Output) -> bool {
    String::from_utf8_lossy(&output.stdout).contains("1 passed")
}
