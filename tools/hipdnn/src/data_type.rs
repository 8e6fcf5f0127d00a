//! The types of tensor elements, by their names in JSON graphs.

use std::fmt;

macro_rules! data_types {
    ($($variant:ident $name:literal $bits:literal $about:literal,)+) => {
        /// The type of a tensor's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DataType {
            $(#[doc = $about] $variant,)+
        }

        impl DataType {
            /// Every type.
            #[cfg(test)]
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The type with a name, in any case.
            pub fn named(name: &str) -> Option<Self> {
                $(if name.eq_ignore_ascii_case($name) { return Some(Self::$variant); })+
                None
            }

            /// The name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The bits of an element; 0 if the type is not set.
            pub fn bits(self) -> usize {
                match self { $(Self::$variant => $bits,)+ }
            }
        }
    };
}

data_types! {
    Unset "unset" 0 "Not said.",
    Float "float" 32 "Single precision.",
    Half "half" 16 "Half precision.",
    Bfloat16 "bfloat16" 16 "The upper half of single precision.",
    Double "double" 64 "Double precision.",
    Uint8 "uint8" 8 "A byte.",
    Int32 "int32" 32 "A signed number.",
    Int8 "int8" 8 "A signed byte.",
    Fp8E4m3 "fp8_e4m3" 8 "4 exponent and 3 mantissa bits, without infinity.",
    Fp8E5m2 "fp8_e5m2" 8 "5 exponent and 2 mantissa bits.",
    Fp8E8m0 "fp8_e8m0" 8 "A power of two.",
    Fp4E2m1 "fp4_e2m1" 4 "2 exponent bits and 1 mantissa bit.",
    Int4 "int4" 4 "A signed number from -8 to 7.",
    Fp6E2m3 "fp6_e2m3" 6 "2 exponent and 3 mantissa bits.",
    Fp6E3m2 "fp6_e3m2" 6 "3 exponent and 2 mantissa bits.",
    Int64 "int64" 64 "A long signed number.",
    Boolean "boolean" 8 "One byte, 0 or 1.",
    Fp8E4m3Fnuz "fp8_e4m3_fnuz" 8 "As fp8_e4m3, with one zero and one NaN.",
    Fp8E5m2Fnuz "fp8_e5m2_fnuz" 8 "As fp8_e5m2, with one zero, one NaN and no infinity.",
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DataType {
    /// The minimum and maximum of an integer type.
    pub fn whole_range(self) -> (f64, f64) {
        let both = |bits: i32| (-f64::from(bits - 1).exp2(), f64::from(bits - 1).exp2() - 1.0);
        match self {
            Self::Boolean => (0.0, 1.0),
            Self::Uint8 => (0.0, 255.0),
            Self::Int4 => both(4),
            Self::Int8 => both(8),
            Self::Int32 => both(32),
            _ => both(64),
        }
    }

    /// Whether it is an integer or boolean type.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Uint8 | Self::Int32 | Self::Int8 | Self::Int4 | Self::Int64 | Self::Boolean)
    }
}

#[cfg(test)]
mod tests {
    use super::DataType;

    #[test]
    fn names_are_read_in_any_case() {
        for data_type in DataType::ALL {
            assert_eq!(DataType::named(&data_type.name().to_uppercase()), Some(*data_type));
        }
        assert_eq!(DataType::named("float128"), None);
    }
}
