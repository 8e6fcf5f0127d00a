//! Compiled code, cached in files for later processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::{cached_file, environment};

/// The file format: the key, then the code object.
const PAYLOAD: Payload = Payload { mark: *b"HRTC", version: 1, owner: "the cache of compiled kernels" };

/// An upper limit for the size of cache files in bytes.
const MOST: u64 = 64 << 20;

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

    /// The cache configured by the environment, unless it is disabled.
    pub fn from_environment() -> Option<Self> {
        Self::read(environment::path)
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        environment::enabled_cache_root(variable).map(|root| Self::new(&root))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.code", Fnv1a::new().add(key.as_bytes()).number()))
    }

    /// The code object of a key.
    pub fn find(&self, key: &str) -> Option<Vec<u8>> {
        cached_file::find(&PAYLOAD, &self.path(key), key, MOST).filter(|code| !code.is_empty())
    }

    /// Stores the code object of a key.
    ///
    /// # Errors
    /// Why it could not be stored.
    pub fn store(&self, key: &str, code: &[u8]) -> Result<(), String> {
        cached_file::store(&PAYLOAD, &self.path(key), key, code)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hipdnn_plugin_sdk::environment::{CACHE, HOME};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("hipdnn_rtc_{name}_{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        root
    }

    #[test]
    fn code_is_found_only_by_its_own_key() {
        let root = scratch("own_key");
        let cache = Cache::new(&root);
        assert_eq!(cache.find("a"), None);
        cache.store("a", b"code of a").unwrap();
        cache.store("b", b"code of b").unwrap();
        cache.store("b", b"newer code of b").unwrap();
        assert_eq!(cache.find("a").as_deref(), Some(b"code of a".as_slice()));
        assert_eq!(cache.find("b").as_deref(), Some(b"newer code of b".as_slice()));
        // A file with the name of another key's file.
        fs::copy(cache.path("a"), cache.path("c")).unwrap();
        assert_eq!(cache.find("c"), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn damaged_files_are_ignored_and_replaced() {
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
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn concurrent_writers_leave_one_complete_file() {
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
    fn the_cache_folder_is_shared_with_rankings_or_disabled() {
        let read = |variables: &[(&str, &str)]| {
            Cache::read(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(read(&[("HIPDNN_CACHE_DIR", "/a")]), Some(Cache::new(Path::new("/a"))));
        assert_eq!(
            read(&[(HOME, "/h")]),
            Some(Cache::new(&Path::new("/h").join(CACHE.trim_start_matches("~/"))))
        );
        assert_eq!(read(&[("HIPDNN_CACHE_DIR", "~/b"), (HOME, "/h")]), Some(Cache::new(Path::new("/h/b"))));
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("HIPDNN_CACHE_DIR", "/a"), ("HIPDNN_DISABLE_CACHE", "Yes")]), None);
    }
}
