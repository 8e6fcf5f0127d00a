//! Inspects DLLs: exports, imports, version.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Failure;
use crate::process::{command, run};

/// Libraries of every Windows. A name that ends with a hyphen is a prefix.
const OF_SYSTEM: &[&str] = &[
    "advapi32.dll",
    "api-ms-win-",
    "bcrypt.dll",
    "bcryptprimitives.dll",
    "kernel32.dll",
    "msvcrt.dll",
    "ntdll.dll",
    "shell32.dll",
    "user32.dll",
    "userenv.dll",
    "ws2_32.dll",
];

fn tables(file: &Path) -> Result<String, Failure> {
    run(command("x86_64-w64-mingw32-objdump", ["-p"]).arg(file))
}

/// Compares a file's exported functions with a list.
pub fn exports(file: &Path, list: &Path) -> Result<String, Failure> {
    let (tables, listed) = (tables(file)?, std::fs::read_to_string(list)?);
    let found: BTreeSet<&str> = exported(&tables).collect();
    let expected: BTreeSet<&str> =
        listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let (more, less): (Vec<_>, Vec<_>) =
        (found.difference(&expected).collect(), expected.difference(&found).collect());
    if !more.is_empty() || !less.is_empty() {
        return Err(Failure::new(format!(
            "exported and not listed: {more:?}; listed and not exported: {less:?}"
        )));
    }
    Ok(format!("{} functions", found.len()))
}

/// The names in the table of exports: `[   0] +base[   1] 0000 name`, with a column of hints in newer versions.
fn exported(tables: &str) -> impl Iterator<Item = &str> {
    let table = tables.split("[Ordinal/Name Pointer] Table").nth(1).unwrap_or_default();
    let lines = table.lines().skip(1).take_while(|line| !line.trim().is_empty());
    lines.filter_map(|line| line.rsplit(' ').next())
}

/// Fails if a file needs a library that Windows does not have.
pub fn imports(file: &Path) -> Result<String, Failure> {
    imports_with(file, &[])
}

/// The same, allowing some others.
pub fn imports_with(file: &Path, others: &[&str]) -> Result<String, Failure> {
    let tables = tables(file)?;
    let names: BTreeSet<String> = imported(&tables).map(str::to_lowercase).collect();
    let is_of_system = |name: &String| {
        OF_SYSTEM
            .iter()
            .chain(others)
            .any(|known| name == known || (known.ends_with('-') && name.starts_with(known)))
    };
    let others: Vec<_> = names.iter().filter(|name| !is_of_system(name)).collect();
    if !others.is_empty() {
        return Err(Failure::new(format!("it needs {others:?}, which Windows does not come with")));
    }
    Ok(names.into_iter().collect::<Vec<_>>().join(" "))
}

fn imported(tables: &str) -> impl Iterator<Item = &str> {
    tables.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: ")).map(str::trim)
}

/// Fails if a file's version resource differs.
pub fn version(file: &Path, version: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(file)?;
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let key = [wide("FileVersion"), vec![0; 2]].concat();
    let at = bytes.windows(key.len()).position(|window| window == key);
    let rest = at.and_then(|at| bytes.get(at + key.len()..)).unwrap_or_default();
    let value = wide(version);
    if rest.get(..value.len() + 8).unwrap_or_default().windows(value.len()).any(|window| window == value) {
        return Ok(version.to_owned());
    }
    Err(Failure::new(format!("{} has no version {version} among its resources", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "\tDLL Name: KERNEL32.dll\n\tvma:  Hint\n\tDLL Name: zlib1.dll\n\n\
        [Ordinal/Name Pointer] Table\n\t[   0] +base[   1] 0000 hipdnnCreate\n\t[   1] hipdnnDestroy\n\nmore [x] y\n";

    #[test]
    fn names_are_read_from_the_tables() {
        assert_eq!(exported(TABLES).collect::<Vec<_>>(), ["hipdnnCreate", "hipdnnDestroy"]);
        assert_eq!(imported(TABLES).collect::<Vec<_>>(), ["KERNEL32.dll", "zlib1.dll"]);
    }
}
