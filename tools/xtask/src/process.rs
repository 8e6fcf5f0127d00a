//! Running other programs.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::processor;

/// A program and its arguments.
pub fn command<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    // cargo adds its build folders here, from which a program could load an old library instead of its own.
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        match without_build_folders(&path) {
            Some(rest) => command.env("LD_LIBRARY_PATH", rest),
            None => command.env_remove("LD_LIBRARY_PATH"),
        };
    }
    command
}

/// A search path without the folders beside this program.
fn without_build_folders(path: &OsStr) -> Option<OsString> {
    let program = std::env::current_exe().ok()?;
    let target = program.ancestors().nth(2)?;
    let rest: Vec<_> = std::env::split_paths(path).filter(|folder| !folder.starts_with(target)).collect();
    if rest.is_empty() { None } else { std::env::join_paths(rest).ok() }
}

/// Runs a program. Returns its output, or a failure with its output.
pub fn run(command: &mut Command) -> Result<String, Failure> {
    log::debug!("{}", line(command));
    let mut child = piped(command)?;
    // Drain both pipes while waiting: a program that fills one would never end.
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = processor::wait(&mut child)?;
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    if status.success() { Ok(out) } else { Err(failed(command, status, &out, &err)) }
}

fn piped(command: &mut Command) -> Result<Child, Failure> {
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pipes.spawn().map_err(|e| cannot_start(pipes, &e))
}

/// Runs a program with its output on the terminal.
pub fn show(command: &mut Command) -> Result<(), Failure> {
    log::debug!("{}", line(command));
    let child = command.stdin(Stdio::null()).spawn();
    let status = processor::wait(&mut child.map_err(|e| cannot_start(command, &e))?)?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{} {status}", line(command)))) }
}

/// Runs a program that must end by itself within the limit.
pub fn run_within(command: &mut Command, limit: Duration) -> Result<String, Failure> {
    log::debug!("{}", line(command));
    let mut child = piped(command)?;
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let in_time = processor::ends_within(&child, limit);
    if !in_time {
        child.kill()?;
    }
    let status = processor::wait(&mut child)?;
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    match status {
        _ if !in_time => {
            Err(Failure::new(format!("{} ran longer than {limit:?}\n{out}{err}", line(command))))
        }
        status if status.success() => Ok(out),
        status => Err(failed(command, status, &out, &err)),
    }
}

fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// True when a program of this name is on the search path.
pub fn exists(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| is_file(&folder.join(program))))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot run {}: {error}", command.get_program().to_string_lossy()))
}

fn failed(command: &Command, status: ExitStatus, out: &str, err: &str) -> Failure {
    Failure::new(format!("{}\n{out}{err}{status}", line(command)))
}

/// A command as typed in a shell.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Removes the library's settings from a test's environment.
pub fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HIPDNN_") {
            command.env_remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_output_of_a_program_is_returned() {
        assert_eq!(run(&mut command("echo", ["a", "b"])).unwrap(), "a b\n");
    }

    #[test]
    fn a_failure_has_the_command_and_its_output() {
        let failure = run(&mut command("sh", ["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert!(failure.contains("sh -c") && failure.contains("why") && failure.contains('3'), "{failure}");
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let started = Instant::now();
        let failure = run_within(&mut command("sleep", ["20"]), Duration::from_millis(50)).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(failure.to_string().contains("longer than"), "{failure}");
    }

    #[test]
    fn libraries_are_not_loaded_from_build_folders() {
        let program = std::env::current_exe().unwrap();
        let deps = program.parent().unwrap().display().to_string();
        let path = OsString::from(format!("{deps}:/some/lib"));
        assert_eq!(without_build_folders(&path).unwrap(), "/some/lib");
        assert_eq!(without_build_folders(OsStr::new(&deps)), None);
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = run(&mut command("no-such-program-here", [""; 0])).unwrap_err().to_string();
        assert!(failure.contains("no-such-program-here"), "{failure}");
        assert!(!exists("no-such-program-here") && exists("sh"));
    }
}
