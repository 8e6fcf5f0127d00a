//! How an engine is checked, as files `{ENGINE}.toml` of AMD's providers say: tolerances, other measures, and cases to skip.

use std::path::Path;

use serde::Deserialize;

use crate::failure::{Failure, Result};
use crate::tensor::{Array, Comparison, Tolerance, compare};

/// The file's content.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    meta: Meta,
    #[serde(default)]
    tolerance_overrides: Vec<Limits>,
    #[serde(default)]
    validator_overrides: Vec<Measure>,
    #[serde(default)]
    test_skips: Vec<Skip>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    version: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    filters: Vec<String>,
    atol: f64,
    rtol: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Validator {
    Allclose,
    AllcloseMatchingInfinities,
    Rms,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measure {
    filters: Vec<String>,
    tensors: Vec<String>,
    validator: Validator,
    rms_threshold: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    filters: Vec<String>,
    reason: String,
    #[serde(default)]
    archs: Vec<String>,
    #[serde(default)]
    platforms: Vec<String>,
}

/// How far a result may be from what is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Each element: absolute, and relative to the element.
    Elements(Tolerance),
    /// The root of the mean of the squared differences, over the largest magnitude.
    Rms(f64),
}

impl Limit {
    /// Compares a result.
    pub fn compare(self, result: &Array, expected: &Array) -> Comparison {
        const EXACT: Tolerance = Tolerance { relative: 0.0, of_largest: 0.0, absolute: 0.0 };
        let threshold = match self {
            Self::Elements(tolerance) => return compare(result, expected, tolerance, |_| false),
            Self::Rms(threshold) => threshold,
        };
        let mut comparison = compare(result, expected, EXACT, |_| false);
        comparison.used = rms(&result.values, &expected.values) / threshold;
        comparison.beyond = if comparison.used <= 1.0 { 0 } else { comparison.count };
        comparison
    }
}

/// Infinite where a value is no finite number.
fn rms(result: &[f64], expected: &[f64]) -> f64 {
    let pairs = || result.iter().zip(expected);
    if pairs().any(|(x, r)| !(x.is_finite() && r.is_finite())) {
        return f64::INFINITY;
    }
    let squares: f64 = pairs().map(|(x, r)| (x - r).powi(2)).sum();
    let largest = pairs().fold(f64::MIN_POSITIVE, |largest, (x, r)| largest.max(x.abs()).max(r.abs()));
    (squares / result.len().max(1) as f64).sqrt() / largest
}

impl Settings {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::input(error.to_string()).of_file(path))?;
        Self::parse(&text).map_err(|failure| failure.of_file(path))
    }

    fn parse(text: &str) -> Result<Self> {
        let settings: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            Failure::input(format!("line {line}: {}", error.message()))
        })?;
        if settings.meta.version != 1 {
            return Err(Failure::input(format!("meta.version is {}, expected 1", settings.meta.version)));
        }
        let is_wrong = |number: f64| !(number.is_finite() && number >= 0.0);
        if let Some(limits) =
            settings.tolerance_overrides.iter().find(|of| is_wrong(of.atol) || is_wrong(of.rtol))
        {
            return Err(Failure::input(format!(
                "tolerance_overrides for {:?}: atol is {} and rtol is {}, expected 0 or more",
                limits.filters, limits.atol, limits.rtol
            )));
        }
        for measure in &settings.validator_overrides {
            let is_right = match measure.validator {
                Validator::Rms => {
                    measure.rms_threshold.is_some_and(|number| number.is_finite() && number > 0.0)
                }
                _ => measure.rms_threshold.is_none(),
            };
            if !is_right {
                return Err(Failure::input(format!(
                    "validator_overrides for {:?}: rms_threshold is {:?}, expected a number above 0 with validator rms, none with others",
                    measure.filters, measure.rms_threshold
                )));
            }
        }
        Ok(settings)
    }

    /// Why a test is left out on a device and platform: the first entry that fits says.
    pub fn skip(&self, test: &str, architecture: &str, platform: &str) -> Option<String> {
        let is_any = |list: &[String], fits: &dyn Fn(&str) -> bool| {
            list.is_empty() || list.iter().any(|item| fits(item))
        };
        let skip = self.test_skips.iter().find(|skip| {
            is_listed(&skip.filters, test)
                && is_any(&skip.archs, &|arch| architecture.contains(arch))
                && is_any(&skip.platforms, &|name| name == platform)
        })?;
        Some(format!("[arch {architecture}] {}", skip.reason))
    }

    /// How far a tensor of a test may be off: the last entries that fit say. None without any.
    pub fn limit(&self, test: &str, tensor: &str) -> Option<Limit> {
        let measure = self
            .validator_overrides
            .iter()
            .rfind(|of| is_listed(&of.filters, test) && is_listed(&of.tensors, tensor));
        if let Some(threshold) = measure.and_then(|measure| measure.rms_threshold) {
            return Some(Limit::Rms(threshold));
        }
        let limits = self.tolerance_overrides.iter().rfind(|of| is_listed(&of.filters, test))?;
        Some(Limit::Elements(Tolerance { relative: limits.rtol, of_largest: 0.0, absolute: limits.atol }))
    }
}

