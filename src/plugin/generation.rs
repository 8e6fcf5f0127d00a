//! Determines which generation of graph bytes a plugin reads.
//!
//! The interface does not tell: `hipdnnPluginGetApiVersion` is new in 2026, but plugins of 2026 may lack it. So the first of
//! these decides: the user's setting, the library's exports, the C++ namespaces named in its file. Without any of them, a
//! plugin counts as one of 2025.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::os;
use hipdnn_plugin_sdk::wire::Layout;

use super::{paths, shortage};
use crate::ffi::hipdnnSeverity_t as Severity;
use crate::log;

/// The user's setting.
const VARIABLE: &str = "HIPDNN_PLUGIN_GENERATION";

/// Functions that engine plugins of 2025 never export.
const NEWER_EXPORTS: [&str; 8] = [
    "hipdnnPluginGetApiVersion",
    "hipdnnPluginSetLogLevel",
    "hipdnnEnginePluginGetEngineName",
    "hipdnnEnginePluginExecuteOpGraphWithOverrides",
    "hipdnnEnginePluginSerializeExecutionContextWithEngineId",
    "hipdnnEnginePluginSerializeExecutionContext",
    "hipdnnEnginePluginDestroySerializedExecutionContext",
    "hipdnnEnginePluginCreateExecutionContextFromSerialized",
];

/// The generation of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The layout of the bytes that the plugin reads.
    pub layout: Layout,
    /// How that was determined.
    pub reason: String,
}

impl fmt::Display for Generation {
    /// The year and the reason; the command line tool parses this in the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let year = match self.layout {
            Layout::G1 => 2025,
            Layout::G2 => 2026,
        };
        write!(f, "generation {year}: {}", self.reason)
    }
}

impl Generation {
    /// Decides on an open library from `path`. `has` tells whether it exports a function.
    ///
    /// # Errors
    /// There is no descriptor or memory to read the file.
    pub fn of(path: &Path, setting: &Setting, has: impl Fn(&str) -> bool) -> Result<Self, String> {
        decide(setting.of(path), has, || Names::read(File::open(path)?))
    }
}

/// Decides. The file, which may be large, is read only if everything else is inconclusive.
fn decide(
    setting: Option<Layout>,
    has: impl Fn(&str) -> bool,
    names: impl FnOnce() -> io::Result<Names>,
) -> Result<Generation, String> {
    let because = |layout, reason: String| Ok(Generation { layout, reason });
    if let Some(layout) = setting {
        return because(layout, format!("{VARIABLE} says so"));
    }
    if let Some(name) = NEWER_EXPORTS.into_iter().find(|name| has(name)) {
        return because(Layout::G2, format!("it exports {name}"));
    }
    match names().map(|names| names.strongest()) {
        Ok(Some(namespace)) => {
            because(namespace.layout, format!("its file names the C++ namespace {}", namespace.name))
        }
        Ok(None) => because(
            Layout::G1,
            format!("presumed, as neither exports nor names in its file tell; {VARIABLE} can"),
        ),
        Err(error) if shortage::is_one(&error) => Err(format!("its file cannot be read: {error}")),
        Err(error) => {
            because(Layout::G1, format!("presumed, as its file cannot be read: {error}; {VARIABLE} can tell"))
        }
    }
}

