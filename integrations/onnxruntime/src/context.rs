//! Compiled models: stores what a subgraph needs to run without planning, in an EPContext node of the model or in a file beside it.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::path::{Component, Path};

use hipdnn_plugin_sdk::plain_file;
use serde_json::{Value as Json, json};

use crate::base64;
use crate::compiled::Chain;
use crate::failure::{Failure, Result};
use crate::model::{Attribute, Model, Node, save};
use crate::options::Wanted;

/// The operator of nodes with a compiled subgraph.
pub const OPERATOR: &str = "EPContext";

/// The domain of that operator.
pub const DOMAIN: &str = "com.microsoft";

/// The source of a node; nodes from other sources are ignored.
pub const SOURCE: &str = "HipDNNExecutionProvider";

/// The name and version of the JSON.
const FORMAT: &str = "hipdnn-onnxruntime-context-1";

/// An attribute of a compiled subgraph's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
}

/// Identifies the library and machine that compiled models are made for.
pub fn compatibility() -> String {
    format!("hipdnn-onnxruntime {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

/// How well a compiled model fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It belongs to another provider.
    Foreign,
    /// It was made by this version.
    Whole,
    /// It was made by another version: usable, but planned anew.
    Older,
    /// It was made for other processors.
    Wrong,
}

/// Compares a text from [`compatibility`] with this library's.
pub fn fit(text: &str) -> Fit {
    let own = compatibility();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    match (words(text).as_slice(), words(&own).as_slice()) {
        ([name, ..], [own, ..]) if name != own => Fit::Foreign,
        ([_, version, machine], [_, own_version, own_machine]) if machine == own_machine => {
            if version == own_version { Fit::Whole } else { Fit::Older }
        }
        _ => Fit::Wrong,
    }
}

/// The attributes of a subgraph's node. Data outside of the node is written beside the compiled model.
pub fn save(
    subgraph: &Chain,
    engine: &str,
    wanted: &Wanted,
    model: &Path,
) -> Result<Vec<(&'static str, Entry)>> {
    let name = subgraph.name();
    let plans = subgraph.plans()?.into_iter();
    let plans: Vec<Json> =
        plans.map(|(key, bytes)| json!({ "graph": key, "plan": base64::encode(&bytes) })).collect();
    let whole = json!({
        "format": FORMAT, "made_by": compatibility(), "engine": engine,
        "model": save::write(subgraph.model()), "plans": plans,
    });
    let text = whole.to_string();
    let content = if wanted.is_embedded {
        text
    } else {
        let target = wanted.file.clone().unwrap_or_else(|| model.with_extension("onnx"));
        let stem =
            target.file_stem().map_or_else(|| "model".to_owned(), |of| of.to_string_lossy().into_owned());
        let plain: String =
            name.chars().map(|of| if of.is_ascii_alphanumeric() { of } else { '_' }).collect();
        let file = format!("{stem}_{plain}.hipdnn");
        let path = target.parent().unwrap_or(Path::new("")).join(&file);
        std::fs::write(&path, text).map_err(|error| {
            Failure::ep(format!(
                "subgraph {name}: the compiled form cannot be written to {}: {error}",
                path.display()
            ))
        })?;
        file
    };
    Ok(vec![
        ("main_context", Entry::Int(1)),
        ("embed_mode", Entry::Int(i64::from(wanted.is_embedded))),
        ("ep_cache_context", Entry::Text(content)),
        ("ep_sdk_version", Entry::Text(env!("CARGO_PKG_VERSION").to_owned())),
        ("hardware_architecture", Entry::Text(std::env::consts::ARCH.to_owned())),
        ("partition_name", Entry::Text(name.to_owned())),
        ("source", Entry::Text(SOURCE.to_owned())),
    ])
}

/// Whether a node is a compiled subgraph of this provider.
pub fn is_own(node: &Node) -> bool {
    node.operator == OPERATOR && node.domain == DOMAIN && node.text("source", "") == SOURCE
}

/// The contents of a compiled subgraph.
pub struct Loaded {
    /// Its nodes.
    pub model: Model,
    /// Plans, by the text of their graphs.
    pub plans: HashMap<String, Vec<u8>>,
}

/// The subgraph of a node, in a fused model with only this node. `folder` is that of the model's file.
pub fn load(fused: &Model, folder: &Path) -> Result<Loaded> {
    let Some(node) = fused.nodes.first() else { return Err(Failure::ep("a compiled subgraph has no node")) };
    let wrong = |text: &str| Failure::ep(format!("node {}: {text}", node.title()));
    let content = match node.attributes.get("ep_cache_context") {
        Some(Attribute::Text(content)) => content,
        Some(Attribute::NotUtf8) => return Err(wrong("ep_cache_context is not UTF-8, expected a text")),
        Some(_) => return Err(wrong("ep_cache_context is no text, expected one")),
        None => return Err(wrong("ep_cache_context is absent, expected a text")),
    };
    let text = if node.int("embed_mode", 1) != 0 {
        content.clone()
    } else {
        let is_plain = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        if content.is_empty() || !is_plain(Path::new(content)) {
            return Err(wrong(&format!(
                "ep_cache_context is {content:?}, expected the name of a file beside the model"
            )));
        }
        let path = folder.join(content);
        let mut text = String::new();
        plain_file::open(&path, OpenOptions::new().read(true))
            .and_then(|mut file| file.read_to_string(&mut text))
            .map_err(|error| wrong(&format!("{} cannot be read: {error}", path.display())))?;
        text
    };
    let json: Json = serde_json::from_str(&text)
        .map_err(|error| wrong(&format!("the compiled form is damaged: {error}")))?;
    if json.get("format").and_then(Json::as_str) != Some(FORMAT) {
        return Err(wrong(&format!("the compiled form is not {FORMAT}")));
    }
    let mut model = json
        .get("model")
        .and_then(save::read)
        .ok_or_else(|| wrong("the compiled form is damaged: it has no model"))?;
    adopt(&mut model, fused).map_err(|text| wrong(&text))?;
    let plan = |of: &Json| {
        let graph = of.get("graph")?.as_str()?.to_owned();
        Some((graph, base64::decode(of.get("plan")?.as_str()?)?))
    };
    let plans = json.get("plans").and_then(Json::as_array).map(|all| all.iter().filter_map(plan).collect());
    // Plans of another version are made anew.
    let is_current = json.get("made_by").and_then(Json::as_str) == Some(compatibility().as_str());
    Ok(Loaded { model, plans: plans.filter(|_| is_current).unwrap_or_default() })
}

/// Restores what a saved model lacks: the elements of large constants.
fn adopt(model: &mut Model, fused: &Model) -> std::result::Result<(), String> {
    let names = |model: &Model, ids: &[usize]| -> Vec<String> {
        ids.iter().filter_map(|id| model.values.get(*id)).map(|value| value.name.clone()).collect()
    };
    for (own, given, what) in [
        (names(model, &model.inputs), names(fused, &fused.inputs), "inputs"),
        (names(model, &model.outputs), names(fused, &fused.outputs), "outputs"),
    ] {
        if own != given {
            return Err(format!("the {what} are {given:?}, and the compiled form has {own:?}"));
        }
    }
    for (id, of) in model.inputs.iter().zip(&fused.inputs) {
        let (Some(value), Some(given)) = (model.values.get_mut(*id), fused.values.get(*of)) else { continue };
        if value.is_constant && !given.is_constant {
            return Err(format!("{:?} is not constant any more", value.name));
        }
        if value.constant.is_some() && value.constant != given.constant {
            return Err(format!("constant {:?} is another one than in the compiled form", value.name));
        }
        value.kept = given.kept.clone();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_versions_are_compared() {
        assert_eq!(fit(&compatibility()), Fit::Whole);
        let older = format!("hipdnn-onnxruntime 0.0.1 {}", std::env::consts::ARCH);
        assert_eq!(fit(&older), Fit::Older);
        assert_eq!(fit("hipdnn-onnxruntime 0.0.1 z80"), Fit::Wrong);
        assert_eq!(fit("QNN 2.3"), Fit::Foreign);
    }
}
