//! The commands of this project: `cargo xtask COMMAND`.

mod amd;
mod arm;
mod bench_cpu;
mod build_time;
mod c_program;
mod cache;
mod ci;
mod commits;
mod demo;
mod docs;
mod extent;
mod failure;
mod fuzz;
mod generate;
mod glibc;
mod install;
mod lint;
mod nvidia;
mod nvidia_parts;
mod ort;
mod package;
mod plugin_host;
mod process;
mod processor;
mod progress;
mod python;
mod reproducible;
mod rust_tests;
mod sanitize;
mod since;
mod smoke;
mod soak;
mod split;
mod steps;
mod style;
mod tag;
mod test;
mod tools;
mod userland;
mod venv;
mod vulkan;
mod wheel;
mod windows;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
pub use failure::Failure;
use steps::Steps;
use workspace::Workspace;

/// The commands of this project.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", after_help = test::about(), max_term_width = 110)]
struct Line {
    /// Show all of cargo's output while it builds.
    #[arg(long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, PartialEq, Subcommand)]
enum Command {
    /// Build everything and train a network from a C program.
    #[command(disable_help_flag = true)]
    Demo {
        /// Go to the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the tests of every change, or some groups of tests as a whole.
    #[command(after_help = test::about())]
    Test {
        /// All groups as a whole, as `nightly` does.
        #[arg(long)]
        whole: bool,
        /// The groups; all if none is named.
        #[arg(value_name = "GROUP", value_parser = test::names(), hide_possible_values = true)]
        groups: Vec<String>,
    },
    /// Run what must pass before a change is accepted: test, lint and amd-test, the last two in short.
    Ci {
        /// Only what tests the files that differ from this revision.
        #[arg(long, value_name = "REV")]
        since: Option<String>,
    },
    /// Run all tests of the Python package with PyTorch, which the first run installs outside of the clone (5.3 GB).
    TorchTest {
        /// Only tests whose names contain one of the words.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Test the execution provider in ONNX Runtime 1.23 and the newest, which the first run installs outside of the clone (0.5 GB).
    OrtTest {
        /// Only ONNX's tests whose names contain one of the words.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Measure networks with the execution provider and with ONNX Runtime's own (see --help).
    #[command(disable_help_flag = true)]
    OrtBench {
        /// Go to the benchmark.
        #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Check the style of every language, and run clippy, rustdoc and checks for other systems, warnings as errors.
    Lint,
    /// Format every file in the style that lint checks: rustfmt, clang-format, ruff.
    Format,
    /// Run some graphs on this machine's AMD GPU, with a report to send back (exit status 2: no GPU).
    AmdSmoke,
    /// Test the engines for AMD GPUs on AMD's libraries and an emulated device.
    AmdTest {
        /// Only tests whose names contain one of the words.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Test the engines for NVIDIA GPUs; without a GPU, test what is possible and build a package for a machine that has one.
    NvidiaTest {
        /// Only build the package.
        #[arg(long)]
        pack: bool,
        /// Only cases on the GPU whose names contain one of the words.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Test the engine on Vulkan on the GPU that is there, or on Mesa's software device.
    VulkanTest {
        /// Only cases whose names contain one of the words.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Run what takes too long for every change: all tests as a whole with ten times as many random ones, lint as a whole, the CPU engines with
    /// checked arithmetic, the emulated AMD GPU in both orders of workgroups, the engines for NVIDIA GPUs and on Vulkan, all tests with PyTorch and
    /// ONNX Runtime, the ARM processor, Windows, the sanitizers, each fuzz target for a minute, a soak of five, the CPU plugin's build time, packages built twice.
    Nightly,
    /// Test the library and CPU_ENGINE on an emulated 64-bit ARM processor.
    ArmTest {
        /// Only packages whose names contain one of the words.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Build for Windows with mingw-w64, and test that under wine.
    WindowsTest {
        /// Only tests whose names contain one of the words.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Measure CPU_ENGINE side by side with ONNX Runtime and oneDNN (see --help).
    #[command(disable_help_flag = true)]
    BenchCpu {
        /// Go to the benchmark.
        #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Fuzz everything that reads untrusted input, guided by coverage.
    Fuzz {
        /// Seconds for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Watch memory with AddressSanitizer (nightly compiler).
        #[arg(long)]
        addresses: bool,
        /// The target; all if none is named.
        target: Option<String>,
    },
    /// Run the C programs under AddressSanitizer and ThreadSanitizer, and the Rust tests of shared data under the latter (nightly compiler).
    Sanitize {
        /// One of the two.
        #[arg(value_parser = ["address", "thread"])]
        name: Option<String>,
    },
    /// Plan, execute and destroy graphs for a while, with the memory watched.
    Soak {
        /// For how long.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
    },
    /// Write the generated files.
    Generate {
        /// Write nothing; fail if a file differs.
        #[arg(long)]
        check: bool,
    },
    /// Build the documents as a site in target/site, with references for C, C++, Rust and Python.
    Docs {
        /// Open it.
        #[arg(long)]
        open: bool,
    },
    /// Build for release and lay the result out in target/stage, or for Windows in target/stage-windows.
    Build {
        /// x86_64-pc-windows-gnu, instead of this machine's own system.
        #[arg(long, value_parser = windows::parse_target)]
        target: Option<String>,
    },
    /// Build wheels: the Python package with the library and its plugins, and the execution provider for ONNX Runtime.
    Wheel {
        /// An installed tree to pack, instead of a build.
        #[arg(long, value_name = "DIR")]
        tree: Option<PathBuf>,
        /// x86_64-pc-windows-gnu: only the Python package for Windows.
        #[arg(long, value_parser = windows::parse_target, conflicts_with = "tree")]
        target: Option<String>,
        /// Link for systems with this version of glibc, or this machine's `own`; 2.28 by default if zig was installed by an earlier use.
        #[arg(long, value_name = "VERSION", value_parser = glibc::parse_of_wheels, conflicts_with_all = ["tree", "target"])]
        glibc: Option<String>,
    },
    /// Build for release and pack the installed tree: an archive, another one with debug files, and Debian packages; or one archive for Windows.
    Package {
        /// x86_64-pc-windows-gnu, in place of this machine's own system.
        #[arg(long, value_parser = windows::parse_target)]
        target: Option<String>,
        /// Link for systems with this version of glibc, such as 2.28, in place of this machine's own.
        #[arg(long, value_name = "VERSION", value_parser = glibc::parse, conflicts_with_all = ["target"])]
        glibc: Option<String>,
    },
    /// Compile the CPU plugin alone, for release; fail if that takes too long.
    BuildTime,
    /// Build a second time in a clone in another folder, and compare the packages byte for byte.
    Reproducible,
    /// Make the annotated git tag of a release, with its section of CHANGELOG.md as message. Pushing it builds the release.
    Tag,
    /// Build for release and install.
    Install {
        /// The prefix.
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
        /// The folder for libraries, below the prefix.
        #[arg(long, value_name = "DIR", default_value = "lib")]
        libdir: String,
        /// Also install debug files.
        #[arg(long)]
        debug_files: bool,
        /// Also install a CMake package named hipdnn_frontend, for programs written for AMD's frontend. AMD's has the same place.
        #[arg(long)]
        frontend_package: bool,
    },
}

fn main() -> ExitCode {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(error) => {
            // Help is not a failure. Not clap's status 2, which here means that there is no device.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    env_logger::init();
    match run(&line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.status())
        }
    }
}

fn run(line: &Line) -> Result<(), Failure> {
    let mut workspace = Workspace::new();
    workspace.verbose = line.verbose;
    match &line.command {
        Command::Demo { arguments } => demo::run(&workspace, arguments),
        Command::Test { whole, groups } => test::test(&workspace, groups, *whole),
        Command::Ci { since } => ci::ci(&workspace, since.as_deref()),
        Command::TorchTest { words } => test::with_torch(&workspace, words),
        Command::OrtTest { words } => ort::test(&workspace, words),
        Command::OrtBench { options } => ort::bench(&workspace, options),
        Command::AmdTest { words } => amd::test(&workspace, words, amd::Cases::All),
        Command::NvidiaTest { pack: true, .. } => nvidia::pack_only(&workspace),
        Command::NvidiaTest { words, .. } => nvidia::test(&workspace, words),
        Command::VulkanTest { words } => vulkan::test(&workspace, words),
        Command::Nightly => ci::nightly(&workspace),
        Command::AmdSmoke => smoke::smoke(&workspace),
        Command::ArmTest { words } => arm::test(&workspace, words),
        Command::BenchCpu { options } => bench_cpu::bench(&workspace, options),
        Command::BuildTime => build_time::check(&workspace),
        Command::Reproducible => reproducible::check(&workspace),
        Command::Tag => {
            let name = tag::tag(&workspace)?;
            println!("made {name}; `git push origin {name}` starts the release");
            Ok(())
        }
        Command::Fuzz { seconds, addresses, target } => {
            fuzz::fuzz(&workspace, *seconds, *addresses, target.as_deref())
        }
        Command::Sanitize { name } => sanitize::sanitize(&workspace, name.as_deref()),
        Command::Soak { minutes } => soak::soak(&workspace, *minutes),
        Command::Lint => lint::lint(&workspace),
        Command::Format => style::format(&workspace),
        Command::Generate { check: false } => {
            for path in generate::write(&workspace)? {
                println!("wrote {}", workspace.relative(&path));
            }
            Ok(())
        }
        Command::Generate { check: true } => {
            let files = generate::check(&workspace)?;
            println!("{files} generated files are as they ought to be");
            Ok(())
        }
        Command::Docs { open } => docs::build(&workspace, &names(), *open),
        Command::WindowsTest { words } => windows::test::run(&workspace, words),
        Command::Build { target } => {
            let mut steps = Steps::new();
            match target {
                Some(_) => windows::stage(&workspace, &mut steps),
                None => stage(&workspace, &mut steps),
            };
            steps.summary()
        }
        Command::Package { glibc: Some(version), .. } => glibc::again(&workspace, version, &["package"]),
        Command::Package { target: Some(_), .. } => {
            let mut steps = Steps::new();
            if windows::stage(&workspace, &mut steps).is_some() {
                windows::package(&workspace, &mut steps);
            }
            steps.summary()
        }
        Command::Package { target: None, .. } => {
            let mut steps = Steps::new();
            if release_build(&workspace, &mut steps) {
                package::run_steps(&workspace, &mut steps);
            }
            steps.summary()
        }
        Command::Wheel { target: Some(_), .. } => {
            let mut steps = Steps::new();
            if windows::stage(&workspace, &mut steps).is_some() {
                steps.run("the wheel for Windows", || {
                    windows::wheel::build(&workspace, &python::Environment::ready()?)
                });
            }
            steps.summary()
        }
        Command::Wheel { tree, target: None, glibc } => {
            if tree.is_none() && glibc::wheels(&workspace, glibc.as_deref())? {
                return Ok(());
            }
            let mut steps = Steps::new();
            let tree = tree.clone().map_or_else(|| stage(&workspace, &mut steps), Some);
            if let Some(tree) = tree {
                steps.run("the wheel", || {
                    Ok(wheel::build(&workspace, &python::Environment::ready()?, &tree)?.1)
                });
                steps.run("the wheel of the execution provider", || {
                    ort::build(&workspace)?;
                    Ok(ort::wheel(&workspace, &tree)?.1)
                });
            }
            steps.summary()
        }
        Command::Install { prefix, libdir, debug_files, frontend_package } => {
            let mut steps = Steps::new();
            if release_build(&workspace, &mut steps) {
                steps.run("installed", || {
                    install::install(&workspace, prefix, libdir)?;
                    if *debug_files {
                        install::install_debug_files(&workspace, prefix, libdir)?;
                    }
                    if *frontend_package {
                        install::install_frontend_package(&workspace, prefix, libdir)?;
                    }
                    Ok(prefix.display().to_string())
                });
            }
            steps.summary()
        }
    }
}

/// The names that documents may use.
fn names() -> docs::Names {
    let line = Line::command();
    let commands = line.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    docs::Names { commands, groups: test::names() }
}

/// Builds for release. Returns whether that succeeded.
fn release_build(workspace: &Workspace, steps: &mut Steps) -> bool {
    steps.run("release build of the library and its plugins", || install::build(workspace))
}

/// The same, laid out as installed. Returns the folder.
fn stage(workspace: &Workspace, steps: &mut Steps) -> Option<PathBuf> {
    let laid_out = release_build(workspace, steps)
        && steps.run("laid out", || install::lay_out(workspace).map(|stage| workspace.relative(&stage)));
    laid_out.then(|| workspace.stage_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Command, String> {
        let all = ["cargo xtask"].iter().chain(words);
        Line::try_parse_from(all).map(|line| line.command).map_err(|error| error.to_string())
    }

    #[test]
    fn install_options_are_read_in_both_spellings() {
        let install = |libdir: &str, frontend_package| Command::Install {
            prefix: "/p".into(),
            libdir: libdir.into(),
            debug_files: false,
            frontend_package,
        };
        assert_eq!(read(&["install", "--prefix", "/p", "--libdir=lib64"]), Ok(install("lib64", false)));
        assert_eq!(read(&["install", "--prefix=/p", "--frontend-package"]), Ok(install("lib", true)));
    }

    #[test]
    fn wrong_install_options_are_refused() {
        for words in [&["--prefix"][..], &["--prfix", "/p"], &["--libdir", "lib"], &["/p"], &[]] {
            assert!(read(&[&["install"], words].concat()).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_help_names_every_command_and_group() {
        let help = read(&["--help"]).unwrap_err();
        for word in
            ["demo", "test", "amd-smoke", "bench-cpu", "generate", "lint", "wheel", "exports", "cmake"]
        {
            let line = |line: &&str| line.split_whitespace().next() == Some(word);
            assert_eq!(help.lines().filter(line).count(), 1, "{word}\n{help}");
        }
        let unknown = read(&["test", "rust", "no-such"]).unwrap_err();
        assert!(unknown.contains("'no-such'") && unknown.contains("exports"), "{unknown}");
        assert!(read(&[]).is_err());
    }

    #[test]
    fn the_extent_of_tests_is_read() {
        let groups = || vec!["rust".to_owned()];
        assert_eq!(read(&["test", "rust"]), Ok(Command::Test { whole: false, groups: groups() }));
        assert_eq!(read(&["test", "--whole"]), Ok(Command::Test { whole: true, groups: Vec::new() }));
        assert_eq!(read(&["ci"]), Ok(Command::Ci { since: None }));
        assert_eq!(read(&["ci", "--since", "main"]), Ok(Command::Ci { since: Some("main".to_owned()) }));
    }

    #[test]
    fn options_of_other_programs_are_passed_on() {
        let wanted = Command::BenchCpu { options: vec!["--suite".into(), "sdpa".into(), "--help".into()] };
        assert_eq!(read(&["bench-cpu", "--suite", "sdpa", "--help"]), Ok(wanted));
        let wanted = Command::Demo { arguments: vec!["--steps".into(), "3".into()] };
        assert_eq!(read(&["demo", "--steps", "3"]), Ok(wanted));
    }
}
