//! The documents: checks their statements, runs their snippets, and builds a site.

mod check;
mod pages;
mod site;
mod snippets;

pub use check::Names;
pub use site::build;
use std::path::Path;

use crate::Failure;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Checks every page, and runs its snippets against the staged tree.
pub fn test(workspace: &Workspace, stage: &Path, names: &Names, steps: &mut Steps) {
    let pages = match pages::all(workspace) {
        Ok(pages) => pages,
        Err(failure) => {
            steps.run("pages", || Err(failure));
            return;
        }
    };
    steps.run("links, files, commands, variables and lengths", || check::all(workspace, &pages, names));
    for page in &pages {
        if page.blocks().is_empty() {
            continue;
        }
        steps.run(&page.path, || {
            let runner = snippets::Runner::new(workspace, stage, page)?;
            let mut ran = 0_usize;
            for block in page.blocks() {
                ran += usize::from(runner.run(page, &block)?);
            }
            Ok(format!("{ran} snippets"))
        });
    }
}

/// The checks that need no build.
fn check_only(workspace: &Workspace, names: &Names) -> Result<String, Failure> {
    check::all(workspace, &pages::all(workspace)?, names)
}
