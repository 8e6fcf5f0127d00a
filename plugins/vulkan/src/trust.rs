//! What of a device is used: matrix shapes that multiply rightly, and conversions to bfloat16 that round rightly.
//!
//! Drivers report shapes that compute wrongly, or end the process. Each is tested when a device is first seen; the results are
//! stored in a file for its driver's version. A file that only says that a test began is of a process that ended meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hipdnn_kernels::print::spirv::Features;
use hipdnn_kernels::target::{CooperativeShape, Fragment};
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::{cached_file, environment, log};

use crate::gpu::Gpu;
use crate::places;
use crate::properties::Properties;
use crate::rounding;
use crate::target::{self, Trusted};
use crate::trial;

/// The variable that switches matrices off.
pub const MATRICES: &str = "HIPDNN_VULKAN_MATRICES";

/// The file: of which device and driver, and a line for each shape.
const PAYLOAD: Payload = Payload { mark: *b"HVKM", version: 3, owner: "the tests of matrix shapes" };

/// Bytes of the largest file.
const MOST: u64 = 1 << 16;

/// What comes before each matrix's places in a line.
const PLACES: &str = " | ";

/// What a file says while tests run, and how long they may take.
const BEGUN: &str = "begun";
const PATIENCE: Duration = Duration::from_secs(60);

/// The line of a device that rounds to bfloat16 rightly.
const ROUNDS: &str = "bf16 rounded";

/// What of a device kernels may use. The first call may test it.
pub fn of(gpu: &Gpu) -> &Trusted {
    gpu.trusted.get_or_init(|| trusted(gpu))
}

/// What modules for a device may use.
pub fn features(gpu: &Gpu) -> Features {
    Features { shader_bfloat16_type: of(gpu).rounds_bfloats, ..target::features(&gpu.device.properties) }
}

fn trusted(gpu: &Gpu) -> Trusted {
    let properties = &gpu.device.properties;
    let has_matrices = !properties.shapes.is_empty() && properties.features.cooperative_matrix;
    if !has_matrices && !properties.features.bfloat {
        return Trusted::default();
    }
    // Then nothing is tested: it may be a test that ends the process.
    let is_off = std::env::var(MATRICES).is_ok_and(|value| is_no(&value));
    if is_off {
        return Trusted::default();
    }
    let file = environment::enabled_cache_root(environment::path).map(|root| File::of(&root, properties));
    let is_recent = file.as_ref().is_some_and(File::is_recent);
    match Known::of(file.as_ref().and_then(File::read), is_recent) {
        Known::Results(lines) => return known(properties, &lines),
        Known::Ended => {
            let path = file.map(|file| file.path.display().to_string()).unwrap_or_default();
            log::warn(format_args!(
                "device {}: neither cooperative matrices nor bfloat16 are used, because a process ended while it tested them; delete {path} to test again",
                properties.label()
            ));
            return Trusted::default();
        }
        Known::Nothing => {}
    }
    if let Some(file) = &file {
        file.write(&[BEGUN.to_owned()]);
    }
    let lines = test(gpu);
    if let Some(file) = &file {
        file.write(&lines);
    }
    known(properties, &lines)
}

/// What the results of tests say.
fn known(properties: &Properties, lines: &[String]) -> Trusted {
    Trusted {
        shapes: passed(&properties.shapes, lines),
        rounds_bfloats: properties.features.bfloat && lines.iter().any(|line| line == ROUNDS),
    }
}

/// What a file says.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    /// Which shapes passed.
    Results(Vec<String>),
    /// A process ended while it tested.
    Ended,
    /// Nothing, or that a test began just now.
    Nothing,
}

impl Known {
    fn of(lines: Option<Vec<String>>, is_recent: bool) -> Self {
        match lines {
            None => Self::Nothing,
            Some(lines) if lines != [BEGUN] => Self::Results(lines),
            Some(_) if is_recent => Self::Nothing,
            Some(_) => Self::Ended,
        }
    }
}

fn is_no(value: &str) -> bool {
    ["0", "off", "no", "false"].iter().any(|word| value.trim().eq_ignore_ascii_case(word))
}

/// A shape's name.
fn name(shape: &CooperativeShape) -> String {
    format!("{} {}x{}x{}", shape.operand.name(), shape.m, shape.n, shape.k)
}

/// What a line says of a shape that passed: also where its elements are, if that is known.
fn line(shape: &CooperativeShape, fragments: Option<&[Fragment; 3]>) -> String {
    let places = fragments.into_iter().flatten().map(|fragment| format!("{PLACES}{fragment}"));
    format!("{} passed{}", name(shape), places.collect::<String>())
}

/// Where a shape's elements are, if it can be known.
fn fragments(gpu: &Gpu, shape: &CooperativeShape) -> Option<Box<[Fragment; 3]>> {
    let label = gpu.device.properties.label();
    let found = places::find(gpu, shape).unwrap_or_else(|error| {
        log::warn(format_args!("device {label}: {error}"));
        None
    });
    if found.is_none() && shape.operand.is_float() {
        log::info(format_args!(
            "device {label}: attention uses no cooperative matrices {}, because their elements' places are not known",
            name(shape)
        ));
    }
    found
}

