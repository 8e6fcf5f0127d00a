//! The log: its level, its destination, and lines from plugins.
//!
//! `HIPDNN_LOG_LEVEL` and `HIPDNN_LOG_FILE` are read once, at the first call. With the log, the profile and the trace off, a
//! call costs one relaxed load of a shared word.
//!
//! A line may come from a thread that a plugin's destructor waits for while the system's loader holds its lock: see
//! `crate::lock`. So the code from a line to the file uses no thread-local, no lock held for longer than it takes to
//! change a word, and nothing that the loader must resolve.

pub mod receiver;

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use hipdnn_plugin_sdk::os::lines::{self, LogFile};
use hipdnn_plugin_sdk::{cancel, environment, os, thread};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::ffi::hipdnnSeverity_t as Severity;
use crate::lock::{Mutex, OnceLock};
use crate::thread_word::ThreadWord;

const OFF: c_int = Severity::HIPDNN_SEV_OFF as c_int;
const UNREAD: c_int = -1;

static LEVEL: AtomicI32 = AtomicI32::new(UNREAD);
/// The level; below every severity until the level is read, and while calls are recorded.
static GATE: AtomicI32 = AtomicI32::new(UNREAD);
/// Whether calls are recorded.
static WATCHED: AtomicBool = AtomicBool::new(false);
static SINK: OnceLock<Sink> = OnceLock::new();

/// The lowest severity that is logged, OFF for none.
#[inline]
pub fn level() -> c_int {
    match LEVEL.load(Ordering::Relaxed) {
        UNREAD => read_level(),
        level => level,
    }
}

#[cold]
fn read_level() -> c_int {
    let word = std::env::var_os("HIPDNN_LOG_LEVEL").unwrap_or_default().to_string_lossy().into_owned();
    let known = level_of(&word);
    let level = known.unwrap_or(Severity::HIPDNN_SEV_OFF) as c_int;
    // A level set meanwhile takes precedence.
    match LEVEL.compare_exchange(UNREAD, level, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            set_gate();
            if known.is_none() {
                complain(format!(
                    "HIPDNN_LOG_LEVEL is {word:?}, expected trace, debug, info, warn, error, fatal or off; the log stays off"
                ));
            }
            level
        }
        Err(set) => set,
    }
}

/// Held while `GATE` is set.
pub static SETTING: Mutex<()> = Mutex::new(());

/// Recomputes `GATE`, after a change of what it depends on.
fn set_gate() {
    let _setting = SETTING.lock();
    let gate = if WATCHED.load(Ordering::Relaxed) { UNREAD } else { LEVEL.load(Ordering::Relaxed) };
    GATE.store(gate, Ordering::Relaxed);
}

/// Has all calls recorded from now on.
pub fn watch() {
    WATCHED.store(true, Ordering::Relaxed);
    set_gate();
}

/// Whether lines of this severity may be written, or calls recorded. One relaxed load.
#[inline]
pub fn is_watched(severity: Severity) -> bool {
    severity as c_int >= GATE.load(Ordering::Relaxed)
}

/// The level that a word names, ignoring case. No level is below info.
fn level_of(word: &str) -> Option<Severity> {
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "trace" | "debug" | "info" => Severity::HIPDNN_SEV_INFO,
        "warn" | "warning" => Severity::HIPDNN_SEV_WARN,
        "error" => Severity::HIPDNN_SEV_ERROR,
        "fatal" | "critical" => Severity::HIPDNN_SEV_FATAL,
        "" | "off" => Severity::HIPDNN_SEV_OFF,
        _ => return None,
    })
}

/// Sets the lowest severity that is logged, OFF for none, overriding `HIPDNN_LOG_LEVEL`.
pub fn set_level(level: Severity) {
    LEVEL.store(level as c_int, Ordering::Relaxed);
    set_gate();
}

/// Whether lines of this severity are logged. OFF is above every severity of a line.
#[inline]
pub fn is_on(severity: Severity) -> bool {
    is_watched(severity) && is_on_once_read(severity)
}

#[cold]
fn is_on_once_read(severity: Severity) -> bool {
    severity as c_int >= level()
}

/// Where lines go, for the rest of the process.
struct Sink {
    /// None for standard error. Never closed: threads of plugins log until the process is gone.
    file: Option<LogFile>,
    /// Whether a write to the file failed; lines then go to standard error.
    has_failed: AtomicBool,
    /// Read once: reading it again takes a lock while files are searched.
    zone: TimeZone,
}

/// Held while the sink is created: code with its own locks reads time zones from files.
pub static OPENING: Mutex<()> = Mutex::new(());

fn sink() -> &'static Sink {
    SINK.get().unwrap_or_else(|| {
        let _opening = OPENING.lock();
        SINK.get_or_init(open_sink)
    })
}

fn open_sink() -> Sink {
    let _off = cancel::disable();
    let file = environment::path("HIPDNN_LOG_FILE").and_then(|path| {
        let path = Path::new(&path);
        LogFile::open(path).inspect_err(|error| tell_failure(path, error)).ok()
    });
    // TZ may also name a file.
    let is_safe = !environment::is_secure() || std::env::var_os("TZ").is_none();
    let zone = match os::clock::offset() {
        Some(seconds) => Offset::from_seconds(seconds).map_or(TimeZone::UTC, TimeZone::fixed),
        None if is_safe => TimeZone::system(),
        None => TimeZone::UTC,
    };
    Sink { file, has_failed: AtomicBool::new(false), zone }
}

