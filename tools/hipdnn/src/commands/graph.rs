//! `hipdnn graph`

use super::{Outcome, read, read_graph, write};
use crate::cli;
use crate::computation::{Loaded, choose_engines, first_that_works, plan};
use crate::failure::{Failure, Result};
use crate::graph::{Graph, Node, Port, shape};
use crate::picture;
use crate::steps;
use crate::table::Table;
use hipdnn::{Backend, Handle, OperationGraph};

/// Shows a graph, as text or as a picture.
pub fn graph(backend: &Backend, arguments: &cli::Graph) -> Result<Outcome> {
    let operations = read_graph(backend, &arguments.graph)?;
    let graph = Graph::from_json(&operations.json()?)?;
    match &arguments.svg {
        Some(path) => {
            let planned = arguments.plan.then(|| planned(backend, operations, arguments)).transpose()?;
            write(path, picture::svg(&graph, planned.as_ref())?.as_bytes())?;
            Ok(Outcome::from(format!(
                "drew {} nodes and {} tensors into {}\n",
                graph.nodes.len(),
                graph.tensors.len(),
                path.display()
            )))
        }
        None if arguments.dot => Ok(Outcome::from(picture::dot(&graph))),
        None => Ok(Outcome::from(text(&graph))),
    }
}

/// The engine and the steps of its plan.
fn planned(
    backend: &Backend,
    operations: OperationGraph,
    arguments: &cli::Graph,
) -> Result<picture::Planned> {
    let handle = Handle::new(backend)?;
    let loaded = Loaded::new(&handle, operations, &arguments.graph)?;
    let named = arguments.engine.as_deref();
    let engines = choose_engines(&handle, &loaded, named, None)?;
    let ((engine, plan), _) = first_that_works(&engines, |engine| {
        plan(&loaded.operations, engine, &[]).map(|plan| (engine.clone(), plan))
    })?;
    match steps::of(&plan)? {
        Some(steps) => {
            let mut times = Vec::new();
            if let Some(path) = &arguments.times {
                times = steps::times(&steps, &String::from_utf8_lossy(&read(path)?));
                if times.iter().all(Option::is_none) {
                    let reason = format!("the trace has no step of this plan of {}", engine.name);
                    return Err(Failure::input(reason).of_file(path));
                }
            }
            Ok(picture::Planned { engine: engine.name, steps, times })
        }
        None => Err(Failure::work(format!("{} does not tell what its plans do", engine.name))),
    }
}

/// The nodes and tensors of a graph, a line each.
fn text(graph: &Graph) -> String {
    let mut text = format!(
        "graph {:?}: {} nodes, {} tensors, compute {}, intermediate {}, io {}\n\n",
        graph.name,
        graph.nodes.len(),
        graph.tensors.len(),
        graph.compute_type,
        graph.intermediate_type,
        graph.io_type
    );
    let mut nodes = Table::new(&["NODE", "OPERATION", "READS", "WRITES", "PARAMETERS"]);
    for node in &graph.nodes {
        nodes.row([
            node.name.clone(),
            node.operation.clone(),
            ports(graph, &node.inputs),
            ports(graph, &node.outputs),
            parameters(node),
        ]);
    }
    text.push_str(&nodes.text());
    text.push('\n');
    let mut tensors = Table::new(&["UID", "NAME", "TYPE", "SHAPE", "STRIDES", "KIND"]);
    for tensor in &graph.tensors {
        let is_written = graph.producer(tensor.uid).is_some();
        let kind = match (tensor.is_virtual, &tensor.value, is_written) {
            (true, ..) => "virtual".to_owned(),
            (_, Some(value), _) => format!("value {value}"),
            (_, _, true) => "output".to_owned(),
            _ => "input".to_owned(),
        };
        tensors.row([
            tensor.uid.to_string(),
            tensor.name.clone(),
            tensor.data_type.to_string(),
            shape(&tensor.dims),
            tensor.strides.iter().map(i64::to_string).collect::<Vec<_>>().join(" "),
            kind,
        ]);
    }
    text.push_str(&tensors.text());
    text
}

fn ports(graph: &Graph, ports: &[Port]) -> String {
    let one = |port: &Port| {
        let label = graph.tensor(port.uid).map_or_else(|| format!("#{}", port.uid), |tensor| tensor.label());
        format!("{}={label}", port.role)
    };
    ports.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn parameters(node: &Node) -> String {
    node.parameters.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}
