//! Measured rankings of engines on disk: one file for each graph and device.
//!
//! A file has the format's version in its first line and a JSON object in each other line: the key of graph and device, the
//! measured engines, their order, best first, and, where known, each one's time. Files grow until they are full, the last line counts, and unreadable lines are
//! skipped, for instance one that a dying process left unfinished. A lock on the file synchronizes processes, a mutex threads.
//! Nothing here fails the caller: a cache that cannot be used logs why, once.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::os::files::{self, Lock, Stamp};
use serde_json::{Value as Json, json};

use super::content_hash::content_hash;
use super::file;
use crate::device::Device;
use crate::lock::Mutex;

/// The version of the format: that of the first release with such files. It changes only with the format or the content
/// hash.
pub const VERSION: &str = "0.4.0";

/// How long to wait for other threads and processes that use the files.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most files whose content is cached; beyond, the cache is cleared.
const MOST_FILES: usize = 4096;

/// The key of a graph on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of a graph on a device: 32 hexadecimal digits, the graph's hash and the device's, byte by byte.
    pub fn new(graph: &Graph, device: &Device) -> Self {
        let bytes = content_hash(graph).to_ne_bytes().into_iter().chain(device.hash.to_ne_bytes());
        Self(bytes.map(|byte| format!("{byte:02x}")).collect())
    }
}

/// An order of engines, and those that were measured for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    sampled: Vec<i64>,
    order: Vec<i64>,
    /// The milliseconds of the engines in their order; 0 for one whose time is not known. Empty if none is.
    times: Vec<f64>,
}

impl Record {
    /// An order of engines, all of which were measured, and their milliseconds, if they are known.
    pub fn new(order: &[i64], times: &[f64]) -> Self {
        Self { sampled: order.to_vec(), order: order.to_vec(), times: times.to_vec() }
    }

    /// Whether it has no engine.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The seconds that an engine took with its default knobs.
    pub fn seconds(&self, engine: i64) -> Option<f64> {
        let place = self.order.iter().position(|other| *other == engine)?;
        self.times.get(place).map(|ms| ms / 1e3).filter(|seconds| *seconds > 0.0)
    }

    /// The candidates in the stored order; none if one of them was not measured. A measured one that is missing in the order
    /// comes last.
    pub fn rank(&self, candidates: &[i64]) -> Option<Vec<i64>> {
        if !candidates.iter().all(|engine| self.sampled.contains(engine)) {
            return None;
        }
        let place = |engine: &i64| self.order.iter().position(|other| other == engine).unwrap_or(usize::MAX);
        let mut ranked = candidates.to_vec();
        ranked.sort_by_key(place);
        Some(ranked)
    }

    /// Whether storing `new` would add nothing.
    fn says_as_much_as(&self, new: &Self) -> bool {
        let set = |engines: &[i64]| engines.iter().copied().collect::<HashSet<_>>();
        let (old_sample, new_sample) = (set(&self.sampled), set(&new.sampled));
        let is_smaller = new_sample.len() < old_sample.len() && new_sample.is_subset(&old_sample);
        is_smaller || (old_sample == new_sample && self.order == new.order && self.is_as_fast_as(new))
    }

    /// Whether the times of `new` are those of this, within a tenth.
    fn is_as_fast_as(&self, new: &Self) -> bool {
        let is_near = |(old, new): (&f64, &f64)| (old - new).abs() <= 0.1 * old.max(*new);
        new.times.is_empty()
            || (self.times.len() == new.times.len() && self.times.iter().zip(&new.times).all(is_near))
    }

    fn parse(line: &[u8], key: &Key) -> Option<Self> {
        let line: Json = serde_json::from_slice(line).ok()?;
        if line.get("key")?.as_str()? != key.0 {
            return None;
        }
        let engines = |name: &str| -> Option<Vec<i64>> {
            line.get(name)?.as_array()?.iter().map(Json::as_i64).collect()
        };
        let order = engines("order")?;
        let times = line.get("timesMs").and_then(Json::as_array);
        let times: Option<Vec<f64>> = times.and_then(|times| times.iter().map(Json::as_f64).collect());
        let times = times.filter(|times| times.len() == order.len()).unwrap_or_default();
        let record = Self { sampled: engines("sampledEngineIds")?, order, times };
        (!record.sampled.is_empty() && !record.order.is_empty()).then_some(record)
    }

    fn line(&self, key: &Key) -> String {
        let mut line = json!({ "key": key.0, "sampledEngineIds": self.sampled, "order": self.order });
        if let Some(line) = line.as_object_mut().filter(|_| !self.times.is_empty()) {
            line.insert("timesMs".to_owned(), json!(self.times));
        }
        format!("{line}\n")
    }
}

/// A file's content.
#[derive(Debug, PartialEq)]
enum Content {
    /// Empty, or with an incomplete version.
    Fresh,
    /// Lines of this format: the last one with the key, and whether the last line is complete.
    Lines { record: Option<Record>, ends_well: bool },
}

fn parse(bytes: &[u8], key: &Key) -> Result<Content, String> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let whole = line.strip_suffix(b"\n");
        whole.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    });
    let Some(Some(version)) = lines.next() else { return Ok(Content::Fresh) };
    if version != VERSION.as_bytes() {
        let version = String::from_utf8_lossy(version);
        return Err(format!("its version is {version:.40}, expected {VERSION}"));
    }
    let record = lines.flatten().filter_map(|line| Record::parse(line, key)).next_back();
    Ok(Content::Lines { record, ends_well: bytes.ends_with(b"\n") })
}

