//! The commands of this project: `cargo xtask COMMAND`.

mod amd;
mod arm;
mod bench_cpu;
mod c_program;
mod demo;
mod failure;
mod generate;
mod install;
mod lint;
mod plugin_host;
mod process;
mod smoke;
mod steps;
mod test;
mod tools;
mod userland;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

pub use failure::Failure;
use workspace::Workspace;

fn usage() -> String {
    format!(
        "\
cargo xtask COMMAND

  demo                  build everything and train a network from C
  test [GROUP...]       run every test, or those of some groups:
{}  lint                  clippy and rustdoc, warnings as errors
  amd-smoke             some graphs on the AMD GPU that is here, with a report to send back
                        (exit status 2: there is none)
  amd-test [WORD...]    the engines for AMD GPUs on AMD's libraries and an emulated device
  arm-test [WORD...]    the library and CPU_ENGINE on an emulated 64-bit ARM processor
  bench-cpu [OPTION...] CPU_ENGINE side by side with ONNX Runtime and oneDNN (--help says more)
  generate [--check]    write the generated files, or fail with the difference
  build                 build for release and lay the result out in target/stage
  install --prefix DIR [--libdir lib]
                        build for release and install",
        test::about()
    )
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.status())
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Failure> {
    let workspace = Workspace::new();
    match arguments {
        ["demo", rest @ ..] => demo::run(&workspace, rest),
        ["test", groups @ ..] => test::run_groups(&workspace, groups),
        ["amd-test", words @ ..] => amd::test(&workspace, words),
        ["amd-smoke"] => smoke::smoke(&workspace),
        ["arm-test", words @ ..] => arm::test(&workspace, words),
        ["bench-cpu", words @ ..] => bench_cpu::bench(&workspace, words),
        ["lint"] => lint::lint(&workspace),
        ["generate"] => {
            for path in generate::write(&workspace)? {
                println!("wrote {}", workspace.relative(&path));
            }
            Ok(())
        }
        ["generate", "--check"] => {
            let files = generate::check(&workspace)?;
            println!("{files} generated files are as they ought to be");
            Ok(())
        }
        ["build"] => {
            let stage = install::stage(&workspace, false)?;
            println!("laid out in {}", workspace.relative(&stage));
            Ok(())
        }
        ["install", options @ ..] => {
            let options = InstallOptions::read(options)?;
            install::build(&workspace, false)?;
            install::install(&workspace, Path::new(options.prefix), options.libdir)?;
            println!("installed in {}", options.prefix);
            Ok(())
        }
        ["help" | "--help" | "-h"] => {
            println!("{}", usage());
            Ok(())
        }
        _ => Err(Failure::new(usage())),
    }
}

/// What `install` is told.
#[derive(Debug, PartialEq)]
struct InstallOptions<'a> {
    prefix: &'a str,
    libdir: &'a str,
}

impl<'a> InstallOptions<'a> {
    /// Reads `--name VALUE` and `--name=VALUE`.
    fn read(mut words: &[&'a str]) -> Result<Self, Failure> {
        let (mut prefix, mut libdir) = (None, "lib");
        while let [word, rest @ ..] = words {
            words = rest;
            let (name, value) = match (word.split_once('='), rest) {
                (Some(both), _) => both,
                (None, [value, after @ ..]) => {
                    words = after;
                    (*word, *value)
                }
                (None, []) => return Err(Failure::new(format!("{word}: a value was expected after it"))),
            };
            match name {
                "--prefix" => prefix = Some(value),
                "--libdir" => libdir = value,
                _ => return Err(Failure::new(format!("{name}: --prefix or --libdir was expected"))),
            }
        }
        let prefix = prefix.ok_or_else(|| Failure::new("install needs --prefix DIR"))?;
        Ok(Self { prefix, libdir })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_options_are_read_in_both_spellings() {
        let wanted = InstallOptions { prefix: "/p", libdir: "lib64" };
        assert_eq!(InstallOptions::read(&["--prefix", "/p", "--libdir=lib64"]).unwrap(), wanted);
        assert_eq!(InstallOptions::read(&["--prefix=/p"]).unwrap().libdir, "lib");
    }

    #[test]
    fn wrong_install_options_are_refused() {
        for words in [&["--prefix"][..], &["--prfix", "/p"], &["--libdir", "lib"], &["/p"], &[]] {
            assert!(InstallOptions::read(words).is_err(), "{words:?}");
        }
    }
}
