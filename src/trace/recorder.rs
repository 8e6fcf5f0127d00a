//! Buffers records and writes them to the files.

use std::collections::HashSet;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use hipdnn_plugin_sdk::os::lines::LogFile;
use hipdnn_plugin_sdk::os::process;
use hipdnn_plugin_sdk::{cancel, environment, thread};

use super::{Event, Record, device, line, now};
use crate::lock::{Mutex, MutexGuard, OnceLock};
use crate::log;
use crate::thread_word::ThreadWord;

/// The number of buffers. Thread numbers are mostly consecutive, so up to this many threads rarely share one.
const BUFFERS: usize = 64;

/// The records of a full buffer: some 20 kB, and lines of less than 50 kB.
const CAPACITY: usize = 256;

/// How long a record waits at most.
const PATIENCE: Duration = Duration::from_millis(50);

/// The settings and the unwritten records. Never freed: threads may use it at any time.
pub struct Recorder {
    verbose: bool,
    trace: Option<Mutex<Trace>>,
    /// Whether the first lines of the profile are written; held while they are.
    head: Mutex<bool>,
    /// Allocated directly on the heap: a thread with a small stack may make the recorder.
    buffers: Box<[Buffer]>,
}

struct Buffer {
    records: Mutex<Vec<Record>>,
    /// Held from before records are taken out until their lines are written, so that process exit waits for them. No foreign
    /// code runs meanwhile.
    writing: Mutex<Space>,
}

/// Memory for records being written and for their lines, reused: allocating it each time costs as much as the lines.
#[derive(Default)]
struct Space {
    records: Vec<Record>,
    lines: Vec<u8>,
}

/// The file of the trace.
#[derive(Default)]
struct Trace {
    /// None once the trace has ended.
    file: Option<LogFile>,
    has_begun: bool,
    /// The threads whose names are written.
    named: HashSet<i32>,
}

static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(ptr::null_mut());
/// Whether this process is a forked child without a recorder yet.
static IS_NEW_CHILD: AtomicBool = AtomicBool::new(false);

/// The recorder, if the profile or the trace is on.
#[inline]
pub fn in_place() -> Option<&'static Recorder> {
    if IS_NEW_CHILD.load(Ordering::Relaxed) && IS_NEW_CHILD.swap(false, Ordering::Relaxed) {
        start_anew(true);
    }
    current()
}

fn current() -> Option<&'static Recorder> {
    // SAFETY: it is null or was leaked by `publish`.
    unsafe { RECORDER.load(Ordering::Acquire).as_ref() }
}

/// Starts the profile and the trace if the environment asks for them, at the first call.
pub fn start() {
    static STARTED: OnceLock<()> = OnceLock::new();
    let mut complaints = Vec::new();
    STARTED.get_or_init(|| complaints = start_anew(false));
    // Outside of `start_anew`: a log callback may call anything.
    complaints.into_iter().for_each(log::complain);
}

/// Reads the settings and makes the recorder if anything is on. A forked child has a trace only if its file differs from its
/// parent's. Returns complaints about the settings.
#[cold]
fn start_anew(is_child: bool) -> Vec<String> {
    let _off = cancel::disable();
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
        let path = path.replace("%p", &std::process::id().to_string());
        if is_child && !is_own {
            return None;
        }
        // The file is emptied only when the first line is written, so it is harmless if two threads open it.
        match LogFile::open(Path::new(&path)) {
            Ok(file) => Some(Trace { file: Some(file), ..Trace::default() }),
            Err(error) => {
                complaints
                    .push(format!("HIPDNN_TRACE_FILE {path} cannot be written: {error}; there is no trace"));
                None
            }
        }
    });
    if verbose || trace.is_some() {
        publish(Recorder::new(verbose, trace));
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

fn publish(recorder: Recorder) {
    static AT_EXIT: AtomicBool = AtomicBool::new(false);
    let new = Box::into_raw(Box::new(recorder));
    if RECORDER.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: another thread was first, so only this thread owns this one.
        drop(unsafe { Box::from_raw(new) });
        return;
    }
    log::watch();
    // If it does not start, full buffers are still written, and the rest at exit.
    thread::start(c"hipdnn trace", work);
    if !AT_EXIT.swap(true, Ordering::Relaxed) {
        process::at_exit(at_exit);
    }
}

/// The loop of the recorder's thread.
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

