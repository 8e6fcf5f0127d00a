//! The macro that declares an operation, and the types it uses.

use super::{GraphError, Operation};

/// What a field of an operation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// The uid of a tensor that is read; `required` says whether it may be absent.
    Input {
        /// Whether the field is mandatory.
        required: bool,
    },
    /// The uid of a tensor that is written.
    Output {
        /// Whether the field is mandatory.
        required: bool,
    },
    /// The uids of tensors that are read, in any number.
    Inputs,
    /// The uids of tensors that are written, in any number.
    Outputs,
    /// 64-bit integers, one for each spatial dimension.
    Ints,
    /// 32-bit integers.
    Int32s,
    /// A 64-bit integer.
    Int {
        /// Whether the field is mandatory.
        required: bool,
    },
    /// A 32-bit integer.
    Int32 {
        /// Whether the field is mandatory.
        required: bool,
    },
    /// An optional single-precision number.
    Float,
    /// A boolean.
    Flag {
        /// Whether the field is mandatory.
        required: bool,
    },
    /// A value of a small enumeration.
    Enum(EnumKind),
    /// A text.
    Text,
    /// Raw bytes.
    Bytes,
}

/// A small enumeration as the generic code sees it.
#[derive(Clone, Copy, Debug)]
pub struct EnumKind {
    /// The enumeration's name.
    pub name: &'static str,
    /// The number of its type among the attribute types of the C API.
    pub attribute_type: i32,
    /// Converts a C number to a wire number.
    pub wire_from_c: fn(i32) -> Option<u8>,
    /// Converts a wire number to a C number; none if the C API has no such value.
    pub c_from_wire: fn(u8) -> Option<i32>,
    /// The JSON spelling of a wire number.
    pub spelling: fn(u8) -> Option<&'static str>,
    /// Whether an operation can be built without this value, which then has wire number 0.
    pub has_default: bool,
}

impl PartialEq for EnumKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for EnumKind {}

/// One field of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The field's name, without the `_tensor_uid` that tensors carry on the wire.
    pub name: &'static str,
    /// What it holds.
    pub kind: FieldKind,
    /// The number of its attribute in the C API.
    pub attribute: i32,
    /// Its index in the table on the wire.
    pub index: u16,
    /// How it is spelled in JSON.
    pub json: JsonField,
}

/// How a field is written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonField {
    /// Under its name, with `_tensor_uid` appended for a tensor's uid.
    Plain,
    /// Under this key.
    Key(&'static str),
    /// An enumeration as its number on the wire.
    Number,
    /// Omitted if it is 0.
    UnlessZero,
}

/// How an operation is structured in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonForm {
    /// Whether tensors are in the objects `inputs` and `outputs` rather than next to the node's name.
    pub has_groups: bool,
    /// The object with all other fields; none if they are next to the node's name.
    pub parameters: Option<&'static str>,
    /// Whether an absent optional field is written as null rather than omitted.
    pub writes_null: bool,
}

/// The value of a field, in a form common to all operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The uid of a tensor, or none.
    Uid(Option<i64>),
    /// The uids of tensors.
    Uids(Vec<i64>),
    /// 64-bit integers.
    Ints(Vec<i64>),
    /// 32-bit integers.
    Int32s(Vec<i32>),
    /// A 64-bit integer, or none.
    Int(Option<i64>),
    /// A 32-bit integer, or none.
    Int32(Option<i32>),
    /// A single precision number, or none.
    Float(Option<f32>),
    /// A boolean, or none.
    Flag(Option<bool>),
    /// The wire number of an enumeration's value.
    Enum(u8),
    /// A text.
    Text(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
}

