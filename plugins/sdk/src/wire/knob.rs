//! Knobs: the settings that an engine offers to its user, and their validation.

use std::fmt;

use crate::graph::GraphError;

mod settings;

pub(crate) use settings::check_possible;
pub use settings::{
    WORKSPACE_SIZE_LIMIT, check_settings, int_setting, positive_setting, setting, take_unknown,
};

/// Maximum length of a knob's id in bytes.
const MAX_ID: usize = 4096;
/// Maximum length of a knob's description in bytes.
const MAX_DESCRIPTION: usize = 65536;
/// Maximum length of a text value in bytes.
const MAX_TEXT: usize = 65536;
/// Maximum number of knobs that an engine configuration sets.
pub const MAX_KNOB_CHOICES: usize = 1024;

/// A knob and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct KnobSetting {
    /// The knob's id.
    pub knob_id: String,
    /// Its value.
    pub value: KnobValue,
}

/// The value of a knob.
///
/// Texts are displayed in quotes.
#[derive(Clone, Debug, PartialEq)]
pub enum KnobValue {
    /// An integer.
    Int(i64),
    /// A double precision number.
    Float(f64),
    /// A text.
    Text(String),
}

/// The values that a knob accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum KnobConstraint {
    /// Integers: a range with a step, a list, or both. No range if both bounds are 0.
    Int {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
        /// The step, counted from the minimum; 1 and 0 allow all integers.
        step: i64,
        /// All values, if they are listed; else empty.
        valid: Vec<i64>,
    },
    /// Numbers in a range; any number if both bounds are 0.
    Float {
        /// The minimum.
        min: f64,
        /// The maximum.
        max: f64,
    },
    /// Texts.
    Text {
        /// Maximum length in bytes; 0 for no limit.
        max_length: i32,
        /// All values, if they are listed; else empty.
        valid: Vec<String>,
    },
}

/// An engine's setting that the caller may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// Its id.
    pub knob_id: String,
    /// A readable description.
    pub description: String,
    /// The default value.
    pub default_value: KnobValue,
    /// The values it accepts, if restricted.
    pub constraint: Option<KnobConstraint>,
    /// Whether it is deprecated.
    pub deprecated: bool,
}

/// The limits of a knob's values; none for a limit that does not exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KnobLimits<'a> {
    /// For integers.
    Int {
        /// The minimum.
        min: Option<i64>,
        /// The maximum.
        max: Option<i64>,
        /// The step, counted from the minimum, or from 0 without one.
        step: Option<i64>,
        /// All values; empty if they are not listed.
        valid: &'a [i64],
    },
    /// For numbers.
    Float {
        /// The minimum.
        min: Option<f64>,
        /// The maximum.
        max: Option<f64>,
    },
    /// For texts.
    Text {
        /// Maximum length in bytes.
        max_length: Option<i32>,
        /// All values; empty if they are not listed.
        valid: &'a [String],
    },
}

/// A quoted text, truncated if it is too long for a message.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 64;
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{:?}...", self.0.get(..end).unwrap_or_default()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

impl KnobValue {
    /// The kind of value, for messages.
    fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "an integer",
            Self::Float(_) => "a double precision number",
            Self::Text(_) => "a text",
        }
    }

    /// Fails if the value is a text too long for any knob, or NaN.
    ///
    /// # Errors
    /// The value, and what was expected.
    pub fn check_size(&self) -> Result<(), GraphError> {
        match self {
            Self::Text(text) => check_text_length(text.len()),
            Self::Float(x) if x.is_nan() => Err(GraphError("NaN, expected a number".to_owned())),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for KnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(x) => write!(f, "{x}"),
            // With a decimal point, to distinguish it from an integer.
            Self::Float(x) => write!(f, "{x:?}"),
            Self::Text(x) => write!(f, "{}", Quoted(x)),
        }
    }
}

impl From<i64> for KnobValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for KnobValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for KnobValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl KnobConstraint {
    /// The limits that this constraint sets.
    pub fn limits(&self) -> KnobLimits<'_> {
        match self {
            Self::Int { min, max, step, valid } => {
                let range = (*min, *max) != (0, 0);
                KnobLimits::Int {
                    min: range.then_some(*min),
                    max: range.then_some(*max),
                    step: (*step != 0).then_some(*step),
                    valid,
                }
            }
            Self::Float { min, max } => {
                let range = (*min, *max) != (0.0, 0.0);
                KnobLimits::Float { min: range.then_some(*min), max: range.then_some(*max) }
            }
            Self::Text { max_length, valid } => {
                KnobLimits::Text { max_length: (*max_length != 0).then_some(*max_length), valid }
            }
        }
    }
}