/// In a forked child: the parent writes its own records. Any buffer may be locked, so none is touched.
pub fn in_child() {
    device::in_child();
    THREAD.put(0);
    if !RECORDER.swap(ptr::null_mut(), Ordering::Relaxed).is_null() {
        IS_NEW_CHILD.store(true, Ordering::Relaxed);
    }
}

/// The system's number of this thread, 0 until queried.
static THREAD: ThreadWord = ThreadWord::new();

fn thread_id() -> i32 {
    match THREAD.get() {
        Some(0) | None => {
            let thread = thread::number();
            THREAD.put(thread as usize);
            thread
        }
        Some(thread) => thread as i32,
    }
}

impl Recorder {
    fn new(verbose: bool, trace: Option<Trace>) -> Self {
        let buffer = |_| Buffer { records: Mutex::new(Vec::new()), writing: Mutex::new(Space::default()) };
        let buffers = (0..BUFFERS).map(buffer).collect();
        Self { verbose, trace: trace.map(Mutex::new), head: Mutex::new(false), buffers }
    }

    /// Whether there is a trace; the profile records only plans and executions.
    pub fn traces(&self) -> bool {
        self.trace.is_some()
    }

    /// Keeps an event until it is written.
    pub fn record(&self, begin: u64, end: u64, event: Event) {
        let thread = thread_id();
        let Some(buffer) = self.buffers.get(thread as usize % BUFFERS) else { return };
        let mut records = buffer.records.lock();
        if records.capacity() == 0 {
            records.reserve_exact(CAPACITY);
        }
        records.push(Record { thread, begin, end, event });
        if records.len() >= CAPACITY {
            self.empty(buffer, records);
        }
    }

    /// Writes all buffers.
    fn flush(&self) {
        for buffer in &self.buffers {
            self.empty(buffer, buffer.records.lock());
        }
    }

    /// Writes a buffer's records, after those taken out of it before.
    fn empty(&self, buffer: &Buffer, mut records: MutexGuard<'_, Vec<Record>>) {
        let _off = cancel::disable();
        let mut space = buffer.writing.lock();
        std::mem::swap(&mut *records, &mut space.records);
        drop(records);
        let Space { records, lines } = &mut *space;
        let written = if records.is_empty() { Ok(()) } else { self.write(records, lines) };
        records.clear();
        drop(space);
        // Without a lock: a log callback may call anything.
        if let Err(complaint) = written {
            log::complain(complaint);
        }
    }

    /// Formats records and writes the lines in one piece. Returns what failed.
    fn write(&self, records: &[Record], lines: &mut Vec<u8>) -> Result<(), String> {
        if self.verbose {
            lines.clear();
            lines.reserve(128 * records.len());
            for record in records {
                line::of_profile(record, lines);
            }
            if !lines.is_empty() {
                self.write_profile(lines);
            }
        }
        if let Some(trace) = &self.trace {
            let mut place = line::Place::of_process(std::process::id());
            lines.clear();
            lines.reserve(160 * records.len());
            for record in records {
                line::of_trace(record, &mut place, lines);
            }
            trace.lock().add(records, place.process, lines)?;
        }
        Ok(())
    }

    /// Writes the header lines first. A forked child does not repeat them.
    fn write_profile(&self, text: &[u8]) {
        static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
        let mut head = self.head.lock();
        if !std::mem::replace(&mut *head, true) && !HAS_BEGUN.swap(true, Ordering::Relaxed) {
            log::write_lines(line::head_of_profile().as_bytes());
        }
        drop(head);
        log::write_lines(text);
    }
}