/// A C++ namespace of AMD's SDK. Only namespaces count: debug information also names folders of headers, which have names of 2026
/// even in plugins written for 2025.
#[derive(Debug, PartialEq, Eq)]
struct Namespace {
    name: &'static str,
    /// Its prefix in the name of a symbol or a type, and in a text.
    forms: [&'static str; 2],
    layout: Layout,
}

/// The strongest first. A plugin of 2026 may mention the schema of 2025, but not vice versa. The namespace of the plugin helpers
/// was used with either schema.
const NAMESPACES: [Namespace; 4] = [
    Namespace {
        name: "hipdnn_flatbuffers_sdk",
        forms: ["22hipdnn_flatbuffers_sdk", "hipdnn_flatbuffers_sdk::"],
        layout: Layout::G2,
    },
    Namespace {
        name: "hipdnn_data_sdk",
        forms: ["15hipdnn_data_sdk", "hipdnn_data_sdk::"],
        layout: Layout::G2,
    },
    Namespace {
        name: "hipdnn_sdk::data_objects",
        forms: ["10hipdnn_sdk12data_objects", "hipdnn_sdk::data_objects"],
        layout: Layout::G1,
    },
    Namespace {
        name: "hipdnn_plugin_sdk",
        forms: ["17hipdnn_plugin_sdk", "hipdnn_plugin_sdk::"],
        layout: Layout::G2,
    },
];

/// The number of leading namespaces that settle the matter whatever follows in the file.
const NEWER_SCHEMAS: usize = 2;

/// How much of a file is searched at a time, and the overlap of consecutive pieces, since a name may cross the border.
const CHUNK: usize = 1 << 16;
const OVERLAP: usize = 32;

/// The common prefix of all namespaces, to find them in one pass.
const COMMON: &[u8] = b"hipdnn_";

/// The [`NAMESPACES`] that a file names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names([bool; NAMESPACES.len()]);

impl Names {
    /// Reads a file up to its end, or to the first name that settles the matter. It is not mapped into memory: truncating a
    /// mapped file would end the process.
    fn read(mut file: impl Read) -> io::Result<Self> {
        let mut names = Self::default();
        let mut buffer = vec![0; OVERLAP + CHUNK];
        let mut kept = 0;
        loop {
            let count = match file.read(buffer.get_mut(kept..).unwrap_or_default()) {
                Ok(0) => return Ok(names),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let filled = kept + count;
            names.look_at(buffer.get(..filled).unwrap_or_default());
            if names.0.iter().take(NEWER_SCHEMAS).any(|found| *found) {
                return Ok(names);
            }
            kept = filled.min(OVERLAP);
            buffer.copy_within(filled - kept..filled, 0);
        }
    }

    fn look_at(&mut self, bytes: &[u8]) {
        let starts = bytes.windows(COMMON.len()).enumerate().filter(|(_, window)| *window == COMMON);
        for (start, _) in starts {
            for (found, namespace) in self.0.iter_mut().zip(&NAMESPACES) {
                *found |= namespace.forms.iter().any(|form| {
                    // A form may have characters before the common prefix.
                    let before = form.find('h').unwrap_or(0);
                    let at = start.checked_sub(before).and_then(|from| bytes.get(from..));
                    at.is_some_and(|rest| rest.starts_with(form.as_bytes()))
                });
            }
        }
    }

    fn strongest(&self) -> Option<&'static Namespace> {
        NAMESPACES.iter().zip(self.0).find_map(|(namespace, found)| found.then_some(namespace))
    }
}

/// `HIPDNN_PLUGIN_GENERATION`: the user's setting for all plugins, and for single files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Setting {
    all: Option<Layout>,
    /// File names, or whole paths.
    files: Vec<(PathBuf, Layout)>,
}

