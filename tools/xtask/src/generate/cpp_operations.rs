//! The regular part of the C++ classes of operations: their tensors and plain attributes, and how these are visited.

use std::collections::HashMap;
use std::fs;

use hipdnn_abi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type,
    hipdnnBackendDescriptorType_t as Kind, hipdnnOperationType_ext_t as OperationType,
};
use hipdnn_plugin_sdk::graph::Operation;
use hipdnn_plugin_sdk::graph::operation::{Field, FieldKind, OperationSpec};

use super::Output;
use super::c_table::name;
use crate::Failure;
use crate::workspace::Workspace;

/// Operations that messages do not call by the name of their table.
const WORDS: &[(&str, &str)] = &[
    ("BatchnormInferenceVariance", "batchnorm_inference_variance"),
    ("ConvolutionForward", "conv_fprop"),
    ("ConvolutionBackwardData", "conv_dgrad"),
    ("ConvolutionBackwardFilter", "conv_wgrad"),
    ("RmsNorm", "rmsnorm"),
    ("RmsNormBackward", "rmsnorm_backward"),
];

/// Attributes that their class keeps in a way of its own.
const BY_HAND: &[&str] = &[
    "BlockScaleDequantize.block_size",
    "ConvolutionBackwardData.conv_mode",
    "ConvolutionBackwardFilter.conv_mode",
    "ConvolutionForward.conv_mode",
    "Reduction.mode",
];

/// What the classes do without these attributes.
const UNSET: &[(&str, &str)] = &[
    ("attn_scale_value", "1 if neither it nor a tensor is set."),
    ("normalized_dim_count", "0 follows the scale."),
];

/// The comments of the declarations' fields, by operation and field.
type Comments = HashMap<(String, String), String>;

/// Second names of the tensors of attention.
const ALIASES: &[(&str, &str)] = &[
    ("attn_mask", "bias"),
    ("scale", "attn_scale"),
    ("page_table_k", "paged_attention_k_table"),
    ("page_table_v", "paged_attention_v_table"),
    ("max", "logit_max"),
    ("sum_exp", "score_sum_exp"),
];

pub fn outputs(workspace: &Workspace) -> Result<Vec<Output>, Failure> {
    let comments = comments(workspace)?;
    let mut headers = [("attention", String::new()), ("norm", String::new()), ("other", String::new())];
    for spec in Operation::SPECS.iter().filter(|spec| spec.name != "CustomOp") {
        let header = match spec.name.to_lowercase() {
            name if name.starts_with("sdpa") => 0,
            name if name.contains("norm") => 1,
            _ => 2,
        };
        if let Some((_, classes)) = headers.get_mut(header) {
            classes.push_str(&class(spec, &comments)?);
        }
    }
    let output = |(header, classes)| Output {
        path: workspace.path(format!("bindings/cpp/include/hipdnn/cpp/fields_{header}.hpp")),
        text: format!(
            "/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The tensors and plain attributes of operations, for attributes_*.hpp.
 *
 * Generated from plugins/sdk/src/graph/operation by `cargo xtask generate`.
 */
#pragma once

#include \"operation.hpp\"

namespace hipdnn
{{
namespace detail
{{
{classes}
}} // namespace detail
}} // namespace hipdnn
"
        ),
    };
    Ok(headers.into_iter().map(output).collect())
}

/// Reads the comments above the fields of the operations, which the compiled declarations do not have.
fn comments(workspace: &Workspace) -> Result<Comments, Failure> {
    let mut comments = Comments::new();
    for entry in fs::read_dir(workspace.path("plugins/sdk/src/graph/operation"))? {
        let text = fs::read_to_string(entry?.path())?;
        let (mut operation, mut comment) = (String::new(), Vec::new());
        for line in text.lines().map(str::trim) {
            if let Some(words) = line.strip_prefix("///") {
                comment.push(words.trim());
                continue;
            }
            let comment = std::mem::take(&mut comment).join(" ");
            match line.split_once(": ") {
                Some((name, table)) if table.starts_with('"') => name.clone_into(&mut operation),
                Some((name, field)) if field.contains(" = HIPDNN_ATTR_") => {
                    comments.insert((operation.clone(), name.to_owned()), comment);
                }
                _ => {}
            }
        }
    }
    Ok(comments)
}

