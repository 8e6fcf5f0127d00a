//! The search for plugins: settings in, a sorted list of canonical files out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf, is_separator};

use hipdnn_plugin_sdk::os;
use hipdnn_plugin_sdk::os::library::{EXTENSION, file_name};

use super::shortage;

/// The default folder of engine plugins, beside the library.
pub const ENGINES_FOLDER: &str = "hipdnn_plugins/engines/";

/// The default folder of heuristic plugins, beside the library.
pub const HEURISTICS_FOLDER: &str = "hipdnn_plugins/heuristics/";

/// How paths set through the API combine with the default and the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are searched in addition.
    #[default]
    Additive,
    /// They replace the others.
    Absolute,
}

/// All settings of a search.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// The folder of this library, from which relative paths start.
    pub library_folder: &'a Path,
    /// This library itself, links resolved, which is not a plugin even if its folder is searched.
    pub library: Option<&'a Path>,
    /// The default folder.
    pub default: &'a Path,
    /// The path of the environment, which replaces the default folder.
    pub environment: Option<&'a Path>,
    /// The paths given through the API.
    pub added: &'a BTreeSet<PathBuf>,
    /// How those combine with the others.
    pub mode: Mode,
}

/// The paths to search, as given: folders, files or bare names.
pub fn places<'a>(search: &Search<'a>) -> impl Iterator<Item = &'a Path> {
    let basis = match search.mode {
        Mode::Absolute => None,
        Mode::Additive => Some(search.environment.unwrap_or(search.default)),
    };
    basis.into_iter().chain(search.added.iter().map(PathBuf::as_path))
}

/// The places that are searched, for a message. One that the environment names is followed by the variable.
pub fn describe_places(search: &Search<'_>, variable: &str) -> String {
    let of_environment = search.environment.filter(|_| search.mode == Mode::Additive);
    let describe = |path: &Path| {
        let is_of_variable = of_environment.is_some_and(|named| named == path);
        let origin = if is_of_variable { format!(" ({variable})") } else { String::new() };
        format!("{}{origin}", search.library_folder.join(path).display())
    };
    places(search).map(describe).collect::<Vec<_>>().join(", ")
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// The plugin files, sorted by path component by component.
    pub files: BTreeSet<PathBuf>,
    /// Paths that lead to nothing, each with the reason.
    pub missing: Vec<(PathBuf, String)>,
    /// Folders that could not be searched.
    pub warnings: Vec<String>,
    /// The first that could not be searched for a reason that passes.
    pub shortage: Option<String>,
}

/// Searches all places.
pub fn find(search: &Search<'_>) -> Found {
    let mut found = Found::default();
    for path in places(search) {
        if path.as_os_str().is_empty() {
            found.warnings.push("an empty plugin path is ignored".to_owned());
            continue;
        }
        let path = search.library_folder.join(path);
        // A trailing slash means the folder.
        let is_folder = path.as_os_str().to_string_lossy().ends_with(is_separator);
        let decorated = if is_folder { path.clone() } else { decorate(&path) };
        if decorated.is_file() {
            found.files.insert(canonical(&decorated));
        } else if path.is_dir() {
            scan(&path, &mut found);
        } else if is_folder {
            found.warnings.push(format!("the plugin folder {} does not exist", path.display()));
        } else if decorated == path {
            found.files.insert(canonical(&path));
        } else {
            let name = decorated.file_name().unwrap_or_default().to_string_lossy();
            let reason = format!("the folder does not exist, and {name} does not exist beside it");
            found.missing.push((path, reason));
        }
    }
    if let Some(library) = search.library {
        found.files.remove(library);
    }
    found
}

/// The file of a bare name: `name` is `libname.so`, or `name.dll` on Windows; a name with an extension stays as it is.
fn decorate(path: &Path) -> PathBuf {
    match path.file_name() {
        Some(name) if path.extension().is_none() => path.with_file_name(file_name(name)),
        _ => path.to_owned(),
    }
}

