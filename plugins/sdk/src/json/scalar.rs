//! Reads numbers, texts and lists of them, with a message if a value has the wrong kind.

use super::path::At;
use super::value::{Json, Object};
use crate::graph::GraphError;

type Result<T> = std::result::Result<T, GraphError>;

fn wrong<T>(value: &Json, at: &At<'_>, expected: &str) -> Result<T> {
    Err(match value {
        Json::Null => at.error(&format!("is missing or null, expected {expected}")),
        value => at.error(&format!("is {}, expected {expected}", value.describe())),
    })
}

/// An integer type that JSON integers are converted to.
pub trait Integer: TryFrom<i64> {
    /// What messages say was expected.
    const EXPECTED: &'static str;
}

impl Integer for i64 {
    const EXPECTED: &'static str = "an integer from -2^63 to 2^63 - 1, without a fraction";
}

impl Integer for i32 {
    const EXPECTED: &'static str = "an integer from -2^31 to 2^31 - 1, without a fraction";
}

impl Integer for u32 {
    const EXPECTED: &'static str = "an integer from 0 to 2^32 - 1, without a fraction";
}

impl Integer for u8 {
    const EXPECTED: &'static str = "an integer from 0 to 255, without a fraction";
}

/// An integer, written without a fraction or exponent and not as -0.
pub fn int<T: Integer>(value: &Json, at: &At<'_>) -> Result<T> {
    let number = match value {
        Json::Int(number) => T::try_from(*number).ok(),
        _ => None,
    };
    number.map_or_else(|| wrong(value, at, T::EXPECTED), Ok)
}

/// A list of integers.
pub fn ints<T: Integer>(value: &Json, at: &At<'_>) -> Result<Vec<T>> {
    list(value, at, "a list of integers")?
        .iter()
        .enumerate()
        .map(|(i, value)| int(value, &at.index(i)))
        .collect()
}

/// A double precision number.
pub fn double(value: &Json, at: &At<'_>) -> Result<f64> {
    match value {
        Json::Int(number) => Ok(*number as f64),
        Json::Large(number) => Ok(*number as f64),
        Json::Float(number) => Ok(*number),
        value => wrong(value, at, "a number (JSON has no infinities and NaN)"),
    }
}

/// A single precision number: the one nearest to what is written.
pub fn float(value: &Json, at: &At<'_>) -> Result<f32> {
    let number = double(value, at)? as f32;
    if number.is_finite() { Ok(number) } else { wrong(value, at, "a number that a float can hold") }
}

/// A boolean.
pub fn flag(value: &Json, at: &At<'_>) -> Result<bool> {
    match value {
        Json::Bool(value) => Ok(*value),
        value => wrong(value, at, "true or false"),
    }
}

/// A text.
pub fn text<'a>(value: &'a Json, at: &At<'_>) -> Result<&'a str> {
    match value {
        Json::Text(text) => Ok(text),
        value => wrong(value, at, "a text"),
    }
}

/// A list.
pub fn list<'a>(value: &'a Json, at: &At<'_>, expected: &str) -> Result<&'a [Json]> {
    match value {
        Json::List(list) => Ok(list),
        value => wrong(value, at, expected),
    }
}

/// An object.
pub fn object<'a>(value: &'a Json, at: &At<'_>) -> Result<&'a Object> {
    match value {
        Json::Object(object) => Ok(object),
        value => wrong(value, at, "an object"),
    }
}

/// Applies `read` to a key's value; none if it is null or missing.
pub fn optional<T>(
    object: &Object,
    key: &str,
    at: &At<'_>,
    read: impl FnOnce(&Json, &At<'_>) -> Result<T>,
) -> Result<Option<T>> {
    match object.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => read(value, &at.key(key)).map(Some),
    }
}

/// Applies `read` to a key's value, which is null if it is missing.
pub fn required<T>(
    object: &Object,
    key: &str,
    at: &At<'_>,
    read: impl FnOnce(&Json, &At<'_>) -> Result<T>,
) -> Result<T> {
    read(object.get(key).unwrap_or(&Json::Null), &at.key(key))
}
