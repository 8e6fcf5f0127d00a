//! C declarations from Rust declarations, through cbindgen.

use std::path::Path;

use cbindgen::{Builder, Config, RenameRule, Style};
use hipdnn_abi::CEnum;
use hipdnn_abi::attribute_name::{ABOUT, ATTRIBUTES};

use crate::Failure;
use crate::generate::aliases::Alias;
use crate::workspace::Workspace;

/// The settings in `cbindgen.toml`.
fn config() -> Result<Config, Failure> {
    Config::from_file(Workspace::new().path("cbindgen.toml")).map_err(Failure::new)
}

fn run(config: Config, sources: &[&Path]) -> Result<String, Failure> {
    let mut builder = Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(source);
    }
    let names = || sources.iter().map(|s| s.display().to_string()).collect::<Vec<_>>().join(", ");
    let bindings =
        builder.generate().map_err(|e| Failure::new(format!("cbindgen cannot read {}: {e}", names())))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text)
        .map_err(|e| Failure::new(format!("the header of {} is not UTF-8: {e}", names())))?;
    Ok(for_c_readers(&text))
}

/// The text with headings of Rust documentation in plain words, and without the sections on safety: those are for callers
/// in Rust, and repeat what a C comment says of each parameter.
fn for_c_readers(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut in_safety = false;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("///");
        let heading = comment.and_then(|comment| comment.strip_prefix(" # "));
        in_safety = comment.is_some() && heading.map_or(in_safety, |heading| heading == "Safety");
        match (in_safety, heading) {
            // The empty line above it goes with the section.
            (true, Some(_)) => drop(lines.pop_if(|line| line.trim() == "///")),
            (true, None) => {}
            (false, Some(heading)) => {
                lines.push(line.replacen(&format!("# {heading}"), &format!("{heading}:"), 1))
            }
            (false, None) => lines.push(line.to_owned()),
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Types and constants of one file. `items` are emitted; constants always are.
pub fn types(source: &Path, items: &[&str]) -> Result<String, Failure> {
    let mut config = config()?;
    config.export.include = items.iter().map(|&item| item.to_owned()).collect();
    run(config, &[source])
}

/// The attributes. They are declared through a macro, which cbindgen cannot read.
pub fn attributes() -> String {
    let mut text: String = ABOUT.iter().map(|line| format!("///{line}\n")).collect();
    text.push_str("typedef enum\n{\n");
    for (name, doc) in ATTRIBUTES {
        doc.lines().for_each(|line| text.push_str(&format!("    /// {line}\n")));
        text.push_str(&format!("    {} = {},\n", name.name(), name.raw()));
    }
    text + "} hipdnnBackendAttributeName_t;\n"
}

/// Opaque structs and the pointers to them, named by tag alone.
pub fn opaque(source: &Path, items: &[&str]) -> Result<String, Failure> {
    let mut config = config()?;
    config.style = Style::Tag;
    config.export.include = items.iter().map(|&item| item.to_owned()).collect();
    run(config, &[source])
}

/// The exported functions of the files, in the order of the files.
pub fn functions(sources: &[&Path]) -> Result<String, Failure> {
    run(config()?, sources)
}

/// The functions of the plugin interface in one file, which other files define.
pub fn plugin_functions(source: &Path) -> Result<String, Failure> {
    let mut config = config()?;
    config.function.rename_args = RenameRule::None;
    run(config, &[source])
}

/// Declares a function as deprecated.
pub fn deprecate(text: &mut String, function: &str) {
    const EXPORT: &str = "HIPDNN_BACKEND_EXPORT";
    let declaration = text.find(&format!(" {function}(")).and_then(|at| text.get(..at)?.rfind(EXPORT));
    if let Some(start) = declaration {
        text.replace_range(start..start + EXPORT.len(), "HIPDNN_BACKEND_DEPRECATED_EXPORT");
    }
}

/// Adds a further name below an enumerator.
pub fn add_alias(text: &mut String, alias: &Alias) -> Result<(), Failure> {
    insert_alias(text, alias.name, alias.of)
}

/// Adds a further name below every enumerator that starts with `from`: the same name with `to` in its place.
pub fn add_prefix_aliases(text: &mut String, from: &str, to: &str) -> Result<(), Failure> {
    add_renamed(text, |name| name.strip_prefix(from).map(|rest| format!("{to}{rest}")))
}

/// Adds a further name below every enumerator that ends with `suffix`: the same name without it.
pub fn add_aliases_without(text: &mut String, suffix: &str) -> Result<(), Failure> {
    add_renamed(text, |name| name.strip_suffix(suffix).map(str::to_owned))
}

fn add_renamed(text: &mut String, rename: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
    let enumerators = text.lines().filter_map(|line| line.trim_start().split_once(" = "));
    let names: Vec<(String, String)> =
        enumerators.filter_map(|(name, _)| Some((rename(name)?, name.to_owned()))).collect();
    names.into_iter().try_for_each(|(name, of)| insert_alias(text, &name, &of))
}

fn insert_alias(text: &mut String, name: &str, of: &str) -> Result<(), Failure> {
    let start = text
        .find(&format!("{of} = "))
        .ok_or_else(|| Failure::new(format!("{name} is to be another name of {of}, which is not there")))?;
    let end = text.get(start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |n| start + n + 1);
    text.insert_str(end, &format!("    /// The same as {of}.\n    {name} = {of},\n"));
    Ok(())
}

/// Turns `typedef enum { … } name;` into an integer type and enumerators beside it.
pub fn open_enum(text: &str, name: &str) -> Result<String, Failure> {
    let missing = || Failure::new(format!("no enum {name} in the text cbindgen made"));
    let (head, rest) = text.split_once("typedef enum\n{").ok_or_else(missing)?;
    let (body, tail) = rest.split_once(&format!("}} {name};")).ok_or_else(missing)?;
    Ok(format!("{head}typedef int32_t {name};\n\nenum\n{{{body}}};{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_follows_its_enumerator() {
        let mut text = "{\n    A_ONE = 1,\n    A_TWO = 2,\n}".to_owned();
        insert_alias(&mut text, "B", "A_ONE").unwrap();
        assert_eq!(text, "{\n    A_ONE = 1,\n    /// The same as A_ONE.\n    B = A_ONE,\n    A_TWO = 2,\n}");
        assert!(insert_alias(&mut text, "B", "A_THREE").is_err());
    }

    #[test]
    fn a_prefix_gives_every_enumerator_a_further_name() {
        let mut text = "    A_ONE = 1,\n    A_TWO = 2,\n".to_owned();
        add_prefix_aliases(&mut text, "A_", "A_MODE_").unwrap();
        assert!(text.contains("A_MODE_ONE = A_ONE,") && text.contains("A_MODE_TWO = A_TWO,"), "{text}");
        assert!(!text.contains("MODE_MODE"), "{text}");
    }

    #[test]
    fn a_suffix_is_left_out_where_it_is() {
        let mut text = "    A_ONE_EXT = 1,\n    A_TWO = 2,\n".to_owned();
        add_aliases_without(&mut text, "_EXT").unwrap();
        assert_eq!(
            text,
            "    A_ONE_EXT = 1,\n    /// The same as A_ONE_EXT.\n    A_ONE = A_ONE_EXT,\n    A_TWO = 2,\n"
        );
    }

    #[test]
    fn only_the_function_named_is_deprecated() {
        let mut text =
            "HIPDNN_BACKEND_EXPORT int a(void);\n\nHIPDNN_BACKEND_EXPORT\nint b(void);\n".to_owned();
        deprecate(&mut text, "b");
        assert_eq!(
            text,
            "HIPDNN_BACKEND_EXPORT int a(void);\n\nHIPDNN_BACKEND_DEPRECATED_EXPORT\nint b(void);\n"
        );
        deprecate(&mut text, "c");
    }

    #[test]
    fn headings_become_words() {
        assert_eq!(for_c_readers("    /// # Threads\n    /// Any."), "    /// Threads:\n    /// Any.\n");
        assert_eq!(for_c_readers("int x; /// # y"), "int x; /// # y\n");
    }

    #[test]
    fn sections_for_rust_are_left_out() {
        let text = "/// Does it.\n///\n/// # Safety\n/// `x` is live.\n///\n/// Still.\nint f(int *x);\n\n/// Next.\nint g(void);\n";
        assert_eq!(for_c_readers(text), "/// Does it.\nint f(int *x);\n\n/// Next.\nint g(void);\n");
        let text = "/// # Safety\n/// `x` is live.\n/// # Threads\n/// Any.\nint f(int *x);\n";
        assert_eq!(for_c_readers(text), "/// Threads:\n/// Any.\nint f(int *x);\n");
    }

    #[test]
    fn an_open_enum_is_an_integer() {
        let text = open_enum("/// Doc\ntypedef enum\n{\n    X = 0,\n} t;\n", "t").unwrap();
        assert_eq!(text, "/// Doc\ntypedef int32_t t;\n\nenum\n{\n    X = 0,\n};\n");
        assert!(open_enum(&text, "t").is_err());
    }
}
