//! Knobs: what an engine lets its user choose, and the check of what was chosen.

use std::collections::HashSet;
use std::fmt;

use crate::graph::GraphError;

/// The most bytes of a knob's id.
const MAX_ID: usize = 4096;
/// The most bytes of a knob's description.
const MAX_DESCRIPTION: usize = 65536;
/// The most bytes of a knob's value that is a text.
const MAX_TEXT: usize = 65536;
/// The most knobs that one engine configuration sets.
pub const MAX_KNOB_CHOICES: usize = 1024;

/// A knob and what it is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct KnobSetting {
    /// The knob's id.
    pub knob_id: String,
    /// Its value.
    pub value: KnobValue,
}

/// The value of a knob.
///
/// It is shown with quotes where it is a text, and as a number otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum KnobValue {
    /// An integer.
    Int(i64),
    /// A double precision number.
    Float(f64),
    /// A text.
    Text(String),
}

/// Which values a knob takes.
#[derive(Clone, Debug, PartialEq)]
pub enum KnobConstraint {
    /// Integers: a range with a step, a list, or both; no range where both bounds are 0.
    Int {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
        /// The distance between neighbours, counted from the smallest; 1 and 0 leave none out.
        step: i64,
        /// All values, where they are listed; empty where they are not.
        valid: Vec<i64>,
    },
    /// Numbers of a range; any number where both bounds are 0.
    Float {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// Texts.
    Text {
        /// The longest, in bytes; 0 for no such limit.
        max_length: i32,
        /// All values, where they are listed; empty where they are not.
        valid: Vec<String>,
    },
}

/// Something about an engine that the caller may set.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// What it is known by.
    pub knob_id: String,
    /// What it does, for people.
    pub description: String,
    /// The value when it is not set.
    pub default_value: KnobValue,
    /// Which values it takes, where that is limited.
    pub constraint: Option<KnobConstraint>,
    /// Whether it will go.
    pub deprecated: bool,
}

/// The limits on the values of a knob, each where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KnobLimits<'a> {
    /// For integers.
    Int {
        /// The smallest.
        min: Option<i64>,
        /// The largest.
        max: Option<i64>,
        /// The distance between neighbours, counted from the smallest, or from 0 where there is none.
        step: Option<i64>,
        /// All values; empty where they are not listed.
        valid: &'a [i64],
    },
    /// For numbers.
    Float {
        /// The smallest.
        min: Option<f64>,
        /// The largest.
        max: Option<f64>,
    },
    /// For texts.
    Text {
        /// The longest, in bytes.
        max_length: Option<i32>,
        /// All values; empty where they are not listed.
        valid: &'a [String],
    },
}

