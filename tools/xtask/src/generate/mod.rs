//! The committed files that are made from other files: the public C headers, the schema, a table for C tests, licences.

mod aliases;
mod c_table;
mod cpp_modes;
mod cpp_operations;
mod diff;
mod fragment;
#[cfg(test)]
mod golden;
mod headers;
mod notices;
mod plugin_headers;
mod sbom;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::workspace::Workspace;
use headers::{BACKEND_DOC, DEPRECATED, HEADERS, Header, INCLUDED_BY_BACKEND, SECTIONS};

/// A file as it ought to be.
struct Output {
    path: PathBuf,
    text: String,
}

/// Writes every generated file that is not already as it ought to be, and answers which.
pub fn write(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    let mut written = Vec::new();
    for output in outputs(workspace)? {
        if fs::read_to_string(&output.path).ok().as_ref() == Some(&output.text) {
            continue;
        }
        if let Some(folder) = output.path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&output.path, &output.text)?;
        written.push(output.path);
    }
    Ok(written)
}

/// Fails with the differences when a generated file is not as it ought to be.
pub fn check(workspace: &Workspace) -> Result<usize, Failure> {
    let outputs = outputs(workspace)?;
    let mut differences = String::new();
    for output in &outputs {
        let committed = fs::read_to_string(&output.path).unwrap_or_default();
        if committed != output.text {
            let name = workspace.relative(&output.path);
            differences.push_str(&diff::unified(&name, &committed, &output.text));
        }
    }
    if differences.is_empty() {
        return Ok(outputs.len());
    }
    Err(Failure::new(format!("{differences}run `cargo xtask generate` and commit what it writes")))
}

fn outputs(workspace: &Workspace) -> Result<Vec<Output>, Failure> {
    let folder = workspace.path("include/hipdnn/backend");
    let mut outputs = Vec::new();
    for header in HEADERS {
        outputs.push(Output { path: folder.join(header.file), text: types_header(workspace, header)? });
    }
    outputs.push(Output { path: folder.join("hipdnn_backend.h"), text: backend_header(workspace)? });
    outputs.push(Output {
        path: folder.join("hipdnn_backend/version.h"),
        text: version_header(&workspace.version),
    });
    outputs.extend(plugin_headers::outputs(workspace)?);
    outputs.push(schema::output(workspace)?);
    outputs.push(c_table::output(workspace)?);
    outputs.push(cpp_modes::output(workspace)?);
    outputs.extend(cpp_operations::outputs(workspace)?);
    outputs.push(notices::output(workspace)?);
    outputs.push(sbom::output(workspace)?);
    Ok(outputs)
}

fn types_header(workspace: &Workspace, header: &Header) -> Result<String, Failure> {
    let source = workspace.path("src/ffi").join(header.source);
    let mut body = match header.source {
        "attribute_name.rs" => fragment::attributes(),
        _ => fragment::types(&source, header.items)?,
    };
    if header.open {
        for item in header.items {
            body = fragment::open_enum(&body, item)?;
        }
    }
    for alias in header.aliases {
        fragment::add_alias(&mut body, alias)?;
    }
    if let Some((from, to)) = header.prefix_alias {
        fragment::add_prefix_aliases(&mut body, from, to)?;
    }
    if let Some(suffix) = header.suffix_alias {
        fragment::add_aliases_without(&mut body, suffix)?;
    }
    let mut body = body.trim().to_owned();
    if let Some(guard) = header.shared_guard {
        body = format!("#ifndef {guard}\n#define {guard}\n\n{body}\n\n#endif");
    }
    if !header.repeatable.is_empty() {
        // The other types of the file come along, because these name them: keep what follows the last of those.
        let all = fragment::types(&source, header.repeatable)?;
        let first_word = header.repeatable.iter().filter_map(|item| declaration_of(&all, item)).min();
        let start =
            first_word.ok_or_else(|| Failure::new(format!("{} lost its repeatable types", header.file)))?;
        let rest = all.get(start..).unwrap_or_default().trim();
        body = format!("{body}\n\n{rest}");
    }
    let mut preamble = String::new();
    for include in header.includes {
        preamble.push_str(&format!("#include <{include}>\n"));
    }
    if let (Some(copy), Some(guard)) = (header.foreign_copy, header.shared_guard) {
        preamble.push_str(&foreign_copy(copy, guard));
    }
    Ok(file(header.file, &module_doc(&source)?, &format!("src/ffi/{}", header.source), &preamble, &body))
}

/// Where the documented declaration of a typedef starts.
fn declaration_of(text: &str, item: &str) -> Option<usize> {
    let name = text
        .match_indices(item)
        .find(|(at, _)| {
            let line = text.get(..*at).and_then(|t| t.rsplit('\n').next()).unwrap_or_default();
            line.starts_with("typedef")
        })
        .map(|(at, _)| at)?;
    let before = text.get(..name)?;
    // A declaration is set apart from the one before it by an empty line.
    Some(before.rfind("\n\n").map_or(0, |at| at + 2))
}

/// Includes another's header of the same types where there is one, unless the types are known already.
fn foreign_copy(copy: &str, guard: &str) -> String {
    format!(
        "#if !defined({guard}) && defined(__has_include)
#if __has_include(<{copy}>)
#include <{copy}>
#ifndef {guard}
#define {guard}
#endif
#endif
#endif
"
    )
}

