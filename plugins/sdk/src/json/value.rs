//! JSON values, parsed within limits; every error has a path.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::path::Segment;
use crate::graph::GraphError;

/// Maximum length of a text in bytes.
pub const MAX_SIZE: usize = 64 << 20;
/// Maximum nesting depth of lists and objects.
pub const MAX_DEPTH: usize = 64;
/// Maximum number of values in a text. Each takes about 32 bytes of memory, and about 80 in an object.
pub const MAX_VALUES: usize = 4 << 20;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// A number without fraction and exponent that an `i64` holds.
    Int(i64),
    /// A number without fraction and exponent that exceeds `i64` but fits a `u64`.
    Large(u64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(Object),
}

/// The keys of an object and their values, as a list sorted by key: for many small objects a tree would take
/// much more memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(Vec<(String, Json)>);

impl Object {
    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        let found = self.0.binary_search_by(|(other, _)| other.as_str().cmp(key)).ok()?;
        self.0.get(found).map(|(_, value)| value)
    }
}

impl Json {
    /// Describes the value for a message, briefly even if it is long.
    pub fn describe(&self) -> String {
        const MOST: usize = 60;
        match self {
            Self::Null => "null".into(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Large(value) => value.to_string(),
            Self::Float(value) => format!("{value:?}"),
            Self::Text(text) if text.chars().count() > MOST => {
                format!("{:?}…", text.chars().take(MOST).collect::<String>())
            }
            Self::Text(text) => format!("{text:?}"),
            Self::List(list) => format!("a list of {}", list.len()),
            Self::Object(object) => format!("an object with {} keys", object.0.len()),
        }
    }
}

/// Parses a complete text.
///
/// # Errors
/// When it is not JSON, has a duplicate key or a number outside the range of a double, or exceeds a limit;
/// the message begins with the path of the value where this was noticed.
pub fn parse(text: &str) -> Result<Json, GraphError> {
    if text.len() > MAX_SIZE {
        return Err(GraphError(format!("the text has {} bytes, expected at most {MAX_SIZE}", text.len())));
    }
    let state = State { path: RefCell::default(), values: Cell::new(0) };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Seed(&state).deserialize(&mut deserializer).map_err(|error| {
        let path = state.path.borrow().iter().fold(String::new(), |path, segment| segment.after(path));
        GraphError(if path.is_empty() { error.to_string() } else { format!("{path}: {error}") })
    })?;
    deserializer.end().map_err(|error| GraphError(format!("after the graph: {error}")))?;
    Ok(value)
}

/// The parser's position, which is kept on failure.
struct State {
    path: RefCell<Vec<Segment>>,
    values: Cell<usize>,
}

impl State {
    /// Parses the value below a path segment. On failure the path stays as it is.
    fn below<T, E: Error>(
        &self,
        segment: Segment,
        parse: impl FnOnce(Seed<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let depth = {
            let mut path = self.path.borrow_mut();
            path.push(segment);
            path.len()
        };
        if depth > MAX_DEPTH {
            return Err(E::custom(format_args!("is nested deeper than {MAX_DEPTH} lists and objects")));
        }
        let value = parse(Seed(self))?;
        self.path.borrow_mut().pop();
        Ok(value)
    }
}

struct Seed<'a>(&'a State);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let values = self.0.values.get() + 1;
        if values > MAX_VALUES {
            return Err(D::Error::custom(format_args!("is one of more than {MAX_VALUES} values")));
        }
        self.0.values.set(values);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Large(value), Json::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        loop {
            let index = Segment::Index(values.len());
            match self.0.below(index, |seed| list.next_element_seed(seed))? {
                Some(value) => values.push(value),
                None => return Ok(Json::List(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let segment = Segment::Key(key.clone());
            let value = self.0.below(segment, |seed| map.next_value_seed(seed))?;
            members.push((key, value));
        }
        members.shrink_to_fit();
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        let twice = members.windows(2).find_map(|pair| match pair {
            [(one, _), (other, _)] if one == other => Some(one.clone()),
            _ => None,
        });
        if let Some(key) = twice {
            let key = Json::Text(key).describe();
            return Err(A::Error::custom(format_args!("the key {key} occurs twice")));
        }
        Ok(Json::Object(Object(members)))
    }
}
