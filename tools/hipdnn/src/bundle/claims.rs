//! Support claims: which engines accept a graph, on which architectures and platforms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::read_json;
use crate::failure::{Failure, Result};

/// The platforms that a claim can name.
pub const PLATFORMS: [&str; 2] = ["linux", "windows"];

/// Platforms by architecture.
pub type Support = BTreeMap<String, BTreeSet<String>>;

/// The claims of a file: support by engine and case, whose id is empty where there is no sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    of_engines: BTreeMap<String, BTreeMap<String, Support>>,
}

/// Cases of a sweep with the same support.
#[derive(Serialize)]
struct Group<'a> {
    cases: Vec<&'a str>,
    support: &'a Support,
}

/// A file in its written form, with its keys in alphabetical order.
#[derive(Serialize)]
struct File<T> {
    claims: BTreeMap<String, T>,
    version: u32,
}

impl Claims {
    /// Reads a file, which need not exist. `cases` are the ids of the sweep that its claims are about, if they are about one.
    pub fn read(path: &Path, cases: Option<&BTreeSet<&str>>) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        Self::parse(&read_json(path)?, cases).map(Some).map_err(|failure| failure.of_file(path))
    }

    fn parse(json: &Value, cases: Option<&BTreeSet<&str>>) -> Result<Self> {
        if json.get("version") != Some(&Value::from(1)) {
            return Err(wrong("version", json.get("version").unwrap_or(&Value::Null), "1"));
        }
        let claims = json.get("claims").unwrap_or(&Value::Null);
        let object = claims.as_object().ok_or_else(|| wrong("claims", claims, "an object"))?;
        let mut of_engines = BTreeMap::new();
        for (engine, claimed) in object {
            let claimed = match cases {
                None => BTreeMap::from([(String::new(), support(engine, claimed)?)]),
                Some(cases) => groups(engine, claimed, cases)?,
            };
            of_engines.insert(engine.clone(), claimed);
        }
        Ok(Self { of_engines })
    }

    /// Whether an engine is claimed to accept a case's graph.
    pub fn has(&self, engine: &str, case: &str, (architecture, platform): (&str, &str)) -> bool {
        let support = self.of_engines.get(engine).and_then(|cases| cases.get(case));
        support.and_then(|support| support.get(architecture)).is_some_and(|all| all.contains(platform))
    }

    /// Claims that an engine accepts a case's graph.
    pub fn add(&mut self, engine: &str, case: &str, (architecture, platform): (&str, &str)) {
        let cases = self.of_engines.entry(engine.to_owned()).or_default();
        let support = cases.entry(case.to_owned()).or_default();
        support.entry(architecture.to_owned()).or_default().insert(platform.to_owned());
    }

    /// The file: keys, platforms and cases sorted, groups of cases by their first one, two spaces for each level.
    pub fn text(&self, is_of_sweep: bool) -> String {
        let engines = || self.of_engines.iter();
        let text = if is_of_sweep {
            let claims = engines().map(|(engine, cases)| (engine.clone(), grouped(cases))).collect();
            serde_json::to_string_pretty(&File { claims, version: 1 })
        } else {
            let claims = engines().filter_map(|(engine, cases)| Some((engine.clone(), cases.get("")?)));
            serde_json::to_string_pretty(&File { claims: claims.collect(), version: 1 })
        };
        // Maps of texts can always be written.
        in_ascii(&text.unwrap_or_default()) + "\n"
    }
}

fn wrong(what: &str, value: &Value, expected: &str) -> Failure {
    Failure::input(format!("\"{what}\" is {value}, expected {expected}"))
}

/// Platforms by architecture.
fn support(of: &str, json: &Value) -> Result<Support> {
    let object = json.as_object().ok_or_else(|| wrong(of, json, "an object of architectures"))?;
    let mut support = Support::new();
    for (architecture, platforms) in object {
        let expected = "a list of \"linux\" and \"windows\"";
        let list = platforms.as_array().ok_or_else(|| wrong(architecture, platforms, expected))?;
        let known =
            |platform: &Value| platform.as_str().filter(|name| PLATFORMS.contains(name)).map(str::to_owned);
        let platforms =
            list.iter().map(|it| known(it).ok_or_else(|| wrong(architecture, platforms, expected)));
        support.insert(architecture.clone(), platforms.collect::<Result<_>>()?);
    }
    Ok(support)
}

