//! The client that finds the library at run time: every place that it may lie in, a function that is missing, another
//! version. The program is `c_tests/client`; it is not linked with the library.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::install::{ENGINES, LIBRARY};
use crate::process::{command, run, run_within};
use crate::steps::Steps;

const LIMIT: Duration = Duration::from_secs(60);

/// The function that a copy of the library lacks.
const MISSING: &str = "hipdnnBackendExecute";

/// Versions of other libraries, as the compiler is told them.
const OTHER_VERSIONS: &[&str] = &["\"1.0.0\"", "\"10.4.0\"", "\"new\"", "\"\"", "\"0\"", "0"];

pub fn run_all(context: &Context, steps: &mut Steps) {
    let folder = context.workspace.scratch("client");
    let mut rig = Rig { stage: context.stage, folder, program: PathBuf::new() };
    let built = steps.run("the client, in C++17", || {
        rig.program = build(context, &rig.folder)?;
        Ok(String::new())
    });
    if !built {
        return;
    }
    steps.run("all flows, with the library in every place", || rig.places());
    steps.run("a library without one function", || rig.without_function());
    steps.run("libraries of other versions, and none", || rig.other_versions());
}

struct Rig<'a> {
    stage: &'a Path,
    folder: PathBuf,
    program: PathBuf,
}

fn build(context: &Context, folder: &Path) -> Result<PathBuf, Failure> {
    crate::install::remove(folder)?;
    let bin = folder.join("bin");
    fs::create_dir_all(&bin)?;
    let program = bin.join("client");
    let mut compiler = Language::Cxx.compiler();
    compiler.args(STRICT).arg("-g").arg("-I").arg(context.stage.join("include/hipdnn/backend"));
    for source in ["client.cpp", "newer.cpp", "older.cpp"] {
        compiler.arg(context.workspace.path("c_tests/client").join(source));
    }
    run(compiler.arg("-o").arg(&program).arg("-ldl"))?;
    for (number, version) in OTHER_VERSIONS.iter().enumerate() {
        let other = folder.join(format!("other{number}"));
        fs::create_dir_all(&other)?;
        let mut compiler = Language::C.compiler();
        compiler.args(STRICT).args(["-shared", "-fPIC"]).arg(format!("-DVERSION={version}"));
        compiler.arg(context.workspace.path("c_tests/client/other_version.c"));
        run(compiler.arg("-o").arg(other.join(LIBRARY)))?;
    }
    Ok(program)
}

impl Rig<'_> {
    /// The client, with nothing set but the engines' plugin and a folder of its own for rankings.
    fn client(&self, program: &Path, words: &[&str]) -> Result<Command, Failure> {
        let mut client = command(program, words);
        without_settings(&mut client);
        client.env_remove("LD_LIBRARY_PATH");
        let cache = self.folder.join("cache");
        // Each run has rankings of its own to write.
        crate::install::remove(&cache)?;
        client.env("HIPDNN_CACHE_DIR", cache);
        let plugin = self.stage.join("lib").join(ENGINES).join("libhipdnn_cpu_plugin.so");
        client.env("HIPDNN_PLUGIN_DIR", plugin);
        Ok(client)
    }

    fn places(&self) -> Result<String, Failure> {
        let lib = self.stage.join("lib");
        let text = lib.to_str().ok_or_else(|| Failure::new("the staged folder's name is no text"))?;
        run_within(&mut self.client(&self.program, &["runs", "directory", text])?, LIMIT)?;
        let mut client = self.client(&self.program, &["runs", "variable"])?;
        run_within(client.env("HIPDNN_BACKEND_LIBRARY_PATH", &lib), LIMIT)?;
        // A relative path is not looked at.
        let mut client = self.client(&self.program, &["runs", "loader"])?;
        client.env("HIPDNN_BACKEND_LIBRARY_PATH", ".").current_dir(&lib);
        run_within(client.env("LD_LIBRARY_PATH", &lib), LIMIT)?;
        for (way, place) in [("module", "bin"), ("lib", "lib"), ("lib64", "lib64")] {
            let tree = self.folder.join(way);
            fs::create_dir_all(tree.join("bin"))?;
            fs::create_dir_all(tree.join(place))?;
            let program = tree.join("bin/client");
            fs::copy(&self.program, &program)?;
            symlink(lib.join(LIBRARY), tree.join(place).join(LIBRARY))?;
            run_within(&mut self.client(&program, &["runs", way])?, LIMIT)?;
        }
        Ok("6 places".to_owned())
    }

    /// A copy in which the function has another name.
    fn without_function(&self) -> Result<String, Failure> {
        let mut bytes = fs::read(self.stage.join("lib").join(LIBRARY))?;
        let name = format!("\0{MISSING}\0").into_bytes();
        let at = bytes.windows(name.len()).position(|window| window == name.as_slice());
        let at = at.ok_or_else(|| Failure::new(format!("the library has no name {MISSING}")))?;
        if let Some(last) = bytes.get_mut(at + name.len() - 2) {
            *last = b'_';
        }
        let folder = self.folder.join("lacks");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(LIBRARY), bytes)?;
        let text = folder.to_str().ok_or_else(|| Failure::new("the folder's name is no text"))?;
        run_within(&mut self.client(&self.program, &["lacks", MISSING, text])?, LIMIT)?;
        Ok(MISSING.to_owned())
    }

    fn other_versions(&self) -> Result<String, Failure> {
        for number in 0..OTHER_VERSIONS.len() {
            let mut client = self.client(&self.program, &["refuses", "variable"])?;
            let folder = self.folder.join(format!("other{number}"));
            run_within(client.env("HIPDNN_BACKEND_LIBRARY_PATH", folder), LIMIT)?;
        }
        run_within(&mut self.client(&self.program, &["refuses", "nowhere"])?, LIMIT)?;
        Ok(format!("{} versions", OTHER_VERSIONS.len()))
    }
}