/// A text in quotes, cut where it would fill a message.
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
    /// What kind of value it is, for messages.
    fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "an integer",
            Self::Float(_) => "a double precision number",
            Self::Text(_) => "a text",
        }
    }

    /// Fails when the value is a text that is too long for any knob, or no number.
    ///
    /// # Errors
    /// The value, and what was expected.
    pub fn check_size(&self) -> Result<(), GraphError> {
        match self {
            Self::Text(text) if text.len() > MAX_TEXT => {
                Err(GraphError(format!("a text of {} bytes, expected at most {MAX_TEXT}", text.len())))
            }
            Self::Float(x) if x.is_nan() => Err(GraphError("NaN, expected a number".to_owned())),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for KnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(x) => write!(f, "{x}"),
            // With a point, so that it is seen to be no integer.
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
    /// No limits, for values of the kind of this one.
    pub fn none(like: &KnobValue) -> Self {
        match like {
            KnobValue::Int(_) => Self::Int { min: None, max: None, step: None, valid: &[] },
            KnobValue::Float(_) => Self::Float { min: None, max: None },
            KnobValue::Text(_) => Self::Text { max_length: None, valid: &[] },
        }
    }

    /// Fails when no value can be within these limits, or they make no sense.
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

    /// Fails when a value is not within these limits.
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

/// What is allowed, in words: "an integer from 0 to 8 in steps of 2".
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

/// A few of the values that are listed.
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

/// How much of a list is shown.
const SHOWN: usize = 16;

impl Knob {
    /// An integer from `min` to `max`, both included, not both 0.
    pub fn int(id: &str, description: &str, default: i64, min: i64, max: i64) -> Self {
        let constraint = KnobConstraint::Int { min, max, step: 1, valid: Vec::new() };
        Self::new(id, description, default.into(), Some(constraint))
    }

    /// Yes or no: 1 or 0.
    pub fn flag(id: &str, description: &str, default: bool) -> Self {
        Self::int(id, description, default.into(), 0, 1)
    }

    /// One of these integers.
    pub fn one_of_ints(id: &str, description: &str, default: i64, valid: &[i64]) -> Self {
        let constraint = KnobConstraint::Int { min: 0, max: 0, step: 1, valid: valid.to_vec() };
        Self::new(id, description, default.into(), Some(constraint))
    }

    /// A number from `min` to `max`, both included, not both 0.
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

    /// The same knob, marked as one that will go.
    #[must_use]
    pub fn deprecated(self) -> Self {
        Self { deprecated: true, ..self }
    }

    /// Its id for a message: in quotes, and cut where it is long.
    pub fn quoted_id(&self) -> impl fmt::Display {
        Quoted(&self.knob_id)
    }

    /// The limits on its values.
    pub fn limits(&self) -> KnobLimits<'_> {
        self.constraint.as_ref().map_or_else(|| KnobLimits::none(&self.default_value), KnobConstraint::limits)
    }

    /// Fails when the knob makes no sense: no id, a text that is too long, limits that contradict each other, a default
    /// beyond them.
    ///
    /// # Errors
    /// The knob, what is wrong with it, and what was expected.
    pub fn verify(&self) -> Result<(), GraphError> {
        verify_knob(&self.knob_id, &self.description, &self.default_value, &self.limits())
    }

    /// Fails when the knob cannot be set to a value.
    ///
    /// # Errors
    /// The knob, the value, and what was expected.
    pub fn check(&self, value: &KnobValue) -> Result<(), GraphError> {
        self.limits()
            .check(value)
            .map_err(|error| GraphError(format!("knob {} is {error}", Quoted(&self.knob_id))))
    }
}

/// Fails when a knob of these parts makes no sense; see [`Knob::verify`].
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

/// Fails when a text is no id of a knob.
///
/// # Errors
/// Its length, and what was expected.
pub fn check_knob_id(id: &str) -> Result<(), GraphError> {
    match id.len() {
        1..=MAX_ID => Ok(()),
        length => Err(GraphError(format!("the id of a knob has {length} bytes, expected 1 to {MAX_ID}"))),
    }
}

/// Fails when two settings are of one knob, or there are too many.
fn check_different(settings: &[KnobSetting]) -> Result<(), GraphError> {
    if settings.len() > MAX_KNOB_CHOICES {
        return Err(GraphError(format!(
            "{} knobs are set, expected at most {MAX_KNOB_CHOICES}",
            settings.len()
        )));
    }
    let mut seen = HashSet::with_capacity(settings.len());
    match settings.iter().find(|setting| !seen.insert(setting.knob_id.as_str())) {
        Some(twice) => {
            Err(GraphError(format!("knob {} is set twice, expected once", Quoted(&twice.knob_id))))
        }
        None => Ok(()),
    }
}

/// Fails when a setting is of no knob among these, is not within the knob's limits, or is there twice.
///
/// # Errors
/// The knob, its value, and what was expected.
pub fn check_settings(knobs: &[Knob], settings: &[KnobSetting]) -> Result<(), GraphError> {
    check_different(settings)?;
    settings.iter().try_for_each(|setting| match knobs.iter().find(|knob| knob.knob_id == setting.knob_id) {
        Some(knob) => knob.check(&setting.value),
        None => Err(unknown_knob(setting, knobs)),
    })
}

/// That there is no knob like the one that is set among these.
fn unknown_knob(setting: &KnobSetting, knobs: &[Knob]) -> GraphError {
    let mut known: Vec<String> =
        knobs.iter().take(SHOWN).map(|knob| Quoted(&knob.knob_id).to_string()).collect();
    if knobs.len() > SHOWN {
        known.push("...".to_owned());
    }
    let expected = match known.len() {
        0 => "none, as the engine has no knobs".to_owned(),
        1 => known.concat(),
        _ => format!("one of {}", known.join(", ")),
    };
    let id = Quoted(&setting.knob_id);
    GraphError(format!("knob {id} is set to {}, expected {expected}", setting.value))
}

/// What a knob is set to, if it is set.
pub fn setting<'a>(settings: &'a [KnobSetting], id: &str) -> Option<&'a KnobValue> {
    settings.iter().find(|setting| setting.knob_id == id).map(|setting| &setting.value)
}