impl Setting {
    /// Reads the environment and warns of invalid entries, once per process. Relative paths start at `folder`.
    pub fn from_environment(folder: &Path) -> Self {
        static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);
        let (setting, ignored) = Self::read(&std::env::var_os(VARIABLE).unwrap_or_default(), folder);
        if !ignored.is_empty()
            && log::is_on(Severity::HIPDNN_SEV_WARN)
            && !HAS_COMPLAINED.swap(true, Ordering::Relaxed)
        {
            log::warn(|| {
                format!(
                    "{VARIABLE}: ignored {}; expected 2025, 2026, FILE=2025 or FILE=2026, with commas between",
                    ignored.join(", ")
                )
            });
        }
        setting
    }

    /// Parses a value. Returns the setting and the invalid entries.
    fn read(value: &OsStr, folder: &Path) -> (Self, Vec<String>) {
        let mut setting = Self::default();
        let mut ignored = Vec::new();
        let value = os::paths::bytes(value);
        let entries = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        for entry in entries.filter(|entry| !entry.is_empty()) {
            // From the end: a path may contain the sign.
            let mut parts = entry.rsplitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
            let (year, file) = (parts.next().unwrap_or_default(), parts.next());
            let layout = match year {
                b"2025" => Some(Layout::G1),
                b"2026" => Some(Layout::G2),
                _ => None,
            };
            match (file, layout) {
                (None, Some(_)) => setting.all = layout,
                (Some(file), Some(layout)) if !file.is_empty() => {
                    let file = os::paths::from_bytes(file);
                    let is_name = file.file_name() == Some(file.as_os_str());
                    let file = if is_name { file } else { paths::canonical(&folder.join(file)) };
                    setting.files.push((file, layout));
                }
                _ => ignored.push(format!("{:?}", String::from_utf8_lossy(entry))),
            }
        }
        (setting, ignored)
    }

    /// The setting of a file. Entries for the file precede those for all, later ones precede earlier ones.
    fn of(&self, file: &Path) -> Option<Layout> {
        let own = self.files.iter().rfind(|(entry, _)| {
            entry == file || file.file_name().is_some_and(|name| name == entry.as_os_str())
        });
        own.map(|(_, layout)| *layout).or(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: fn(&str) -> bool = |_| false;

    fn unread() -> io::Result<Names> {
        panic!("the file was read though the matter was settled")
    }

    fn names(text: &[u8]) -> Names {
        Names::read(text).unwrap()
    }

    /// Returns its bytes in pieces of one size, with an interruption between them.
    struct Pieces<'a>(&'a [u8], usize, bool);

    impl Read for Pieces<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.2 = !self.2;
            if self.2 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let count = self.1.min(self.0.len()).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn the_setting_precedes_exports() {
        for layout in [Layout::G1, Layout::G2] {
            let decided = decide(Some(layout), |_| true, unread).unwrap();
            assert_eq!(decided.layout, layout);
            assert_eq!(decided.reason, "HIPDNN_PLUGIN_GENERATION says so");
        }
    }

    #[test]
    fn any_function_of_2026_settles_it_before_the_file_is_read() {
        for name in NEWER_EXPORTS {
            let decided = decide(None, |asked| asked == name, unread).unwrap();
            assert_eq!(decided.to_string(), format!("generation 2026: it exports {name}"));
        }
    }

    #[test]
    fn namespaces_in_the_file_decide_the_newer_schema_first() {
        let older = b"_ZN10hipdnn_sdk12data_objects5GraphE".as_slice();
        for (text, layout, name) in [
            (b"\0N22hipdnn_flatbuffers_sdk12data_objects\0".as_slice(), Layout::G2, "hipdnn_flatbuffers_sdk"),
            (b"T = hipdnn_flatbuffers_sdk::data_objects::Knob;", Layout::G2, "hipdnn_flatbuffers_sdk"),
            (b"15hipdnn_data_sdk", Layout::G2, "hipdnn_data_sdk"),
            (b"hipdnn_data_sdk::", Layout::G2, "hipdnn_data_sdk"),
            (b"N17hipdnn_plugin_sdk21HipdnnPluginExceptionE", Layout::G2, "hipdnn_plugin_sdk"),
            (older, Layout::G1, "hipdnn_sdk::data_objects"),
            (b"hipdnn_sdk::data_objects::Graph", Layout::G1, "hipdnn_sdk::data_objects"),
            // Helpers with the older schema.
            (b"17hipdnn_plugin_sdk 10hipdnn_sdk12data_objects", Layout::G1, "hipdnn_sdk::data_objects"),
            // One of 2026 that also knows the older schema.
            (b"hipdnn_sdk::data_objects hipdnn_data_sdk::data_objects", Layout::G2, "hipdnn_data_sdk"),
        ] {
            let decided = decide(None, NOTHING, || Ok(names(text))).unwrap();
            assert_eq!(decided.layout, layout, "{}", text.escape_ascii());
            assert_eq!(decided.reason, format!("its file names the C++ namespace {name}"));
        }
    }

    #[test]
    fn similar_names_are_not_namespaces() {
        for text in [
            b"".as_slice(),
            b"hipdnn_data_sdk",
            b"/opt/rocm/include/hipdnn_data_sdk/logging/CallbackTypes.h",
            b"/src/hipdnn_sdk/data_objects/graph_generated.h",
            b"hipdnn_sdk::utilities",
            b"10hipdnn_sdk9utilities",
            b"5hipdnn_data_sdk",
            b"hipdnn_",
        ] {
            assert_eq!(names(text), Names::default(), "{}", text.escape_ascii());
        }
        let decided = decide(None, NOTHING, || Ok(Names::default())).unwrap();
        assert_eq!(decided.layout, Layout::G1);
        assert!(decided.reason.contains("HIPDNN_PLUGIN_GENERATION can"), "{}", decided.reason);
    }

    #[test]
    fn a_name_across_pieces_is_found() {
        for namespace in &NAMESPACES {
            for form in namespace.forms {
                assert!(form.len() <= OVERLAP);
                // Around the end of the first chunk, of which the overlap is not a part, and of the second.
                for start in (CHUNK - 40..CHUNK + OVERLAP + 8).chain(2 * CHUNK - 40..2 * CHUNK + OVERLAP + 8)
                {
                    let mut text = vec![b'h'; start];
                    text.extend_from_slice(form.as_bytes());
                    assert_eq!(names(&text).strongest(), Some(namespace), "{form} at {start}");
                }
                for piece in [1, 2, 3, 7, 31, 33] {
                    let text = [b"hipdnn hipdnn_ ".as_slice(), form.as_bytes(), b" hipdnn"].concat();
                    let read = Names::read(Pieces(&text, piece, false)).unwrap();
                    assert_eq!(read.strongest(), Some(namespace), "{form} in pieces of {piece}");
                }
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_of_2025_and_the_reason_says_so() {
        let decided = Generation::of(Path::new("/nowhere/libz.so"), &Setting::default(), NOTHING).unwrap();
        assert_eq!(decided.layout, Layout::G1);
        assert!(decided.reason.contains("cannot be read: "), "{}", decided.reason);
    }

    fn setting(value: &[u8]) -> (Setting, Vec<String>) {
        Setting::read(os::paths::from_bytes(value).as_os_str(), Path::new("/dev"))
    }

    #[test]
    fn the_setting_names_generations_for_all_and_for_single_files() {
        let of = |value: &str, file: &str| {
            let (setting, ignored) = setting(value.as_bytes());
            assert_eq!(ignored, Vec::<String>::new(), "{value}");
            setting.of(Path::new(file))
        };
        let file = "/nowhere/p/liba.so";
        assert_eq!(of("", file), None);
        assert_eq!(of(" , ", file), None);
        assert_eq!(of("2025", file), Some(Layout::G1));
        assert_eq!(of(" 2026 ", file), Some(Layout::G2));
        assert_eq!(of("2025,2026", file), Some(Layout::G2));
        for entry in ["liba.so", "/nowhere/p/liba.so", " liba.so "] {
            assert_eq!(of(&format!("{entry}=2026"), file), Some(Layout::G2), "{entry}");
            assert_eq!(of(&format!("{entry} = 2026,2025"), file), Some(Layout::G2), "{entry}");
            assert_eq!(of(&format!("{entry}=2026,{entry}=2025"), file), Some(Layout::G1), "{entry}");
        }
        for other in ["a.so", "/p/liba.so", "liba", "p/liba.so", "libb.so"] {
            assert_eq!(of(&format!("{other}=2026"), file), None, "{other}");
        }
        let there = os::paths::canonical(&std::env::current_exe().unwrap()).unwrap();
        let (folder, name) = (there.parent().unwrap(), there.file_name().unwrap().to_string_lossy());
        let of_there = |value: &str| Setting::read(value.as_ref(), folder).0.of(&there);
        assert_eq!(of_there(&format!("./{name}=2026")), Some(Layout::G2));
        let around = folder.join("..").join(folder.file_name().unwrap()).join(&*name);
        assert_eq!(of_there(&format!("{}=2026", around.display())), Some(Layout::G2));
        assert_eq!(of_there("./full=2026"), None);
        assert_eq!(of("/nowhere/a=b/liba.so=2026", "/nowhere/a=b/liba.so"), Some(Layout::G2));
    }

    #[test]
    fn invalid_entries_of_the_setting_are_ignored_and_named() {
        let (kept, ignored) = setting(b"2024,liba.so=2026,newest,=2025,libb.so=,libc.so=26,\xff=1,2025");
        let expected = Setting { all: Some(Layout::G1), files: vec![("liba.so".into(), Layout::G2)] };
        assert_eq!(kept, expected);
        // Bytes that are not UTF-8 are as the system reads them.
        let last = os::paths::from_bytes(b"\xff=1").to_string_lossy().into_owned();
        let named = ["2024", "newest", "=2025", "libb.so=", "libc.so=26", &last];
        assert_eq!(ignored, named.map(|entry| format!("{entry:?}")));
    }
}
