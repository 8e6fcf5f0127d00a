//! The log: where lines go, which of them, and what plugins say.
//!
//! `HIPDNN_LOG_LEVEL` and `HIPDNN_LOG_FILE` are read once, at the first call. With the log off a call pays one relaxed load.

pub mod receiver;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::ffi::hipdnnSeverity_t as Severity;

const OFF: c_int = Severity::HIPDNN_SEV_OFF as c_int;
const UNREAD: c_int = -1;

static LEVEL: AtomicI32 = AtomicI32::new(UNREAD);
static SINK: OnceLock<env_logger::Logger> = OnceLock::new();

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
    let level = match std::env::var("HIPDNN_LOG_LEVEL").as_deref() {
        Ok("info") => Severity::HIPDNN_SEV_INFO,
        Ok("warn") => Severity::HIPDNN_SEV_WARN,
        Ok("error") => Severity::HIPDNN_SEV_ERROR,
        Ok("fatal") => Severity::HIPDNN_SEV_FATAL,
        _ => Severity::HIPDNN_SEV_OFF,
    } as c_int;
    // A level that was set meanwhile stays.
    match LEVEL.compare_exchange(UNREAD, level, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => level,
        Err(set) => set,
    }
}

/// Sets the lowest severity that is written, OFF for none, in place of `HIPDNN_LOG_LEVEL`.
pub fn set_level(level: Severity) {
    LEVEL.store(level as c_int, Ordering::Relaxed);
}

/// Whether lines of this severity are written. OFF is above every severity that a line has, and the level is below all of
/// them until it is read.
#[inline]
pub fn is_on(severity: Severity) -> bool {
    severity as c_int >= LEVEL.load(Ordering::Relaxed) && is_on_once_read(severity)
}

#[cold]
fn is_on_once_read(severity: Severity) -> bool {
    severity as c_int >= level()
}

fn sink() -> &'static env_logger::Logger {
    SINK.get_or_init(|| {
        let mut builder = env_logger::Builder::new();
        builder.filter_level(log::LevelFilter::Trace).format(|to, record| writeln!(to, "{}", record.args()));
        if let Some(path) = std::env::var_os("HIPDNN_LOG_FILE").filter(|path| !path.is_empty()) {
            match open(Path::new(&path)) {
                Ok(file) => {
                    builder.target(env_logger::Target::Pipe(Box::new(file)));
                }
                // Said once, here: the log itself goes on, to stderr.
                Err(error) => {
                    let _ = writeln!(
                        std::io::stderr(),
                        "hipDNN: HIPDNN_LOG_FILE {} cannot be written: {error}; logging to stderr",
                        Path::new(&path).display()
                    );
                }
            }
        }
        builder.build()
    })
}

fn open(path: &Path) -> std::io::Result<std::fs::File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

/// Writes a line, and gives it to the callbacks that users have set.
fn write(severity: c_int, line: &str) {
    use log::Log;
    sink().log(&log::Record::builder().level(log::Level::Info).args(format_args!("{line}")).build());
    receiver::deliver(severity, line);
}

fn write_own(severity: Severity, text: &str) {
    let name = match severity {
        Severity::HIPDNN_SEV_INFO => "info",
        Severity::HIPDNN_SEV_WARN => "warning",
        Severity::HIPDNN_SEV_ERROR => "error",
        _ => "critical",
    };
    let now = jiff::Zoned::now();
    // SAFETY: the call has no arguments and cannot fail.
    let thread = unsafe { libc::gettid() };
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
    // A thread that is ending has nothing to capture with any more.
    let _ = CAPTURED.try_with(|captured| {
        if let Some(captured) = captured.borrow_mut().as_mut() {
            captured.push_str(text);
            captured.push('\n');
        }
    });
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
    // SAFETY: the caller vouches for the text.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    // A panic must not reach the plugin's frames; a line that cannot be written is lost.
    let _ = catch_unwind(|| component_line(severity, &text));
}

thread_local! {
    /// What components say on this thread, while somebody wants to know.
    static CAPTURED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `f` and appends to `said` every line that components log on this thread meanwhile, whatever the level.
pub fn capture<R>(said: &mut String, f: impl FnOnce() -> R) -> R {
    let outer = CAPTURED.try_with(|captured| captured.replace(Some(std::mem::take(said))));
    let result = f();
    if let Ok(outer) = outer {
        *said = CAPTURED.try_with(|captured| captured.replace(outer)).ok().flatten().unwrap_or_default();
    }
    result
}
