//! `hipdnn device`

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::path::PathBuf;
use std::ptr;

use hipdnn_plugin_sdk::dynlib::{Error, Library};
use hipdnn_plugin_sdk::function_table;
use hipdnn_plugin_sdk::hip::Hip;
use serde::Serialize;

use super::{Outcome, json, nvidia};
use crate::cli::List;
use crate::failure::{Failure, Result, one_line};
use crate::table::Table;

function_table! {
    /// The versions of the HIP runtime.
    #[expect(non_snake_case, reason = "the names of HIP")]
    struct HipVersions: "the HIP runtime", ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"] {
        required {
            fn hipRuntimeGetVersion(version: *mut c_int) -> c_int;
            fn hipDriverGetVersion(version: *mut c_int) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// The version of MIOpen.
    #[expect(non_snake_case, reason = "the names of MIOpen")]
    struct Miopen: "MIOpen", ["libMIOpen_private.so.1" + "_impl", "libMIOpen.so.1"] {
        required {
            fn miopenGetVersion(major: *mut usize, minor: *mut usize, patch: *mut usize) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// The version of hipRTC.
    #[expect(non_snake_case, reason = "the names of hipRTC")]
    struct Hiprtc: "hipRTC", ["libhiprtc.so.7", "libhiprtc.so.6"] {
        required {
            fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// hipBLASLt, which tells its version only on a device.
    #[expect(non_snake_case, reason = "the names of hipBLASLt")]
    struct HipblasLt: "hipBLASLt", ["libhipblaslt.so.1", "libhipblaslt.so.0"] {
        required {
            fn hipblasLtCreate(handle: *mut *mut c_void) -> c_int;
        }
        optional {}
    }
}

function_table! {
    /// The version of rocBLAS.
    struct Rocblas: "rocBLAS", ["librocblas.so.5", "librocblas.so.4"] {
        required {
            fn rocblas_get_version_string(text: *mut c_char, size: usize) -> c_int;
        }
        optional {}
    }
}

/// A library that engines look for.
#[derive(Debug, Serialize)]
pub struct Found {
    pub library: &'static str,
    name: Option<String>,
    pub version: Option<String>,
    pub file: Option<PathBuf>,
    /// What was looked for, where it is not there.
    pub missing: Option<String>,
}

/// A device of HIP's or CUDA's.
#[derive(Debug, Serialize)]
pub struct Device {
    pub number: i32,
    pub architecture: String,
    pub compute_units: i32,
    pub memory_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Answer {
    libraries: Vec<Found>,
    devices: Vec<Device>,
}

/// Lists AMD's and NVIDIA's libraries and the devices.
pub fn device(arguments: &List) -> Result<Outcome> {
    let (devices, problem) = match devices() {
        Ok(devices) => (devices, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let answer = Answer { libraries: libraries(), devices };
    let text = if arguments.json { json(&answer)?.text } else { text(&answer) };
    Ok(Outcome { text, failure: problem.map(|reason| Failure::work(reason).during("no device")) })
}

/// The devices of both, or why neither has any.
pub fn devices() -> std::result::Result<Vec<Device>, String> {
    match (of_hip(), nvidia::devices()) {
        (Err(hip), Err(cuda)) => Err(format!("{hip}; {cuda}")),
        (hip, cuda) => Ok([hip, cuda].into_iter().flatten().flatten().collect()),
    }
}

/// All devices, in HIP's order.
fn of_hip() -> std::result::Result<Vec<Device>, String> {
    let hip = Hip::with_device().map_err(|refusal| refusal.to_string())?;
    let count = hip.device_count().map_err(|error| error.message)?;
    let mut devices = Vec::with_capacity(count);
    for number in 0..i32::try_from(count).unwrap_or(0) {
        let _entered = hip.enter(number).map_err(|error| error.message)?;
        if let Some(properties) = hip.device_properties().map_err(|error| error.message)? {
            devices.push(Device {
                number: properties.device_id,
                architecture: properties.architecture_name,
                compute_units: properties.multi_processor_count,
                memory_bytes: properties.total_global_mem,
            });
        }
    }
    Ok(devices)
}

/// The libraries that engines for GPUs stand on.
pub fn libraries() -> Vec<Found> {
    let mut found = of_amd();
    found.extend(nvidia::libraries());
    found
}

fn of_amd() -> Vec<Found> {
    vec![
        found("HIP runtime", HipVersions::get(), HipVersions::library, "hipRuntimeGetVersion", |hip| {
            let (mut runtime, mut driver) = (0, 0);
            // SAFETY: the outputs are valid.
            let answers =
                unsafe { ((hip.hipRuntimeGetVersion)(&mut runtime), (hip.hipDriverGetVersion)(&mut driver)) };
            match answers {
                (0, 0) => Some(format!("{runtime}, driver {driver}")),
                (0, _) => Some(runtime.to_string()),
                _ => None,
            }
        }),
        found("MIOpen", Miopen::get(), Miopen::library, "miopenGetVersion", |miopen| {
            let (mut major, mut minor, mut patch) = (0, 0, 0);
            // SAFETY: the outputs are valid.
            let answer = unsafe { (miopen.miopenGetVersion)(&mut major, &mut minor, &mut patch) };
            (answer == 0).then(|| format!("{major}.{minor}.{patch}"))
        }),
        found("hipRTC", Hiprtc::get(), Hiprtc::library, "hiprtcVersion", |hiprtc| {
            let (mut major, mut minor) = (0, 0);
            // SAFETY: the outputs are valid.
            let answer = unsafe { (hiprtc.hiprtcVersion)(&mut major, &mut minor) };
            (answer == 0).then(|| format!("{major}.{minor}"))
        }),
        found("hipBLASLt", HipblasLt::get(), HipblasLt::library, "hipblasLtCreate", |_| None),
        found("rocBLAS", Rocblas::get(), Rocblas::library, "rocblas_get_version_string", |rocblas| {
            let mut version = [0 as c_char; 128];
            // SAFETY: there is room for as many characters as it says, one of which stays NUL.
            let answer = unsafe {
                (rocblas.rocblas_get_version_string)(version.as_mut_ptr(), version.len().saturating_sub(1))
            };
            // SAFETY: the last character is NUL.
            let version = unsafe { CStr::from_ptr(ptr::from_ref(&version).cast()) };
            (answer == 0).then(|| version.to_string_lossy().into_owned())
        }),
    ]
}

/// What is told of a library whose functions were looked for.
pub fn found<T>(
    library: &'static str,
    table: std::result::Result<impl Deref<Target = T>, Error>,
    opened: impl Fn(&T) -> &Library,
    function: &str,
    version: impl Fn(&T) -> Option<String>,
) -> Found {
    match table {
        Ok(table) => Found {
            library,
            // NVIDIA's are asked for by their paths.
            name: opened(&table).name().rsplit('/').next().map(str::to_owned),
            version: version(&table),
            // Behind its links, since the file's own name says more than the one it was asked for by.
            file: opened(&table).file_of(function).map(|file| file.canonicalize().unwrap_or(file)),
            missing: None,
        },
        Err(error) => {
            Found { library, name: None, version: None, file: None, missing: Some(error.to_string()) }
        }
    }
}

/// The files that were looked for, where that there are none is all that is wrong.
fn names_of_absent(reason: &str) -> Option<&str> {
    let (_, looked_for) = reason.split_once("; looked for ")?;
    let (names, why) = looked_for.split_once(" (")?;
    why.strip_suffix(')').filter(|why| why.ends_with("No such file or directory") && !why.contains(" ("))?;
    Some(names)
}

fn text(answer: &Answer) -> String {
    let mut table = Table::new(&["LIBRARY", "NAME", "VERSION", "FILE"]);
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    for library in &answer.libraries {
        let file = library.file.as_ref().map(|file| file.display().to_string());
        table.row([
            library.library.to_owned(),
            or_none(&library.name),
            or_none(&library.version),
            or_none(&file),
        ]);
    }
    let mut text = table.text();
    // What is only absent is told in one line, with what was looked for.
    let reasons = answer.libraries.iter().filter_map(|it| Some((it.library, it.missing.as_deref()?)));
    let (absent, broken): (Vec<_>, Vec<_>) =
        reasons.partition(|(_, reason)| names_of_absent(reason).is_some());
    let absent: Vec<_> = absent
        .iter()
        .filter_map(|(library, reason)| Some(format!("{library} ({})", names_of_absent(reason)?)))
        .collect();
    if !absent.is_empty() {
        text.push_str(&format!("not there: {}\n", absent.join(", ")));
    }
    broken.iter().for_each(|(_, reason)| text.push_str(&format!("{}\n", one_line(reason))));
    if !answer.devices.is_empty() {
        let mut table = Table::new(&["DEVICE", "ARCHITECTURE", "COMPUTE UNITS", "MEMORY MIB"]);
        for device in &answer.devices {
            table.row([
                device.number.to_string(),
                device.architecture.clone(),
                device.compute_units.to_string(),
                (device.memory_bytes >> 20).to_string(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::names_of_absent;

    #[test]
    fn only_what_is_not_there_is_absent() {
        let gone = "cannot open shared object file: No such file or directory";
        let reason = |why| format!("no library for HIP was found; looked for liba.so.7, liba.so.6 ({why})");
        assert_eq!(names_of_absent(&reason(gone)), Some("liba.so.7, liba.so.6"));
        assert_eq!(names_of_absent(&reason("it lacks hipMalloc")), None);
        assert_eq!(names_of_absent(&reason(&format!("it lacks x), libb.so ({gone}"))), None);
    }
}
