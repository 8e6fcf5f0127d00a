//! How much of the tests runs: what every change needs, or everything.

use crate::process::{command, run};
use crate::workspace::Workspace;

/// How much of a group of tests runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What `cargo xtask ci` runs for every change: one compiler, one ONNX Runtime, samples of what is slow.
    Change,
    /// Everything, as `cargo xtask nightly` and a group that is named on the command line.
    Whole,
}

impl Extent {
    /// Whether everything runs.
    pub fn is_whole(self) -> bool {
        self == Self::Whole
    }
}

/// A number derived from the commit, so that each commit tests another sample; 0 without a commit.
pub fn turn(workspace: &Workspace) -> usize {
    let mut git = command("git", ["rev-parse", "HEAD"]);
    let commit = run(git.current_dir(workspace.path(""))).unwrap_or_default();
    commit.get(..8).and_then(|digits| usize::from_str_radix(digits, 16).ok()).unwrap_or(0)
}
