//! Knobs: an engine's tunable settings, and a caller's choices.

use std::fmt;

use crate::constants::{
    HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
    HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE,
    HIPDNN_ATTR_KNOB_INFO_DEPRECATED, HIPDNN_ATTR_KNOB_INFO_DESCRIPTION, HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE,
    HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, HIPDNN_ATTR_KNOB_INFO_STRIDE,
    HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH, HIPDNN_ATTR_KNOB_INFO_TYPE,
    HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT, HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING,
    HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, HIPDNN_TYPE_CHAR, HIPDNN_TYPE_DOUBLE, HIPDNN_TYPE_INT64,
};
use crate::error::{Error, Result};
use crate::{Backend, Descriptor};

/// The value of a knob.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum KnobValue {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Text(String),
}

impl fmt::Display for KnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            // With a decimal point, to tell it apart from an integer.
            Self::Float(value) => fmt::Debug::fmt(value, f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// The values that a knob accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum KnobRange {
    /// Integers: the listed values, or else those within the bounds, or else any.
    Int {
        /// The listed values, if any.
        values: Vec<i64>,
        /// The least, the greatest and the step, if bounded.
        bounds: Option<(i64, i64, i64)>,
    },
    /// Numbers from the first to the second, or any.
    Float(Option<(f64, f64)>),
    /// Strings: the listed values, or any.
    Text(Vec<String>),
}

/// A tunable setting of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// Its name.
    pub id: String,
    /// What it does.
    pub description: String,
    /// Its default value.
    pub default: KnobValue,
    /// The values that it accepts.
    pub range: KnobRange,
    /// The length of the longest text that it accepts; 0 if there is no limit, or for numbers.
    pub longest: i32,
    /// Whether it is deprecated.
    pub deprecated: bool,
}

impl Knob {
    /// Reads a knob info descriptor.
    pub(crate) fn read(info: &Descriptor) -> Result<Self> {
        let kind = info.i64(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE)?;
        let (default, range) = if kind == i64::from(HIPDNN_TYPE_INT64) {
            // Missing lists or bounds read as empty or zero.
            let values = info.i64s(HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT).unwrap_or_default();
            let least = info.i64(HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE).unwrap_or(0);
            let greatest = info.i64(HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE).unwrap_or(0);
            let step = info.i64(HIPDNN_ATTR_KNOB_INFO_STRIDE).unwrap_or(1).max(1);
            let bounds = (least < greatest).then_some((least, greatest, step));
            let default = KnobValue::Int(info.i64(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE)?);
            (default, KnobRange::Int { values, bounds })
        } else if kind == i64::from(HIPDNN_TYPE_DOUBLE) {
            let least = info.f64(HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE).unwrap_or(0.0);
            let greatest = info.f64(HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE).unwrap_or(0.0);
            let default = KnobValue::Float(info.f64(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE)?);
            (default, KnobRange::Float((least < greatest).then_some((least, greatest))))
        } else if kind == i64::from(HIPDNN_TYPE_CHAR) {
            let listed = info.bytes(HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING).unwrap_or_default();
            let values = listed.split(|byte| *byte == 0).filter(|text| !text.is_empty());
            let values = values.map(|text| String::from_utf8_lossy(text).into_owned()).collect();
            let default = KnobValue::Text(info.text(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE)?);
            (default, KnobRange::Text(values))
        } else {
            return Err(Error::answer(format!("a knob has a default of the unknown attribute type {kind}")));
        };
        let longest = info.i32(HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH).unwrap_or(0).max(0);
        Ok(Self {
            longest,
            id: info.text(HIPDNN_ATTR_KNOB_INFO_TYPE)?,
            description: info.text(HIPDNN_ATTR_KNOB_INFO_DESCRIPTION).unwrap_or_default(),
            default,
            range,
            deprecated: info.bool(HIPDNN_ATTR_KNOB_INFO_DEPRECATED).unwrap_or(false),
        })
    }

    /// Describes the values that it accepts.
    pub fn choices(&self) -> String {
        let list = |values: Vec<String>| values.join(", ");
        match &self.range {
            KnobRange::Int { values, .. } if !values.is_empty() => {
                list(values.iter().map(i64::to_string).collect())
            }
            KnobRange::Int { bounds: Some((least, greatest, 1)), .. } => format!("{least} to {greatest}"),
            KnobRange::Int { bounds: Some((least, greatest, step)), .. } => {
                format!("{least} to {greatest} in steps of {step}")
            }
            KnobRange::Int { .. } => "any whole number".to_owned(),
            KnobRange::Float(Some((least, greatest))) => format!("{least:?} to {greatest:?}"),
            KnobRange::Float(None) => "any number".to_owned(),
            KnobRange::Text(values) if !values.is_empty() => list(values.clone()),
            KnobRange::Text(_) => "any text".to_owned(),
        }
    }