/// Reports that logging continues on standard error.
fn tell_failure(path: &Path, error: &std::io::Error) {
    let path = path.display();
    write_to_stderr(
        format!("hipDNN: HIPDNN_LOG_FILE {path} cannot be written: {error}; logging to stderr\n").as_bytes(),
    );
}

/// Writes to standard error, ignoring failures.
fn write_to_stderr(bytes: &[u8]) {
    let _off = cancel::disable();
    lines::write_to_stderr(bytes);
}

/// Writes bytes in one call, so that lines of several threads do not mix.
fn write_bytes(bytes: &[u8]) {
    let sink = sink();
    let file = sink.file.as_ref().filter(|_| !sink.has_failed.load(Ordering::Relaxed));
    let Some(file) = file else { return write_to_stderr(bytes) };
    if let Err((rest, error)) = file.write(bytes) {
        if !sink.has_failed.swap(true, Ordering::Relaxed) {
            tell_failure(file.path(), &error);
        }
        write_to_stderr(rest);
    }
}

/// Writes whole lines without the log's prefix, in blocks small enough to stay together in a pipe shared with others.
pub fn write_lines(mut text: &[u8]) {
    let is_end = |byte: &u8| *byte == b'\n';
    while !text.is_empty() {
        let together = text.get(..lines::TOGETHER).unwrap_or(text);
        let end = together.iter().rposition(is_end).or_else(|| text.iter().position(is_end));
        let (now, later) = text.split_at(end.map_or(text.len(), |end| end + 1));
        write_bytes(now);
        text = later;
    }
}

/// Writes a line and passes it to the users' callbacks.
fn write(severity: c_int, line: &str) {
    let _off = cancel::disable();
    write_bytes([line, "\n"].concat().as_bytes());
    receiver::deliver(severity, line);
}

fn write_own(severity: Severity, text: &str) {
    let name = match severity {
        Severity::HIPDNN_SEV_INFO => "info",
        Severity::HIPDNN_SEV_WARN => "warning",
        Severity::HIPDNN_SEV_ERROR => "error",
        _ => "critical",
    };
    let now = Timestamp::now().to_zoned(sink().zone.clone());
    let thread = thread::number();
    write(
        severity as c_int,
        &format!(
            "[{}] [tid {thread}] [{name}] [hipdnn_backend] {text}",
            now.strftime("%Y-%m-%d %H:%M:%S%.3f")
        ),
    );
}

/// Out of line, to keep the code of calls without a log compact.
#[cold]
#[inline(never)]
fn write_text(severity: Severity, text: impl FnOnce() -> String) {
    // A line that cannot be written is lost; the call goes on.
    let _ = catch_unwind(AssertUnwindSafe(|| write_own(severity, &text())));
}

/// Writes a warning at any level: about a setting that keeps a user from getting the log or trace they asked for.
pub fn complain(text: String) {
    write_text(Severity::HIPDNN_SEV_WARN, || text);
}

macro_rules! severities {
    ($($(#[$meta:meta])* $name:ident = $severity:ident;)+) => {
        $($(#[$meta])*
        #[inline]
        pub fn $name(text: impl FnOnce() -> String) {
            if is_on(Severity::$severity) {
                write_text(Severity::$severity, text);
            }
        })+
    };
}

severities! {
    /// Logs information.
    info = HIPDNN_SEV_INFO;
    /// Logs a warning.
    warn = HIPDNN_SEV_WARN;
    /// Logs a failure.
    error = HIPDNN_SEV_ERROR;
}

/// Logs a complete line of another component: a plugin, or a program through `hipdnnLoggingCallback_ext`.
///
/// The line is written unchanged. Severities outside the enumeration count as INFO, OFF is dropped.
pub fn component_line(severity: c_int, text: &str) {
    let captured: *mut String = std::ptr::with_exposed_provenance_mut(CAPTURED.get().unwrap_or(0));
    // SAFETY: the word is null or the address of a text that `capture` owns on this thread and lends only to this function.
    if let Some(captured) = unsafe { captured.as_mut() } {
        captured.push_str(text);
        captured.push('\n');
    }
    let severity = if (0..=OFF).contains(&severity) { severity } else { 0 };
    let level = level();
    if severity != OFF && level != OFF && severity >= level {
        write(severity, text);
    }
}

/// The callback that plugins log through.
///
/// # Safety
/// `message` is null or a NUL terminated text.
pub unsafe extern "C" fn plugin_callback(severity: c_int, message: *const c_char) {
    if message.is_null() {
        return;
    }
    // SAFETY: the pointer is not null, so it is a NUL terminated text.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    // A panic must not reach the plugin's frames; a line that cannot be written is lost.
    let _ = catch_unwind(|| component_line(severity, &text));
}

/// The address of the text that captures this thread's component lines, or 0.
static CAPTURED: ThreadWord = ThreadWord::new();

/// Runs `f` and appends to `said` every line that components log on this thread meanwhile, at any level.
pub fn capture<R>(said: &mut String, f: impl FnOnce() -> R) -> R {
    let _set = CAPTURED.set((&raw mut *said).expose_provenance());
    f()
}
