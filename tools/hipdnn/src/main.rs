//! The command line tool `hipdnn`: engines, graphs, runs, measurements and saved plans of a `libhipdnn_backend.so`.
//!
//! It uses only the library's public C functions and opens it at run time, so it works with any hipDNN backend.

mod bundle;
mod cli;
mod commands;
mod loading;
mod trials;

use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use cli::{Cli, Command};
use commands::Outcome;
use hipdnn::{Backend, forward_log};
use hipdnn_plugin_sdk::os::environment::NOWHERE;
use hipdnn_tool::failure::{self, Failure, Result};
use hipdnn_tool::{
    batch, comparison, computation, double, graph, numerics, picture, rounding, steps, table, tensor, views,
};
use loading::Loading;

fn main() -> ExitCode {
    keep_log_quiet();
    start_logger();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            // Ignore write errors: the reader has closed the pipe.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return complain(&bad_arguments(&error)),
    };
    match run(&cli) {
        Ok(outcome) => {
            show(&outcome.text);
            outcome.failure.map_or(ExitCode::SUCCESS, |failure| complain(&failure))
        }
        Err(failure) => complain(&failure),
    }
}

/// Prepares the environment for a tool that switches the library's log on to learn the reasons of engines: unless the user wants
/// every line, a file or the profile, the log goes nowhere, and warnings or errors that the user wants come by [`forward_log`].
fn keep_log_quiet() {
    let is_profiled = std::env::var("HIPDNN_VERBOSE").is_ok_and(|word| !word.is_empty() && word != "0");
    if is_profiled || std::env::var_os("HIPDNN_LOG_FILE").is_some() {
        return;
    }
    let word = std::env::var_os("HIPDNN_LOG_LEVEL").unwrap_or_default().to_string_lossy().into_owned();
    let shown = match word.trim().to_ascii_lowercase().as_str() {
        "" | "off" => None,
        "warn" | "warning" => Some("hipdnn=warn"),
        "error" | "fatal" | "critical" => Some("hipdnn=error"),
        "info" | "debug" | "trace" => return,
        _ => {
            let expected = "trace, debug, info, warn, error, fatal or off; the log stays off";
            eprintln!("hipdnn: HIPDNN_LOG_LEVEL is {word:?}, expected {expected}");
            None
        }
    };
    // SAFETY: this is the first thing that the program does, and it has no other thread yet.
    unsafe {
        std::env::set_var("HIPDNN_LOG_FILE", NOWHERE);
        if let (Some(shown), None) = (shown, std::env::var_os("RUST_LOG")) {
            std::env::set_var("RUST_LOG", shown);
        }
    }
}

/// Shows the library's lines as they are: they have a time and a severity.
fn start_logger() {
    env_logger::Builder::from_default_env()
        .format(|out, record| match record.target() {
            "hipdnn" => writeln!(out, "{}", record.args()),
            target => writeln!(out, "[{} {target}] {}", record.level(), record.args()),
        })
        .init();
}

fn run(cli: &Cli) -> Result<Outcome> {
    let open_alone = || Backend::open(cli.backend.as_deref()).map_err(Failure::from);
    let open = || -> Result<Backend> {
        let backend = open_alone()?;
        let added = loading::add_plugins(&backend, &cli.plugins)?;
        if !added.is_empty() {
            // A named plugin must be usable.
            let (handle, loading) = Loading::watch(&backend);
            handle?;
            loading.failure_of(&added).map_or(Ok(()), Err)?;
        }
        Ok(backend)
    };
    match &cli.command {
        Command::Device(arguments) => commands::device(open(), arguments),
        Command::Doctor => Ok(commands::doctor(open_alone(), &cli.plugins)),
        Command::Engines(arguments) => logged(open_alone()?, |backend| {
            commands::engines(backend, &loading::add_plugins(backend, &cli.plugins)?, arguments)
        }),
        Command::Policies(arguments) => logged(open()?, |backend| commands::policies(backend, arguments)),
        Command::Explain(arguments) => logged(open()?, |backend| commands::explain(backend, arguments)),
        Command::Run(arguments) => logged(open()?, |backend| commands::run(backend, arguments)),
        Command::Check(arguments) => logged(open()?, |backend| commands::check(backend, arguments)),
        Command::Claims(arguments) => logged(open()?, |backend| commands::claims(backend, arguments)),
        Command::Numerics(arguments) => logged(open()?, |backend| commands::numerics(backend, arguments)),
        Command::Bench(arguments) => logged(open()?, |backend| commands::bench(backend, arguments)),
        Command::Compile(arguments) => commands::compile(open, cli, arguments),
        Command::Tune(arguments) => logged(open()?, |backend| commands::tune(backend, arguments)),
        Command::Plan(arguments) => logged(open()?, |backend| commands::plan(backend, arguments)),
        Command::Graph(arguments) => logged(open()?, |backend| commands::graph(backend, arguments)),
    }
}

/// Runs a command. `RUST_LOG` selects which lines of the library's log are shown; by default none.
fn logged(backend: Backend, command: impl FnOnce(&Backend) -> Result<Outcome>) -> Result<Outcome> {
    let asked = std::env::var_os("RUST_LOG").is_some();
    let forwarded = asked.then(|| forward_log(&backend, log::max_level()));
    let outcome = command(&backend);
    if asked {
        // Both stay until the process ends: that waits for the last lines, while removing the callback drops them.
        std::mem::forget(forwarded);
        std::mem::forget(backend);
    }
    outcome
}

fn complain(failure: &Failure) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "hipdnn: {failure}");
    failure.exit_code()
}

/// Writes to standard output, ignoring a closed pipe.
fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The error in the arguments, without the usage text.
fn bad_arguments(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let hint = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "a command is missing"
        }
        _ => first,
    };
    let meant = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(word)) => format!(", did you mean {word}?"),
        _ => String::new(),
    };
    let command = std::env::args().skip(1).find(|word| Cli::command().find_subcommand(word).is_some());
    let command = command.map(|word| format!(" {word}")).unwrap_or_default();
    Failure::input(format!("{hint}{meant} (hipdnn{command} --help says more)"))
}
