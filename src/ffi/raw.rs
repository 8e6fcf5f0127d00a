//! The enums of the C interface as the integers that C passes.
//!
//! A C enum may hold any value, and a Rust enum with an unknown value is undefined behaviour, so entry points take
//! integers. The names equal the C names, so that the signatures read like the header.

use std::ffi::c_int;

/// An enum of the C interface: its number, its name, and the conversion from any number.
pub trait CEnum: Copy + Sized + 'static {
    /// The enumerator with this number, if there is one.
    fn from_raw(number: c_int) -> Option<Self>;

    /// The number, as C passes it.
    fn raw(self) -> c_int;

    /// The C name.
    fn name(self) -> &'static str;
}

macro_rules! c_enums {
    ($($name:ident,)*) => {$(
        #[doc = concat!("A [`super::", stringify!($name), "`] as C passes it.")]
        pub type $name = c_int;

        impl CEnum for super::$name {
            fn from_raw(number: c_int) -> Option<Self> {
                usize::try_from(number).ok().and_then(Self::from_repr)
            }

            fn raw(self) -> c_int {
                self as c_int
            }

            fn name(self) -> &'static str {
                self.into()
            }
        }
    )*};
}

c_enums! {
    hipdnnAttentionImplementation_t,
    hipdnnAutotuneCacheWriteOutcome_ext_t,
    hipdnnBackendAttributeName_t,
    hipdnnBackendAttributeType_t,
    hipdnnBackendBehaviorNote_t,
    hipdnnBackendDescriptorType_t,
    hipdnnBackendHeurMode_t,
    hipdnnBackendNumericalNote_t,
    hipdnnConvolutionMode_t,
    hipdnnDataType_t,
    hipdnnDiagonalAlignment_t,
    hipdnnLogCallbackMode_t,
    hipdnnMoeGroupedMatmulMode_t,
    hipdnnNormFwdPhase_t,
    hipdnnOperationType_ext_t,
    hipdnnPaddingMode_t,
    hipdnnPluginLoadingMode_ext_t,
    hipdnnPluginUnloadingMode_ext_t,
    hipdnnPointwiseMode_t,
    hipdnnReduceTensorOp_t,
    hipdnnResampleMode_t,
    hipdnnSerializedContentFlags_t,
    hipdnnSeverity_t,
    hipdnnStatus_t,
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;
    use crate::{hipdnnBackendAttributeName_t, hipdnnStatus_t};

    #[test]
    fn every_attribute_comes_back_from_its_number() {
        for attribute in hipdnnBackendAttributeName_t::VARIANTS {
            assert_eq!(hipdnnBackendAttributeName_t::from_raw(attribute.raw()), Some(*attribute));
        }
    }

    #[test]
    fn numbers_without_a_name_are_refused() {
        for number in [-1, 16, c_int::MIN, c_int::MAX] {
            assert_eq!(hipdnnStatus_t::from_raw(number), None, "{number}");
        }
    }

    #[test]
    fn a_name_is_the_c_name() {
        assert_eq!(hipdnnStatus_t::HIPDNN_STATUS_BAD_PARAM.name(), "HIPDNN_STATUS_BAD_PARAM");
    }
}
