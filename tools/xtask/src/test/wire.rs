//! Graph bytes against the FlatBuffers library itself, with code that its compiler generates from our schema.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hipdnn_plugin_sdk::graph::Operation;

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::process::{command, run, run_within};
use crate::steps::Steps;

const LIMIT: Duration = Duration::from_secs(60);

pub fn run_group(context: &Context, steps: &mut Steps) {
    let mut wire = None;
    steps.run("code of the FlatBuffers compiler", || {
        wire = Some(Wire::generate(context)?);
        Ok(String::new())
    });
    let Some(wire) = wire else { return };
    steps.run("graphs from and to the FlatBuffers library", || {
        build_and_run(&wire).map(|()| "C++17".to_owned())
    });
    steps.run("generations of plugins", || generations(&wire));
}

/// As packages are built: optimized, with only the interface visible.
const RELEASE: [&str; 3] = ["-O2", "-DNDEBUG", "-fvisibility=hidden"];

/// The same for a change: a third less to compile.
const SHORT: [&str; 3] = ["-O1", "-DNDEBUG", "-fvisibility=hidden"];

const FLATBUFFERS_SDK: &str = "hipdnn_flatbuffers_sdk::data_objects";
const DATA_SDK: &str = "hipdnn_data_sdk::data_objects";
const OLDER_SDK: &str = "hipdnn_sdk::data_objects";
const PRESUMED: &str = "presumed, as neither exports nor names in its file tell";
const SETTING: &str = "HIPDNN_PLUGIN_GENERATION says so";

/// How many kinds of nodes there are.
const KINDS: usize = Operation::SPECS.len();

const VERSION: Expected = (KINDS, "it exports hipdnnPluginGetApiVersion");
const NAME: Expected = (KINDS, "it exports hipdnnEnginePluginGetEngineName");
const BY_FLATBUFFERS_SDK: Expected = (KINDS, "names the C++ namespace hipdnn_flatbuffers_sdk");
const BY_DATA_SDK: Expected = (KINDS, "names the C++ namespace hipdnn_data_sdk");
const BY_OLDER_SDK: Expected = (7, "names the C++ namespace hipdnn_sdk::data_objects");

/// How many kinds of nodes a plugin reads back correctly, and how its generation is determined.
type Expected = (usize, &'static str);

/// A plugin's name, namespace and options; the expectation with symbols, and stripped.
type Case = (&'static str, &'static str, &'static [&'static str], [Expected; 2]);

/// A stripped plugin without RTTI does not reveal its generation. Only the user's setting can, which a copy tests.
const GENERATIONS: &[Case] = &[
    ("versioned", FLATBUFFERS_SDK, &["-DVERSIONED"], [VERSION, VERSION]),
    ("versioned_named", FLATBUFFERS_SDK, &["-DVERSIONED", "-DNAMED"], [VERSION, VERSION]),
    ("named", FLATBUFFERS_SDK, &["-DNAMED"], [NAME, NAME]),
    ("wrapped", FLATBUFFERS_SDK, &["-DWRAPPED"], [BY_FLATBUFFERS_SDK, BY_FLATBUFFERS_SDK]),
    ("data_sdk", DATA_SDK, &["-DWRAPPED"], [BY_DATA_SDK, BY_DATA_SDK]),
    ("bare", FLATBUFFERS_SDK, &[], [BY_FLATBUFFERS_SDK, (0, PRESUMED)]),
    ("older", OLDER_SDK, &["-DG1", "-DWRAPPED"], [BY_OLDER_SDK, BY_OLDER_SDK]),
    ("older_bare", OLDER_SDK, &["-DG1"], [BY_OLDER_SDK, (7, PRESUMED)]),
];

/// The code generated from the schema, and the folder of programs built from it.
struct Wire<'a> {
    context: &'a Context<'a>,
    folder: PathBuf,
}

impl<'a> Wire<'a> {
    fn generate(context: &'a Context<'a>) -> Result<Self, Failure> {
        let wire = Self { context, folder: context.workspace.scratch("wire") };
        crate::install::remove(&wire.folder)?;
        let schema = std::fs::read_to_string(context.workspace.path("plugins/sdk/schema/hipdnn.fbs"))?;
        let own = "namespace hipdnn;";
        if schema.matches(own).count() != 1 {
            return Err(Failure::new(format!("the schema has not exactly one line {own:?}")));
        }
        wire.flatc("hipdnn", &schema)?;
        for namespace in [FLATBUFFERS_SDK, DATA_SDK, OLDER_SDK] {
            let name = format!("namespace {};", namespace.replace("::", "."));
            wire.flatc(namespace, &schema.replace(own, &name))?;
        }
        Ok(wire)
    }