fn class(spec: &OperationSpec, comments: &Comments) -> Result<String, Failure> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let (mut members, mut visits) = (String::new(), String::new());
    for field in spec.fields {
        if BY_HAND.contains(&format!("{}.{}", spec.name, field.name).as_str()) {
            continue;
        }
        let visit = match field.kind {
            FieldKind::Input { required } => {
                inputs.push(enumerator(spec, field));
                tensor(spec, field, "Input", required, &mut members)?
            }
            FieldKind::Output { required } => {
                outputs.push(enumerator(spec, field));
                tensor(spec, field, "Output", required, &mut members)?
            }
            _ => {
                let comment = comments.get(&(spec.name.to_owned(), field.name.to_owned()));
                let missing = || Failure::new(format!("{}.{} has no comment", spec.name, field.name));
                let unset = UNSET.iter().find(|(name, _)| *name == field.name);
                let unset = unset.map_or_else(String::new, |(_, words)| format!(" {words}"));
                members.push_str(&format!("    /** {}{unset} */\n", comment.ok_or_else(missing)?));
                attribute(spec, field, &mut members)?
            }
        };
        visits.push_str(&format!("        {visit};\n"));
    }
    let table = spec.table.trim_end_matches("Attributes");
    let word = WORDS.iter().find(|(name, _)| *name == spec.name);
    Ok(format!(
        "
template <typename Derived>
class {}Fields : public Attributes<Derived>
{{
public:
    using Self = Derived;
    enum class InputNames {{ {} }};
    enum class OutputNames {{ {} }};
    using input_names = InputNames;
    using output_names = OutputNames;
    Slots<InputNames, {}> inputs;
    Slots<OutputNames, {}> outputs;
{members}
    OperationKind kind() const override
    {{
        return {{\"{}\", {}, {}, {}}};
    }}

    template <typename Visitor>
    void each(Visitor& visitor)
    {{
{visits}    }}
}};
",
        spec.name,
        inputs.join(", "),
        outputs.join(", "),
        inputs.len(),
        outputs.len(),
        word.map_or_else(|| snake(table), |(_, word)| (*word).to_owned()),
        name::<Kind>(spec.descriptor_type)?,
        name::<OperationType>(spec.operation_type)?,
        name::<Name>(spec.compute_attribute)?,
    ))
}

/// Adds the getters and setters of a tensor, and answers its visit.
fn tensor(
    spec: &OperationSpec,
    field: &Field,
    way: &str,
    required: bool,
    members: &mut String,
) -> Result<String, Failure> {
    let key = enumerator(spec, field);
    let mut words = match (spec.name, field.name) {
        ("Pointwise", name) => vec![name.replace("in_", "input_").replace("out_", "output_")],
        ("Reduction", _) => vec![key.to_lowercase()],
        (_, name) => vec![name.to_owned()],
    };
    if spec.name.starts_with("Sdpa") {
        words.extend(
            ALIASES.iter().filter(|(name, _)| *name == field.name).map(|(_, alias)| (*alias).to_owned()),
        );
    }
    for word in words {
        members.push_str(&format!("    HIPDNN_CPP_{}({key}, {word})\n", way.to_uppercase()));
    }
    // Messages write the gradients of attention as dQ.
    let told = if key.starts_with('d') { key.clone() } else { key.to_lowercase() };
    let optional = if required { "" } else { "Optional" };
    let slots = format!("{}s[{way}Names::{key}]", way.to_lowercase());
    Ok(format!(
        "visitor.tensor({}, {slots}, \"{told}\", Role::{optional}{way})",
        name::<Name>(field.attribute)?
    ))
}

/// A tensor's name among `InputNames` or `OutputNames`.
fn enumerator(spec: &OperationSpec, field: &Field) -> String {
    match (spec.name, field.name) {
        ("Reduction", "in") => "X".to_owned(),
        ("Reduction", "out") => "Y".to_owned(),
        ("Sdpa" | "SdpaBackward", "attn_mask") => "Bias".to_owned(),
        ("Sdpa" | "SdpaBackward", "scale") => "Attn_scale".to_owned(),
        ("Sdpa" | "SdpaBackward", "seq_len_q" | "seq_len_kv" | "sink_token" | "rng_dump") => {
            field.name.to_uppercase()
        }
        ("SdpaBackward", "do" | "dq" | "dk" | "dv" | "dbias") => {
            format!("d{}", capitalized(field.name.trim_start_matches('d')))
        }
        ("Sdpa" | "SdpaBackward", name) => {
            let parts = name.split('_').enumerate().map(|(at, part)| match part.len() {
                1 => part.to_uppercase(),
                _ if at == 0 => capitalized(part),
                _ => part.to_owned(),
            });
            parts.collect::<Vec<_>>().join("_")
        }
        (_, name) => name.to_uppercase(),
    }
}

/// Adds the member, the getter and the setter of an attribute, and answers its visit.
fn attribute(spec: &OperationSpec, field: &Field, members: &mut String) -> Result<String, Failure> {
    let word = if field.name == "operation" { "mode" } else { field.name };
    let attribute = name::<Name>(field.attribute)?;
    let value = |kind: &str, held: &str| {
        (format!("OPTIONAL({held}, {word})"), format!("visit_value(visitor, {attribute}, {kind}, {word})"))
    };
    let number = |kind: &str, held: &str| {
        (format!("FIELD({held}, {word}, 0)"), format!("visit_number(visitor, {attribute}, {kind}, {word})"))
    };
    let flag =
        || (format!("FIELD(bool, {word}, false)"), format!("visit_flag(visitor, {attribute}, {word})"));
    let (member, visit) = match field.kind {
        // Not set until the program sets it, although the library requires it.
        FieldKind::Int32 { .. } if spec.name == "BlockScaleQuantize" => value("HIPDNN_TYPE_INT32", "int32_t"),
        FieldKind::Flag { .. } if field.name == "generate_index" => flag(),
        FieldKind::Inputs => (
            format!("LIST(std::vector<TensorPtr>, {word})"),
            format!("visitor.tensors({attribute}, {word}, Role::OptionalInput)"),
        ),
        FieldKind::Ints => (format!("LIST(Dims, {word})"), format!("visitor.integers({attribute}, {word})")),
        FieldKind::Int { required: true } => number("HIPDNN_TYPE_INT64", "int64_t"),
        FieldKind::Int { required: false } => value("HIPDNN_TYPE_INT64", "int64_t"),
        FieldKind::Int32 { required: true } => number("HIPDNN_TYPE_INT32", "int32_t"),
        FieldKind::Int32 { required: false } => value("HIPDNN_TYPE_INT32", "int32_t"),
        FieldKind::Float => value("HIPDNN_TYPE_FLOAT", "float"),
        FieldKind::Flag { required: true } => flag(),
        FieldKind::Flag { required: false } => value("HIPDNN_TYPE_BOOLEAN", "bool"),
        FieldKind::Enum(kind) => {
            let kind_of = name::<Type>(kind.attribute_type)?;
            let call = match (kind.name, (kind.c_from_wire)(0)) {
                ("DataType", _) => format!("visit_type(visitor, {attribute}, {word})"),
                (_, None) => format!("visit_mode(visitor, {attribute}, {kind_of}, {word})"),
                (_, Some(_)) => format!("visit_mode(visitor, {attribute}, {kind_of}, {word}, false)"),
            };
            (format!("FIELD({0}, {word}, {0}())", kind.name), call)
        }
        kind => {
            return Err(Failure::new(format!(
                "{}.{word} is {kind:?}, which only a class written by hand can hold",
                spec.name
            )));
        }
    };
    members.push_str(&format!("    HIPDNN_CPP_{member}\n"));
    Ok(visit)
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| format!("{}{}", first.to_ascii_uppercase(), letters.as_str()))
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}
