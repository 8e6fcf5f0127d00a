//! Says into which parts graphs are divided for cuDNN, on a device that need not be there: cuDNN is asked for plans, none of which runs.
//!
//! `parts DEVICE FOLDER [NAME...]`: a file with the device's properties, as cuDNN writes them in JSON, and a folder of graphs in JSON. The exit
//! status is 1 where cuDNN fails otherwise than by having no engine, or has none for a graph whose name begins with one of the names.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr::null_mut;

use hipdnn_cudnn_plugin::compiled::{Maker, Target, properties};
use hipdnn_cudnn_plugin::cudnn::Cudnn;
use hipdnn_cudnn_plugin::knob::Options;
use hipdnn_cudnn_plugin::part::parts;
use hipdnn_plugin_planner::plan::Found;
use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::ffi::HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
use hipdnn_plugin_sdk::json;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let [device, folder, names @ ..] = arguments.as_slice() else {
        eprintln!("usage: parts DEVICE FOLDER [NAME...]");
        return ExitCode::from(2);
    };
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    match divided(device, folder, |graph| names.iter().any(|name| graph.starts_with(&**name))) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("parts: {error}");
            ExitCode::from(2)
        }
    }
}

/// Writes a line for each graph, and answers how many failed.
fn divided(device: &Path, folder: &Path, is_needed: impl Fn(&str) -> bool) -> Result<usize, Box<dyn Error>> {
    let cudnn = Cudnn::find()?;
    let properties = properties(cudnn, fs::read_to_string(device)?.trim())?;
    let target = Target::Properties(properties.get());
    let maker = Maker { cudnn, target, device: 0, context: null_mut() };
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    let (mut whole, mut divided, mut refused, mut failed) = (0, 0, 0, 0);
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
        let graph = json::read_bytes(&fs::read(file)?)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let prepared = prepare(&graph).map_err(|refusal| format!("{name}: {refusal}"))?;
        match parts(|| Ok(maker), &prepared, &Options::default(), &Found::default()) {
            Ok(parts) if parts.len() == 1 => {
                whole += 1;
                println!("{name}: whole");
            }
            Ok(parts) => {
                divided += 1;
                let nodes: Vec<String> = parts.iter().map(|part| format!("{:?}", part.nodes)).collect();
                println!("{name}: parts {}", nodes.join(" "));
            }
            Err(error) if error.status() == HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE && !is_needed(&name) => {
                refused += 1;
                println!("{name}: refused: {error}");
            }
            Err(error) => {
                failed += 1;
                println!("{name}: FAILED: {error}");
            }
        }
    }
    println!("{whole} whole, {divided} divided, {refused} refused, {failed} failed");
    Ok(failed)
}
