//! KNOB_INFO: a knob of an engine and its valid values.

use std::ffi::c_int;

use hipdnn_plugin_sdk::wire::{Knob, KnobLimits, KnobValue, check_knob_id, verify_knob};

use super::attribute::{Incoming, Outgoing, unknown};
use super::{Descriptor, Draft, Lifecycle};
use crate::ffi::{CEnum, hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::status::{Error, Result};

const KIND: &str = "knob info";

const ID: c_int = Name::HIPDNN_ATTR_KNOB_INFO_TYPE as c_int;
const MAXIMUM: c_int = Name::HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE as c_int;
const MINIMUM: c_int = Name::HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE as c_int;
const STRIDE: c_int = Name::HIPDNN_ATTR_KNOB_INFO_STRIDE as c_int;
const DESCRIPTION: c_int = Name::HIPDNN_ATTR_KNOB_INFO_DESCRIPTION as c_int;
const DEFAULT_VALUE: c_int = Name::HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE as c_int;
const DEPRECATED: c_int = Name::HIPDNN_ATTR_KNOB_INFO_DEPRECATED as c_int;
const VALID_INTS: c_int = Name::HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT as c_int;
const VALID_TEXTS: c_int = Name::HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING as c_int;
const MAX_LENGTH: c_int = Name::HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH as c_int;
const DEFAULT_TYPE: c_int = Name::HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE as c_int;

const INT64: c_int = Type::HIPDNN_TYPE_INT64 as c_int;
const DOUBLE: c_int = Type::HIPDNN_TYPE_DOUBLE as c_int;
const CHAR: c_int = Type::HIPDNN_TYPE_CHAR as c_int;

/// A knob; finalizing checks it and changes nothing.
#[derive(Default)]
pub struct KnobInfo {
    id: String,
    description: String,
    default: Option<KnobValue>,
    deprecated: bool,
    minimum: Option<Bound>,
    maximum: Option<Bound>,
    stride: Option<i64>,
    valid_ints: Vec<i64>,
    valid_texts: Vec<String>,
    max_length: Option<i32>,
}

/// The smallest or largest value.
#[derive(Clone, Copy)]
enum Bound {
    Int(i64),
    Float(f64),
}

impl Bound {
    fn int(self) -> Option<i64> {
        match self {
            Self::Int(bound) => Some(bound),
            Self::Float(_) => None,
        }
    }

    fn float(self) -> Option<f64> {
        match self {
            Self::Int(_) => None,
            Self::Float(bound) => Some(bound),
        }
    }
}

impl KnobInfo {
    /// A knob as a plugin published it.
    fn of(knob: &Knob) -> Self {
        let mut info = Self {
            id: knob.knob_id.clone(),
            description: knob.description.clone(),
            default: Some(knob.default_value.clone()),
            deprecated: knob.deprecated,
            ..Self::default()
        };
        match knob.limits() {
            KnobLimits::Int { min, max, step, valid } => {
                info.minimum = min.map(Bound::Int);
                info.maximum = max.map(Bound::Int);
                info.stride = step;
                info.valid_ints = valid.to_vec();
            }
            KnobLimits::Float { min, max } => {
                info.minimum = min.map(Bound::Float);
                info.maximum = max.map(Bound::Float);
            }
            KnobLimits::Text { max_length, valid } => {
                info.max_length = max_length;
                info.valid_texts = valid.to_vec();
            }
        }
        info
    }

    /// The limits for values of the default's type.
    ///
    /// # Errors
    /// BAD_PARAM when a limit for another type is set.
    fn limits(&self, default: &KnobValue) -> Result<KnobLimits<'_>> {
        let for_another = |name: &str| {
            Error::bad_param(format!(
                "HIPDNN_ATTR_KNOB_INFO_{name} is not for the type of HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE"
            ))
        };
        let bounds = [("MINIMUM_VALUE", self.minimum), ("MAXIMUM_VALUE", self.maximum)];
        for (name, bound) in bounds {
            let fits = match (bound, default) {
                (None, _)
                | (Some(Bound::Int(_)), KnobValue::Int(_))
                | (Some(Bound::Float(_)), KnobValue::Float(_)) => true,
                (Some(_), _) => false,
            };
            if !fits {
                return Err(for_another(name));
            }
        }
        let (is_int, is_text) = (matches!(default, KnobValue::Int(_)), matches!(default, KnobValue::Text(_)));
        if self.stride.is_some() && !is_int {
            return Err(for_another("STRIDE"));
        }
        if !self.valid_ints.is_empty() && !is_int {
            return Err(for_another("VALID_VALUES_INT"));
        }
        if !self.valid_texts.is_empty() && !is_text {
            return Err(for_another("VALID_VALUES_STRING"));
        }
        if self.max_length.is_some() && !is_text {
            return Err(for_another("STRING_MAX_LENGTH"));
        }
        let [minimum, maximum] = [self.minimum, self.maximum];
        Ok(match default {
            KnobValue::Int(_) => KnobLimits::Int {
                min: minimum.and_then(Bound::int),
                max: maximum.and_then(Bound::int),
                step: self.stride,
                valid: &self.valid_ints,
            },
            KnobValue::Float(_) => {
                KnobLimits::Float { min: minimum.and_then(Bound::float), max: maximum.and_then(Bound::float) }
            }
            KnobValue::Text(_) => KnobLimits::Text { max_length: self.max_length, valid: &self.valid_texts },
        })
    }
}