fn is_listed(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| fits(pattern.as_bytes(), text.as_bytes()))
}

/// Whether a text fits a pattern: `*` stands for any characters, `?` for one.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where the last `*` was, and the text that it stands for so far ends.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        match (pattern.get(at), text.get(place)) {
            (Some(b'*'), _) => {
                star = Some((at, place));
                at += 1;
            }
            (Some(one), Some(other)) if one == other || *one == b'?' => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((before, end)) = star else { return false };
                star = Some((before, end + 1));
                at = before + 1;
                place = end + 1;
            }
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[meta]
version = 1
[[tolerance_overrides]]
filters = ["quick_*"]
atol = 0.5
rtol = 0.25
[[tolerance_overrides]]
filters = ["*_fp16_*.Sm?ll"]
atol = 1.0
rtol = 0
[[validator_overrides]]
filters = ["*Layernorm*"]
tensors = ["*::DSCALE"]
validator = "rms"
rms_threshold = 1e-4
[[test_skips]]
archs = ["gfx11"]
platforms = ["linux"]
filters = ["*Conv*"]
reason = "first"
[[test_skips]]
filters = ["*ConvBias*"]
reason = "second"
"#;

    #[test]
    fn the_last_limits_and_the_first_reason_count() {
        let settings = Settings::parse(FILE).unwrap();
        let elements =
            |absolute, relative| Some(Limit::Elements(Tolerance { relative, of_largest: 0.0, absolute }));
        assert_eq!(settings.limit("quick_Matmul_fp32_Small.Small", "C"), elements(0.5, 0.25));
        assert_eq!(settings.limit("quick_Matmul_fp16_Small.Small", "C"), elements(1.0, 0.0));
        assert_eq!(settings.limit("full_Matmul.x", "C"), None);
        assert_eq!(settings.limit("full_Layernorm.x", "Layer_0::DSCALE"), Some(Limit::Rms(1e-4)));
        assert_eq!(settings.limit("full_Layernorm.x", "Layer_0::DX"), None);
        let skip = |test, architecture| settings.skip(test, architecture, "linux");
        assert_eq!(skip("quick_ConvBias.x", "gfx1151").as_deref(), Some("[arch gfx1151] first"));
        assert_eq!(skip("quick_ConvBias.x", "cpu").as_deref(), Some("[arch cpu] second"));
        assert_eq!(skip("quick_Conv.x", "cpu"), None);
    }

    #[test]
    fn a_typo_is_refused() {
        let wrong = |from: &str, to: &str| Settings::parse(&FILE.replace(from, to)).unwrap_err().to_string();
        assert!(wrong("version = 1", "version = 2").contains("meta.version is 2, expected 1"));
        assert!(wrong("atol = 0.5", "abs = 0.5").contains("unknown field `abs`"));
        assert!(wrong("rtol = 0.25", "rtol = -0.25").contains("rtol is -0.25"));
        assert!(wrong("rms_threshold = 1e-4", "").contains("rms_threshold is None"));
        assert!(wrong("\"rms\"", "\"mean\"").contains("unknown variant `mean`"));
        assert!(Settings::parse("").unwrap_err().to_string().contains("meta"));
    }

    #[test]
    fn patterns_fit_like_a_shells() {
        let fits = |pattern: &str, text: &str| fits(pattern.as_bytes(), text.as_bytes());
        for (pattern, text) in [("*", ""), ("a*b*c", "aXbbYc"), ("**", "x"), ("?b", "ab"), ("*b", "abab")] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("?", ""), ("a*b", "abc"), ("", "x"), ("a", "A"), ("*ab?", "ab")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn rms_is_of_all_elements_together() {
        let array = |values: &[f64]| Array { values: values.to_vec(), dims: vec![values.len()] };
        let expected = array(&[2.0, 0.0, 0.0, 0.0]);
        let result = array(&[2.0, 0.2, 0.0, 0.0]);
        let used = |threshold| Limit::Rms(threshold).compare(&result, &expected).used;
        assert!((used(0.05) - 1.0).abs() < 1e-9, "{}", used(0.05));
        assert_eq!(Limit::Rms(0.06).compare(&result, &expected).beyond, 0);
        assert_eq!(Limit::Rms(0.04).compare(&result, &expected).beyond, 4);
        let infinite = array(&[f64::INFINITY, 0.0, 0.0, 0.0]);
        assert_eq!(Limit::Rms(1.0).compare(&infinite, &infinite).beyond, 4);
    }
}