impl KnobLimits<'_> {
    /// No limits, for values of the same kind as this one.
    pub fn none(like: &KnobValue) -> Self {
        match like {
            KnobValue::Int(_) => Self::Int { min: None, max: None, step: None, valid: &[] },
            KnobValue::Float(_) => Self::Float { min: None, max: None },
            KnobValue::Text(_) => Self::Text { max_length: None, valid: &[] },
        }
    }

    /// Fails if the limits contradict each other, so that no value satisfies them.
    ///
    /// # Errors
    /// The limit, and what was expected.
    pub fn verify(&self) -> Result<(), GraphError> {
        let fault = match *self {
            Self::Int { min: Some(min), max: Some(max), .. } if min > max => {
                format!("the minimum {min} is above the maximum {max}")
            }
            Self::Int { step: Some(step), .. } if step <= 0 => {
                format!("the stride is {step}, expected more than 0")
            }
            Self::Float { min: Some(min), max: Some(max) } if min > max => {
                format!("the minimum {min:?} is above the maximum {max:?}")
            }
            Self::Float { min, max } if [min, max].into_iter().flatten().any(f64::is_nan) => {
                "a bound is NaN, expected a number".to_owned()
            }
            Self::Text { max_length: Some(length), .. } if length <= 0 => {
                format!("the maximal length is {length}, expected more than 0")
            }
            _ => return Ok(()),
        };
        Err(GraphError(fault))
    }

    /// Fails if a value is outside these limits.
    ///
    /// # Errors
    /// The value, and what was expected.
    pub fn check(&self, value: &KnobValue) -> Result<(), GraphError> {
        value.check_size()?;
        let allowed = match (self, value) {
            (Self::Int { min, max, step, valid }, KnobValue::Int(x)) => {
                min.is_none_or(|min| *x >= min)
                    && max.is_none_or(|max| *x <= max)
                    && step.is_none_or(|step| {
                        step > 0 && x.abs_diff(min.unwrap_or(0)).is_multiple_of(step.unsigned_abs())
                    })
                    && (valid.is_empty() || valid.contains(x))
            }
            (Self::Float { min, max }, KnobValue::Float(x)) => {
                min.is_none_or(|min| *x >= min) && max.is_none_or(|max| *x <= max)
            }
            (Self::Text { max_length, valid }, KnobValue::Text(x)) => {
                max_length.is_none_or(|most| usize::try_from(most).is_ok_and(|most| x.len() <= most))
                    && (valid.is_empty() || valid.contains(x))
            }
            _ => {
                return Err(GraphError(format!("{value}, which is {}, expected {self}", value.kind())));
            }
        };
        if allowed { Ok(()) } else { Err(GraphError(format!("{value}, expected {self}"))) }
    }
}

/// Describes the allowed values: "an integer from 0 to 8 in steps of 2".
impl fmt::Display for KnobLimits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int { min, max, step, valid } => {
                f.write_str("an integer")?;
                range(f, *min, *max)?;
                if let Some(step) = step.filter(|step| *step != 1) {
                    write!(f, " in steps of {step}")?;
                    if min.is_none() {
                        f.write_str(" from 0")?;
                    }
                }
                list(f, valid.iter())
            }
            Self::Float { min, max } => {
                f.write_str("a double precision number")?;
                range(f, *min, *max)
            }
            Self::Text { max_length, valid } => {
                f.write_str("a text")?;
                if let Some(length) = max_length {
                    write!(f, " of at most {length} bytes")?;
                }
                list(f, valid.iter().map(|text| Quoted(text)))
            }
        }
    }
}

fn range<T: fmt::Debug>(f: &mut fmt::Formatter<'_>, min: Option<T>, max: Option<T>) -> fmt::Result {
    match (min, max) {
        (Some(min), Some(max)) => write!(f, " from {min:?} to {max:?}"),
        (Some(min), None) => write!(f, " of at least {min:?}"),
        (None, Some(max)) => write!(f, " of at most {max:?}"),
        (None, None) => Ok(()),
    }
}

/// The first few of the listed values.
fn list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    values: impl ExactSizeIterator<Item = T>,
) -> fmt::Result {
    let more = values.len() > SHOWN;
    for (i, value) in values.take(SHOWN).enumerate() {
        write!(f, "{} {value}", if i == 0 { ", one of" } else { "," })?;
    }
    f.write_str(if more { ", ..." } else { "" })
}

/// How many values of a list are shown.
const SHOWN: usize = 16;

impl Knob {
    /// An integer from `min` to `max` inclusive, not both 0.
    pub fn int(id: &str, description: &str, default: i64, min: i64, max: i64) -> Self {
        let constraint = KnobConstraint::Int { min, max, step: 1, valid: Vec::new() };
        Self::new(id, description, default.into(), Some(constraint))
    }

