//! `cargo xtask docs`: the pages as a site with a search, and the references for C, C++, Rust and Python below it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::check::joined;
use super::pages::Page;
use super::{Names, check_only, pages};
use crate::Failure;
use crate::cache;
use crate::install::{HEADERS, copy, files, remove, write};
use crate::process::{command, run, show};
use crate::steps::Steps;
use crate::tools::{self, PYTHON, Tool};
use crate::venv;
use crate::workspace::Workspace;

const DOXYGEN: Tool = Tool::new("doxygen", "doxygen");

/// The site generator, with a plugin that reads Python without running it.
const PACKAGES: &[&str] = &["mkdocs-material>=9.6,<10", "mkdocstrings[python]>=1,<2"];

/// Crates whose documentation is for users.
const CRATES: [&str; 3] = ["hipdnn", "hipdnn-plugin-sdk", "hipdnn-abi"];

/// The pages in order. Unlisted pages come last.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "Use",
        &[
            "README.md",
            "docs/start.md",
            "docs/errors.md",
            "docs/tool.md",
            "bindings/python/README.md",
            "docs/pytorch.md",
            "docs/onnxruntime.md",
            "docs/cpp.md",
            "docs/upstream.md",
            "examples_c/README.md",
            "docs/windows.md",
            "docs/packaging.md",
            "docs/environment.md",
            "docs/logging.md",
            "docs/profiling.md",
            "docs/status.md",
            "CHANGELOG.md",
        ],
    ),
    (
        "Reference",
        &[
            "docs/abi.md",
            "docs/json.md",
            "docs/numerics.md",
            "docs/plans.md",
            "docs/selection.md",
            "docs/plugins.md",
            "docs/cpu-engines.md",
            "docs/amd-engines.md",
            "docs/nvidia-engines.md",
            PYTHON_PAGE,
            REFERENCES_PAGE,
        ],
    ),
    (
        "Change",
        &[
            "CONTRIBUTING.md",
            "SECURITY.md",
            "CODE_OF_CONDUCT.md",
            "docs/architecture.md",
            "docs/cpu-design.md",
            "docs/reliability.md",
            "docs/hip.md",
            "docs/dependencies.md",
            "docs/amd-smoke.md",
        ],
    ),
];

/// The page that is generated here.
const PYTHON_PAGE: &str = "python-reference.md";
const PYTHON_TEXT: &str = "# Python reference\n\n::: hipdnn\n\n::: hipdnn.torch\n";
const REFERENCES_PAGE: &str = "references.md";
const REFERENCES_TEXT: &str = "# Rust, C and C++ references\n\n\
    - Rust: [crate `hipdnn`](rust/hipdnn/index.html), [`hipdnn-plugin-sdk`](rust/hipdnn_plugin_sdk/index.html), \
    [`hipdnn-abi`](rust/hipdnn_abi/index.html)\n\
    - [C and C++ headers](c/index.html)\n";

/// Builds the site in `target/site`, and opens it if requested.
pub fn build(workspace: &Workspace, names: &Names, open: bool) -> Result<(), Failure> {
    let site = workspace.target_dir().join("site");
    let mut steps = Steps::new();
    steps.group("site");
    steps.run("tools", || tools::prepare(&[&PYTHON, &DOXYGEN], &[]));
    steps.run("links, files, commands, variables and lengths", || check_only(workspace, names));
    steps.run("pages", || of_pages(workspace, &site));
    steps.run("Rust", || of_rust(workspace, &site));
    steps.run("C and C++", || of_headers(workspace, &site));
    steps.run("links of the site", || links(&site));
    steps.summary()?;
    let index = site.join("index.html");
    println!("{}", index.display());
    if open { show(&mut command("xdg-open", [index])) } else { Ok(()) }
}

fn environment() -> Result<PathBuf, Failure> {
    venv::ready(&cache::folder("HIPDNN_DOCS_ENV", "docs-env")?, PACKAGES, "the site")
}

/// Copies the pages and the files they link to into a folder, and has MkDocs build the site.
fn of_pages(workspace: &Workspace, site: &Path) -> Result<String, Failure> {
    let source = workspace.scratch("site");
    remove(&source)?;
    let mut pages = pages::all(workspace)?;
    pages.retain(|page| !page.path.starts_with('.'));
    let paths: BTreeSet<&str> = pages.iter().map(|page| page.path.as_str()).collect();
    for page in &pages {
        write(&source.join(&page.path), &with_links(workspace, page, &paths, &source)?)?;
    }
    write(&source.join(PYTHON_PAGE), PYTHON_TEXT)?;
    write(&source.join(REFERENCES_PAGE), REFERENCES_TEXT)?;
    // MkDocs checks links, but the references are generated later.
    for reference in ["rust/hipdnn", "rust/hipdnn_plugin_sdk", "rust/hipdnn_abi", "c"] {
        write(&source.join(reference).join("index.html"), "")?;
    }
    let sessions = workspace.scratch("doctests.py");
    write(&sessions, include_str!("doctests.py"))?;
    let settings = include_str!("mkdocs.yml")
        .replace("@SOURCE@", &source.display().to_string())
        .replace("@SITE@", &site.display().to_string())
        .replace("@PYTHON@", &workspace.path("bindings/python/python").display().to_string())
        .replace("@SESSIONS@", &sessions.display().to_string())
        .replace("@NAV@", &navigation(&paths));
    let file = workspace.scratch("mkdocs.yml");
    write(&file, &settings)?;
    let program = environment()?.join("bin/mkdocs");
    run(command(program, ["build", "--quiet", "--strict", "--clean", "-f"]).arg(&file))?;
    Ok(format!("{} pages", pages.len()))
}

