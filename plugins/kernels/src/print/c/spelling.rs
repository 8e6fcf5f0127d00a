//! How types and functions are spelled.

use crate::form::{Binary, Comparison, Unary};
use crate::scalar::{Scalar, Type};

/// The C++ type of values.
pub(super) fn type_name(type_: Type) -> String {
    let name = match type_.scalar {
        Scalar::F16 | Scalar::Bf16 => "unsigned short",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
        Scalar::Fp8E4m3 | Scalar::Fp8E5m2 | Scalar::U8 => "unsigned char",
        Scalar::I8 => "signed char",
        Scalar::I32 => "int",
        Scalar::I64 => "long long",
        Scalar::Bool => "bool",
    };
    if type_.lanes == 1 { name.to_owned() } else { format!("vec<{name}, {}>", type_.lanes) }
}

/// A float literal.
pub(super) fn float(number: f32) -> String {
    if number.is_finite() { format!("{number:?}f") } else { format!("as<float>(0x{:x}u)", number.to_bits()) }
}

pub(super) fn comparison(op: Comparison) -> &'static str {
    match op {
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterEqual => ">=",
    }
}

pub(super) fn unary(op: Unary, type_: Type, x: &str) -> String {
    let single = type_.scalar == Scalar::F32;
    let call = |name: &str| format!("{name}{}({x})", if single { "f" } else { "" });
    match op {
        Unary::Neg => format!("-{x}"),
        Unary::Abs if type_.scalar.is_float() => call("fabs"),
        Unary::Abs => format!("{x} < 0 ? -{x} : {x}"),
        Unary::Exp => call("exp"),
        Unary::Exp2 if single => format!("quick_exp2({x})"),
        Unary::Exp2 => call("exp2"),
        Unary::Log => call("log"),
        Unary::Sqrt => call("sqrt"),
        Unary::Rsqrt => call("rsqrt"),
        Unary::Reciprocal => format!("1 / {x}"),
        Unary::Tanh => call("tanh"),
        Unary::Erf => call("erf"),
        Unary::Sin => call("sin"),
        Unary::Cos => call("cos"),
        Unary::Floor => call("floor"),
        Unary::Ceil => call("ceil"),
        Unary::Not if type_.scalar == Scalar::Bool => format!("!{x}"),
        Unary::Not => format!("~{x}"),
    }
}

pub(super) fn binary(op: Binary, type_: Type, x: &str, y: &str) -> String {
    let single = type_.scalar == Scalar::F32;
    let call = |name: &str| format!("{name}{}({x}, {y})", if single { "f" } else { "" });
    let unsigned = if type_.scalar == Scalar::I64 { "unsigned long long" } else { "unsigned" };
    let signed = if type_.scalar == Scalar::I64 { "long long" } else { "int" };
    let whole = |sign: &str| format!("({signed})(({unsigned}){x} {sign} ({unsigned}){y})");
    // Compilers may assume that numbers with a sign do not overflow.
    let wraps = type_.scalar == Scalar::I64;
    match op {
        Binary::Add if wraps => whole("+"),
        Binary::Sub if wraps => whole("-"),
        Binary::Mul if wraps => whole("*"),
        Binary::Add => format!("{x} + {y}"),
        Binary::Sub => format!("{x} - {y}"),
        Binary::Mul => format!("{x} * {y}"),
        Binary::Div if type_.scalar.is_float() => format!("{x} / {y}"),
        Binary::Div => whole("/"),
        Binary::Rem if type_.scalar.is_float() => call("fmod"),
        Binary::Rem => whole("%"),
        Binary::MinNumber if type_.scalar.is_float() => call("fmin"),
        Binary::MaxNumber if type_.scalar.is_float() => call("fmax"),
        Binary::Min if single => format!("m_min({x}, {y})"),
        Binary::Max if single => format!("m_max({x}, {y})"),
        Binary::Min | Binary::Max if type_.scalar.is_float() => {
            let sign = if op == Binary::Min { "<=" } else { ">=" };
            format!("{x} {sign} {y} || {x} != {x} ? {x} : {y}")
        }
        Binary::Min | Binary::MinNumber => format!("{x} <= {y} ? {x} : {y}"),
        Binary::Max | Binary::MaxNumber => format!("{x} >= {y} ? {x} : {y}"),
        Binary::Pow => call("pow"),
        Binary::And => format!("{x} & {y}"),
        Binary::Or => format!("{x} | {y}"),
        Binary::Xor => format!("{x} ^ {y}"),
        Binary::Shl => whole("<<"),
        Binary::Shr => whole(">>"),
    }
}
