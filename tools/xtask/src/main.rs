//! The commands of this project: `cargo xtask COMMAND`.

mod failure;
mod generate;
mod workspace;

use std::process::ExitCode;

pub use failure::Failure;
use workspace::Workspace;

const USAGE: &str = "\
cargo xtask COMMAND

  generate [--check]   write the generated files, or fail with the difference
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let workspace = Workspace::new();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
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
        _ => Err(Failure::new(USAGE)),
    }
}