/// The page's text, with links to the site's files: linked files are copied, and folders become their pages.
fn with_links(
    workspace: &Workspace,
    page: &Page,
    paths: &BTreeSet<&str>,
    source: &Path,
) -> Result<String, Failure> {
    let mut text = page.text.clone();
    for (_, target) in page.links() {
        let file = target.split('#').next().unwrap_or_default();
        if target.contains("://") || file.is_empty() {
            continue;
        }
        let path = joined(&page.folder(), file);
        if paths.contains(path.as_str()) {
            continue;
        }
        let link = format!("]({target})");
        if workspace.path(&path).is_dir() {
            let own = format!("{path}/README.md");
            let to =
                if paths.contains(own.as_str()) { format!("]({target}/README.md)") } else { "]".to_owned() };
            text = text.replace(&link, &to);
        } else {
            copy(&workspace.path(&path), &source.join(&path))?;
        }
    }
    Ok(text)
}

fn navigation(paths: &BTreeSet<&str>) -> String {
    let mut lines = String::new();
    let made = [PYTHON_PAGE, REFERENCES_PAGE];
    let named: BTreeSet<&str> = SECTIONS.iter().flat_map(|(_, pages)| pages.iter().copied()).collect();
    let rest: Vec<&str> = paths.difference(&named).copied().collect();
    let sections = SECTIONS.iter().map(|(name, pages)| (*name, pages.to_vec())).chain([("More", rest)]);
    for (name, pages) in sections {
        // Writing to a text cannot fail.
        let _ = writeln!(lines, "  - {name}:");
        for page in pages.iter().filter(|page| paths.contains(*page) || made.contains(page)) {
            let _ = writeln!(lines, "    - {page}");
        }
    }
    lines
}

fn of_rust(workspace: &Workspace, site: &Path) -> Result<String, Failure> {
    let target = workspace.scratch("rustdoc");
    let mut cargo = workspace.cargo(["doc", "--no-deps", "--locked", "--quiet", "--features"]);
    cargo.arg("hipdnn-plugin-sdk/json").args(CRATES.iter().flat_map(|name| ["-p", name]));
    run(cargo.arg("--target-dir").arg(&target).env("RUSTDOCFLAGS", "-D warnings"))?;
    copy_folder(&target.join("doc"), &site.join("rust"))
}

fn of_headers(workspace: &Workspace, site: &Path) -> Result<String, Failure> {
    let target = workspace.scratch("doxygen");
    remove(&target)?;
    fs::create_dir_all(&target)?;
    let inputs = HEADERS.map(|folder| workspace.path(folder).display().to_string()).join(" ");
    let settings = include_str!("Doxyfile")
        .replace("@INPUT@", &inputs)
        .replace("@OUTPUT@", &target.display().to_string())
        .replace("@VERSION@", &workspace.version);
    write(&target.join("Doxyfile"), &settings)?;
    run(command("doxygen", ["Doxyfile"]).current_dir(&target))?;
    copy_folder(&target.join("html"), &site.join("c"))
}

fn copy_folder(from: &Path, to: &Path) -> Result<String, Failure> {
    let list = files(from)?;
    for file in &list {
        copy(&from.join(file), &to.join(file))?;
    }
    Ok(format!("{} files", list.len()))
}

/// Checks that the pages' links lead to files of the site.
fn links(site: &Path) -> Result<String, Failure> {
    let mut lost = Vec::new();
    let mut count = 0_usize;
    for file in files(site)?.iter().filter(|file| file.extension().is_some_and(|end| end == "html")) {
        if file.starts_with("rust") || file.starts_with("c") {
            continue;
        }
        let text = fs::read_to_string(site.join(file))?;
        for part in text.split("href=\"").chain(text.split("src=\"")).skip(1) {
            let target = part.split(['"', '#', '?']).next().unwrap_or_default();
            if target.is_empty() || target.contains(':') || target.starts_with('<') || target.contains('\n') {
                continue;
            }
            count += 1;
            let folder = file.parent().unwrap_or(Path::new(""));
            // The 404 page is shown from any folder.
            let path = match target.strip_prefix('/') {
                Some(from_root) => site.join(from_root),
                None => site.join(joined(folder, target)),
            };
            if !path.exists() {
                lost.push(format!("{}: {target}", file.display()));
            }
        }
    }
    lost.sort();
    lost.dedup();
    if lost.is_empty() { Ok(format!("{count} links")) } else { Err(Failure::new(lost.join("\n"))) }
}