// Boxed: it is the largest draft, and a descriptor of any kind takes the size of the largest.
impl Draft for Box<KnobInfo> {
    type Frozen = ();

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            ID => self.id = knob_id(incoming)?,
            DESCRIPTION => self.description = incoming.text()?,
            DEFAULT_VALUE => self.default = Some(value(incoming)?),
            DEPRECATED => self.deprecated = incoming.flag()?,
            MINIMUM => self.minimum = Some(bound(incoming)?),
            MAXIMUM => self.maximum = Some(bound(incoming)?),
            STRIDE => {
                let stride = incoming.one::<i64>(Type::HIPDNN_TYPE_INT64)?;
                if stride <= 0 {
                    return Err(incoming.bad_value(stride, "more than 0"));
                }
                self.stride = Some(stride);
            }
            VALID_INTS => self.valid_ints = incoming.some(Type::HIPDNN_TYPE_INT64)?,
            VALID_TEXTS => self.valid_texts = texts(incoming)?,
            MAX_LENGTH => {
                let length = incoming.one::<i32>(Type::HIPDNN_TYPE_INT32)?;
                if length <= 0 {
                    return Err(incoming.bad_value(length, "more than 0"));
                }
                self.max_length = Some(length);
            }
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<()> {
        if self.id.is_empty() {
            return Err(Error::bad_param("HIPDNN_ATTR_KNOB_INFO_TYPE of the knob info is not set"));
        }
        let default = self.default.as_ref().ok_or_else(|| {
            Error::bad_param("HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE of the knob info is not set")
        })?;
        let limits = self.limits(default)?;
        verify_knob(&self.id, &self.description, default, &limits).map_err(|error| Error::bad_param(error.0))
    }