/// The record of a key in a file with these bytes.
///
/// # Errors
/// The file has another version.
pub fn read(bytes: &[u8], key: &Key) -> Result<Option<Record>, String> {
    Ok(match parse(bytes, key)? {
        Content::Fresh => None,
        Content::Lines { record, .. } => record,
    })
}

/// The outcome of storing a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It was written.
    Written,
    /// The file already had it.
    Unchanged,
}

/// The cached content of the files, so that each is read once after each change.
pub type Known = HashMap<PathBuf, (Stamp, Option<Arc<Record>>)>;

/// Held while a file is open: closing any descriptor of a file releases the process's fcntl lock.
pub static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// How many rankings this process has stored.
static STORED: AtomicUsize = AtomicUsize::new(0);

/// How many rankings this process has stored: what was found before the last one may have changed.
pub fn stored() -> usize {
    STORED.load(Ordering::Acquire)
}

/// The folder of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache below a root folder, which need not exist.
    pub fn new(root: &Path) -> Self {
        Self { folder: root.join("autotune-rankings").join(VERSION) }
    }

    /// Whether there may be anything to find.
    pub fn exists(&self) -> bool {
        self.folder.is_dir()
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.jsonl", key.0))
    }

    /// The record of a key.
    ///
    /// # Errors
    /// The reason why the file cannot be used.
    pub fn find(&self, key: &Key) -> Result<Option<Arc<Record>>, String> {
        let path = self.path(key);
        self.find_in(&path, key).map_err(|reason| format!("{}: {reason}", path.display()))
    }

    fn find_in(&self, path: &Path, key: &Key) -> Result<Option<Arc<Record>>, String> {
        let _off = cancel::disable();
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let mut known = KNOWN.try_lock_for(PATIENCE).ok_or("another thread is using the rankings")?;
        let known = known.get_or_insert_default();
        if let Some((stamp, record)) = known.get(path)
            && *stamp == Stamp::of(&metadata)
        {
            return Ok(record.clone());
        }
        let mut file = file::open(path, OpenOptions::new().read(true)).map_err(|error| error.to_string())?;
        lock(&file, Lock::Shared)?;
        let bytes = file::read(&mut file).map_err(|error| error.to_string())?;
        let stamp =
            file.metadata().map(|metadata| Stamp::of(&metadata)).map_err(|error| error.to_string())?;
        let record = read(&bytes, key)?.map(Arc::new);
        if known.len() >= MOST_FILES {
            known.clear();
        }
        known.insert(path.to_owned(), (stamp, record.clone()));
        Ok(record)
    }

    /// Stores what was measured.
    ///
    /// # Errors
    /// The reason why it was not stored.
    pub fn store(&self, key: &Key, new: &Record) -> Result<Stored, String> {
        let path = self.path(key);
        let result = self.store_in(&path, key, new).map_err(|reason| format!("{}: {reason}", path.display()));
        STORED.fetch_add(1, Ordering::AcqRel);
        result
    }

    fn store_in(&self, path: &Path, key: &Key, new: &Record) -> Result<Stored, String> {
        let text = |error: std::io::Error| error.to_string();
        let _off = cancel::disable();
        let _alone = KNOWN.try_lock_for(PATIENCE).ok_or("another thread is using the rankings")?;
        files::make_folder(&self.folder, 0o755).map_err(text)?;
        let mut options = files::to_append();
        files::with_mode(options.create(true), 0o644);
        let mut file = file::open(path, &mut options).map_err(text)?;
        lock(&file, Lock::Alone)?;
        let bytes = file::read_start(&mut file, file::MOST).map_err(text)?;
        let size = file.metadata().map_err(text)?.len();
        let line = new.line(key);
        // Larger files are not read, and only the last line counts, so a full file starts over.
        let is_full = size.saturating_add(line.len() as u64) >= file::MOST;
        let line = match parse(&bytes, key)? {
            _ if is_full => start_anew(&mut file, &line).map_err(text)?,
            Content::Lines { record: Some(old), .. } if old.says_as_much_as(new) => {
                return Ok(Stored::Unchanged);
            }
            Content::Lines { ends_well: true, .. } => line,
            // Ends the unfinished line, which readers skip.
            Content::Lines { ends_well: false, .. } => format!("\n{line}"),
            Content::Fresh => start_anew(&mut file, &line).map_err(text)?,
        };
        // In one write: a process that dies here leaves a truncated line, not two mixed ones.
        match file.write(line.as_bytes()) {
            Ok(written) if written == line.len() => Ok(Stored::Written),
            Ok(written) => Err(format!("only {written} of {} bytes could be written", line.len())),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Empties a file. Returns the text to write: the version and the line.
fn start_anew(file: &mut File, line: &str) -> std::io::Result<String> {
    file.set_len(0)?;
    file.rewind()?;
    Ok(format!("{VERSION}\n{line}"))
}

/// Locks a whole file, for reading or writing, until it is closed.
fn lock(file: &File, lock: Lock) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match files::try_lock(file, lock) {
            Ok(true) => return Ok(()),
            Ok(false) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
            Ok(false) => return Err("it cannot be locked: another process uses it".into()),
            Err(error) => return Err(format!("it cannot be locked: {error}")),
        }
    }
}

#[cfg(test)]
mod tests;
