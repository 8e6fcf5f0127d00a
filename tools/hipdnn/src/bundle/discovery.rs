//! Finds bundles below folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::metadata::Metadata;
use super::sweep::Sweep;
use super::{Bundle, Values, beside, read_json};
use crate::failure::{Failure, Result};

const TEMPLATE: &str = "graph.template.json";
const SWEEP: &str = "sweep.json";

/// A graph that was found: the file `{Name}.json`, or a case of a `sweep.json`.
#[derive(Debug)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// The case's id; empty without a sweep.
    pub case: String,
    /// The folders that it lies in, from its tier on, or else from the folder that was searched.
    suite: String,
    /// The file with the claims, which may be missing.
    pub claims: PathBuf,
    /// What it is, or why it cannot be read.
    pub bundle: Result<Bundle>,
}

impl Found {
    /// The file, and the case if it is one of a sweep.
    pub fn label(&self) -> String {
        let path = self.path.display();
        if self.case.is_empty() { path.to_string() } else { format!("{path}#{}", self.case) }
    }

    /// The name of AMD's test of it.
    pub fn test(&self) -> String {
        let stem = || self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let case = if self.case.is_empty() { stem() } else { self.case.clone() };
        format!("{}.{}", self.suite, of_test(&case))
    }
}

/// Finds the bundles in files and below folders, sorted by their paths. Fails where it finds none.
pub fn find(paths: &[PathBuf]) -> Result<Vec<Found>> {
    let mut graphs = BTreeMap::new();
    for path in paths {
        if path.is_dir() {
            walk(path, &mut |folder| {
                graphs.extend(graphs_in(folder).into_iter().map(|graph| (graph, path.clone())));
            })?;
        } else if !path.is_file() {
            return Err(Failure::input("there is no such file or folder").of_file(path));
        } else {
            let is_of_sweep = path.file_name().is_some_and(|name| name == TEMPLATE || name == SWEEP);
            let graph = if is_of_sweep { path.with_file_name(SWEEP) } else { path.clone() };
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            graphs.entry(graph).or_insert(folder);
        }
    }
    let mut found = Vec::new();
    for (path, root) in graphs {
        let suite = suite(&path, &root);
        match path.file_name().is_some_and(|name| name == SWEEP) {
            true => found.extend(cases(&path, &suite)),
            false => found.push(single(path, suite)),
        }
    }
    if found.is_empty() {
        return Err(Failure::input(
            "no file is a graph, expected {Name}.json, or graph.template.json and sweep.json",
        ));
    }
    Ok(found)
}

/// The names of folders with tiers of tests.
const TIERS: [&str; 4] = ["quick", "standard", "comprehensive", "full"];

/// The suite of AMD's tests that a graph below a folder belongs to.
fn suite(graph: &Path, root: &Path) -> String {
    let folder = graph.parent().unwrap_or(Path::new(""));
    let names = |path: &Path| -> Vec<String> {
        path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let all = names(folder);
    let tier = all.iter().rposition(|name| TIERS.contains(&name.as_str()));
    let mut parts = tier
        .and_then(|at| all.get(at..))
        .map_or_else(|| folder.strip_prefix(root).map(names).unwrap_or_default(), <[String]>::to_vec);
    // A graph in the folder itself
    if parts.is_empty() {
        parts.extend(all.last().cloned());
    }
    parts.iter().map(|part| of_test(part)).collect::<Vec<_>>().join("_")
}

/// A part of a test's name.
fn of_test(part: &str) -> String {
    part.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).collect()
}

/// Files with claims that belong to no graph.
pub fn stray_claims(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut stray = BTreeSet::new();
    for path in paths.iter().filter(|path| path.is_dir()) {
        walk(path, &mut |folder| {
            let files = folder.files.iter().filter(|file| last_word(file) == "support");
            stray.extend(files.filter(|file| !folder.has_graph_of(file)).cloned());
        })?;
    }
    Ok(stray.into_iter().collect())
}

/// A folder and its files.
struct Folder<'a> {
    path: &'a Path,
    files: Vec<PathBuf>,
}

impl Folder<'_> {
    fn has(&self, name: &str) -> bool {
        self.files.contains(&self.path.join(name))
    }

    fn is_sweep(&self) -> bool {
        self.has(TEMPLATE) && self.has(SWEEP)
    }

    /// Whether the graph is there that a file with claims is for.
    fn has_graph_of(&self, claims: &Path) -> bool {
        let name = claims.file_name().unwrap_or_default().to_string_lossy();
        match name.strip_suffix(".support.json") {
            Some(stem) => self.has(&format!("{stem}.json")),
            None => self.is_sweep(),
        }
    }
}

/// The word before `.json`; of `Small.support.json` and of `support.json` it is `support`.
fn last_word(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit('.').next().unwrap_or_default().to_owned()
}

/// The graphs of a folder: its sweep, or the files that are neither metadata nor claims.
fn graphs_in(folder: &Folder<'_>) -> Vec<PathBuf> {
    if folder.is_sweep() {
        return vec![folder.path.join(SWEEP)];
    }
    let is_graph = |file: &&PathBuf| {
        !matches!(last_word(file).as_str(), "meta" | "support")
            && !file.ends_with(TEMPLATE)
            && !file.ends_with(SWEEP)
    };
    folder.files.iter().filter(is_graph).cloned().collect()
}

/// Calls `each` for a folder and those below it, but not for those below a sweep. Links to folders are not followed: they may be circles.
fn walk(path: &Path, each: &mut impl FnMut(&Folder<'_>)) -> Result<()> {
    let failed = |error: std::io::Error| Failure::input(error.to_string()).of_file(path);
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        let entry = entry.path();
        if is_folder {
            folders.push(entry);
        } else if entry.extension().is_some_and(|extension| extension == "json") {
            files.push(entry);
        }
    }
    files.sort();
    folders.sort();
    let folder = Folder { path, files };
    each(&folder);
    if folder.is_sweep() {
        return Ok(());
    }
    folders.iter().try_for_each(|folder| walk(folder, each))
}

/// The graph of a file.
fn single(path: PathBuf, suite: String) -> Found {
    let read = || {
        let graph = read_json(&path)?;
        let meta = beside(&path, "meta.json");
        let metadata = if meta.exists() { Some(read_json(&meta)?) } else { None };
        let metadata = metadata.map(|json| Metadata::read(&json).map_err(|failure| failure.of_file(&meta)));
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let values = Values::new(path.parent().unwrap_or(Path::new("")), &format!("{stem}."));
        Ok(Bundle { graph, metadata: metadata.transpose()?.unwrap_or_default(), values })
    };
    let bundle = read();
    Found { claims: beside(&path, "support.json"), case: String::new(), suite, bundle, path }
}

/// The cases of a sweep, or why it has none.
fn cases(path: &Path, suite: &str) -> Vec<Found> {
    let found = |case: &str, bundle| Found {
        path: path.to_owned(),
        case: case.to_owned(),
        suite: suite.to_owned(),
        claims: path.with_file_name("support.json"),
        bundle,
    };
    let sweep = read_json(path).and_then(|json| {
        let template = read_json(&path.with_file_name(TEMPLATE))?;
        Sweep::read(json, template).map_err(|failure| failure.of_file(path))
    });
    match sweep {
        Err(failure) => vec![found("", Err(failure))],
        Ok(sweep) => sweep
            .cases()
            .map(|(id, case)| {
                let bundle = sweep.bundle(case, path.parent().unwrap_or(Path::new("")));
                found(id, bundle.map_err(|failure| failure.of_file(path)))
            })
            .collect(),
    }
}