/// What a knob is set to, if it is set to an integer.
pub fn int_setting(settings: &[KnobSetting], id: &str) -> Option<i64> {
    match setting(settings, id) {
        Some(KnobValue::Int(value)) => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(result: Result<(), GraphError>) -> String {
        result.unwrap_err().to_string()
    }

    fn setting_of(id: &str, value: impl Into<KnobValue>) -> KnobSetting {
        KnobSetting { knob_id: id.to_owned(), value: value.into() }
    }

    #[test]
    fn integers_keep_to_range_step_and_list() {
        let even = KnobConstraint::Int { min: 2, max: 10, step: 4, valid: vec![] };
        let knob = Knob::new("k", "", 2.into(), Some(even));
        knob.verify().unwrap();
        for good in [2, 6, 10] {
            knob.check(&good.into()).unwrap();
        }
        for bad in [0, 3, 4, 11, 14, -2, i64::MIN, i64::MAX] {
            let error = refused(knob.check(&bad.into()));
            assert_eq!(error, format!("knob \"k\" is {bad}, expected an integer from 2 to 10 in steps of 4"));
        }
        let listed = Knob::one_of_ints("k", "", 3, &[3, 5]);
        listed.check(&5.into()).unwrap();
        assert_eq!(refused(listed.check(&4.into())), "knob \"k\" is 4, expected an integer, one of 3, 5");
        let whole = KnobConstraint::Int { min: i64::MIN, max: i64::MAX, step: 1, valid: vec![] };
        let whole = Knob::new("k", "", 0.into(), Some(whole));
        whole.check(&i64::MAX.into()).unwrap();
        whole.check(&i64::MIN.into()).unwrap();
    }

    #[test]
    fn no_range_is_no_limit() {
        let knob = |constraint| Knob::new("k", "", 0.into(), constraint);
        for constraint in [None, Some(KnobConstraint::Int { min: 0, max: 0, step: 1, valid: vec![] })] {
            for value in [i64::MIN, -1, 0, 7, i64::MAX] {
                knob(constraint.clone()).check(&value.into()).unwrap();
            }
        }
        Knob::float("k", "", 1e300, 0.0, 0.0).verify().unwrap();
        Knob::text("k", "", "long enough", 0).verify().unwrap();
    }

    #[test]
    fn numbers_and_texts_keep_to_their_limits() {
        let float = Knob::float("f", "", 0.5, 0.0, 1.0);
        float.check(&1.0.into()).unwrap();
        let error = refused(float.check(&1.5.into()));
        assert_eq!(error, "knob \"f\" is 1.5, expected a double precision number from 0.0 to 1.0");
        assert!(refused(float.check(&f64::NAN.into())).contains("NaN"));
        assert!(refused(float.check(&1.into())).contains("1, which is an integer, expected a double"));
        let text = Knob::text("t", "", "abc", 3);
        assert!(refused(text.check(&"abcd".into())).contains("\"abcd\", expected a text of at most 3 bytes"));
        let mode = Knob::one_of_texts("m", "", "fast", &["fast", "slow"]);
        mode.check(&"slow".into()).unwrap();
        let error = refused(mode.check(&"Slow".into()));
        assert_eq!(error, "knob \"m\" is \"Slow\", expected a text, one of \"fast\", \"slow\"");
    }

    #[test]
    fn knobs_without_sense_are_found() {
        assert!(refused(Knob::flag("", "", true).verify()).contains("0 bytes, expected 1 to 4096"));
        assert!(refused(Knob::flag(&"i".repeat(4097), "", true).verify()).contains("4097 bytes"));
        Knob::flag(&"i".repeat(4096), &"d".repeat(65536), true).verify().unwrap();
        assert!(refused(Knob::flag("k", &"d".repeat(65537), true).verify()).contains("65537 bytes"));
        assert!(refused(Knob::text("k", "", &"t".repeat(65537), 0).verify()).contains("65537 bytes"));
        assert!(refused(Knob::int("k", "", 9, 0, 8).verify()).contains("the default value is 9, expected"));
        assert!(refused(Knob::int("k", "", 9, 8, 1).verify()).contains("minimum 8 is above the maximum 1"));
        assert!(refused(Knob::float("k", "", 0.0, f64::NAN, 1.0).verify()).contains("NaN"));
        assert!(refused(Knob::text("k", "", "", -1).verify()).contains("-1, expected more than 0"));
        let backwards = KnobConstraint::Int { min: 0, max: 4, step: -1, valid: vec![] };
        assert!(refused(Knob::new("k", "", 0.into(), Some(backwards)).verify()).contains("stride is -1"));
        let other = KnobConstraint::Float { min: 0.0, max: 1.0 };
        assert!(refused(Knob::new("k", "", 0.into(), Some(other)).verify()).contains("which is an integer"));
    }

    #[test]
    fn settings_are_checked_against_all_knobs() {
        let knobs = [Knob::flag("a", "", false), Knob::float("b", "", 0.0, -1.0, 1.0).deprecated()];
        check_settings(&knobs, &[]).unwrap();
        let both = [setting_of("b", 0.5), setting_of("a", 1)];
        check_settings(&knobs, &both).unwrap();
        assert_eq!(int_setting(&both, "a"), Some(1));
        assert_eq!(int_setting(&both, "b"), None);
        let long = refused(check_settings(&[], &[setting_of(&"é".repeat(100), &*"t".repeat(100))]));
        let cut = |text: &str| format!("{:?}...", text.repeat(64));
        assert_eq!(
            long,
            format!("knob {} is set to {}, expected none, as the engine has no knobs", cut("é"), cut("t"))
        );
        assert_eq!(setting(&both, "b"), Some(&KnobValue::Float(0.5)));
        assert_eq!(
            refused(check_settings(&knobs, &[setting_of("c", 1)])),
            "knob \"c\" is set to 1, expected one of \"a\", \"b\""
        );
        assert!(refused(check_settings(&[], &[setting_of("c", "x")])).contains("has no knobs"));
        let twice = [setting_of("a", 1), setting_of("a", 1)];
        assert!(refused(check_settings(&knobs, &twice)).contains("\"a\" is set twice"));
        let many: Vec<_> = (0..=MAX_KNOB_CHOICES).map(|i| setting_of(&i.to_string(), 1)).collect();
        assert!(refused(check_settings(&knobs, &many)).contains("1025 knobs are set"));
    }
}