/// The support of each case of a sweep.
fn groups(engine: &str, json: &Value, known: &BTreeSet<&str>) -> Result<BTreeMap<String, Support>> {
    let groups = json.as_array().ok_or_else(|| wrong(engine, json, "a list of groups of cases"))?;
    let mut of_cases = BTreeMap::new();
    for group in groups {
        let cases = group.get("cases").unwrap_or(&Value::Null);
        let ids = cases.as_array().ok_or_else(|| wrong("cases", cases, "a list of ids"))?;
        let support = support("support", group.get("support").unwrap_or(&Value::Null))?;
        for id in ids {
            let known = id.as_str().filter(|id| known.contains(id));
            let case = known.ok_or_else(|| wrong("cases", id, "the id of a case of sweep.json"))?;
            if of_cases.insert(case.to_owned(), support.clone()).is_some() {
                return Err(Failure::input(format!(
                    "{engine} has case {case:?} in two groups, expected one"
                )));
            }
        }
    }
    Ok(of_cases)
}

/// Cases with the same support in one group.
fn grouped(cases: &BTreeMap<String, Support>) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (case, support) in cases {
        match groups.iter_mut().find(|group| group.support == support) {
            Some(group) => group.cases.push(case),
            None => groups.push(Group { cases: vec![case], support }),
        }
    }
    groups
}

/// The same JSON with other characters as `\u` and four digits.
fn in_ascii(text: &str) -> String {
    let mut units = [0; 2];
    let mut ascii = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_ascii() {
            true => ascii.push(letter),
            false => {
                letter.encode_utf16(&mut units).iter().for_each(|unit| ascii += &format!("\\u{unit:04x}"))
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HERE: (&str, &str) = ("cpu", "linux");

    #[test]
    fn cases_with_the_same_support_are_one_group() {
        let mut claims = Claims::default();
        for case in ["c", "a", "b"] {
            claims.add("E", case, HERE);
        }
        claims.add("E", "a", ("gfx942", "windows"));
        claims.add("E", "a", ("gfx942", "linux"));
        let text = claims.text(true);
        let expected = json!({"version": 1, "claims": {"E": [
            {"cases": ["a"], "support": {"cpu": ["linux"], "gfx942": ["linux", "windows"]}},
            {"cases": ["b", "c"], "support": {"cpu": ["linux"]}}]}});
        let written: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written, expected);
        assert!(
            text.starts_with("{\n  \"claims\": {\n    \"E\": [\n      {\n        \"cases\": [\n"),
            "{text}"
        );
        assert!(text.ends_with("  \"version\": 1\n}\n"), "{text}");
        let cases = BTreeSet::from(["a", "b", "c"]);
        assert_eq!(Claims::parse(&written, Some(&cases)), Ok(claims.clone()));
        let few = Claims::parse(&written, Some(&BTreeSet::from(["a", "b"]))).unwrap_err().to_string();
        assert_eq!(few, "\"cases\" is \"c\", expected the id of a case of sweep.json");
        assert!(claims.has("E", "b", HERE) && !claims.has("E", "b", ("gfx942", "linux")));
    }

    #[test]
    fn wrong_files_are_refused() {
        let of = |json| Claims::parse(&json, None).unwrap_err().to_string();
        assert_eq!(of(json!({"version": 2, "claims": {}})), "\"version\" is 2, expected 1");
        let expected = "a list of \"linux\" and \"windows\"";
        let claims = |platforms| json!({"version": 1, "claims": {"E": {"cpu": platforms}}});
        assert_eq!(of(claims(json!(["macos"]))), format!("\"cpu\" is [\"macos\"], expected {expected}"));
        assert_eq!(of(claims(json!("linux"))), format!("\"cpu\" is \"linux\", expected {expected}"));
        let twice = json!({"version": 1, "claims": {"E": [{"cases": ["a", "a"], "support": {}}]}});
        let twice = Claims::parse(&twice, Some(&BTreeSet::from(["a"]))).unwrap_err().to_string();
        assert_eq!(twice, "E has case \"a\" in two groups, expected one");
    }

    #[test]
    fn nothing_claimed_and_other_letters() {
        assert_eq!(Claims::default().text(false), "{\n  \"claims\": {},\n  \"version\": 1\n}\n");
        let mut claims = Claims::default();
        claims.add("\u{e9}\u{1f600}", "", HERE);
        assert!(claims.text(false).contains("\"\\u00e9\\ud83d\\ude00\": {"), "{}", claims.text(false));
    }
}
