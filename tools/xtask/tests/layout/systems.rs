//! Which files contain code for specific operating systems.

/// The module for differences between systems, and the project's own commands, which run on Linux.
const OF_SYSTEMS: [&str; 2] = ["plugins/sdk/src/os/", "tools/xtask/"];

/// Whether a file may contain system-specific code.
pub fn may_ask(path: &str) -> bool {
    OF_SYSTEMS.iter().any(|folder| path.starts_with(folder))
}

/// The lines of a file with system-specific conditions or modules, with their numbers.
pub fn asking(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| asks(line)).map(|(at, line)| (at + 1, line.trim()))
}

fn asks(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_condition = |word: &str| {
        let mut rest = code.split(word).skip(1).peekable();
        code.contains("cfg")
            && rest.any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    ["target_os", "target_family", "os::unix", "os::windows", "os::linux", "os::fd", "os::macos"]
        .iter()
        .any(|word| code.contains(word))
        || is_condition("windows")
        || is_condition("unix")
}

#[test]
fn conditions_and_modules_of_systems_are_found() {
    for line in [
        "#[cfg(windows)]",
        "#[cfg(not(unix))]",
        "    if cfg!(windows) {",
        "#[cfg_attr(unix, path = \"a.rs\")]",
        "#[cfg(all(target_os = \"linux\", target_arch = \"x86_64\"))]",
        "use std::os::unix::fs::symlink;",
        "let path = std::os::windows::ffi::OsStrExt::encode_wide(name);",
    ] {
        assert!(asks(line), "{line}");
    }
    for line in [
        "#[cfg(test)]",
        "// Not #[cfg(windows)].",
        "let found = bytes.windows(2).any(|pair| pair == [0, 1]);",
        "#[cfg(target_arch = \"x86_64\")]",
        "use hipdnn_plugin_sdk::os::files;",
        "let cfg = unix_time();",
    ] {
        assert!(!asks(line), "{line}");
    }
    assert!(may_ask("plugins/sdk/src/os/mod.rs") && !may_ask("plugins/sdk/src/dynlib.rs"));
}