    /// A flag: 1 or 0.
    pub fn flag(id: &str, description: &str, default: bool) -> Self {
        Self::int(id, description, default.into(), 0, 1)
    }

    /// One of these integers.
    pub fn one_of_ints(id: &str, description: &str, default: i64, valid: &[i64]) -> Self {
        let constraint = KnobConstraint::Int { min: 0, max: 0, step: 1, valid: valid.to_vec() };
        Self::new(id, description, default.into(), Some(constraint))
    }

    /// A number from `min` to `max` inclusive, not both 0.
    pub fn float(id: &str, description: &str, default: f64, min: f64, max: f64) -> Self {
        Self::new(id, description, default.into(), Some(KnobConstraint::Float { min, max }))
    }

    /// One of these texts.
    pub fn one_of_texts(id: &str, description: &str, default: &str, valid: &[&str]) -> Self {
        let valid = valid.iter().map(|text| (*text).to_owned()).collect();
        let constraint = KnobConstraint::Text { max_length: 0, valid };
        Self::new(id, description, default.into(), Some(constraint))
    }

    /// Any text of at most `max_length` bytes.
    pub fn text(id: &str, description: &str, default: &str, max_length: i32) -> Self {
        let constraint = KnobConstraint::Text { max_length, valid: Vec::new() };
        Self::new(id, description, default.into(), Some(constraint))
    }

    fn new(
        id: &str,
        description: &str,
        default_value: KnobValue,
        constraint: Option<KnobConstraint>,
    ) -> Self {
        Self {
            knob_id: id.to_owned(),
            description: description.to_owned(),
            default_value,
            constraint,
            deprecated: false,
        }
    }

    /// The same knob, marked as deprecated.
    #[must_use]
    pub fn deprecated(self) -> Self {
        Self { deprecated: true, ..self }
    }

    /// Its id in quotes for a message, truncated if it is long.
    pub fn quoted_id(&self) -> impl fmt::Display {
        Quoted(&self.knob_id)
    }

    /// The limits on its values.
    pub fn limits(&self) -> KnobLimits<'_> {
        self.constraint.as_ref().map_or_else(|| KnobLimits::none(&self.default_value), KnobConstraint::limits)
    }

    /// Fails if the knob is invalid: an empty id, a text that is too long, contradictory limits, or a default
    /// outside them.
    ///
    /// # Errors
    /// The knob, what is wrong with it, and what was expected.
    pub fn verify(&self) -> Result<(), GraphError> {
        verify_knob(&self.knob_id, &self.description, &self.default_value, &self.limits())
    }

    /// Fails if the knob does not accept a value.
    ///
    /// # Errors
    /// The knob, the value, and what was expected.
    pub fn check(&self, value: &KnobValue) -> Result<(), GraphError> {
        self.limits()
            .check(value)
            .map_err(|error| GraphError(format!("knob {} is {error}", Quoted(&self.knob_id))))
    }
}

/// Fails if a knob of these parts is invalid; see [`Knob::verify`].
///
/// # Errors
/// The knob, what is wrong with it, and what was expected.
pub fn verify_knob(
    id: &str,
    description: &str,
    default: &KnobValue,
    limits: &KnobLimits<'_>,
) -> Result<(), GraphError> {
    check_knob_id(id)?;
    let about = |error: GraphError| GraphError(format!("knob {}: {error}", Quoted(id)));
    if description.len() > MAX_DESCRIPTION {
        return Err(about(GraphError(format!(
            "the description has {} bytes, expected at most {MAX_DESCRIPTION}",
            description.len()
        ))));
    }
    limits.verify().map_err(about)?;
    limits.check(default).map_err(|error| about(GraphError(format!("the default value is {error}"))))
}

/// Fails if a text cannot be a knob's id.
///
/// # Errors
/// Its length, and what was expected.
pub fn check_knob_id(id: &str) -> Result<(), GraphError> {
    check_id_length(id.len())
}

/// Fails if a knob's id cannot have this many bytes.
pub(super) fn check_id_length(length: usize) -> Result<(), GraphError> {
    if (1..=MAX_ID).contains(&length) {
        return Ok(());
    }
    Err(GraphError(format!("the id of a knob has {length} bytes, expected 1 to {MAX_ID}")))
}

/// Fails if a knob's value cannot have this many bytes.
pub(super) fn check_text_length(length: usize) -> Result<(), GraphError> {
    if length <= MAX_TEXT {
        return Ok(());
    }
    Err(GraphError(format!("a text of {length} bytes, expected at most {MAX_TEXT}")))
}

#[cfg(test)]
mod tests;
