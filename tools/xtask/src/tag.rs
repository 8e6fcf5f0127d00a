//! `cargo xtask tag`: the annotated git tag of a release. Its message is the release's section of the list of changes.

use std::fs;

use crate::Failure;
use crate::process::{command, run};
use crate::workspace::Workspace;

const CHANGES: &str = "CHANGELOG.md";

/// Makes the tag of the workspace's version, and answers its name.
///
/// # Errors
/// Uncommitted changes, a version that the list of changes lacks, a tag that exists.
pub fn tag(workspace: &Workspace) -> Result<String, Failure> {
    let version = &workspace.version;
    let git = |arguments: &[&str]| run(command("git", arguments).current_dir(workspace.path("")));
    let changes = git(&["status", "--porcelain"])?;
    if !changes.trim().is_empty() {
        return Err(Failure::new(format!("commit these changes first:\n{}", changes.trim_end())));
    }
    let list = fs::read_to_string(workspace.path(CHANGES))?;
    let section = section(&list, version).map_err(|reason| Failure::new(format!("{CHANGES}: {reason}")))?;
    let (name, file) = (format!("v{version}"), workspace.scratch("tag.txt"));
    fs::write(&file, format!("hipdnn-backend {version}\n\n{section}\n"))?;
    // Headings of the section begin with a sign that git takes for a comment.
    let mut made = command("git", ["tag", "--annotate", "--cleanup=verbatim", "--file"]);
    run(made.arg(&file).arg(&name).current_dir(workspace.path("")))?;
    Ok(name)
}

/// What the list says of a version, which has to have a date.
fn section<'a>(list: &'a str, version: &str) -> Result<&'a str, String> {
    let heading = format!("## [{version}] - ");
    let (_, rest) = list.split_once(&heading).ok_or_else(|| {
        format!("has no heading `{heading}DATE`, expected one for the version of Cargo.toml")
    })?;
    let (date, rest) = rest.split_once('\n').unwrap_or((rest, ""));
    let is_date = date.len() == 10 && date.split('-').map(str::len).eq([4, 2, 2]);
    if !is_date {
        return Err(format!("{version} has the date {date:?}, expected YYYY-MM-DD"));
    }
    Ok(rest.split("\n## ").next().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::section;

    const LIST: &str = "# Changelog\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- Two.\n\n## [0.1.0] - 2025-12-31\n\nThe first.\n";

    #[test]
    fn a_section_ends_where_the_next_release_begins() {
        assert_eq!(section(LIST, "0.2.0").unwrap(), "### Added\n\n- Two.");
        assert_eq!(section(LIST, "0.1.0").unwrap(), "The first.");
    }

    #[test]
    fn a_release_needs_a_heading_with_a_date() {
        assert!(section(LIST, "0.3.0").unwrap_err().contains("## [0.3.0] - DATE"));
        let undated = LIST.replace("2026-01-02", "soon");
        assert!(section(&undated, "0.2.0").unwrap_err().contains("expected YYYY-MM-DD"));
    }
}
