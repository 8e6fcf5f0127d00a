//! Where what was recorded waits, and how it gets into the files.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use hipdnn_plugin_sdk::{environment, thread};

use super::{Event, Record, device, line, now};
use crate::lock::Mutex;
use crate::log;
use crate::thread_word::ThreadWord;

/// Buffers. Threads of a process have numbers that follow each other, so that up to as many of them share none.
const BUFFERS: usize = 64;

/// The records of a full buffer: some 40 kB, and lines of less than 100 kB.
const CAPACITY: usize = 512;

/// How long something that was recorded waits at most.
const PATIENCE: Duration = Duration::from_millis(50);

/// What is on, and what waits to be written. Never freed: threads may be at it at any time.
pub struct Recorder {
    verbose: bool,
    trace: Option<Mutex<Trace>>,
    /// Held while buffers are emptied, so that the end of the process waits for lines that are on their way.
    flushing: Mutex<()>,
    buffers: [Mutex<Vec<Record>>; BUFFERS],
}

/// The file of the trace.
struct Trace {
    /// None once nothing more is to be written.
    file: Option<File>,
    path: PathBuf,
    has_begun: bool,
    /// The threads whose names are written.
    named: HashSet<i32>,
}

static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(ptr::null_mut());
/// Whether this process is a forked child whose recorder is yet to be made.
static IS_NEW_CHILD: AtomicBool = AtomicBool::new(false);

/// The recorder, if the profile or the trace is on.
#[inline]
pub fn in_place() -> Option<&'static Recorder> {
    if IS_NEW_CHILD.load(Ordering::Relaxed) && IS_NEW_CHILD.swap(false, Ordering::Relaxed) {
        start(true);
    }
    current()
}

fn current() -> Option<&'static Recorder> {
    // SAFETY: it is null or was leaked, whole, by `publish`.
    unsafe { RECORDER.load(Ordering::Acquire).as_ref() }
}

/// Reads what is asked for, and makes the recorder if anything is. A forked child has a trace only where its file is another than
/// its parent's. Answers what is wrong.
#[cold]
pub fn start(is_child: bool) -> Vec<String> {
    let mut complaints = Vec::new();
    let word = std::env::var_os("HIPDNN_VERBOSE").unwrap_or_default().to_string_lossy().into_owned();
    let verbose = is_verbose(&word);
    if verbose.is_none() {
        complaints
            .push(format!("HIPDNN_VERBOSE is {word:?}, expected 0, 1 or profile; no profile is written"));
    }
    let verbose = verbose.unwrap_or(false);
    let trace = environment::path("HIPDNN_TRACE_FILE").and_then(|path| {
        let path = path.to_string_lossy();
        let is_own = path.contains("%p");
        let path = PathBuf::from(path.replace("%p", &std::process::id().to_string()));
        if is_child && !is_own {
            return None;
        }
        match open(&path) {
            Ok(file) => Some(Trace { file: Some(file), path, has_begun: false, named: HashSet::new() }),
            Err(error) => {
                let path = path.display();
                complaints
                    .push(format!("HIPDNN_TRACE_FILE {path} cannot be written: {error}; there is no trace"));
                None
            }
        }
    });
    if verbose || trace.is_some() {
        let buffers = [const { Mutex::new(Vec::new()) }; BUFFERS];
        publish(Recorder { verbose, trace: trace.map(Mutex::new), flushing: Mutex::new(()), buffers });
    }
    complaints
}

