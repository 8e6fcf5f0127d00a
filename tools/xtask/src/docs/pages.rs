//! Parses Markdown pages for the checks: code blocks, headings, links, words.

use std::path::PathBuf;

use crate::Failure;
use crate::process::{command, run};
use crate::workspace::Workspace;

/// A page of the repository.
pub struct Page {
    /// Its path from the root.
    pub path: String,
    pub text: String,
}

/// A block between fences.
#[derive(Debug, PartialEq)]
pub struct Block<'a> {
    pub language: &'a str,
    /// The number of the fence's line.
    pub line: usize,
    pub text: String,
    /// The comment `<!-- snippet: ... -->` above the block.
    pub note: Option<&'a str>,
}

/// Every page that git tracks or would add.
pub fn all(workspace: &Workspace) -> Result<Vec<Page>, Failure> {
    let mut git = command("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let paths = run(git.current_dir(workspace.path("")))?;
    let mut pages = Vec::new();
    for path in paths.lines() {
        let file = workspace.path(path);
        if file.is_file() {
            pages.push(Page { path: path.to_owned(), text: std::fs::read_to_string(file)? });
        }
    }
    if pages.is_empty() { Err(Failure::new("no page was found")) } else { Ok(pages) }
}

impl Page {
    /// The folder of the page, from the root.
    pub fn folder(&self) -> PathBuf {
        PathBuf::from(&self.path).parent().map(PathBuf::from).unwrap_or_default()
    }

    /// The blocks of code, in order.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        let mut note = None;
        for (at, line) in self.text.lines().enumerate() {
            match (open.take(), line.strip_prefix("```")) {
                (None, Some(language)) => {
                    open = Some(Block { language, line: at + 1, text: String::new(), note: note.take() });
                }
                (None, None) => {
                    if let Some(comment) = line.strip_prefix("<!-- snippet: ") {
                        note = comment.strip_suffix(" -->");
                    } else if !line.trim().is_empty() {
                        note = None;
                    }
                }
                (Some(block), Some(_)) => blocks.push(block),
                (Some(mut block), None) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                    open = Some(block);
                }
            }
        }
        blocks
    }

    /// The lines outside of blocks, each with its number.
    pub fn prose(&self) -> Vec<(usize, &str)> {
        let mut inside = false;
        let numbered = self.text.lines().enumerate().map(|(at, line)| (at + 1, line));
        numbered
            .filter(|(_, line)| {
                let fence = line.starts_with("```");
                inside ^= fence;
                !inside && !fence
            })
            .collect()
    }

    /// The number of words outside of blocks, without numbers and the bars and dashes of tables.
    pub fn words(&self) -> usize {
        let is_word = |word: &&str| word.chars().any(char::is_alphabetic);
        self.prose().iter().map(|(_, line)| line.split_whitespace().filter(is_word).count()).sum()
    }

    /// The anchors of the headings.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.prose().into_iter().filter_map(|(_, line)| line.strip_prefix('#'));
        headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
    }

    /// The targets of links and pictures, each with its line.
    pub fn links(&self) -> Vec<(usize, &str)> {
        let mut links = Vec::new();
        for (number, line) in self.prose() {
            for part in line.split("](").skip(1) {
                if let Some((target, _)) = part.split_once(')') {
                    links.push((number, target));
                }
            }
        }
        links
    }

    /// The texts between single backticks, each with its line.
    pub fn code(&self) -> Vec<(usize, &str)> {
        let lines = self.prose().into_iter();
        lines
            .flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |code| (number, code)))
            .collect()
    }
}

/// The anchor of a heading: lower case, without punctuation, hyphens for spaces.
pub fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# One `page`, two\n[a](b.md#c) `x/y` and `z`\n\n<!-- snippet: not run: no reason -->\n```sh\n# no heading\n[no](link)\n```\nword | --- | 7\n\
                        ```\n$ a\n```\n";

    fn page() -> Page {
        Page { path: "docs/p.md".to_owned(), text: TEXT.to_owned() }
    }

    #[test]
    fn blocks_have_their_language_line_and_note() {
        let page = page();
        let blocks = page.blocks();
        let of = |language, line, text: &str, note| Block { language, line, text: text.to_owned(), note };
        let first = of("sh", 5, "# no heading\n[no](link)\n", Some("not run: no reason"));
        assert_eq!(blocks, [first, of("", 10, "$ a\n", None)]);
    }

    #[test]
    fn links_code_anchors_and_words_are_those_outside_of_blocks() {
        let page = page();
        assert_eq!(page.links(), [(2, "b.md#c")]);
        assert_eq!(page.code(), [(1, "page"), (2, "x/y"), (2, "z")]);
        assert_eq!(page.anchors(), ["one-page-two"]);
        assert_eq!(page.words(), 3 + 4 + 5 + 1);
        assert_eq!(page.folder(), PathBuf::from("docs"));
    }
}
