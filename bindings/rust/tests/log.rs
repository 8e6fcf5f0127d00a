//! The library's log as records of the crate `log`. A separate test program, since the log level is process-wide.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hipdnn::{Backend, Handle};

/// Collects the records of the target `hipdnn`.
struct Records(Mutex<Vec<(log::Level, String)>>);

impl log::Log for Records {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == "hipdnn"
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.lock().unwrap().push((record.level(), record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

#[test]
fn the_librarys_log_becomes_records() {
    static RECORDS: Records = Records(Mutex::new(Vec::new()));
    log::set_logger(&RECORDS).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let folder =
        std::env::var_os("HIPDNN_BACKEND_LIBRARY_PATH").expect("HIPDNN_BACKEND_LIBRARY_PATH is not set");
    let backend = Backend::open(Some(Path::new(&folder))).unwrap();
    let forwarded = hipdnn::forward_log(&backend, log::LevelFilter::Info).unwrap();
    drop(Handle::new(&backend).unwrap());
    let is_told = || {
        let records = RECORDS.0.lock().unwrap();
        records.iter().any(|(level, line)| *level == log::Level::Info && line.contains("hipdnnDestroy"))
    };
    let end = Instant::now() + Duration::from_secs(10);
    while !is_told() {
        assert!(Instant::now() < end, "{:?}", RECORDS.0.lock().unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(forwarded);
    let before = RECORDS.0.lock().unwrap().len();
    drop(Handle::new(&backend).unwrap());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(RECORDS.0.lock().unwrap().len(), before, "a line came after the end");
}