/// The path with links and dots resolved as far as it exists.
pub(super) fn canonical(path: &Path) -> PathBuf {
    if let Ok(canonical) = os::paths::canonical(path) {
        return canonical;
    }
    match (path.parent().map(os::paths::canonical), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Whether a file has a library's extension.
pub fn is_library(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

fn scan(folder: &Path, found: &mut Found) {
    let entries = folder.read_dir().and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match entries {
        Ok(entries) => {
            // Resolved once: each part of a path costs a call of the system.
            let resolved = canonical(folder);
            found.files.extend(entries.into_iter().filter_map(|entry| {
                let path = entry.path();
                if !is_library(&path) {
                    return None;
                }
                let is_plain = entry.file_type().is_ok_and(|kind| kind.is_file());
                let name = entry.file_name();
                if is_plain { Some(resolved.join(name)) } else { path.is_file().then(|| canonical(&path)) }
            }));
        }
        Err(error) => {
            let reason = format!("the plugin folder {} cannot be read: {error}", folder.display());
            if shortage::is_one(&error) {
                found.shortage.get_or_insert(reason);
            } else {
                found.warnings.push(reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::os::files::testing::link;

    use super::*;

    /// Converts Linux library names to this system's.
    fn own<const N: usize>(names: [&str; N]) -> [String; N] {
        names.map(|name| match name.strip_suffix(".so") {
            None => name.to_owned(),
            Some(stem) => match stem.rsplit_once("lib") {
                Some((folder, stem)) => format!("{folder}{}", file_name(stem.as_ref()).to_string_lossy()),
                None => format!("{stem}.{EXTENSION}"),
            },
        })
    }

    /// A folder that is removed when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("hipdnn-paths-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(os::paths::canonical(&path).unwrap())
        }

        fn file(&self, name: &str) -> PathBuf {
            let [name] = own([name]);
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, b"").unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn files(folder: &Folder, environment: Option<&str>, added: &[&str], mode: Mode) -> Vec<String> {
        let added = added.iter().flat_map(|name| own([name])).map(PathBuf::from).collect();
        let search = Search {
            library_folder: &folder.0,
            library: None,
            default: Path::new(ENGINES_FOLDER),
            environment: environment.map(Path::new),
            added: &added,
            mode,
        };
        let relative = |path: PathBuf| {
            path.strip_prefix(&folder.0).unwrap_or(&path).display().to_string().replace('\\', "/")
        };
        find(&search).files.into_iter().map(relative).collect()
    }

    #[test]
    fn a_folder_gives_its_shared_objects_and_nothing_else() {
        let folder = Folder::new("scan");
        for name in ["p/b.so", "p/a.1.so", "p/x.so.1", "p/readme", "p/deep/c.so"] {
            folder.file(name);
        }
        link(&folder.0.join("nowhere"), &folder.0.join(format!("p/broken.{EXTENSION}")));
        assert_eq!(files(&folder, None, &["p"], Mode::Absolute), own(["p/a.1.so", "p/b.so"]));
    }

    #[test]
    fn the_environment_replaces_the_default_and_absolute_paths_replace_both() {
        let folder = Folder::new("modes");
        for name in ["hipdnn_plugins/engines/d.so", "env/e.so", "api/f.so"] {
            folder.file(name);
        }
        let default = "hipdnn_plugins/engines/d.so";
        assert_eq!(files(&folder, None, &[], Mode::Additive), own([default]));
        assert_eq!(files(&folder, Some("env"), &[], Mode::Additive), own(["env/e.so"]));
        assert_eq!(files(&folder, None, &["api"], Mode::Additive), own(["api/f.so", default]));
        assert_eq!(files(&folder, Some("env"), &["api"], Mode::Absolute), own(["api/f.so"]));
    }

    #[test]
    fn a_bare_name_is_decorated_and_preferred_over_a_folder() {
        let folder = Folder::new("names");
        folder.file("libz.so");
        folder.file("z/inner.so");
        assert_eq!(files(&folder, None, &["z"], Mode::Absolute), own(["libz.so"]));
        assert_eq!(files(&folder, None, &["z/"], Mode::Absolute), own(["z/inner.so"]));
        assert_eq!(files(&folder, None, &["other.dll"], Mode::Absolute), own(["other.dll"]));
    }

    #[test]
    fn a_path_that_leads_to_nothing_keeps_its_name() {
        let folder = Folder::new("missing");
        let added = BTreeSet::from([PathBuf::from("sub/missing")]);
        let search = Search {
            library_folder: &folder.0,
            library: None,
            default: Path::new(ENGINES_FOLDER),
            environment: Some(Path::new("elsewhere")),
            added: &added,
            mode: Mode::Additive,
        };
        let found = find(&search);
        assert!(found.files.is_empty());
        let paths: Vec<_> = found.missing.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(paths, [folder.0.join("elsewhere"), folder.0.join("sub/missing")]);
        let [name] = own(["libelsewhere.so"]);
        assert!(found.missing[0].1.contains(&name), "{}", found.missing[0].1);
        let [elsewhere, missing] = ["elsewhere", "sub/missing"].map(|path| folder.0.join(path));
        assert_eq!(
            describe_places(&search, "HIPDNN_PLUGIN_DIR"),
            format!("{} (HIPDNN_PLUGIN_DIR), {}", elsewhere.display(), missing.display())
        );
    }

    #[test]
    fn one_file_under_two_names_is_found_once() {
        let folder = Folder::new("links");
        let file = folder.file("a/p.so");
        if !link(&file, &folder.0.join(format!("q.{EXTENSION}"))) {
            return;
        }
        assert_eq!(files(&folder, None, &["a", "q.so", "a/../a/p.so"], Mode::Absolute), own(["a/p.so"]));
    }

    #[test]
    fn order_is_by_component() {
        let folder = Folder::new("order");
        for name in ["a-b/x.so", "a/x.so"] {
            folder.file(name);
        }
        assert_eq!(files(&folder, None, &["a-b", "a"], Mode::Absolute), own(["a/x.so", "a-b/x.so"]));
    }

    #[test]
    fn the_library_itself_is_not_a_plugin() {
        let folder = Folder::new("self");
        let library = folder.file("libself.so");
        let added = BTreeSet::from([PathBuf::from(".")]);
        let search = Search {
            library_folder: &folder.0,
            library: Some(&library),
            default: Path::new(ENGINES_FOLDER),
            environment: None,
            added: &added,
            mode: Mode::Absolute,
        };
        assert!(find(&search).files.is_empty());
    }
}
