//! Runs the snippets of pages: shell commands, terminal sessions, C.
//!
//! A page's commands run in one folder that looks like a built clone: `target/stage` is the staged tree, and cargo commands that
//! build or install lay it out. A comment above a block overrides this: `<!-- snippet: not run: REASON -->`, or
//! `<!-- snippet: in FOLDER -->`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::pages::{Block, Page};
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::install::{copy, files, remove};
use crate::process::{command, run, run_within};
use crate::workspace::Workspace;

/// The time limit of a block, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Folders that the pages' commands write to or read from.
const COPIED: [&str; 2] = ["examples_c", "examples_graphs"];

/// Commands that change the machine.
const FORBIDDEN: [&str; 4] = ["apt-get", "pip", "sudo", "python"];

/// The script in place of a command that a snippet must not run.
const REFUSES: &str = "echo \"${0##*/} $*: no snippet may run this\" >&2; exit 1";

/// A program around statements, with a handle, a plan and a pack; no call may fail.
const AROUND_C: &str = r#"#include "hipdnn_helpers.h"
@FILE@
int main(void)
{
    hipdnnHandle_t handle = NULL;
    HD_CHECK(hipdnnCreate(&handle));
    hd_graph graph = hd_graph_begin(handle, "snippet");
    hd_pointwise(&graph, HIPDNN_POINTWISE_RELU_FWD, hd_tensor(&graph, 0, 1, 2, 3, 4), NULL, hd_tensor(&graph, 1, 1, 2, 3, 4));
    hd_plan built = hd_graph_build(&graph, "CPU");
    hipdnnBackendDescriptor_t plan = built.descriptor;
    void* pointers[2] = {hd_floats(24), hd_floats(24)};
    hipdnnBackendDescriptor_t pack = hd_create(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    hd_set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 2, pointers);
    hd_set(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 2, built.bound);
    HD_CHECK(hipdnnBackendFinalize(pack));
    {
@STATEMENTS@
    }
    (void)plan;
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    hipdnnGetLastErrorString(text, sizeof text);
    if (text[0] != 0) {
        hd_fail(text);
    }
    return 0;
}
"#;

/// A folder in which the blocks of a page run.
pub struct Runner<'a> {
    workspace: &'a Workspace,
    stage: &'a Path,
    root: PathBuf,
}

impl<'a> Runner<'a> {
    /// For one page.
    pub fn new(workspace: &'a Workspace, stage: &'a Path, page: &Page) -> Result<Self, Failure> {
        let root = workspace.scratch("docs").join(page.path.replace('/', "-"));
        remove(&root)?;
        fs::create_dir_all(root.join("target"))?;
        fs::create_dir_all(root.join("home"))?;
        symlink(stage, root.join("target/stage"))?;
        for folder in COPIED {
            for file in files(&workspace.path(folder))? {
                copy(&workspace.path(folder).join(&file), &root.join(folder).join(&file))?;
            }
        }
        let runner = Self { workspace, stage, root };
        runner.supply()?;
        Ok(runner)
    }

    /// Supplies a reader's own files: a graph, one that every engine refuses, a program; and a cargo that does not build.
    fn supply(&self) -> Result<(), Failure> {
        let graph = fs::read_to_string(self.root.join("examples_graphs/conv_bias_relu.json"))?;
        fs::write(self.root.join("graph.json"), &graph)?;
        let refused = graph.replace("[32, 16, 3, 3]", "[32, 7, 3, 3]");
        if refused == graph {
            return Err(Failure::new("examples_graphs/conv_bias_relu.json has no filter [32, 16, 3, 3]"));
        }
        fs::write(self.root.join("refused.json"), refused)?;
        self.compile(&self.root.join("examples_c/list_engines.c"), &self.root.join("program"))?;
        let (root, stage) = (self.root.display(), self.stage.display());
        fs::create_dir_all(self.root.join("bin"))?;
        let text = format!(
            "#!/bin/sh\ncase \"$1 $2 ${{4:-}}\" in\n\"xtask build \" | \"xtask demo \") ;;\n\
             \"xtask install {root}/\"*) mkdir -p \"$4\" && cp -R {stage}/. \"$4\" ;;\n*) {REFUSES} ;;\nesac\n",
        );
        self.script("cargo", &text)?;
        FORBIDDEN.iter().try_for_each(|name| self.script(name, &format!("#!/bin/sh\n{REFUSES}\n")))
    }

