//! Graph bytes against the FlatBuffers library itself, with code that its compiler generates from our schema.

use std::path::PathBuf;
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::process::{command, run, run_within};
use crate::steps::Steps;

const LIMIT: Duration = Duration::from_secs(60);

pub fn run_group(context: &Context, steps: &mut Steps) {
    steps.run("graphs from and to the FlatBuffers library", || {
        build_and_run(context).map(|()| "C++17".to_owned())
    });
}

fn build_and_run(context: &Context) -> Result<(), Failure> {
    let folder = context.workspace.scratch("wire");
    crate::install::remove(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let sources = context.workspace.path("c_tests/wire");
    let schema = context.workspace.path("plugins/sdk/schema/hipdnn.fbs");
    run(command("flatc", ["--cpp", "--gen-object-api", "--gen-compare", "--scoped-enums", "-o"])
        .arg(&folder)
        .arg(schema)
        .arg(sources.join("others.fbs")))?;

    let compile = |source: &str, target: &str, extra: &[&str]| -> Result<PathBuf, Failure> {
        let target = folder.join(target);
        let mut compiler = Language::Cxx.compiler();
        compiler.args(STRICT);
        for include in ["include/hipdnn/backend", "include/hipdnn/plugin"] {
            compiler.arg("-I").arg(context.stage.join(include));
        }
        // Generated code is not ours to be strict with.
        compiler.arg("-isystem").arg(&folder);
        compiler.arg(sources.join(source)).arg("-o").arg(&target).args(extra);
        run(&mut compiler)?;
        Ok(target)
    };
    let newer = compile("plugin.cpp", "libwire_g2.so", &["-shared", "-fPIC"])?;
    let older = compile("plugin.cpp", "libwire_g1.so", &["-shared", "-fPIC", "-DG1"])?;
    let policy = compile("policy.cpp", "libwire_policy.so", &["-shared", "-fPIC"])?;
    let lib = context.stage.join("lib");
    let lib = lib.display();
    let link = [format!("-L{lib}"), format!("-Wl,-rpath,{lib}"), "-lhipdnn_backend".to_owned()];
    let link: Vec<&str> = link.iter().map(String::as_str).collect();
    let program = compile("wire.cpp", "wire", &link)?;
    let mut test = command(&program, [""; 0]);
    test.args([newer, older, policy]);
    without_settings(&mut test);
    run_within(&mut test, LIMIT).map(|_| ())
}
