//! Writes JSON as hipDNN does: on one line, keys in alphabetical order.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// An object under construction: its keys, in alphabetical order, and their values as text.
#[derive(Default)]
pub struct ObjectWriter(BTreeMap<Cow<'static, str>, String>);

impl ObjectWriter {
    /// Adds a key; `write` appends its value.
    pub fn put(&mut self, key: impl Into<Cow<'static, str>>, write: impl FnOnce(&mut String)) {
        let mut value = String::new();
        write(&mut value);
        self.0.insert(key.into(), value);
    }

    /// Adds a key and its text.
    pub fn text(&mut self, key: &'static str, value: &str) {
        self.put(key, |to| text(to, value));
    }

    /// Adds a key and a value whose `Display` is valid JSON: an integer or a boolean.
    pub fn plain(&mut self, key: &'static str, value: impl std::fmt::Display) {
        self.put(key, |to| plain(to, value));
    }

    /// Appends the object.
    pub fn write(&self, to: &mut String) {
        let mut before = '{';
        for (key, value) in &self.0 {
            to.push(before);
            text(to, key);
            to.push(':');
            to.push_str(value);
            before = ',';
        }
        if before == '{' {
            to.push('{');
        }
        to.push('}');
    }
}

/// Writes a value whose `Display` is valid JSON.
pub fn plain(to: &mut String, value: impl std::fmt::Display) {
    // Writing into a string cannot fail.
    let _ = write!(to, "{value}");
}

/// Writes a list, each element by `write`.
pub fn list<T>(to: &mut String, values: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut String, T)) {
    let mut before = '[';
    for value in values {
        to.push(before);
        write(to, value);
        before = ',';
    }
    if before == '[' {
        to.push('[');
    }
    to.push(']');
}

/// Writes a text.
pub fn text(to: &mut String, value: &str) {
    to.push('"');
    for c in value.chars() {
        match c {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\u{8}' => to.push_str("\\b"),
            '\u{c}' => to.push_str("\\f"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            '\0'..='\u{1f}' => {
                let _ = write!(to, "\\u{:04x}", u32::from(c));
            }
            _ => to.push(c),
        }
    }
    to.push('"');
}

/// Writes a number with its shortest digits: in plain notation if the decimal point lies within `PLAIN`, with
/// at least one digit after it, else with an exponent of at least two digits. NaN and infinities become null.
#[cfg(any(feature = "json", test))]
pub fn float(to: &mut String, value: f64) {
    /// Positions of the decimal point, relative to the first digit, that need no exponent.
    const PLAIN: std::ops::RangeInclusive<i32> = -3..=15;
    if !value.is_finite() {
        to.push_str("null");
        return;
    }
    if value.is_sign_negative() {
        to.push('-');
    }
    if value == 0.0 {
        to.push_str("0.0");
        return;
    }
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = exponent + 1;
    let zeros = |to: &mut String, count: usize| to.extend(std::iter::repeat_n('0', count));
    if !PLAIN.contains(&point) {
        let (first, rest) = digits.split_at(1);
        to.push_str(first);
        if !rest.is_empty() {
            to.push('.');
            to.push_str(rest);
        }
        let _ = write!(to, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
        return;
    }
    match usize::try_from(point) {
        Ok(before) if before >= digits.len() => {
            to.push_str(&digits);
            zeros(to, before - digits.len());
            to.push_str(".0");
        }
        Ok(before) if before > 0 => {
            let (whole, fraction) = digits.split_at(before);
            to.push_str(whole);
            to.push('.');
            to.push_str(fraction);
        }
        _ => {
            to.push_str("0.");
            zeros(to, point.unsigned_abs() as usize);
            to.push_str(&digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_point_or_an_exponent_and_the_fewest_digits() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-2.0, "-2.0"),
            (0.125, "0.125"),
            (f64::from(0.1_f32), "0.10000000149011612"),
            (100.0, "100.0"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (999_999_999_999_999.0, "999999999999999.0"),
            (1e14, "100000000000000.0"),
            (1e15, "1e+15"),
            (1.5e15, "1.5e+15"),
            (1_234_567_890_123_456.0, "1.234567890123456e+15"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (f64::from(f32::MAX), "3.4028234663852886e+38"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::NAN, "null"),
            (f64::NEG_INFINITY, "null"),
        ] {
            let mut text = String::new();
            float(&mut text, value);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn texts_are_escaped_where_they_must_be() {
        let mut to = String::new();
        text(&mut to, "a\"\\/\u{8}\u{c}\n\r\t\0\u{1f}\u{7f}é≤");
        assert_eq!(to, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}é≤\"");
    }

    #[test]
    fn lists_are_compact() {
        let mut to = String::new();
        list(&mut to, [1, -2, 3], plain);
        list(&mut to, [0_i64; 0], plain);
        assert_eq!(to, "[1,-2,3][]");
    }
}