fn backend_header(workspace: &Workspace) -> Result<String, Failure> {
    let ffi = workspace.path("src/ffi");
    let api = workspace.path("src/c_api");
    let opaque = |item: &str| fragment::opaque(&ffi.join("handles.rs"), &[item]);
    let mut parts = vec![opaque("hipdnnHandle_t")?, opaque("hipdnnBackendDescriptor_t")?];
    for (source, item) in [
        ("log_callback_mode.rs", "hipdnnLogCallbackMode_t"),
        ("serialized_content_flags.rs", "hipdnnSerializedContentFlags_t"),
        ("autotune_cache_write_outcome.rs", "hipdnnAutotuneCacheWriteOutcome_ext_t"),
    ] {
        parts.push(fragment::types(&ffi.join(source), &[item])?);
    }
    let sources = sections(&api)?;
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let mut functions = fragment::functions(&sources)?;
    for name in DEPRECATED {
        fragment::deprecate(&mut functions, name);
    }
    parts.push(functions);
    let body: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();

    let mut preamble = "#include <stddef.h>\n#include <stdint.h>\n\n".to_owned();
    for include in INCLUDED_BY_BACKEND {
        preamble.push_str(&format!("#include \"{include}\"\n"));
    }
    let doc: Vec<String> = BACKEND_DOC.iter().map(|&line| line.to_owned()).collect();
    Ok(file("hipdnn_backend.h", &doc, "src/c_api", &preamble, &body.join("\n\n")))
}

/// The files of the C interface, in the order of the header.
fn sections(api: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    if api.exists() {
        for entry in fs::read_dir(api)? {
            let path = entry?.path();
            // cbindgen would follow the module declarations of the index and see every file twice.
            if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("mod.rs") {
                found.push(path);
            }
        }
    }
    found.sort_by_cached_key(|path| {
        let name = path.file_name().unwrap_or_default().to_owned();
        (SECTIONS.iter().position(|section| name == *section).unwrap_or(SECTIONS.len()), name)
    });
    Ok(found)
}

fn version_header(version: &str) -> String {
    let mut parts = version.split('.');
    let mut next = || parts.next().unwrap_or("0").to_owned();
    let (major, minor, patch) = (next(), next(), next());
    let body = format!(
        "#define HIPDNN_BACKEND_VERSION_MAJOR {major}
#define HIPDNN_BACKEND_VERSION_MINOR {minor}
#define HIPDNN_BACKEND_VERSION_PATCH {patch}

/// `MAJOR.MINOR.PATCH`. The library's own `hipdnnVersionString_ext` adds a fourth part: the commit it was built from.
#define HIPDNN_BACKEND_VERSION_STRING \"{major}.{minor}.{patch}\""
    );
    let doc = ["The version of the headers, and of the library they came with.".to_owned()];
    file("hipdnn_backend/version.h", &doc, "Cargo.toml", "#include <stddef.h>\n", &body)
}

/// The `//!` lines at the head of a Rust file.
fn module_doc(source: &Path) -> Result<Vec<String>, Failure> {
    Ok(fs::read_to_string(source)?
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.trim_start().to_owned())
        .collect())
}

fn file(name: &str, doc: &[String], source: &str, preamble: &str, body: &str) -> String {
    let guard: String = name
        .char_indices()
        .flat_map(|(at, c)| {
            let boundary = at > 0 && c.is_ascii_uppercase();
            boundary.then_some('_').into_iter().chain([if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }])
        })
        .collect();
    let mut text = "/* SPDX-License-Identifier: MIT */\n\n/*\n".to_owned();
    for line in doc {
        text.push_str(format!(" * {line}").trim_end());
        text.push('\n');
    }
    if !doc.is_empty() {
        text.push_str(" *\n");
    }
    text.push_str(&format!(" * Generated from {source} by `cargo xtask generate`.\n */\n\n"));
    text.push_str(&format!("#ifndef {guard}\n#define {guard}\n\n"));
    if !preamble.is_empty() {
        text.push_str(&format!("{}\n\n", preamble.trim_end()));
    }
    if body.lines().any(|line| !line.is_empty() && !line.starts_with(['#', '/', ' '])) {
        text.push_str(&format!(
            "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n{body}\n\n#ifdef __cplusplus\n}}\n#endif\n"
        ));
    } else {
        text.push_str(&format!("{body}\n"));
    }
    text.push_str("\n#endif\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_split() {
        let text = version_header("1.20.3");
        for line in ["MAJOR 1", "MINOR 20", "PATCH 3", "STRING \"1.20.3\""] {
            assert!(text.contains(&format!("HIPDNN_BACKEND_VERSION_{line}\n")), "{line}\n{text}");
        }
    }

    #[test]
    fn a_declaration_starts_with_its_comment() {
        let text = "/// a\ntypedef int a_t;\n\n/// b\ntypedef a_t b_t;\n";
        assert_eq!(declaration_of(text, "b_t"), Some(24));
        assert_eq!(declaration_of(text, "a_t"), Some(0));
        assert_eq!(declaration_of(text, "c_t"), None);
    }
}
