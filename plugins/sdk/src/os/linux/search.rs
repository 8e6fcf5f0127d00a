//! Which file the loader will open for a name without a slash.
//!
//! This only serves to check the file before the loader maps it; files that this search misses are left to
//! the loader.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::os::environment::is_secure;

/// The loader's cache of installed libraries.
const CACHE: &str = "/etc/ld.so.cache";
/// Magic number of the cache, followed by the number of entries.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// The folders that are always searched.
const FOLDERS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The first match in the places that the loader searches.
pub fn file_of(name: &OsStr) -> Option<PathBuf> {
    let folders = if is_secure() { None } else { std::env::var_os("LD_LIBRARY_PATH") };
    let folders = folders.unwrap_or_default();
    // An empty entry means the current folder.
    let split = folders.as_bytes().split(|byte| matches!(byte, b':' | b';')).map(OsStr::from_bytes);
    let in_folders = if folders.is_empty() {
        None
    } else {
        split.map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
    };
    let cached = || std::fs::read(CACHE).ok().and_then(|table| in_cache(&table, name.as_bytes()));
    in_folders
        .or_else(cached)
        .or_else(|| FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file()))
}

/// The file for a name in the loader's cache. If there are several, for different processors, the first.
fn in_cache(table: &[u8], name: &[u8]) -> Option<PathBuf> {
    // An older table may precede it.
    let start = table.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let table = table.get(start..)?;
    let number = |at: usize| {
        let bytes = table.get(at..)?.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    let text = |at: usize| {
        let rest = table.get(at..)?;
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    };
    let entries = (0..number(MAGIC.len())?).map(|entry| HEADER + entry * ENTRY);
    let mut named = entries.map_while(|at| Some((table.get(number(at + 4)?..)?, number(at + 8)?)));
    // Without looking for the end of each name: the table has thousands, and every GPU library is looked for in it.
    let (_, path) =
        named.find(|(key, _)| key.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0)))?;
    Some(PathBuf::from(OsString::from_vec(text(path)?.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_system_are_found_where_the_loader_finds_them() {
        let found = file_of(OsStr::new("libc.so.6")).unwrap();
        let loaded = std::fs::read_to_string("/proc/self/maps").unwrap();
        let found = std::fs::canonicalize(found).unwrap();
        assert!(loaded.lines().any(|line| line.ends_with(found.to_str().unwrap())), "{found:?}\n{loaded}");
        assert_eq!(file_of(OsStr::new("libno_such_thing.so.9")), None);
    }

    #[test]
    fn a_damaged_table_finds_nothing() {
        let mut table = [MAGIC, &[0xff; 200]].concat();
        assert_eq!(in_cache(&table, b"libc.so.6"), None);
        for length in 0..table.len() {
            assert_eq!(in_cache(&table[..length], b"libc.so.6"), None);
        }
        // One entry, followed by its texts.
        table.truncate(MAGIC.len());
        table.extend(1_u32.to_le_bytes());
        table.resize(HEADER, 0);
        let texts = (HEADER + ENTRY) as u32;
        table.extend([3_u32.to_le_bytes(), texts.to_le_bytes(), (texts + 5).to_le_bytes()].concat());
        table.resize(HEADER + ENTRY, 0);
        table.extend(b"a.so\0/x/a.so\0");
        assert_eq!(in_cache(&table, b"a.so"), Some("/x/a.so".into()));
        assert_eq!(in_cache(&table, b"b.so"), None);
    }
}
