//! `cargo xtask ci --since REV`: the parts of CI that test the changed files.

use std::collections::BTreeSet;

use crate::Failure;
use crate::process::{command, run};
use crate::test;
use crate::workspace::Workspace;

/// The part that is `cargo xtask lint`.
pub const LINT: &str = "lint";

/// The part that is `cargo xtask amd-test`.
pub const AMD: &str = "amd";

/// Files, by the beginning of their path or by `*` and its end, and the parts that test them. The first rule that fits counts. Files
/// that no rule names, such as those of the library and the SDK, concern every part.
const RULES: &[(&str, &str)] = &[
    ("docs/json.md", "docs rust"),
    ("docs/", "docs pictures"),
    ("benches/results/", "docs pictures"),
    ("benches/draw.py", "docs pictures lint"),
    ("benches/", "format rust lint"),
    ("c_tests/api/", "c lint"),
    ("c_tests/cpp/", "c lint"),
    ("c_tests/host/", "c lint"),
    ("c_tests/client/", "client lint"),
    ("c_tests/wire/", "wire lint"),
    ("c_tests/beside/", "beside ort lint"),
    ("c_tests/consumer/", "install package beside cmake lint"),
    ("c_tests/subproject/", "cmake lint"),
    ("c_tests/plugin_host/", "plugins examples lint amd"),
    ("bindings/cpp/", "generated headers c client examples docs install package beside cmake lint"),
    ("bindings/python/", "format python docs lint"),
    ("integrations/onnxruntime/", "format rust ort docs lint"),
    ("plugins/cpu/", "format rust exports c plugins client examples tool python ort lint"),
    ("plugins/hipblaslt/", "format rust exports plugins beside lint amd"),
    ("plugins/miopen/", "format rust exports plugins beside lint amd"),
    ("plugins/kernels/", "format rust exports plugins beside ort lint amd"),
    ("plugins/lowering/", "format rust exports plugins beside ort lint amd"),
    ("plugins/rtc/", "format rust exports plugins beside ort lint amd"),
    ("plugins/cudnn/", "format rust exports plugins ort lint"),
    ("plugins/vulkan/", "format rust exports plugins tool python ort lint"),
    ("tools/gpu-test/", "format rust lint amd"),
    ("tools/hipdnn/", "format rust tool examples beside package docs lint"),
    ("tools/bench-cpu/", "format rust lint"),
    ("tools/model/", "format rust lint"),
    ("tools/fuzz/", "format rust fuzz lint"),
    ("examples_c/", "examples docs lint amd"),
    ("examples_cpp/", "examples docs lint"),
    ("examples_python/", "python docs lint"),
    ("cmake/", "install package beside cmake docs"),
    ("CMakeLists.txt", "install package beside cmake docs"),
    ("packaging/", "package docs"),
    (".github/", "docs"),
    ("*.md", "docs"),
];

/// Every part of CI.
pub fn everything() -> BTreeSet<&'static str> {
    test::names().into_iter().chain([LINT, AMD]).collect()
}

/// The parts that test these files.
pub fn parts(files: &[String]) -> BTreeSet<&'static str> {
    let fits = |file: &str, pattern: &str| match pattern.strip_prefix('*') {
        Some(end) => file.ends_with(end),
        None => file.starts_with(pattern),
    };
    let of = |file: &String| match RULES.iter().find(|(pattern, _)| fits(file, pattern)) {
        Some((_, parts)) => parts.split(' ').collect(),
        None => everything(),
    };
    files.iter().flat_map(of).collect()
}

/// The files that differ between a revision and the working tree, also those that git does not track yet.
pub fn changed(workspace: &Workspace, revision: &str) -> Result<Vec<String>, Failure> {
    let git = |words: &[&str]| run(command("git", words).current_dir(workspace.path("")));
    // Both names of a renamed file count. The end of the options, so that no revision is read as one.
    let differing = git(&["diff", "--name-only", "--no-renames", "--end-of-options", revision, "--"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(differing.lines().chain(new.lines()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts_of(files: &[&str]) -> Vec<&'static str> {
        parts(&files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>()).into_iter().collect()
    }

    #[test]
    fn files_are_tested_by_what_uses_them() {
        assert_eq!(parts_of(&["docs/start.md", "README.md"]), ["docs", "pictures"]);
        assert_eq!(parts_of(&["c_tests/api/handle.c"]), ["c", "lint"]);
        assert_eq!(
            parts_of(&["tools/fuzz/src/main.rs", "docs/json.md"]),
            ["docs", "format", "fuzz", "lint", "rust"]
        );
        assert!(parts_of(&[]).is_empty());
    }

    #[test]
    fn what_everything_uses_is_tested_by_everything() {
        let everything: Vec<_> = everything().into_iter().collect();
        for file in [
            "src/lib.rs",
            "plugins/sdk/src/lib.rs",
            "Cargo.lock",
            "include/hipdnn/hipdnn_vulkan.h",
            "a new file",
        ] {
            assert_eq!(parts_of(&["docs/start.md", file]), everything, "{file}");
        }
    }

    #[test]
    fn rules_name_parts_and_files_that_there_are() {
        let tracked = run(command("git", ["ls-files"]).current_dir(Workspace::new().path(""))).unwrap();
        let mut seen = Vec::new();
        for (pattern, parts) in RULES {
            let known = everything();
            assert!(parts.split(' ').all(|part| known.contains(part)), "{pattern}: {parts}");
            assert!(
                pattern.starts_with('*') || tracked.lines().any(|file| file.starts_with(pattern)),
                "{pattern}"
            );
            let hidden = seen.iter().find(|earlier| pattern.starts_with(*earlier));
            assert_eq!(hidden, None, "{pattern} is never reached");
            seen.push(*pattern);
        }
    }

    #[test]
    fn revisions_are_no_options_and_must_exist() {
        let workspace = Workspace::new();
        assert!(changed(&workspace, "HEAD").is_ok());
        for revision in ["--output=file", "no-such-revision"] {
            assert!(changed(&workspace, revision).is_err(), "{revision}");
        }
    }
}
