//! Other libraries, each in its own process that measures on request.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hipdnn_tool::failure::{Failure, Result};
use serde_json::{Value, json};

use crate::case::Case;

/// Which library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// ONNX Runtime.
    Onnx,
    /// oneDNN.
    OneDnn,
    /// Another version of this library, see [`crate::serve`].
    Version,
}

/// A process.
pub struct Peer {
    kind: Kind,
    /// Its name and version.
    pub name: String,
    threads: usize,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// The files of a case's arrays.
pub struct Files<'f> {
    /// The folder.
    pub folder: &'f Path,
}

impl Files<'_> {
    /// The file of an input array.
    pub fn input(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.in"))
    }

    /// The file of an array that the peer writes.
    pub fn output(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.out"))
    }
}

impl Peer {
    /// Starts a program with its arguments.
    pub fn start(kind: Kind, words: &[OsString], threads: usize) -> Result<Self> {
        let (program, arguments) = words.split_first().ok_or_else(|| Failure::input("no program"))?;
        let cannot = |error: std::io::Error| {
            Failure::work(format!("cannot run {}: {error}", Path::new(program).display()))
        };
        let mut child = Command::new(program)
            .args(arguments)
            .env("OMP_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::work("the program has no pipes"));
        };
        let mut peer = Self { kind, name: String::new(), threads, child, to, from: BufReader::new(from) };
        let answer = peer.answer()?;
        answer.get("ready").and_then(Value::as_str).unwrap_or("a library").clone_into(&mut peer.name);
        Ok(peer)
    }

    /// Which library it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it has what a case needs.
    pub fn has(&self, case: &Case) -> bool {
        match self.kind {
            Kind::Onnx => !case.onnx.is_empty(),
            Kind::OneDnn => case.onednn.is_some(),
            Kind::Version => true,
        }
    }

    /// Prepares a case and has it executed once.
    pub fn make(&mut self, case: &Case, files: &Files) -> Result<()> {
        let outputs: Vec<&str> = case.outputs.iter().filter_map(|output| output.name).collect();
        for name in &outputs {
            // Remove the results of an earlier case.
            let _ = fs::remove_file(files.output(name));
        }
        let line = match self.kind {
            Kind::Onnx => {
                let inputs: Vec<Value> = case
                    .inputs
                    .iter()
                    .map(|input| {
                        json!({
                            "name": input.name, "dims": input.dims, "is_weight": input.is_weight,
                            "path": files.input(input.name),
                            "stored": input.stored.as_ref().map(|stored| (stored.data_type, &stored.dims)),
                        })
                    })
                    .collect();
                let outputs: Vec<Value> = case
                    .outputs
                    .iter()
                    .filter_map(|output| {
                        let name = output.name?;
                        let stored = output.stored.as_ref().map(|stored| stored.data_type);
                        let path = files.output(name);
                        Some(json!({"name": name, "dims": output.dims, "path": path, "stored": stored}))
                    })
                    .collect();
                let models: Vec<Value> = case.onnx.iter().map(crate::case::Model::json).collect();
                let case = json!({"inputs": inputs, "outputs": outputs, "models": models});
                json!({"case": case, "threads": self.threads}).to_string()
            }
            Kind::OneDnn => {
                let list = |paths: Vec<PathBuf>| {
                    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",")
                };
                format!(
                    "case {} in={} out={}",
                    case.onednn.as_deref().unwrap_or_default(),
                    list(case.inputs.iter().map(|input| files.input(input.name)).collect()),
                    list(outputs.iter().map(|name| files.output(name)).collect())
                )
            }
            Kind::Version => json!({"suite": case.suite, "case": case.name}).to_string(),
        };
        self.ask(&line).map(|_| ())
    }

    /// Has the case executed for some time. Returns the mean milliseconds of an execution.
    pub fn burst(&mut self, length: Duration) -> Result<f64> {
        let line = match self.kind {
            Kind::Onnx | Kind::Version => json!({"run": length.as_secs_f64()}).to_string(),
            Kind::OneDnn => format!("run {}", length.as_secs_f64()),
        };
        let answer = self.ask(&line)?;
        answer
            .get("ms")
            .and_then(Value::as_f64)
            .ok_or_else(|| Failure::work(format!("{} gave no time", self.name)))
    }

    fn ask(&mut self, line: &str) -> Result<Value> {
        let sent = writeln!(self.to, "{line}").and_then(|()| self.to.flush());
        sent.map_err(|error| Failure::work(format!("{} does not listen: {error}", self.name)))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(0) => return Err(Failure::work(format!("{} ended", self.name))),
            Ok(_) => {}
            Err(error) => return Err(Failure::work(format!("{}: {error}", self.name))),
        }
        let answer: Value = serde_json::from_str(&line)
            .map_err(|_| Failure::work(format!("{} said {}", self.name, line.trim())))?;
        match answer.get("failure").and_then(Value::as_str) {
            Some(text) => Err(Failure::work(format!("{}: {text}", self.name))),
            None => Ok(answer),
        }
    }

    /// Waits until its threads sleep: some libraries keep them spinning after the work is done, which would disturb the next
    /// measurement.
    pub fn settle(&self) {
        // Longer than any kernel's tick, at which the time of a running thread is updated.
        const STEP: Duration = Duration::from_millis(12);
        const LONGEST: Duration = Duration::from_secs(2);
        let started = Instant::now();
        let mut last = None;
        while started.elapsed() < LONGEST {
            let now = self.processor_time();
            if now.is_some() && now == last {
                return;
            }
            last = now;
            std::thread::sleep(STEP);
        }
    }

    /// The processor time of its threads in nanoseconds; none while one of them runs.
    fn processor_time(&self) -> Option<u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let mut all = 0;
        for task in tasks.flatten() {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
            let state = read("stat")?.rsplit_once(')')?.1.split_whitespace().next()?.to_owned();
            if state == "R" {
                return None;
            }
            all += read("schedstat")?.split(' ').next()?.parse::<u64>().ok()?;
        }
        Some(all)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer has no state to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).into()
    }

    #[test]
    fn a_peer_is_asked_and_answers() {
        let script = r#"echo '{"ready": "a 1"}'; read a; echo '{"ms": 2.5}'; read b; echo '{"failure": "no"}'; read c"#;
        let mut peer = Peer::start(Kind::OneDnn, &words(script), 2).unwrap();
        assert_eq!(peer.name, "a 1");
        assert_eq!(peer.burst(Duration::ZERO).unwrap(), 2.5);
        assert_eq!(peer.burst(Duration::ZERO).unwrap_err().to_string(), "a 1: no");
        peer.settle();
    }

    #[test]
    fn a_peer_that_ends_is_a_failure() {
        assert!(Peer::start(Kind::Onnx, &words("exit 0"), 2).err().unwrap().to_string().contains("ended"));
        let mut peer = Peer::start(Kind::Onnx, &words(r#"echo '{"ready": "a"}'"#), 2).unwrap();
        assert!(peer.burst(Duration::ZERO).is_err());
    }
}