/// What all operations of one kind have in common.
#[derive(Debug)]
pub struct OperationSpec {
    /// The operation's name.
    pub name: &'static str,
    /// The name of its table on the wire.
    pub table: &'static str,
    /// Its number in the union of operations on the wire.
    pub wire: u8,
    /// The number of its descriptor type in the C API.
    pub descriptor_type: i32,
    /// The number of its operation type in the C API.
    pub operation_type: i32,
    /// The number of the attribute that sets the compute type.
    pub compute_attribute: i32,
    /// The fields, in the order in which the C API names an operation's tensors.
    pub fields: &'static [Field],
    /// Its structure in JSON.
    pub json: JsonForm,
    /// Builds the operation from one value per field, in the order of `fields`.
    pub from_values: fn(Vec<Value>) -> Result<Operation, GraphError>,
    /// Checks the constraints between fields once a caller has built the operation.
    pub check: fn(&Operation) -> Result<(), GraphError>,
}

/// Declares an operation: `field: kind = attribute in the C API @ index on the wire as spelling in JSON`; the
/// spelling only if it is not the plain one. Attributes use their C API names. `json` states where fields are
/// in JSON if not in `inputs`, `outputs` and next to the node's name with null for absent fields.
macro_rules! operation {
    (
        $(#[$meta:meta])*
        $name:ident: $table:literal, descriptor $descriptor:ident, operation $operation:ident, compute $compute:ident
        $(, json $json:ident)? $(, check $check:path)? {
            $($(#[$fmeta:meta])* $field:ident: $kind:ident $(($enumeration:ident))? = $attribute:ident @ $index:literal
                $(as $spelling:tt)?,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: operation!(@type $kind $($enumeration)?),)+
        }

        impl $name {
            /// The operation's description in the C API and the wire format.
            pub const SPEC: $crate::graph::operation::OperationSpec = $crate::graph::operation::OperationSpec {
                name: stringify!($name),
                table: $table,
                wire: Self::WIRE,
                descriptor_type: hipdnn_abi::hipdnnBackendDescriptorType_t::$descriptor as i32,
                operation_type: hipdnn_abi::hipdnnOperationType_ext_t::$operation as i32,
                compute_attribute: hipdnn_abi::hipdnnBackendAttributeName_t::$compute as i32,
                fields: &[$($crate::graph::operation::Field {
                    name: operation!(@name $field),
                    kind: operation!(@kind $kind $($enumeration)?),
                    attribute: hipdnn_abi::hipdnnBackendAttributeName_t::$attribute as i32,
                    index: $index,
                    json: operation!(@spelling $($spelling)?),
                },)+],
                json: operation!(@form $($json)?),
                from_values: |values| {
                    let operation = Self::from_values(values)?;
                    Ok(operation.into())
                },
                check: |operation| match operation {
                    $crate::graph::Operation::$name(operation) => {
                        $($check(operation)?;)?
                        let _ = operation;
                        Ok(())
                    }
                    _ => Ok(()),
                },
            };

            fn from_values(
                values: Vec<$crate::graph::operation::Value>,
            ) -> Result<Self, $crate::graph::GraphError> {
                let mut values = values.into_iter();
                Ok(Self {
                    $($field: {
                        let value = values.next();
                        operation!(@from $kind $($enumeration)?, value).ok_or_else(|| {
                            $crate::graph::GraphError(format!(
                                "{} {} is missing or of the wrong kind",
                                stringify!($name),
                                operation!(@name $field),
                            ))
                        })?
                    },)+
                })
            }

            /// One value for each field, in the order of the declaration.
            pub fn values(&self) -> Vec<$crate::graph::operation::Value> {
                vec![$(operation!(@to $kind, self.$field),)+]
            }

            /// Calls `change` on the uid of each tensor, in the order of the declaration.
            pub fn for_each_tensor(&mut self, mut change: impl FnMut(&mut i64)) {
                $(operation!(@uids $kind, self.$field, change);)+
            }

            /// Calls `see` with the uid of each tensor and whether it is written, in the order of the declaration.
            pub(crate) fn see_tensors(&self, see: &mut impl FnMut(i64, bool)) {
                $(operation!(@see $kind, self.$field, see);)+
            }
        }
    };

    (@see input, $x:expr, $see:ident) => { $see($x, false) };
    (@see output, $x:expr, $see:ident) => { $see($x, true) };
    (@see optional_input, $x:expr, $see:ident) => { $x.iter().for_each(|uid| $see(*uid, false)) };
    (@see optional_output, $x:expr, $see:ident) => { $x.iter().for_each(|uid| $see(*uid, true)) };
    (@see inputs, $x:expr, $see:ident) => { $x.iter().for_each(|uid| $see(*uid, false)) };
    (@see outputs, $x:expr, $see:ident) => { $x.iter().for_each(|uid| $see(*uid, true)) };
    (@see $other:ident, $x:expr, $see:ident) => {};

    (@uids input, $x:expr, $change:ident) => { $change(&mut $x) };
    (@uids output, $x:expr, $change:ident) => { $change(&mut $x) };
    (@uids optional_input, $x:expr, $change:ident) => { $x.iter_mut().for_each(&mut $change) };
    (@uids optional_output, $x:expr, $change:ident) => { $x.iter_mut().for_each(&mut $change) };
    (@uids inputs, $x:expr, $change:ident) => { $x.iter_mut().for_each(&mut $change) };
    (@uids outputs, $x:expr, $change:ident) => { $x.iter_mut().for_each(&mut $change) };
    (@uids $other:ident, $x:expr, $change:ident) => {};

    (@form) => { operation!(@form true, None, true) };
    (@form parameters) => { operation!(@form true, Some("parameters"), true) };
    (@form attributes) => { operation!(@form true, Some("attributes"), true) };
    (@form inputs) => { operation!(@form true, Some("inputs"), true) };
    (@form sparse) => { operation!(@form true, None, false) };
    (@form flat) => { operation!(@form false, None, false) };
    (@form $has_groups:literal, $parameters:expr, $writes_null:literal) => {
        $crate::graph::operation::JsonForm {
            has_groups: $has_groups,
            parameters: $parameters,
            writes_null: $writes_null,
        }
    };

    (@spelling) => { $crate::graph::operation::JsonField::Plain };
    (@spelling number) => { $crate::graph::operation::JsonField::Number };
    (@spelling unless_zero) => { $crate::graph::operation::JsonField::UnlessZero };
    (@spelling $key:literal) => { $crate::graph::operation::JsonField::Key($key) };

    (@name do_) => { "do" };
    (@name in_) => { "in" };
    (@name $field:ident) => { stringify!($field) };

    (@type input) => { i64 };
    (@type output) => { i64 };
    (@type optional_input) => { Option<i64> };
    (@type optional_output) => { Option<i64> };
    (@type inputs) => { Vec<i64> };
    (@type outputs) => { Vec<i64> };
    (@type ints) => { Vec<i64> };
    (@type int32s) => { Vec<i32> };
    (@type int) => { i64 };
    (@type optional_int) => { Option<i64> };
    (@type int32) => { i32 };
    (@type optional_int32) => { Option<i32> };
    (@type float) => { Option<f32> };
    (@type flag) => { bool };
    (@type optional_flag) => { Option<bool> };
    (@type text) => { String };
    (@type bytes) => { Vec<u8> };
    (@type one_of $enumeration:ident) => { $crate::graph::$enumeration };

    (@kind input) => { $crate::graph::operation::FieldKind::Input { required: true } };
    (@kind optional_input) => { $crate::graph::operation::FieldKind::Input { required: false } };
    (@kind output) => { $crate::graph::operation::FieldKind::Output { required: true } };
    (@kind optional_output) => { $crate::graph::operation::FieldKind::Output { required: false } };
    (@kind inputs) => { $crate::graph::operation::FieldKind::Inputs };
    (@kind outputs) => { $crate::graph::operation::FieldKind::Outputs };
    (@kind ints) => { $crate::graph::operation::FieldKind::Ints };
    (@kind int32s) => { $crate::graph::operation::FieldKind::Int32s };
    (@kind int) => { $crate::graph::operation::FieldKind::Int { required: true } };
    (@kind optional_int) => { $crate::graph::operation::FieldKind::Int { required: false } };
    (@kind int32) => { $crate::graph::operation::FieldKind::Int32 { required: true } };
    (@kind optional_int32) => { $crate::graph::operation::FieldKind::Int32 { required: false } };
    (@kind float) => { $crate::graph::operation::FieldKind::Float };
    (@kind flag) => { $crate::graph::operation::FieldKind::Flag { required: true } };
    (@kind optional_flag) => { $crate::graph::operation::FieldKind::Flag { required: false } };
    (@kind text) => { $crate::graph::operation::FieldKind::Text };
    (@kind bytes) => { $crate::graph::operation::FieldKind::Bytes };
    (@kind one_of $enumeration:ident) => {
        $crate::graph::operation::FieldKind::Enum($crate::graph::$enumeration::KIND)
    };

    (@from input, $v:ident) => { match $v { Some($crate::graph::operation::Value::Uid(x)) => x, _ => None } };
    (@from output, $v:ident) => { operation!(@from input, $v) };
    (@from optional_input, $v:ident) => { match $v { Some($crate::graph::operation::Value::Uid(x)) => Some(x), _ => None } };
    (@from optional_output, $v:ident) => { operation!(@from optional_input, $v) };
    (@from inputs, $v:ident) => { match $v { Some($crate::graph::operation::Value::Uids(x)) => Some(x), _ => None } };
    (@from outputs, $v:ident) => { operation!(@from inputs, $v) };
    (@from ints, $v:ident) => { match $v { Some($crate::graph::operation::Value::Ints(x)) => Some(x), _ => None } };
    (@from int32s, $v:ident) => { match $v { Some($crate::graph::operation::Value::Int32s(x)) => Some(x), _ => None } };
    (@from int, $v:ident) => { match $v { Some($crate::graph::operation::Value::Int(x)) => x, _ => None } };
    (@from optional_int, $v:ident) => { match $v { Some($crate::graph::operation::Value::Int(x)) => Some(x), _ => None } };
    (@from int32, $v:ident) => { match $v { Some($crate::graph::operation::Value::Int32(x)) => x, _ => None } };
    (@from optional_int32, $v:ident) => { match $v { Some($crate::graph::operation::Value::Int32(x)) => Some(x), _ => None } };
    (@from float, $v:ident) => { match $v { Some($crate::graph::operation::Value::Float(x)) => Some(x), _ => None } };
    (@from flag, $v:ident) => { match $v { Some($crate::graph::operation::Value::Flag(x)) => x, _ => None } };
    (@from optional_flag, $v:ident) => { match $v { Some($crate::graph::operation::Value::Flag(x)) => Some(x), _ => None } };
    (@from text, $v:ident) => { match $v { Some($crate::graph::operation::Value::Text(x)) => Some(x), _ => None } };
    (@from bytes, $v:ident) => { match $v { Some($crate::graph::operation::Value::Bytes(x)) => Some(x), _ => None } };
    (@from one_of $enumeration:ident, $v:ident) => {
        match $v { Some($crate::graph::operation::Value::Enum(x)) => $crate::graph::$enumeration::from_wire(x), _ => None }
    };

    (@to input, $x:expr) => { $crate::graph::operation::Value::Uid(Some($x)) };
    (@to output, $x:expr) => { $crate::graph::operation::Value::Uid(Some($x)) };
    (@to optional_input, $x:expr) => { $crate::graph::operation::Value::Uid($x) };
    (@to optional_output, $x:expr) => { $crate::graph::operation::Value::Uid($x) };
    (@to inputs, $x:expr) => { $crate::graph::operation::Value::Uids($x.clone()) };
    (@to outputs, $x:expr) => { $crate::graph::operation::Value::Uids($x.clone()) };
    (@to ints, $x:expr) => { $crate::graph::operation::Value::Ints($x.clone()) };
    (@to int32s, $x:expr) => { $crate::graph::operation::Value::Int32s($x.clone()) };
    (@to int, $x:expr) => { $crate::graph::operation::Value::Int(Some($x)) };
    (@to optional_int, $x:expr) => { $crate::graph::operation::Value::Int($x) };
    (@to int32, $x:expr) => { $crate::graph::operation::Value::Int32(Some($x)) };
    (@to optional_int32, $x:expr) => { $crate::graph::operation::Value::Int32($x) };
    (@to float, $x:expr) => { $crate::graph::operation::Value::Float($x) };
    (@to flag, $x:expr) => { $crate::graph::operation::Value::Flag(Some($x)) };
    (@to optional_flag, $x:expr) => { $crate::graph::operation::Value::Flag($x) };
    (@to text, $x:expr) => { $crate::graph::operation::Value::Text($x.clone()) };
    (@to bytes, $x:expr) => { $crate::graph::operation::Value::Bytes($x.clone()) };
    (@to one_of, $x:expr) => { $crate::graph::operation::Value::Enum($x.wire()) };
}

/// Declares the union of operations: `number on the wire, module::Type`.
macro_rules! operations {
    ($($wire:literal $module:ident::$name:ident,)+) => {
        $(mod $module;)+
        $(pub use $module::$name;)+

        $(impl $name {
            const WIRE: u8 = $wire;
        }

        impl From<$name> for Operation {
            fn from(operation: $name) -> Self {
                Self::$name(Box::new(operation))
            }
        })+

        /// What a node computes.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Operation {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name(Box<$name>),)+
        }

        impl Operation {
            /// Every kind of operation, in the order of the numbers on the wire.
            pub const SPECS: &'static [&'static OperationSpec] = &[$(&$name::SPEC,)+];

            /// The description of this kind of operation in the C API and the wire format.
            pub fn spec(&self) -> &'static OperationSpec {
                match self { $(Self::$name(_) => const { &$name::SPEC },)+ }
            }

            /// One value for each field, in the order of the declaration.
            pub fn values(&self) -> Vec<Value> {
                match self { $(Self::$name(operation) => operation.values(),)+ }
            }

            /// Calls `change` on the uid of each tensor, in the order of the declaration.
            pub fn for_each_tensor(&mut self, change: impl FnMut(&mut i64)) {
                match self { $(Self::$name(operation) => operation.for_each_tensor(change),)+ }
            }

            fn see_tensors(&self, see: &mut impl FnMut(i64, bool)) {
                match self { $(Self::$name(operation) => operation.see_tensors(see),)+ }
            }
        }

        impl OperationSpec {
            /// The kind with this number on the wire.
            pub fn from_wire(number: u8) -> Option<&'static Self> {
                match number { $($wire => Some(const { &$name::SPEC }),)+ _ => None }
            }
        }
    };
}

impl Operation {
    /// The uids of the tensors that the operation reads, in the order of the declaration.
    pub fn inputs(&self) -> Vec<i64> {
        self.uids(|is_written| !is_written)
    }

    /// The uids of the tensors that the operation writes, in the order of the declaration.
    pub fn outputs(&self) -> Vec<i64> {
        self.uids(|is_written| is_written)
    }

    /// The uids of all tensors of the operation, in the order of the declaration.
    pub fn tensors(&self) -> Vec<i64> {
        self.uids(|_| true)
    }

    fn uids(&self, wanted: impl Fn(bool) -> bool) -> Vec<i64> {
        let mut uids = Vec::new();
        self.see_tensors(&mut |uid, is_written| {
            if wanted(is_written) {
                uids.push(uid);
            }
        });
        uids
    }
}
