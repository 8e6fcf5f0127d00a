//! The program `hipdnn_list_engines`: lists the loaded engines in the format of AMD's program of the same name, for scripts.
//! `hipdnn engines` shows the same for people.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use hipdnn::{Backend, EngineInfo, Handle};
use hipdnn_tool::failure::{Failure, Result};

const USAGE: &str = "\
Usage: hipdnn_list_engines [OPTIONS]
Options:
  --plugin-dir <path>  Load engine plugins from this folder only; may be given several times
  --help, -h           Show this text
";

/// The request in the arguments.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Help,
    /// The engines in these folders; without any, in the library's default folders.
    List(Vec<PathBuf>),
}

fn main() -> ExitCode {
    let answer = match wish(std::env::args_os().skip(1)) {
        Ok(Wish::Help) => Ok(USAGE.to_owned()),
        Ok(Wish::List(folders)) => list(&folders),
        Err(failure) => {
            let _ = std::io::stderr().write_all(USAGE.as_bytes());
            Err(failure)
        }
    };
    match answer {
        Ok(text) => {
            // Ignore a closed pipe.
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "hipdnn_list_engines: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn wish(mut arguments: impl Iterator<Item = OsString>) -> Result<Wish> {
    let mut folders = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--help" | "-h") => return Ok(Wish::Help),
            Some("--plugin-dir") => {
                let folder = arguments.next().filter(|folder| !folder.is_empty());
                let folder = folder.ok_or_else(|| Failure::input("--plugin-dir: a folder was expected"))?;
                folders.push(PathBuf::from(folder));
            }
            _ => return Err(Failure::input(format!("unknown argument {}", argument.display()))),
        }
    }
    Ok(Wish::List(folders))
}

fn list(folders: &[PathBuf]) -> Result<String> {
    let backend = Backend::open(None)?;
    if !folders.is_empty() {
        backend.set_engine_plugin_paths(folders)?;
    }
    Ok(text(&Handle::new(&backend)?.engines()?))
}

/// AMD's format, which scripts parse.
fn text(engines: &[EngineInfo]) -> String {
    if engines.is_empty() {
        return "No engines found.\n".to_owned();
    }
    let mut text = "Loaded engines:\n".to_owned();
    for engine in engines {
        let EngineInfo { name, id, plugin, version, kind, .. } = engine;
        // Writing to a text does not fail.
        let _ = write!(
            text,
            "  {name} (0x{:016X})\n    Plugin:  {plugin}\n    Version: {version}\n    Type:    {kind}\n",
            id.cast_unsigned()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish_of(arguments: &[&str]) -> Result<Wish> {
        wish(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_are_folders_or_help() {
        assert_eq!(wish_of(&[]), Ok(Wish::List(vec![])));
        let folders = vec![PathBuf::from("/a"), PathBuf::from("b")];
        assert_eq!(wish_of(&["--plugin-dir", "/a", "--plugin-dir", "b"]), Ok(Wish::List(folders)));
        assert_eq!(wish_of(&["--plugin-dir", "/a", "-h"]), Ok(Wish::Help));
        assert_eq!(wish_of(&["--help"]), Ok(Wish::Help));
        for (arguments, words) in [
            (&["--plugin-dir"][..], "--plugin-dir: a folder was expected"),
            (&["--plugin-dir", ""], "--plugin-dir: a folder was expected"),
            (&["--json"], "unknown argument --json"),
        ] {
            assert_eq!(wish_of(arguments).unwrap_err().to_string(), words);
        }
    }

    #[test]
    fn an_engine_has_its_id_in_sixteen_upper_case_digits() {
        let engine = |name: &str, id| EngineInfo {
            name: name.to_owned(),
            id,
            plugin: "P".to_owned(),
            version: "1.2.3".to_owned(),
            kind: "engine".to_owned(),
            of: Default::default(),
        };
        let engines = [
            engine("MIOPEN_ENGINE_DETERMINISTIC", 0xa258_541a_6daa_1de3_u64.cast_signed()),
            engine("SMALL", 0xab),
        ];
        let wanted = "\
Loaded engines:
  MIOPEN_ENGINE_DETERMINISTIC (0xA258541A6DAA1DE3)
    Plugin:  P
    Version: 1.2.3
    Type:    engine
  SMALL (0x00000000000000AB)
    Plugin:  P
    Version: 1.2.3
    Type:    engine
";
        assert_eq!(text(&engines), wanted);
        assert_eq!(text(&[]), "No engines found.\n");
    }
}