/// Tests shapes until one passes for each type, and rounding, and tells what passes.
fn test(gpu: &Gpu) -> Vec<String> {
    let mut lines = Vec::new();
    if gpu.device.properties.features.bfloat {
        match rounding::check(gpu) {
            Ok(()) => lines.push(ROUNDS.to_owned()),
            Err(reason) => {
                let label = gpu.device.properties.label();
                log::warn(format_args!("device {label}: bfloat16 is not used as a type: {reason}"));
            }
        }
    }
    let mut found = Vec::new();
    for shape in &gpu.device.properties.shapes {
        if found.contains(&shape.operand) {
            continue;
        }
        match trial::run(gpu, shape) {
            Ok(()) => {
                found.push(shape.operand);
                lines.push(line(shape, fragments(gpu, shape).as_deref()));
            }
            Err(reason) => {
                let label = gpu.device.properties.label();
                log::warn(format_args!(
                    "device {label}: cooperative matrices {} are not used: {reason}",
                    name(shape)
                ));
                lines.push(format!("{} failed", name(shape)));
            }
        }
    }
    lines
}

fn passed(shapes: &[CooperativeShape], lines: &[String]) -> Vec<CooperativeShape> {
    let as_passed = |shape: &CooperativeShape| {
        let wanted = line(shape, None);
        let mut rests = lines.iter().filter_map(|line| line.strip_prefix(&wanted));
        let mut places =
            rests.find(|rest| rest.is_empty() || rest.starts_with(PLACES))?.split(PLACES).skip(1);
        let mut next = || Fragment::from_text(places.next()?);
        let fragments = [next(), next(), next()];
        let fragments = match fragments {
            [Some(a), Some(b), Some(sum)] => Some(Box::new([a, b, sum])),
            _ => None,
        };
        Some(CooperativeShape { fragments, ..shape.clone() })
    };
    shapes.iter().filter_map(as_passed).collect()
}

/// The file of a device with its driver.
struct File {
    path: PathBuf,
    key: String,
}

impl File {
    fn of(root: &Path, properties: &Properties) -> Self {
        let [vendor, device] = properties.ids;
        let key = format!(
            "{} {vendor:x}:{device:x} {} {:x} {}",
            properties.name,
            properties.driver,
            properties.driver_version,
            env!("CARGO_PKG_VERSION")
        );
        let file = format!("{:016x}.tests", Fnv1a::new().add(key.as_bytes()).number());
        Self { path: root.join("vulkan-matrices").join(file), key }
    }

    fn read(&self) -> Option<Vec<String>> {
        let text = cached_file::find(&PAYLOAD, &self.path, &self.key, MOST)?;
        Some(std::str::from_utf8(&text).ok()?.lines().map(str::to_owned).collect())
    }

    /// Whether another process may still be testing.
    fn is_recent(&self) -> bool {
        let written = fs::metadata(&self.path).and_then(|metadata| metadata.modified());
        written.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < PATIENCE))
    }

    fn write(&self, lines: &[String]) {
        let text = lines.join("\n");
        if let Err(error) = cached_file::store(&PAYLOAD, &self.path, &self.key, text.as_bytes()) {
            log::warn(format_args!("{error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_kernels::Scalar;

    use super::*;

    fn shape(m: u32, operand: Scalar) -> CooperativeShape {
        CooperativeShape { m, n: 16, k: 16, operand, sum: Scalar::F32, fragments: None }
    }

    #[test]
    fn only_shapes_that_passed_are_used() {
        let shapes = [shape(16, Scalar::F16), shape(8, Scalar::F16), shape(16, Scalar::Bf16)];
        let lines = ["f16 16x16x16 failed", "f16 8x16x16 passed"].map(str::to_owned);
        assert_eq!(passed(&shapes, &lines), [shape(8, Scalar::F16)]);
        assert_eq!(passed(&shapes, &[]), []);
    }

    #[test]
    fn lines_say_where_elements_are() {
        let text = "1/4/2 4/8/1 0,0 0,1";
        let fragment = Fragment::from_text(text).unwrap();
        let all = [fragment.clone(), fragment.clone(), fragment];
        let told = line(&shape(16, Scalar::F16), Some(&all));
        assert_eq!(told, format!("f16 16x16x16 passed | {text} | {text} | {text}"));
        let known = passed(&[shape(16, Scalar::F16)], &[told]);
        assert_eq!(known, [CooperativeShape { fragments: Some(Box::new(all)), ..shape(16, Scalar::F16) }]);
        // Damage costs the places, not the shape.
        let damaged = format!("f16 16x16x16 passed | {text} | 1");
        assert_eq!(passed(&[shape(16, Scalar::F16)], &[damaged]), [shape(16, Scalar::F16)]);
    }

    #[test]
    fn a_test_that_ended_its_process_is_not_repeated() {
        let begun = || Some(vec![BEGUN.to_owned()]);
        assert_eq!(Known::of(begun(), false), Known::Ended);
        assert_eq!(Known::of(begun(), true), Known::Nothing);
        assert_eq!(Known::of(None, false), Known::Nothing);
        let results = vec!["f16 16x16x16 failed".to_owned()];
        assert_eq!(Known::of(Some(results.clone()), false), Known::Results(results));
    }

    #[test]
    fn files_are_of_one_device_and_driver() {
        let folder = std::env::temp_dir().join(format!("hipdnn_vulkan_trust_{}", std::process::id()));
        let file = |key: &str| File { path: folder.join("x.tests"), key: key.to_owned() };
        assert_eq!(file("a").read(), None);
        file("a").write(&["f16 16x16x16 passed".to_owned()]);
        assert_eq!(file("a").read(), Some(vec!["f16 16x16x16 passed".to_owned()]));
        assert!(file("a").is_recent());
        assert_eq!(file("b").read(), None);
        fs::write(&file("a").path, b"damaged").unwrap();
        assert_eq!(file("a").read(), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn words_switch_matrices_off() {
        assert!(is_no("Off") && is_no("0") && !is_no("1") && !is_no(""));
    }
}