    /// The folder of a namespace's code.
    fn code(&self, namespace: &str) -> PathBuf {
        self.folder.join(namespace.replace("::", "."))
    }

    fn flatc(&self, namespace: &str, schema: &str) -> Result<(), Failure> {
        let folder = self.code(namespace);
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("hipdnn.fbs");
        std::fs::write(&file, schema)?;
        let options =
            ["--cpp", "--gen-object-api", "--gen-compare", "--scoped-enums", "--reflect-names", "-o"];
        let others = self.context.workspace.path("c_tests/wire/others.fbs");
        run(command("flatc", options).arg(&folder).arg(file).arg(others)).map(|_| ())
    }

    fn compile(
        &self,
        source: &str,
        target: &str,
        namespace: &str,
        extra: &[&str],
    ) -> Result<PathBuf, Failure> {
        let target = self.folder.join(target);
        let mut compiler = Language::Cxx.compiler();
        compiler.args(STRICT);
        for include in ["include/hipdnn/backend", "include/hipdnn/plugin"] {
            compiler.arg("-I").arg(self.context.stage.join(include));
        }
        // No warnings for generated code.
        compiler.arg("-isystem").arg(self.code(namespace));
        let source = self.context.workspace.path("c_tests/wire").join(source);
        compiler.arg(source).arg("-o").arg(&target).args(extra);
        run(&mut compiler)?;
        Ok(target)
    }

    fn plugin(&self, name: &str, namespace: &str, extra: &[&str]) -> Result<PathBuf, Failure> {
        let defines = [format!("-DNAMESPACE={namespace}"), format!("-DENGINE=\"{name}\"")];
        let mut options = vec!["-shared", "-fPIC"];
        options.extend(defines.iter().map(String::as_str));
        options.extend(extra);
        self.compile("plugin.cpp", &format!("libwire_{name}.so"), namespace, &options)
    }

    /// A program that links the library.
    fn program(&self, source: &str, name: &str) -> Result<Command, Failure> {
        let lib = self.context.stage.join("lib");
        let lib = lib.display();
        let link = [format!("-L{lib}"), format!("-Wl,-rpath,{lib}"), "-lhipdnn_backend".to_owned()];
        let link: Vec<&str> = link.iter().map(String::as_str).collect();
        let mut test = command(&self.compile(source, name, "hipdnn", &link)?, [""; 0]);
        without_settings(&mut test);
        Ok(test)
    }
}

fn build_and_run(wire: &Wire) -> Result<(), Failure> {
    // In order of their names, the newer one comes first.
    let plugins = [
        wire.plugin("1_newer", FLATBUFFERS_SDK, &["-DVERSIONED", "-DSAVES"])?,
        wire.plugin("2_older", OLDER_SDK, &["-DG1"])?,
        wire.compile("policy.cpp", "libwire_policy.so", "hipdnn", &["-shared", "-fPIC"])?,
    ];
    let mut test = wire.program("wire.cpp", "wire")?;
    run_within(test.args(plugins), LIMIT).map(|_| ())
}

fn generations(wire: &Wire) -> Result<String, Failure> {
    let mut test = wire.program("generations.cpp", "generations")?;
    let release = if wire.context.extent.is_whole() { &RELEASE[..] } else { &SHORT[..] };
    let mut count = 0;
    let mut expect = |path: &Path, kinds: usize, reason: &str| {
        test.arg(path).arg(kinds.to_string()).arg(reason);
        count += 1;
    };
    for (name, namespace, options, [whole, stripped]) in GENERATIONS {
        let options = [release, *options].concat();
        let path = wire.plugin(name, namespace, &options)?;
        let bare = wire.folder.join(format!("libwire_{name}_stripped.so"));
        run(command("strip", ["-o"]).arg(&bare).arg(&path))?;
        expect(&path, whole.0, whole.1);
        expect(&bare, stripped.0, stripped.1);
        if stripped.0 == 0 {
            let told = wire.folder.join(format!("libwire_{name}_told.so"));
            std::fs::copy(&bare, &told)?;
            expect(&told, KINDS, SETTING);
        }
    }
    run_within(&mut test, LIMIT)?;
    Ok(format!("{count} plugins"))
}