    fn get(&self, (): &(), outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            ID => outgoing.text(&self.id),
            DESCRIPTION => outgoing.text(&self.description),
            DEFAULT_VALUE => match &self.default {
                Some(value) => get_value(value, outgoing),
                None => Err(Error::internal("a finalized knob info has no default value")),
            },
            DEFAULT_TYPE => {
                let kind = self.default.as_ref().map(|value| i64::from(type_of(value).raw()));
                outgoing.optional(Type::HIPDNN_TYPE_INT64, kind)
            }
            DEPRECATED => outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(self.deprecated)),
            MINIMUM => get_bound(self.minimum, outgoing),
            MAXIMUM => get_bound(self.maximum, outgoing),
            STRIDE => outgoing.optional(Type::HIPDNN_TYPE_INT64, self.stride),
            VALID_INTS => outgoing.many(Type::HIPDNN_TYPE_INT64, &self.valid_ints),
            VALID_TEXTS => {
                let mut bytes = Vec::new();
                for text in &self.valid_texts {
                    bytes.extend_from_slice(text.as_bytes());
                    bytes.push(0);
                }
                outgoing.many(Type::HIPDNN_TYPE_CHAR, &bytes)
            }
            MAX_LENGTH => outgoing.optional(Type::HIPDNN_TYPE_INT32, self.max_length),
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

impl Descriptor {
    /// A finalized descriptor of a knob that a plugin published.
    pub(super) fn of_knob(knob: &Knob) -> Self {
        Self::KnobInfo(Lifecycle::finalized(Box::new(KnobInfo::of(knob)), ()))
    }
}

/// The id of a knob.
pub(super) fn knob_id(incoming: &Incoming) -> Result<String> {
    let id = incoming.text()?;
    check_knob_id(&id).map_err(|error| incoming.about(Error::bad_param(error.0)))?;
    Ok(id)
}

/// The value of a knob, of any knob type.
pub(super) fn value(incoming: &Incoming) -> Result<KnobValue> {
    let value = match incoming.kind() {
        INT64 => KnobValue::Int(incoming.one(Type::HIPDNN_TYPE_INT64)?),
        DOUBLE => KnobValue::Float(incoming.one(Type::HIPDNN_TYPE_DOUBLE)?),
        CHAR => KnobValue::Text(incoming.text()?),
        _ => {
            let types = [Type::HIPDNN_TYPE_INT64, Type::HIPDNN_TYPE_DOUBLE, Type::HIPDNN_TYPE_CHAR];
            return Err(incoming.wrong_type(&types));
        }
    };
    value.check_size().map_err(|error| incoming.about(Error::bad_param(error.0)))?;
    Ok(value)
}

/// The attribute type of a value.
fn type_of(value: &KnobValue) -> Type {
    match value {
        KnobValue::Int(_) => Type::HIPDNN_TYPE_INT64,
        KnobValue::Float(_) => Type::HIPDNN_TYPE_DOUBLE,
        KnobValue::Text(_) => Type::HIPDNN_TYPE_CHAR,
    }
}

/// Returns the value of a knob; the caller must pass its type.
pub(super) fn get_value(value: &KnobValue, outgoing: &Outgoing) -> Result<()> {
    match value {
        KnobValue::Int(x) => outgoing.one(Type::HIPDNN_TYPE_INT64, *x),
        KnobValue::Float(x) => outgoing.one(Type::HIPDNN_TYPE_DOUBLE, *x),
        KnobValue::Text(x) => outgoing.text(x),
    }
}

fn bound(incoming: &Incoming) -> Result<Bound> {
    match incoming.kind() {
        INT64 => Ok(Bound::Int(incoming.one(Type::HIPDNN_TYPE_INT64)?)),
        DOUBLE => {
            let bound = incoming.one::<f64>(Type::HIPDNN_TYPE_DOUBLE)?;
            if bound.is_nan() {
                return Err(incoming.bad_value(bound, "a number"));
            }
            Ok(Bound::Float(bound))
        }
        _ => Err(incoming.wrong_type(&[Type::HIPDNN_TYPE_INT64, Type::HIPDNN_TYPE_DOUBLE])),
    }
}

fn get_bound(bound: Option<Bound>, outgoing: &Outgoing) -> Result<()> {
    match bound {
        Some(Bound::Int(bound)) => outgoing.one(Type::HIPDNN_TYPE_INT64, bound),
        Some(Bound::Float(bound)) => outgoing.one(Type::HIPDNN_TYPE_DOUBLE, bound),
        // Unset bounds have no type.
        None if outgoing.kind() == DOUBLE => outgoing.none(Type::HIPDNN_TYPE_DOUBLE),
        None => outgoing.none(Type::HIPDNN_TYPE_INT64),
    }
}

/// Texts separated by NULs; a trailing NUL is allowed.
fn texts(incoming: &Incoming) -> Result<Vec<String>> {
    let bytes = incoming.bytes()?;
    if bytes.is_empty() {
        return Err(incoming.wrong_count("1 or more"));
    }
    let texts = bytes.strip_suffix(&[0]).unwrap_or(&bytes).split(|byte| *byte == 0);
    Ok(texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect())
}
