//! The messages of commits that the remote branch does not have yet.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::process::{command, run};
use crate::steps::LEFT_OUT;

/// The most characters of a subject.
const MOST: usize = 72;

/// Branches that commits land in, in this order. What a topic's own remote branch has is not landed.
const BASES: [&str; 3] = ["origin/HEAD", "origin/main", "@{upstream}"];

/// Variables by which git's hooks and worktrees name another repository than that of the current folder.
const ELSEWHERE: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"];

/// Between commits, and between the parts of one.
const COMMIT: char = '\x01';
const PART: char = '\0';

/// Checks the commits of a clone's branch since it left its remote branch, merges excepted. Says how many there are.
pub fn check(folder: &Path) -> Result<String, Failure> {
    let git = |words: &[&str]| run(&mut git_in(folder, words));
    let own = git(&["rev-parse", "--show-toplevel"]).ok().map(|top| PathBuf::from(top.trim_end()));
    if own.and_then(|top| top.canonicalize().ok()) != folder.canonicalize().ok() {
        return Ok(format!("{LEFT_OUT}no repository of its own"));
    }
    let known = |base: &&&str| git(&["rev-parse", "--verify", "--quiet", "--end-of-options", base]).is_ok();
    let Some(base) = BASES.iter().find(known) else {
        return Ok(format!("{LEFT_OUT}no remote branch to compare with"));
    };
    let log = git(&["log", "--no-merges", "--format=%h%x00%s%x00%b%x01", &format!("{base}..HEAD")])?;
    let commits: Vec<&str> = log.split(COMMIT).map(str::trim_start).filter(|one| !one.is_empty()).collect();
    let wrong: Vec<String> = commits.iter().flat_map(|commit| faults(commit)).collect();
    if wrong.is_empty() {
        Ok(format!("{} since {base}", commits.len()))
    } else {
        Err(Failure::new(wrong.join("\n")))
    }
}

/// Git in the repository of a folder.
fn git_in(folder: &Path, words: &[&str]) -> Command {
    let mut git = command("git", words);
    git.current_dir(folder);
    for name in ELSEWHERE {
        git.env_remove(name);
    }
    git
}

/// What is wrong with a commit, given as its hash, subject and body.
fn faults(commit: &str) -> Vec<String> {
    let mut parts = commit.split(PART);
    let mut next = || parts.next().unwrap_or_default();
    let (hash, subject, body) = (next(), next(), next());
    // Git writes the subject of a commit that takes another back.
    let length = subject.strip_prefix("Revert ").unwrap_or(subject).chars().count();
    let mut faults = Vec::new();
    if length > MOST {
        faults
            .push(format!("{hash} has a subject of {length} characters, expected at most {MOST}: {subject}"));
    }
    // Git's trailers name people.
    if !body.lines().any(|line| !line.trim().is_empty() && !line.contains("-by: ")) {
        faults.push(format!("{hash} has no body, expected a sentence that says why: {subject}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::install::remove;
    use crate::workspace::Workspace;

    #[test]
    fn a_message_has_a_short_subject_and_a_body() {
        let (short, long) = ("é".repeat(MOST), "e".repeat(MOST + 1));
        assert!(faults(&format!("1a\0{short}\0Because.\n\nSigned-off-by: A <a@b>\n")).is_empty());
        let wrong = faults(&format!("1a\0{long}\0\nSigned-off-by: A <a@b>\n"));
        assert_eq!(wrong.len(), 2);
        assert!(wrong[0].contains("1a has a subject of 73 characters, expected at most 72"), "{}", wrong[0]);
        assert!(wrong[1].contains("1a has no body"), "{}", wrong[1]);
    }

    #[test]
    fn commits_since_the_remote_branch_are_checked() {
        let folder = Workspace::new().scratch("commits");
        remove(&folder).unwrap();
        let (origin, clone) = (folder.join("origin"), folder.join("clone"));
        fs::create_dir_all(&origin).unwrap();
        let git = |at: &Path, words: &[&str]| {
            let own = [
                ["-c", "user.name=a"],
                ["-c", "user.email=a@b"],
                ["-c", "commit.gpgsign=false"],
                ["-c", "core.hooksPath=/dev/null"],
            ];
            run(&mut git_in(at, &[own.as_flattened(), words].concat())).unwrap()
        };
        let commit = |at: &Path, words: &[&str]| {
            git(at, &[&["commit", "--quiet", "--allow-empty", "--no-verify"], words].concat())
        };
        git(&origin, &["init", "--quiet"]);
        commit(&origin, &["-m", "Landed without a body"]);
        assert_eq!(check(&origin).unwrap(), "left out: no remote branch to compare with");
        git(&folder, &["clone", "--quiet", "origin", "clone"]);
        assert!(check(&clone).unwrap().starts_with("0 since"));
        commit(&clone, &["-m", "Say why", "-m", "Readers ask."]);
        assert!(check(&clone).unwrap().starts_with("1 since"));
        commit(&clone, &["-m", "Say nothing"]);
        let failure = check(&clone).unwrap_err().to_string();
        assert!(failure.contains("no body") && failure.ends_with("Say nothing"), "{failure}");
    }
}
