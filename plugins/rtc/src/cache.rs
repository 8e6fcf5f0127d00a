//! What was compiled, kept in files for later processes.
//!
//! A file is written under another name and renamed when it is whole, so readers find the old content, the new or none. A file
//! that is damaged, or of another key that has the same name, counts as none.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use hipdnn_plugin_sdk::environment;
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::payload::Payload;

/// The form of the files: the key, then the code object.
const PAYLOAD: Payload = Payload { mark: *b"HRTC", version: 1, owner: "the cache of compiled kernels" };

/// More bytes than any file here has.
const MOST: u64 = 64 << 20;

/// How long a process may take to write a file. What is older was left by one that was ended.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A folder of compiled code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache below a root folder, which need not exist.
    pub fn new(root: &Path) -> Self {
        Self { folder: root.join("compiled-kernels").join(env!("CARGO_PKG_VERSION")) }
    }

    /// The cache that the environment names, unless it is switched off.
    pub fn from_environment() -> Option<Self> {
        Self::read(environment::path)
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let off = variable("HIPDNN_DISABLE_CACHE").is_some_and(|value| {
            let value = value.to_string_lossy();
            ["1", "true", "on", "yes", "enable", "enabled"]
                .iter()
                .any(|word| value.trim().eq_ignore_ascii_case(word))
        });
        if off {
            return None;
        }
        let root =
            variable("HIPDNN_CACHE_DIR").map_or_else(|| PathBuf::from("~/.cache/hipdnn"), PathBuf::from);
        match root.strip_prefix("~") {
            Ok(rest) => Some(Self::new(&Path::new(&variable("HOME")?).join(rest))),
            Err(_) => Some(Self::new(&root)),
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.code", Fnv1a::new().add(key.as_bytes()).number()))
    }

    /// The code object of a key.
    pub fn find(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        // A pipe or a device could make the caller wait.
        if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MOST) {
            return None;
        }
        let mut bytes = Vec::new();
        fs::File::open(&path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
        let [known, code] = PAYLOAD.read(&bytes).ok()?;
        (known == key.as_bytes() && !code.is_empty()).then(|| code.to_vec())
    }

    /// Keeps the code object of a key.
    ///
    /// # Errors
    /// Why it could not be kept.
    pub fn store(&self, key: &str, code: &[u8]) -> Result<(), String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = self.path(key);
        let bytes = PAYLOAD.write(&[key.as_bytes(), code]).map_err(|error| error.to_string())?;
        let reason = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&self.folder).map_err(reason)?;
        self.sweep();
        let own = format!("{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let own = self.folder.join(own);
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&own)
            .and_then(|mut file| file.write_all(&bytes))
            .and_then(|()| fs::rename(&own, &path));
        written.map_err(|error| {
            // What is half written is of no use; that it cannot be removed is not worth another word.
            let _ = fs::remove_file(&own);
            reason(error)
        })
    }

    /// Removes what ended processes left half written.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let is_own = entry.path().extension().is_some_and(|extension| extension == "tmp");
            let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let age = age.and_then(|time| SystemTime::now().duration_since(time).ok());
            if is_own && age.is_some_and(|age| age > PATIENCE) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("hipdnn_rtc_{name}_{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        root
    }

    #[test]
    fn code_comes_back_for_its_own_key_alone() {
        let root = scratch("own_key");
        let cache = Cache::new(&root);
        assert_eq!(cache.find("a"), None);
        cache.store("a", b"code of a").unwrap();
        cache.store("b", b"code of b").unwrap();
        cache.store("b", b"newer code of b").unwrap();
        assert_eq!(cache.find("a").as_deref(), Some(b"code of a".as_slice()));
        assert_eq!(cache.find("b").as_deref(), Some(b"newer code of b".as_slice()));
        // A file under the name of another key's.
        fs::copy(cache.path("a"), cache.path("c")).unwrap();
        assert_eq!(cache.find("c"), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn damage_is_as_if_there_were_nothing_and_is_replaced() {
        let root = scratch("damage");
        let cache = Cache::new(&root);
        cache.store("key", b"code").unwrap();
        let whole = fs::read(cache.path("key")).unwrap();
        for size in 0..whole.len() {
            fs::write(cache.path("key"), &whole[..size]).unwrap();
            assert_eq!(cache.find("key"), None, "{size}");
        }
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x10;
            fs::write(cache.path("key"), &damaged).unwrap();
            assert_eq!(cache.find("key"), None, "{place}");
        }
        cache.store("key", b"code").unwrap();
        assert_eq!(cache.find("key").as_deref(), Some(b"code".as_slice()));
        fs::remove_file(cache.path("key")).unwrap();
        fs::create_dir(cache.path("key")).unwrap();
        assert_eq!(cache.find("key"), None);
        assert!(cache.store("key", b"code").unwrap_err().contains("compiled-kernels"));
        let left = fs::read_dir(&cache.folder).unwrap().flatten();
        assert_eq!(left.filter(|entry| entry.path().extension().is_some_and(|e| e == "tmp")).count(), 0);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn writers_at_the_same_time_leave_one_whole_file() {
        let root = scratch("writers");
        let cache = Cache::new(&root);
        cache.store("key", &[0; 5000]).unwrap();
        std::thread::scope(|scope| {
            for byte in 1..5_u8 {
                let cache = &cache;
                scope.spawn(move || (0..50).for_each(|_| cache.store("key", &[byte; 5000]).unwrap()));
            }
            for _ in 0..200 {
                let found = cache.find("key").expect("a reader always finds a whole file");
                assert!(found.len() == 5000 && found.iter().all(|byte| *byte == found[0]));
            }
        });
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_an_ended_process_left_is_removed_after_a_while() {
        let root = scratch("left");
        let cache = Cache::new(&root);
        cache.store("a", b"code").unwrap();
        let (old, fresh) = (cache.folder.join("1-0.tmp"), cache.folder.join("2-0.tmp"));
        fs::write(&old, "half").unwrap();
        fs::write(&fresh, "half").unwrap();
        let then = SystemTime::now() - 2 * PATIENCE;
        fs::File::options().write(true).open(&old).unwrap().set_modified(then).unwrap();
        cache.store("b", b"code").unwrap();
        assert!(!old.exists() && fresh.exists());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_folder_is_the_one_of_the_rankings_or_none() {
        let read = |variables: &[(&str, &str)]| {
            Cache::read(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(read(&[("HIPDNN_CACHE_DIR", "/a")]), Some(Cache::new(Path::new("/a"))));
        assert_eq!(read(&[("HOME", "/h")]), Some(Cache::new(Path::new("/h/.cache/hipdnn"))));
        assert_eq!(read(&[("HIPDNN_CACHE_DIR", "~/b"), ("HOME", "/h")]), Some(Cache::new(Path::new("/h/b"))));
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("HIPDNN_CACHE_DIR", "/a"), ("HIPDNN_DISABLE_CACHE", "Yes")]), None);
    }
}