    /// Parses a typed value of this knob's type.
    pub fn parse(&self, text: &str) -> Result<KnobValue> {
        let wrong = |expected| {
            Error::argument(format!("knob {}: the value is {text:?}, expected {expected}", self.id))
        };
        match self.default {
            KnobValue::Int(_) => text.parse().map(KnobValue::Int).map_err(|_| wrong("a whole number")),
            KnobValue::Float(_) => text.parse().map(KnobValue::Float).map_err(|_| wrong("a number")),
            KnobValue::Text(_) => Ok(KnobValue::Text(text.to_owned())),
        }
    }

    /// Some values worth trying, the default first: those listed, or at most `most` within the bounds.
    pub fn samples(&self, most: usize) -> Vec<KnobValue> {
        let others: Vec<KnobValue> = match &self.range {
            KnobRange::Int { values, .. } if !values.is_empty() => {
                values.iter().copied().map(KnobValue::Int).collect()
            }
            KnobRange::Int { bounds: Some((least, greatest, step)), .. } => {
                spread_int(*least, *greatest, *step, most).into_iter().map(KnobValue::Int).collect()
            }
            KnobRange::Float(Some((least, greatest))) => {
                let parts = most.max(2) - 1;
                let at = |part: usize| least + (greatest - least) * part as f64 / parts as f64;
                (0..=parts).map(|part| KnobValue::Float(at(part))).collect()
            }
            KnobRange::Text(values) => values.iter().cloned().map(KnobValue::Text).collect(),
            KnobRange::Int { .. } | KnobRange::Float(None) => Vec::new(),
        };
        let mut samples = vec![self.default.clone()];
        samples.extend(others.into_iter().filter(|value| *value != self.default));
        samples.truncate(most.max(1));
        samples
    }
}

/// At most `most` of the values from `least` to `greatest` in steps: all if they fit, else some whose distance from the least
/// doubles, including both ends.
fn spread_int(least: i64, greatest: i64, step: i64, most: usize) -> Vec<i64> {
    let steps = (i128::from(greatest) - i128::from(least)) / i128::from(step);
    let most = most.max(2);
    let mut offsets: Vec<i128> = if steps < most as i128 {
        (0..=steps).collect()
    } else {
        let powers = (0..64).map(|power| 1_i128 << power).take_while(|offset| *offset < steps);
        std::iter::once(0).chain(powers).chain([steps]).collect()
    };
    if offsets.len() > most {
        let last = offsets.len() - 1;
        offsets = (0..most).filter_map(|at| offsets.get(at * last / (most - 1)).copied()).collect();
    }
    let value = |offset: i128| i64::try_from(i128::from(least) + offset * i128::from(step)).ok();
    offsets.into_iter().filter_map(value).collect()
}

/// A caller's choice of a knob's value.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct KnobSetting {
    /// The knob's name.
    pub id: String,
    /// Its value.
    pub value: KnobValue,
}

impl fmt::Display for KnobSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.id, self.value)
    }
}

impl KnobSetting {
    /// The descriptor of the choice.
    pub(crate) fn choice(&self, backend: &Backend) -> Result<Descriptor> {
        let choice = Descriptor::new(backend, HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?;
        choice.set_text(HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &self.id)?;
        match &self.value {
            KnobValue::Int(value) => choice.set_i64s(HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[*value])?,
            KnobValue::Float(value) => choice.set_f64(HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, *value)?,
            KnobValue::Text(value) => choice.set_text(HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)?,
        }
        choice.finalize(&format!("choosing knob {self}"))?;
        Ok(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(default: KnobValue, range: KnobRange) -> Knob {
        Knob { id: "k".to_owned(), description: String::new(), default, range, longest: 0, deprecated: false }
    }

    #[test]
    fn a_range_is_sampled_with_its_ends_and_the_default_first() {
        let range = KnobRange::Int { values: vec![], bounds: Some((0, 256, 1)) };
        let samples = knob(KnobValue::Int(7), range).samples(20);
        assert_eq!(samples, [7, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256].map(KnobValue::Int));
        assert_eq!(spread_int(0, 256, 1, 4), [0, 4, 32, 256]);
        assert_eq!(spread_int(-3, 9, 4, 8), [-3, 1, 5, 9]);
        assert_eq!(spread_int(0, 1, 1, 8), [0, 1]);
        assert_eq!(spread_int(i64::MIN, i64::MAX, 1, 2), [i64::MIN, i64::MAX]);
    }

    #[test]
    fn listed_values_are_all_tried() {
        let range = KnobRange::Text(vec!["a".to_owned(), "b".to_owned()]);
        let samples = knob(KnobValue::Text("b".to_owned()), range).samples(8);
        assert_eq!(samples, [KnobValue::Text("b".to_owned()), KnobValue::Text("a".to_owned())]);
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused() {
        let knob = knob(KnobValue::Int(0), KnobRange::Int { values: vec![], bounds: None });
        assert_eq!(knob.parse("12"), Ok(KnobValue::Int(12)));
        let failure = knob.parse("fast").unwrap_err().to_string();
        assert_eq!(failure, "knob k: the value is \"fast\", expected a whole number");
    }
}
