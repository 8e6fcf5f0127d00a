//! The results of loading plugins, parsed from the library's log, since no function reports them.

use std::path::{Path, PathBuf};

use hipdnn::{Backend, Handle, listen};
use serde::Serialize;

use crate::failure::{Failure, Result, one_line};

/// A plugin that was loaded.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Plugin {
    /// Its name for itself.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its file.
    pub file: String,
    /// The year of the graph bytes that it reads.
    pub generation: String,
    /// How the library determined the generation.
    pub reason: String,
}

/// A file that is not a plugin, or an engine that is not offered.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The file.
    pub file: String,
    /// The library's message.
    pub reason: String,
}

/// A library's messages while it loaded plugins. Empty for libraries whose log has other messages.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loading {
    /// The places searched and the number of files found: a line for each kind of plugins.
    pub searched: Vec<String>,
    /// The loaded plugins.
    pub plugins: Vec<Plugin>,
    /// The refused files and engines.
    pub refused: Vec<Refused>,
    /// Warnings about missing folders and invalid settings.
    pub warnings: Vec<String>,
}

impl Plugin {
    /// Reads `NAME VERSION from FILE, generation YEAR: REASON`.
    fn read(line: &str) -> Option<Self> {
        let (line, said) = line.rsplit_once(", generation ")?;
        let (generation, reason) = said.split_once(": ")?;
        // The file is an absolute path.
        let at = line.find(" from /")?;
        let (plugin, file) = (line.get(..at)?, line.get(at + " from ".len()..)?);
        let (name, version) = plugin.rsplit_once(' ')?;
        let [name, version, file, generation, reason] =
            [name, version, file, generation, reason].map(str::to_owned);
        Some(Self { name, version, file, generation, reason })
    }
}

impl Loading {
    /// Creates the first handle of the process, and reads the library's log meanwhile.
    pub fn watch(backend: &Backend) -> (hipdnn::Result<Handle>, Self) {
        let (handle, lines) = listen(backend, || Handle::new(backend));
        let mut loading = Self::default();
        lines.iter().for_each(|line| loading.read(line));
        (handle, loading)
    }

    fn read(&mut self, line: &str) {
        let Some((head, line)) = line.split_once("[hipdnn_backend] ") else { return };
        let after = |prefix| line.strip_prefix(prefix);
        if let Some(plugin) = after("loaded plugin ").and_then(Plugin::read) {
            self.plugins.push(plugin);
        } else if let Some(places) = after("looked for ") {
            self.searched.push(one_line(places));
        } else if let Some((file, reason)) =
            after("Error loading plugin from [").and_then(|rest| rest.split_once("]: "))
        {
            self.refused.push(Refused { file: file.to_owned(), reason: one_line(reason) });
        } else if head.contains("[warning]") {
            self.warnings.push(one_line(line));
        }
    }

    /// Lines for people: the places searched, and the refused files.
    pub fn remarks(&self) -> String {
        let searched = self.searched.iter().map(|places| format!("looked for {places}\n"));
        let refused = self.refused.iter().map(|it| format!("not loaded: {}: {}\n", it.file, it.reason));
        let warnings = self.warnings.iter().map(|warning| format!("warning: {warning}\n"));
        searched.chain(refused).chain(warnings).collect()
    }

    /// Why the library has not loaded one of these files.
    pub fn failure_of(&self, files: &[PathBuf]) -> Option<Failure> {
        let is_one = |refused: &&Refused| files.iter().any(|file| file == Path::new(&refused.file));
        let refused = self.refused.iter().find(is_one)?;
        Some(Failure::work(format!("the plugin {} is not loaded: {}", refused.file, refused.reason)))
    }
}

/// Has a library load these plugins in addition to those that it finds.
///
/// # Errors
/// A file does not exist, or the library has no function for it.
pub fn add_plugins(backend: &Backend, files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let whole = |file: &PathBuf| {
        // The library would resolve relative paths from its own folder, and take a plain file name for a library name.
        file.canonicalize().map_err(|error| Failure::input(format!("--plugin {}: {error}", file.display())))
    };
    let files = files.iter().map(whole).collect::<Result<Vec<_>>>()?;
    if !files.is_empty() {
        backend.add_engine_plugin_paths(&files)?;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{Loading, Plugin, Refused};

    fn read(line: &str) -> Loading {
        let mut loading = Loading::default();
        loading.read(line);
        loading
    }

    #[test]
    fn lines_are_taken_apart() {
        let head = "[2026-11-22 22:00:00.000] [tid 7] [info] [hipdnn_backend] ";
        let loading = read(&format!(
            "{head}loaded plugin My Plugin 1.0 from /opt/from here, generation 2025/libz.so, generation 2026: it exports \
             hipdnnPluginSetLogLevel"
        ));
        let expected = Plugin {
            name: "My Plugin".to_owned(),
            version: "1.0".to_owned(),
            file: "/opt/from here, generation 2025/libz.so".to_owned(),
            generation: "2026".to_owned(),
            reason: "it exports hipdnnPluginSetLogLevel".to_owned(),
        };
        assert_eq!(loading, Loading { plugins: vec![expected], ..Loading::default() });
        let loading = read(&format!("{head}Error loading plugin from [/a]b.so]: no\nplugin"));
        let refused = vec![Refused { file: "/a]b.so".to_owned(), reason: "no; plugin".to_owned() }];
        assert_eq!(loading, Loading { refused, ..Loading::default() });
        let loading = read(&format!("{head}looked for engine plugins in /a, /b: 2 files"));
        assert_eq!(loading.remarks(), "looked for engine plugins in /a, /b: 2 files\n");
        let loading =
            read(&format!("{}the plugin folder /x does not exist", head.replace("info", "warning")));
        assert_eq!(loading.remarks(), "warning: the plugin folder /x does not exist\n");
        for line in [
            "",
            "[hipdnn_backend] loaded plugin A 1 from /a.so",
            "loaded plugin A 1 from /a.so, generation 2026: b",
        ] {
            assert_eq!(read(line), Loading::default(), "{line}");
        }
    }
}
