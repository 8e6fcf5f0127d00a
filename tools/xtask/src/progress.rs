//! Runs cargo builds: shows the progress bar on a terminal, and other output only if requested or if the build fails.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::process::{line, show};
use crate::processor;
use crate::workspace::Workspace;

/// The beginning of cargo's bar, without leading spaces.
const BAR: &str = "Building [";

/// The beginning of a line about a crate being compiled.
const COMPILES: &str = "Compiling ";

/// Runs a build. Returns how many crates it compiled.
pub fn build(workspace: &Workspace, cargo: &mut Command) -> Result<String, Failure> {
    if workspace.verbose {
        return show(cargo).map(|()| String::new());
    }
    let mut terminal = std::io::stderr();
    let is_terminal = terminal.is_terminal();
    if is_terminal {
        // cargo writes into a pipe here, and cannot know how wide the terminal is.
        cargo.args(["--config", "term.progress.when='always'", "--config", "term.progress.width=80"]);
    }
    let pipes = cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = pipes.spawn().map_err(|error| Failure::new(format!("{}: {error}", line(cargo))))?;
    let mut words = Words::default();
    if let Some(pipe) = child.stderr.take() {
        words.read(BufReader::new(pipe), |bar| {
            if is_terminal {
                // Ignore failures to show the bar.
                let _ = write!(terminal, "\r{bar}\x1b[K");
            }
        })?;
    }
    let status = processor::wait(&mut child)?;
    if is_terminal {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    if status.success() {
        return Ok(format!("{} crates compiled", words.compiled));
    }
    Err(Failure::new(format!("{}\n{}{status}", line(cargo), words.text)))
}

/// cargo's output.
#[derive(Default)]
struct Words {
    /// All but its bar.
    text: String,
    compiled: usize,
}

impl Words {
    /// Reads to the end. A bar ends with a carriage return, everything else with a newline.
    fn read(&mut self, pipe: impl BufRead, mut show: impl FnMut(&str)) -> std::io::Result<()> {
        let mut part = Vec::new();
        for byte in pipe.bytes() {
            let byte = byte?;
            if byte != b'\r' && byte != b'\n' {
                part.push(byte);
                continue;
            }
            let words = String::from_utf8_lossy(&part);
            let bare = words.trim_start_matches("\x1b[K").trim();
            if bare.starts_with(BAR) {
                show(bare);
            } else if !bare.is_empty() {
                self.compiled += usize::from(bare.starts_with(COMPILES));
                self.text.push_str(words.trim_start_matches("\x1b[K").trim_end());
                self.text.push('\n');
            }
            part.clear();
        }
        self.text.push_str(&String::from_utf8_lossy(&part));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_shown_and_words_kept() {
        let said = b"   Compiling a v1.0.0\n\r    Building [=>  ] 1/3: a\r\x1b[K   Compiling b v1.0.0\nwarning: x\n  here\n\r    Building [==>] 2/3\rerror: y";
        let (mut words, mut bars) = (Words::default(), Vec::new());
        words.read(&said[..], |bar| bars.push(bar.to_owned())).unwrap();
        assert_eq!(bars, ["Building [=>  ] 1/3: a", "Building [==>] 2/3"]);
        assert_eq!(words.compiled, 2);
        assert_eq!(words.text, "   Compiling a v1.0.0\n   Compiling b v1.0.0\nwarning: x\n  here\nerror: y");
    }
}
