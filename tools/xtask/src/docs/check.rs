//! Checks that pages match the repository: links, files, commands, variables; and that pages stay short.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::pages::Page;
use crate::Failure;
use crate::process::{command, run};
use crate::workspace::Workspace;

/// The most words of a page, and of the pages in docs and all README.md together.
const MOST_WORDS: usize = 2_500;
const MOST_WORDS_IN_ALL: usize = 26_000;

/// The list of changes grows with each release.
const LIST_OF_CHANGES: &str = "CHANGELOG.md";

/// Words that hide who does what.
const RIDDLES: &[&str] = &["nobody", "is said so", "there is none", "is as if it were not"];

/// The names of this tool's commands and test groups.
pub struct Names {
    pub commands: Vec<String>,
    pub groups: Vec<&'static str>,
}

/// Checks every page. Returns the counts.
pub fn all(workspace: &Workspace, pages: &[Page], names: &Names) -> Result<String, Failure> {
    let files = Files::of(workspace)?;
    let mut found = Vec::new();
    for page in pages {
        links(page, pages, &files, &mut found);
        paths(page, &files, &mut found);
        commands(page, names, &mut found);
        words(page, &mut found);
        json(page, &mut found);
    }
    variables(workspace, pages, &mut found)?;
    let is_counted = |page: &&Page| page.path.starts_with("docs/") || page.path.ends_with("README.md");
    let counted = pages.iter().filter(is_counted).map(Page::words).sum::<usize>();
    if counted > MOST_WORDS_IN_ALL {
        found.push(format!("docs and README.md: {counted} words, expected at most {MOST_WORDS_IN_ALL}"));
    }
    if found.is_empty() {
        Ok(format!("{} pages, {counted} words", pages.len()))
    } else {
        Err(Failure::new(found.join("\n")))
    }
}

/// The files and folders of the repository.
struct Files {
    paths: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Files {
    fn of(workspace: &Workspace) -> Result<Self, Failure> {
        let mut git = command("git", ["ls-files", "--cached", "--others", "--exclude-standard"]);
        let list = run(git.current_dir(workspace.path("")))?;
        let mut files = Self { paths: BTreeSet::new(), names: BTreeSet::new() };
        for path in list.lines() {
            for folder in Path::new(path).ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
                files.paths.insert(folder.display().to_string());
            }
            files.names.extend(path.rsplit('/').next().map(str::to_owned));
        }
        Ok(files)
    }

    fn has(&self, path: &str) -> bool {
        self.paths.contains(path.trim_end_matches('/'))
    }

    /// Whether any file's path ends like this.
    fn has_somewhere(&self, end: &str) -> bool {
        self.paths.iter().any(|path| path.strip_suffix(end).is_some_and(|rest| rest.ends_with('/')))
    }
}

fn links(page: &Page, pages: &[Page], files: &Files, found: &mut Vec<String>) {
    for (line, target) in page.links() {
        if target.contains("://") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { page.path.clone() } else { joined(&page.folder(), file) };
        if !files.has(&path) {
            found.push(format!(
                "{}:{line}: the link {target} leads to {path}, which does not exist",
                page.path
            ));
        } else if !anchor.is_empty() {
            let is_there =
                pages.iter().any(|other| other.path == path && other.anchors().iter().any(|a| a == anchor));
            if !is_there {
                found.push(format!("{}:{line}: {path} has no heading #{anchor}", page.path));
            }
        }
    }
}

/// A relative path, resolved.
pub fn joined(folder: &Path, relative: &str) -> String {
    let mut whole = PathBuf::new();
    for part in folder.join(relative).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => (),
            other => whole.push(other),
        }
    }
    whole.display().to_string()
}

/// Checks that source files and paths in backticks exist.
fn paths(page: &Page, files: &Files, found: &mut Vec<String>) {
    const SOURCES: &[&str] = &["rs", "c", "cpp", "h", "hpp", "py", "fbs"];
    for (line, code) in page.code() {
        let plain = code.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
        let stems = code.split('/').map(|part| part.split('.').next().unwrap_or_default());
        let is_pattern = stems
            .filter(|stem| *stem != "README")
            .any(|stem| !stem.is_empty() && stem.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
        if !plain || is_pattern || page.path == LIST_OF_CHANGES {
            continue;
        }
        let is_source =
            Path::new(code).extension().is_some_and(|end| SOURCES.iter().any(|known| end == *known));
        let first = code.split('/').next().unwrap_or_default();
        let is_path = code.contains('/') && files.has(first);
        let exists = files.has(code) || files.has(&joined(&page.folder(), code)) || files.has_somewhere(code);
        let is_name = !code.contains('/') && files.names.contains(code);
        let of_users = code.contains('/') && !is_path;
        if (is_source || is_path) && !exists && !is_name && !of_users && !INSTALLED.contains(&code) {
            found.push(format!("{}:{line}: `{code}` does not exist", page.path));
        }
    }
}

/// Files that are installed, or that other projects have.
const INSTALLED: &[&str] = &[
    "miopen.h",
    "hiprtc.h",
    "hip_runtime_api.h",
    "hipblaslt.h",
    "rocblas.h",
    "cuda.h",
    "nvrtc.h",
    "cudnn.h",
    "include/hipdnn/hipdnn.hpp",
    "hipdnn_frontend.hpp",
    "cudnn_frontend.h",
];

fn commands(page: &Page, names: &Names, found: &mut Vec<String>) {
    if page.path == LIST_OF_CHANGES {
        return;
    }
    for (at, line) in page.text.lines().enumerate() {
        for rest in line.split("cargo xtask ").skip(1) {
            let end =
                rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | ' '))).unwrap_or(rest.len());
            let mut words = rest.get(..end).unwrap_or_default().split(' ');
            let name = words.next().unwrap_or_default();
            if !name.is_empty()
                && name != "help"
                && !names.commands.iter().any(|known| known == name)
                && !name.contains(char::is_uppercase)
            {
                found.push(format!("{}:{}: cargo xtask {name} is not a command", page.path, at + 1));
            }
            let closed = rest.get(end..).is_some_and(|after| after.starts_with('`'));
            let groups =
                words.filter(|word| closed && name == "test" && !word.is_empty() && !word.starts_with('-'));
            for group in groups.filter(|group| !names.groups.contains(group)) {
                found.push(format!("{}:{}: cargo xtask test has no group {group}", page.path, at + 1));
            }
        }
    }
}

