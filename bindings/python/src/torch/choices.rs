//! Which of hipDNN and PyTorch was faster in which calls, across processes: a file is read once, and each decision appends a line.
//!
//! A line has both times in nanoseconds, and the call: the operation, PyTorch's threads or the GPU, and the words of the
//! arguments. Malformed lines are skipped: a wrong line costs time, but never a result.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use hipdnn_plugin_sdk::plain_file;

use super::arguments::CPU;
use super::functions::Functions;
use crate::forks::Lock;

/// The largest file size in bytes. Reading a larger file drops its older half.
const MOST: usize = 1 << 20;

/// The shortest times of a kind of call, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub ours: u64,
    pub theirs: u64,
}

impl Times {
    /// Whether hipDNN is faster, beyond the noise of so few calls: within a twentieth, PyTorch keeps the call.
    pub fn is_ours_faster(self) -> bool {
        self.ours.saturating_add(self.ours / 20) < self.theirs
    }
}

impl Times {
    /// Whether hipDNN is so much faster that the neighbours of a call hardly matter.
    pub fn is_ours_much_faster(self) -> bool {
        self.ours.saturating_add(self.ours / 4) < self.theirs
    }

    /// Times for which PyTorch keeps the call.
    pub fn as_theirs(self) -> Self {
        Self { ours: self.ours.max(self.theirs), ..self }
    }
}

/// A forked child starts without a file.
#[derive(Default)]
struct Store {
    path: Option<PathBuf>,
    known: HashMap<String, Times>,
    /// The names of GPUs, in PyTorch's order.
    gpus: Vec<String>,
}

static STORE: LazyLock<Lock<Store>> = LazyLock::new(Lock::default);

/// Reads a file, and appends later decisions to it.
pub fn open(path: PathBuf) {
    let mut text = Vec::new();
    match plain_file::open(&path, OpenOptions::new().read(true)) {
        Ok(mut file) => drop(file.read_to_end(&mut text)),
        // A pipe would block.
        Err(error) if error.kind() == ErrorKind::InvalidInput => return,
        Err(_) => {}
    }
    let kept = if text.len() > MOST { newest(&path, &text) } else { &text };
    let known = String::from_utf8_lossy(kept).lines().filter_map(parse).collect();
    let mut store = STORE.lock();
    store.known = known;
    store.path = Some(path);
}

/// Sets the names of GPUs, without which decisions on them are not stored.
pub fn name_gpus(names: Vec<String>) {
    STORE.lock().gpus = names;
}

/// The lines in the second half of a file, with which it is replaced.
fn newest<'a>(path: &Path, text: &'a [u8]) -> &'a [u8] {
    let half = text.get(text.len() / 2..).unwrap_or_default();
    let first = half.iter().position(|byte| *byte == b'\n').map_or(half.len(), |at| at + 1);
    let kept = half.get(first..).unwrap_or_default();
    let aside = path.with_extension(std::process::id().to_string());
    // If that fails, the file stays long, and its older half is skipped again.
    if fs::write(&aside, kept).and_then(|()| fs::rename(&aside, path)).is_err() {
        drop(fs::remove_file(&aside));
    }
    kept
}

fn parse(line: &str) -> Option<(String, Times)> {
    let mut parts = line.splitn(3, ' ');
    let mut time = || parts.next()?.parse().ok();
    let times = Times { ours: time()?, theirs: time()? };
    Some((parts.next()?.to_owned(), times))
}

/// The times known for a kind of call, given its words without those of the operation and the device.
pub fn find(f: &Functions, name: &CStr, words: &[i64], device: (i32, i32)) -> Option<Times> {
    let store = STORE.lock();
    if store.known.is_empty() {
        return None;
    }
    store.known.get(&store.key(f, name, words, device)?).copied()
}

/// Stores a decision, if there is a file.
pub fn store(f: &Functions, name: &CStr, words: &[i64], device: (i32, i32), times: Times) {
    let mut store = STORE.lock();
    let Some(path) = store.path.clone() else { return };
    let Some(key) = store.key(f, name, words, device) else { return };
    let line = format!("{} {} {key}\n", times.ours, times.theirs);
    store.known.insert(key, times);
    drop(store);
    // One write per line keeps lines of several processes whole. A full disk or missing folder is not an error.
    let file = OpenOptions::new().append(true).create(true).open(path);
    drop(file.and_then(|mut file| file.write_all(line.as_bytes())));
}

impl Store {
    fn key(&self, f: &Functions, name: &CStr, words: &[i64], device: (i32, i32)) -> Option<String> {
        let mut key = name.to_string_lossy().into_owned();
        if device.0 == CPU {
            let mut threads = 0;
            // SAFETY: the function writes only to the local `threads`.
            if unsafe { (f.threads?)(&raw mut threads) } != 0 {
                return None;
            }
            write!(key, " {threads} threads").ok()?;
        } else {
            let name = self.gpus.get(usize::try_from(device.1).ok()?)?;
            write!(key, " {}", name.replace([' ', '\n'], "_")).ok()?;
        }
        words.iter().try_for_each(|word| write!(key, " {word}")).ok()?;
        Some(key)
    }
}
