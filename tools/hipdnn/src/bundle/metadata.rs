//! What a bundle says of its checks.

use serde_json::Value;

use crate::failure::{Failure, Result};

/// How far a bundle is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// An engine accepts the graph.
    Applicability,
    /// It makes a plan, too.
    Buildable,
    /// The plan's results are right, too.
    #[default]
    Full,
}

impl Level {
    /// The word in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Applicability => "applicability",
            Self::Buildable => "buildable",
            Self::Full => "full",
        }
    }
}

/// What `{Name}.meta.json`, or `metadata` of a sweep's case, says. Other keys tell where the values come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// How far it is checked.
    pub level: Level,
    /// The seed of random inputs.
    pub seed: Option<u64>,
    /// The memory in MiB that its device needs.
    pub memory_mib: Option<u64>,
    /// The only architecture that has these results.
    pub architecture: Option<String>,
}

impl Metadata {
    /// Reads the JSON.
    pub fn read(json: &Value) -> Result<Self> {
        let wrong = |key: &str, expected: &str| match json.get(key) {
            Some(value) => Failure::input(format!("\"{key}\" is {value}, expected {expected}")),
            None => Failure::input(format!("\"{key}\" is missing, expected {expected}")),
        };
        if json.get("format_version") != Some(&Value::from(1)) {
            return Err(wrong("format_version", "1"));
        }
        let given = |key: &str| json.get(key).filter(|value| !value.is_null());
        let levels = [Level::Applicability, Level::Buildable, Level::Full];
        let level = match given("enforcement_level") {
            None => Level::Full,
            Some(word) => levels
                .into_iter()
                .find(|level| word == level.word())
                .ok_or_else(|| wrong("enforcement_level", "applicability, buildable or full"))?,
        };
        let number = |key: &str, expected: &str| {
            let number = given(key).map(|value| value.as_u64().ok_or_else(|| wrong(key, expected)));
            number.transpose()
        };
        let architecture = given("gpu_architecture").map(|value| {
            value.as_str().map(str::to_owned).ok_or_else(|| wrong("gpu_architecture", "a text"))
        });
        Ok(Self {
            level,
            seed: number("seed", "a whole number from 0")?,
            memory_mib: number("minimum_vram_mb", "a whole number from 0")?,
            architecture: architecture.transpose()?.filter(|name| !name.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_typo_is_refused() {
        let read = |json| Metadata::read(&json).map_err(|failure| failure.to_string());
        let of = |level| read(json!({"format_version": 1, "enforcement_level": level}));
        assert_eq!(of("buildable").map(|metadata| metadata.level), Ok(Level::Buildable));
        let expected = "\"enforcement_level\" is \"ful\", expected applicability, buildable or full";
        assert_eq!(of("ful"), Err(expected.to_owned()));
        assert_eq!(read(json!({})), Err("\"format_version\" is missing, expected 1".to_owned()));
        let full = Metadata { seed: Some(42), ..Metadata::default() };
        assert_eq!(read(json!({"format_version": 1, "seed": 42, "generator": "x"})), Ok(full));
    }
}
