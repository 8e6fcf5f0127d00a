//! Writes the saved plans that `c_tests/api/golden_plans.c` loads; all formats must stay readable.
//!
//! `cargo run -p hipdnn-cpu-plugin --example golden_plans -- c_tests/golden` adds the files of the current
//! format. Existing files are never overwritten.

use std::path::Path;
use std::process::ExitCode;

use hipdnn_cpu_plugin::plugin::{CPU_REFERENCE_ENGINE, CpuPlugin};
use hipdnn_plugin_sdk::graph::operation::ConvolutionForward;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor};
use hipdnn_plugin_sdk::wire::{self, Container, Layout, Origin, SAVED_PLAN_VERSION, SavedPlan};
use hipdnn_plugin_sdk::{EnginePlugin, engine_id};

/// The convolution of `c_tests/fixture.h`.
fn graph() -> Graph {
    let float = DataType::Float;
    let convolution = ConvolutionForward {
        pre_padding: vec![1, 1],
        post_padding: vec![1, 1],
        ..ConvolutionForward::new(1, 2, 4, 2)
    };
    Graph {
        name: "golden".to_owned(),
        compute_type: float,
        intermediate_type: float,
        io_type: float,
        tensors: vec![
            Tensor::new(1, float, &[1, 2, 4, 4], &[32, 16, 4, 1]),
            Tensor::new(2, float, &[2, 2, 3, 3], &[18, 9, 3, 1]),
            Tensor::new(4, float, &[1, 2, 4, 4], &[32, 16, 4, 1]),
        ],
        nodes: vec![Node {
            name: "convolution".to_owned(),
            compute_type: float,
            operation: convolution.into(),
        }],
        ..Graph::default()
    }
}

type Error = Box<dyn std::error::Error>;

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let path = folder.join(name);
    if path.exists() {
        println!("{} is there already", path.display());
    } else {
        std::fs::write(&path, bytes)?;
        println!("{}: {} bytes", path.display(), bytes.len());
    }
    Ok(())
}

fn run(folder: &Path) -> Result<(), Error> {
    let engine = CpuPlugin::ENGINES.iter().position(|name| *name == CPU_REFERENCE_ENGINE);
    let compiled =
        CpuPlugin::plan(&Default::default(), engine.ok_or("there is no reference engine")?, &graph(), &[])?;
    let payload = CpuPlugin::serialize(&Default::default(), &compiled)?;
    let mut plan = SavedPlan {
        version: SAVED_PLAN_VERSION,
        engine_id: engine_id(CPU_REFERENCE_ENGINE),
        workspace_size: i64::try_from(CpuPlugin::plan_workspace_size(&compiled))?,
        tensor_uids: vec![1, 2, 4],
        payload: &payload,
        graph: &[],
        is_override_shape_enabled: false,
        origin: None,
    };
    let unsealed = wire::write_plan(&plan)?;
    write(folder, "plan_1_unsealed.bin", &unsealed)?;
    let graph = wire::write(&graph(), Layout::G2)?;
    let container = wire::write_container(Container { graph: &graph, plan: &unsealed })?;
    write(folder, "container_1.bin", &container)?;
    plan.origin = Some(Origin {
        plugin_name: CpuPlugin::NAME.to_owned(),
        plugin_version: CpuPlugin::VERSION.to_owned(),
        device: "a processor that nobody has".to_owned(),
        tensor_alignments: vec![16; 3],
    });
    write(folder, "plan_1_sealed.bin", &wire::write_plan(&plan)?)
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: golden_plans FOLDER");
        return ExitCode::from(2);
    };
    match run(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
