//! The log: where lines go, which of them, and what plugins say.
//!
//! `HIPDNN_LOG_LEVEL` and `HIPDNN_LOG_FILE` are read once, at the first call. With the log, the profile and the trace off a call
//! pays one relaxed load, of a word that they share.
//!
//! A line may come from a thread that a plugin's destructor waits for, while the system's loader holds its lock: see
//! `crate::lock`. So nothing between a line and the file uses a thread-local, a lock that is held for longer than it
//! takes to change a word, or anything that the loader has to bring.

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
/// The level; or below every severity until the level is read, and while calls are recorded.
static GATE: AtomicI32 = AtomicI32::new(UNREAD);
/// Whether calls are recorded.
static WATCHED: AtomicBool = AtomicBool::new(false);
static SINK: OnceLock<Sink> = OnceLock::new();

/// The lowest severity that is written, OFF for none.
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
    // A level that was set meanwhile stays.
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

/// Held while that word is set.
pub static SETTING: Mutex<()> = Mutex::new(());

/// Sets the word that calls look at, after something that it depends on was set.
fn set_gate() {
    let _setting = SETTING.lock();
    let gate = if WATCHED.load(Ordering::Relaxed) { UNREAD } else { LEVEL.load(Ordering::Relaxed) };
    GATE.store(gate, Ordering::Relaxed);
}

/// Has every call look closer from now on: it is recorded.
pub fn watch() {
    WATCHED.store(true, Ordering::Relaxed);
    set_gate();
}

/// Whether lines of this severity may be written, or calls recorded. One relaxed load.
#[inline]
pub fn is_watched(severity: Severity) -> bool {
    severity as c_int >= GATE.load(Ordering::Relaxed)
}

/// The level that a word means, in any case of letters. There is nothing below info here.
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

/// Sets the lowest severity that is written, OFF for none, in place of `HIPDNN_LOG_LEVEL`.
pub fn set_level(level: Severity) {
    LEVEL.store(level as c_int, Ordering::Relaxed);
    set_gate();
}

/// Whether lines of this severity are written. OFF is above every severity that a line has.
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
    /// Whether the file could not be written once: then lines go to standard error.
    has_failed: AtomicBool,
    /// Read once: reading it anew takes a lock for as long as files are looked through.
    zone: TimeZone,
}

/// Held while the sink is made: time zones come from files, by code with locks of its own.
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
    // TZ may name a file, too.
    let is_safe = !environment::is_secure() || std::env::var_os("TZ").is_none();
    let zone = match os::clock::offset() {
        Some(seconds) => Offset::from_seconds(seconds).map_or(TimeZone::UTC, TimeZone::fixed),
        None if is_safe => TimeZone::system(),
        None => TimeZone::UTC,
    };
    Sink { file, has_failed: AtomicBool::new(false), zone }
}

/// Says where the lines go from now on: the log itself goes on, to standard error.
fn tell_failure(path: &Path, error: &std::io::Error) {
    let path = path.display();
    write_to_stderr(
        format!("hipDNN: HIPDNN_LOG_FILE {path} cannot be written: {error}; logging to stderr\n").as_bytes(),
    );
}

/// What cannot be written there is lost.
fn write_to_stderr(bytes: &[u8]) {
    let _off = cancel::disable();
    lines::write_to_stderr(bytes);
}

/// Writes bytes at once, so that lines of several threads do not mix.
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

/// Writes whole lines that are no log's, each with its end. As many at once as stay together in a pipe to which others write.
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

/// Writes a line, and gives it to the callbacks that users have set.
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

/// Out of line, so that the code of calls without a log stays together.
#[cold]
#[inline(never)]
fn write_text(severity: Severity, text: impl FnOnce() -> String) {
    // A line that cannot be written is lost; the call that it is about goes on.
    let _ = catch_unwind(AssertUnwindSafe(|| write_own(severity, &text())));
}

/// Writes a warning whatever the level is: about a setting, to whoever asks for a log or a trace and would wait for it.
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
    /// Writes what happens.
    info = HIPDNN_SEV_INFO;
    /// Writes what looks wrong and is survived.
    warn = HIPDNN_SEV_WARN;
    /// Writes what failed.
    error = HIPDNN_SEV_ERROR;
}

/// Takes a complete line from another component: a plugin, or a program through `hipdnnLoggingCallback_ext`.
///
/// The line is written as it is. Severities outside the enumeration count as INFO, OFF is dropped.
pub fn component_line(severity: c_int, text: &str) {
    let captured: *mut String = std::ptr::with_exposed_provenance_mut(CAPTURED.get().unwrap_or(0));
    // SAFETY: the word is null or the address of a text that `capture` has for itself, on this thread, and lends to this alone.
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

/// The function that plugins get for their log lines.
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

/// Where what components say on this thread is kept, while somebody wants to know: the address of a text, or 0.
static CAPTURED: ThreadWord = ThreadWord::new();

/// Runs `f` and appends to `said` every line that components log on this thread meanwhile, whatever the level.
pub fn capture<R>(said: &mut String, f: impl FnOnce() -> R) -> R {
    let _set = CAPTURED.set((&raw mut *said).expose_provenance());
    f()
}