fn is_verbose(word: &str) -> Option<bool> {
    match word.trim().to_ascii_lowercase().as_str() {
        "1" | "profile" | "on" | "true" | "yes" => Some(true),
        "" | "0" | "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// The file is emptied when the first line is written, so that of two threads that open it one does no harm.
fn open(path: &std::path::Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

fn publish(recorder: Recorder) {
    static ONCE: Once = Once::new();
    let new = Box::into_raw(Box::new(recorder));
    if RECORDER.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: another thread was first, and nobody has seen this one.
        drop(unsafe { Box::from_raw(new) });
        return;
    }
    log::watch();
    // Without it, full buffers are written all the same, and the rest at the end.
    thread::start(c"hipdnn trace", work);
    ONCE.call_once(|| {
        // SAFETY: the functions may be called until the process has ended: this library stays.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

/// What the recorder's own thread does.
fn work() {
    while let Some(recorder) = current() {
        std::thread::sleep(PATIENCE);
        device::collect();
        recorder.flush();
    }
}

extern "C" fn at_exit() {
    let Some(recorder) = current() else { return };
    recorder.flush();
    if let Some(trace) = &recorder.trace {
        trace.lock().finish();
    }
}

/// What the parent has recorded is its own to write. Which buffers are locked is not known, so none is touched.
extern "C" fn in_child() {
    RECORDER.store(ptr::null_mut(), Ordering::Relaxed);
    THREAD.put(0);
    IS_NEW_CHILD.store(true, Ordering::Relaxed);
}

/// The number that the system knows this thread by, 0 until it was asked.
static THREAD: ThreadWord = ThreadWord::new();

fn thread_id() -> i32 {
    match THREAD.get() {
        Some(0) | None => {
            // SAFETY: the call has no arguments and cannot fail.
            let thread = unsafe { libc::gettid() };
            THREAD.put(thread as usize);
            thread
        }
        Some(thread) => thread as i32,
    }
}

impl Recorder {
    /// Whether there is a trace: the profile has plans and executions only.
    pub fn traces(&self) -> bool {
        self.trace.is_some()
    }

    /// Keeps an event until it is written.
    pub fn record(&self, begin: u64, end: u64, event: Event) {
        let thread = thread_id();
        let Some(buffer) = self.buffers.get(thread as usize % BUFFERS) else { return };
        let mut records = buffer.lock();
        if records.capacity() == 0 {
            records.reserve_exact(CAPACITY);
        }
        records.push(Record { thread, begin, end, event });
        if records.len() >= CAPACITY {
            let full = std::mem::take(&mut *records);
            drop(records);
            self.write(full);
        }
    }

    /// Writes everything that waits.
    fn flush(&self) {
        let _flushing = self.flushing.lock();
        for buffer in &self.buffers {
            let records = std::mem::take(&mut *buffer.lock());
            if !records.is_empty() {
                self.write(records);
            }
        }
    }

    /// Makes lines of records and writes them, all at once.
    fn write(&self, records: Vec<Record>) {
        if self.verbose {
            let mut text = Vec::with_capacity(128 * records.len());
            for record in &records {
                line::of_profile(record, &mut text);
            }
            if !text.is_empty() {
                write_profile(&text);
            }
        }
        if let Some(trace) = &self.trace {
            let process = std::process::id();
            let mut text = Vec::with_capacity(160 * records.len());
            for record in &records {
                line::of_trace(record, process, &mut text);
            }
            let added = trace.lock().add(&records, process, &text);
            // Outside the lock: a callback that gets the line may call anything.
            if let Err(complaint) = added {
                log::complain(complaint);
            }
        }
    }
}

/// The first lines say what follows.
fn write_profile(text: &[u8]) {
    static HEAD: Once = Once::new();
    HEAD.call_once(|| log::write_lines(line::head_of_profile().as_bytes()));
    log::write_lines(text);
}

impl Trace {
    fn add(&mut self, records: &[Record], process: u32, lines: &[u8]) -> Result<(), String> {
        let mut names = Vec::new();
        let mut last = 0;
        for thread in records.iter().map(|record| record.thread) {
            if thread != last && self.named.len() < 1 << 16 && self.named.insert(thread) {
                let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
                line::of_name(
                    "thread_name",
                    process,
                    thread,
                    name.unwrap_or_default().trim_end(),
                    &mut names,
                );
            }
            last = thread;
        }
        if records.iter().any(|record| matches!(record.event, Event::OnDevice(..)))
            && self.named.insert(line::DEVICE)
        {
            line::of_name("thread_name", process, line::DEVICE, "device", &mut names);
        }
        self.begin(process)?;
        self.write(&names)?;
        self.write(lines)
    }

    fn begin(&mut self, process: u32) -> Result<(), String> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        if let Some(file) = &self.file {
            // What is no plain file has no length.
            let _ = file.set_len(0);
        }
        let program = std::env::current_exe().ok();
        let name = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
        let mut text = b"[\n".to_vec();
        line::of_name("process_name", process, 0, &name.to_string_lossy(), &mut text);
        self.write(&text)
    }

    /// The first failure ends the trace.
    fn write(&mut self, lines: &[u8]) -> Result<(), String> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(lines).map_err(|error| {
            self.file = None;
            let path = self.path.display();
            format!("HIPDNN_TRACE_FILE {path} cannot be written: {error}; the trace ends here")
        })
    }

    /// Ends the list with an event, since no comma may follow the last one.
    fn finish(&mut self) {
        let process = std::process::id();
        let mut text = Vec::new();
        line::of_end(process, now(), &mut text);
        // There is nobody left to tell.
        let _ = self.begin(process).and_then(|()| self.write(&text));
        self.file = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_variable() {
        for (word, expected) in
            [("", Some(false)), ("0", Some(false)), ("1", Some(true)), (" Profile ", Some(true)), ("2", None)]
        {
            assert_eq!(is_verbose(word), expected, "{word:?}");
        }
    }
}