fn words(page: &Page, found: &mut Vec<String>) {
    if page.path == LIST_OF_CHANGES {
        return;
    }
    let count = page.words();
    if count > MOST_WORDS {
        found.push(format!("{}: {count} words, expected at most {MOST_WORDS}", page.path));
    }
    for (line, text) in page.prose() {
        for riddle in RIDDLES.iter().filter(|riddle| text.to_lowercase().contains(**riddle)) {
            found.push(format!("{}:{line}: \"{riddle}\": say who does what", page.path));
        }
    }
}

/// A JSON block is one value, or one per line.
fn json(page: &Page, found: &mut Vec<String>) {
    for block in page.blocks().iter().filter(|block| block.language == "json") {
        if let Err(error) = serde_json::from_str::<serde_json::Value>(&block.text) {
            found.push(format!("{}:{}: {error}", page.path, block.line));
        }
    }
}

/// Checks that a source reads every variable in the tables of the page on the environment.
fn variables(workspace: &Workspace, pages: &[Page], found: &mut Vec<String>) -> Result<(), Failure> {
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for page in pages.iter().filter(|page| page.path == "docs/environment.md") {
        for (line, code) in page.code() {
            let name = code.split('=').next().unwrap_or_default();
            if name.starts_with("HIPDNN_") && !name.contains(char::is_lowercase) {
                wanted.insert(name, line);
            }
        }
    }
    if wanted.is_empty() {
        found.push("docs/environment.md: no variable was found".to_owned());
    }
    for (name, line) in wanted {
        let mut git = command("git", ["grep", "-qwF", name, "--", ":!*.md"]);
        // git grep's status is 1 if it finds nothing.
        if run(git.current_dir(workspace.path(""))).is_err() {
            found.push(format!("docs/environment.md:{line}: no source reads {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let page = Page { path: "docs/p.md".to_owned(), text: text.to_owned() };
        let files = Files {
            paths: ["docs", "docs/p.md", "src", "src/a.rs", "c_tests/api/b.c"].map(str::to_owned).into(),
            names: ["p.md", "a.rs", "b.c"].map(str::to_owned).into(),
        };
        let names = Names { commands: vec!["test".to_owned()], groups: vec!["c"] };
        let mut found = Vec::new();
        links(&page, std::slice::from_ref(&page), &files, &mut found);
        paths(&page, &files, &mut found);
        commands(&page, &names, &mut found);
        words(&page, &mut found);
        json(&page, &mut found);
        found
    }

    #[test]
    fn a_true_page_passes() {
        let text = "# A b\n[x](../src/a.rs) [y](#a-b) [z](https://example.org/x) `src/a.rs` `api/b.c` `b.c` `src/NAME.rs`\n\
                    `cargo xtask test c`\n```json\n{\"a\": 1}\n```\n";
        assert_eq!(said(text), Vec::<String>::new());
    }

    #[test]
    fn each_false_word_is_found() {
        for (text, wanted) in [
            ("[x](gone.md)", "docs/p.md:1: the link gone.md leads to docs/gone.md, which does not exist"),
            ("[x](#gone)", "docs/p.md:1: docs/p.md has no heading #gone"),
            ("`src/gone.rs`", "docs/p.md:1: `src/gone.rs` does not exist"),
            ("`gone.c`", "docs/p.md:1: `gone.c` does not exist"),
            ("cargo xtask gone", "docs/p.md:1: cargo xtask gone is not a command"),
            ("`cargo xtask test gone`", "docs/p.md:1: cargo xtask test has no group gone"),
            ("Nobody knows", "docs/p.md:1: \"nobody\": say who does what"),
            ("```json\n{\n```", "docs/p.md:1: EOF while parsing an object at line 2 column 0"),
        ] {
            assert_eq!(said(text), [wanted]);
        }
        let long = "word ".repeat(MOST_WORDS + 1);
        assert_eq!(said(&long), ["docs/p.md: 2501 words, expected at most 2500"]);
    }
}