    fn script(&self, name: &str, text: &str) -> Result<(), Failure> {
        let file = self.root.join("bin").join(name);
        fs::write(&file, text)?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Runs a block. Returns whether there was anything to run.
    pub fn run(&self, page: &Page, block: &Block) -> Result<bool, Failure> {
        if block.note.is_some_and(|note| note.starts_with("not run: ")) {
            return Ok(false);
        }
        let folder = match block.note.map(|note| note.strip_prefix("in ")) {
            Some(Some(folder)) => self.root.join(folder),
            Some(None) => return Err(Failure::new(format!("{}:{}: unknown note", page.path, block.line))),
            None if page.path.starts_with("examples_c/") => self.root.join("examples_c"),
            None => self.root.clone(),
        };
        let is_session = block.language.is_empty() && block.text.starts_with("$ ");
        let result = match block.language {
            "sh" => self.shell(&folder, &block.text).map(|_| ()),
            "c" => self.c(block),
            "cpp" => self.cpp(block),
            _ if is_session => self.session(&folder, &block.text),
            _ => return Ok(false),
        };
        result.map(|()| true).map_err(|e| Failure::new(format!("{}:{}\n{e}", page.path, block.line)))
    }

    /// A command with the staged tree, without the reader's settings.
    fn with_tree(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HIPDNN_"))
        {
            command.env_remove(name);
        }
        let own = [self.root.join("bin"), self.stage.join("bin")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = own.into_iter().chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(all) {
            command.env("PATH", path);
        }
        command.env("HOME", self.root.join("home"));
        command.env("PKG_CONFIG_PATH", self.stage.join("lib/pkgconfig"));
        command.env("LD_LIBRARY_PATH", self.stage.join("lib"));
        command
    }

    fn shell(&self, folder: &Path, text: &str) -> Result<String, Failure> {
        let mut shell = self.with_tree(command("sh", ["-euc", &format!("exec 2>&1\n{text}")]));
        run_within(shell.current_dir(folder), LIMIT)
    }

    /// Commands after `$ `, each with its output: the first word of each shown line must occur.
    fn session(&self, folder: &Path, text: &str) -> Result<(), Failure> {
        for part in format!("\n{text}").split("\n$ ").skip(1) {
            let (line, shown) = part.split_once('\n').unwrap_or((part, ""));
            // A command is expected to fail if its last line is the tool's error.
            let fails = shown.lines().any(|line| line.starts_with("hipdnn: "));
            let line = if fails { format!("! {line}") } else { line.to_owned() };
            let printed = self.shell(folder, &line)?;
            for shown in shown.lines().filter(|line| !line.contains('…') && !line.trim().is_empty()) {
                let word = shown.split_whitespace().next().unwrap_or_default();
                if !printed.split_whitespace().any(|other| other == word) {
                    return Err(Failure::new(format!(
                        "{line}\ndoes not print {word:?}, as shown\n{printed}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Paragraphs that begin with `static` or `#include` go before the program, the others into it.
    fn c(&self, block: &Block) -> Result<(), Failure> {
        let of_file = |part: &&str| part.starts_with("static ") || part.starts_with("#include");
        let (outer, inner): (Vec<&str>, Vec<&str>) = block.text.split("\n\n").partition(of_file);
        let text =
            AROUND_C.replace("@FILE@", &outer.join("\n\n")).replace("@STATEMENTS@", &inner.join("\n\n"));
        let source = self.root.join(format!("examples_c/snippet_{}.c", block.line));
        let program = source.with_extension("");
        fs::write(&source, text)?;
        self.compile(&source, &program)?;
        run_within(&mut self.with_tree(command(program, [""; 0])), LIMIT).map(|_| ())
    }

    /// A whole program with the C++ interface.
    fn cpp(&self, block: &Block) -> Result<(), Failure> {
        let source = self.root.join(format!("examples_c/snippet_{}.cpp", block.line));
        let program = source.with_extension("");
        fs::write(&source, &block.text)?;
        let mut compiler = Language::Cxx.compiler();
        compiler.args(["-Wall", "-Wextra", "-Werror"]);
        self.build(compiler, &source, &program)?;
        run_within(&mut self.with_tree(command(program, [""; 0])), LIMIT).map(|_| ())
    }

    fn compile(&self, source: &Path, program: &Path) -> Result<(), Failure> {
        let mut compiler = Language::C.compiler();
        compiler.args(STRICT).args(["-Wno-unused-variable", "-Wno-unused-but-set-variable"]);
        self.build(compiler, source, program)
    }

    fn build(&self, mut compiler: Command, source: &Path, program: &Path) -> Result<(), Failure> {
        for folder in ["include", "include/hipdnn/backend", "include/hipdnn"] {
            compiler.arg("-I").arg(self.stage.join(folder));
        }
        compiler
            .arg("-O1")
            .arg("-I")
            .arg(self.workspace.path("examples_c"))
            .arg(source)
            .arg("-o")
            .arg(program);
        compiler.arg("-L").arg(self.stage.join("lib")).args(["-lhipdnn_backend", "-lm", "-ldl"]);
        run(&mut compiler).map(|_| ())
    }
}