impl Trace {
    fn add(&mut self, records: &[Record], process: u32, lines: &[u8]) -> Result<(), String> {
        self.renew()?;
        let mut names = Vec::new();
        let mut last = 0;
        for thread in records.iter().map(|record| record.thread) {
            if thread != last && self.named.len() < 1 << 16 && self.named.insert(thread) {
                line::of_name("thread_name", process, thread, &thread::name(thread), &mut names);
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

    /// Starts over if the program has closed the file's descriptor and the path has a new file.
    fn renew(&mut self) -> Result<(), String> {
        match self.file.as_ref().map(LogFile::renew) {
            None | Some(Ok(false)) => {}
            Some(Ok(true)) => (self.has_begun, self.named) = (false, HashSet::new()),
            Some(Err(error)) => return Err(self.end(&error)),
        }
        Ok(())
    }

    fn begin(&mut self, process: u32) -> Result<(), String> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        if let Some(file) = &self.file {
            file.empty();
        }
        let program = std::env::current_exe().ok();
        let name = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
        let mut text = b"[\n".to_vec();
        line::of_name("process_name", process, 0, &name.to_string_lossy(), &mut text);
        self.write(&text)
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), String> {
        let Some(Err((_, error))) = self.file.as_ref().map(|file| file.write(lines)) else { return Ok(()) };
        Err(self.end(&error))
    }

    /// Ends the trace after the first failure. Returns the message.
    fn end(&mut self, error: &std::io::Error) -> String {
        let file = self.file.take();
        let path = file.as_ref().map_or(Path::new(""), LogFile::path).display();
        format!("HIPDNN_TRACE_FILE {path} cannot be written: {error}; the trace ends here")
    }

    /// Ends the list with an event, since no comma may follow the last one.
    fn finish(&mut self) {
        let process = std::process::id();
        let mut text = Vec::new();
        line::of_end(process, now(), &mut text);
        // At exit, failures can no longer be reported.
        let _ = self.renew().and_then(|()| self.begin(process)).and_then(|()| self.write(&text));
        self.file = None;
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{c_char, c_int, c_void};
    use std::io::Read;

    use hipdnn_plugin_sdk::os::files::testing;

    use super::*;
    use crate::ffi::{hipdnnLogCallbackMode_t as CallMode, hipdnnSeverity_t as Severity};
    use crate::log::receiver;

    fn with_trace(path: impl AsRef<Path>) -> Recorder {
        let file = LogFile::open(path.as_ref()).unwrap();
        Recorder::new(false, Some(Trace { file: Some(file), ..Trace::default() }))
    }

    /// A recorder, and how often its callback has run.
    type Called = (Recorder, Mutex<usize>);

    /// # Safety
    /// `called` is a `Called` that is alive.
    unsafe extern "C" fn flush_again(called: *mut c_void, _: c_int, _: *const c_char) {
        // SAFETY: the test passes a pointer to what outlives the receiver.
        let (recorder, count) = unsafe { &*called.cast::<Called>() };
        recorder.flush();
        *count.lock() += 1;
    }

    #[test]
    fn a_callback_that_gets_a_complaint_may_flush() {
        let Some(full) = testing::full() else { return };
        let called: Box<Called> = Box::new((with_trace(full), Mutex::new(0)));
        let key = receiver::Key::new(flush_again, (&raw const *called).cast_mut().cast());
        let mode = CallMode::HIPDNN_LOG_CALLBACK_SYNC;
        receiver::set(key, Severity::HIPDNN_SEV_WARN, mode).unwrap();
        called.0.record(1, 2, Event::Call("hipdnnCreate", 0));
        called.0.flush();
        receiver::set(key, Severity::HIPDNN_SEV_OFF, mode).unwrap();
        assert!(*called.1.lock() > 0);
    }

    #[test]
    fn what_a_full_buffer_held_is_written_before_the_end() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let Some(path) = testing::path_of(&writer) else { return };
        let recorder = with_trace(path);
        drop(writer);
        std::thread::scope(|scope| {
            let full = scope.spawn(|| {
                // More than the pipe can hold.
                let detail: Box<str> = "x".repeat(1 << 10).into();
                for _ in 0..CAPACITY {
                    recorder.record(1, 2, Event::Phase("load", detail.clone()));
                }
            });
            // The first byte arrives once the lines are being written.
            let mut bytes = vec![0];
            reader.read_exact(&mut bytes).unwrap();
            let end = scope.spawn(|| recorder.flush());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!end.is_finished());
            let read = scope.spawn(move || {
                reader.read_to_end(&mut bytes).unwrap();
                bytes
            });
            full.join().unwrap();
            end.join().unwrap();
            // Ends the only writer of the pipe.
            recorder.trace.as_ref().unwrap().lock().finish();
            let text = String::from_utf8(read.join().unwrap()).unwrap();
            assert_eq!(text.matches("\"cat\":\"plan\"").count(), CAPACITY);
        });
    }

    #[test]
    fn words_of_the_variable() {
        for (word, expected) in
            [("", Some(false)), ("0", Some(false)), ("1", Some(true)), (" Profile ", Some(true)), ("2", None)]
        {
            assert_eq!(is_verbose(word), expected, "{word:?}");
        }
    }
}
