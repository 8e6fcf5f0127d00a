//! Where the project lies, and its version.

use std::path::{Path, PathBuf};

/// The project this tool was built in.
pub struct Workspace {
    root: PathBuf,
    /// `MAJOR.MINOR.PATCH` of every package.
    pub version: String,
}

impl Workspace {
    /// The workspace of this tool's own source.
    pub fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
        Self { root: root.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// A path inside it.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// A path as seen from the folder, for messages.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}
