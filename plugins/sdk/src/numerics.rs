//! What a step or an engine does to numbers: notes, the types of sums and what their order depends on, and the functions that
//! are approximated.

use std::collections::{BTreeMap, BTreeSet};

pub use hipdnn_abi::hipdnnBackendNumericalNote_t as NumericalNote;
pub use hipdnn_abi::raw::CEnum;

use crate::graph::{DataType, PointwiseMode};
use crate::json_text::{ObjectWriter, list, plain, text};

/// The functions that a pointwise mode consists of, by the names of [`Numerics::function`].
pub fn functions_of(mode: PointwiseMode) -> &'static [&'static str] {
    use PointwiseMode as M;
    match mode {
        M::Exp | M::SigmoidFwd | M::SigmoidBwd | M::SwishFwd | M::SwishBwd | M::SoftplusBwd => &["exp"],
        M::Log => &["log"],
        M::TanhFwd | M::TanhBwd | M::GeluApproxTanhFwd | M::GeluApproxTanhBwd => &["tanh"],
        M::Erf | M::GeluFwd => &["erf"],
        M::GeluBwd => &["erf", "exp"],
        M::EluFwd | M::EluBwd => &["expm1"],
        M::SoftplusFwd => &["exp", "log1p"],
        M::Sin => &["sin"],
        M::Tan => &["tan"],
        _ => &[],
    }
}

/// The notes by the short names that follow.
pub mod note {
    use super::NumericalNote as N;

    /// Matrix instructions multiply.
    pub const TENSOR_CORE: N = N::HIPDNN_NUMERICAL_NOTE_TENSOR_CORE;
    /// Operands are rounded to fewer bits before they are multiplied.
    pub const DOWN_CONVERT_INPUTS: N = N::HIPDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    /// Sums have fewer bits than the compute type.
    pub const REDUCED_PRECISION_REDUCTION: N = N::HIPDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    /// Fourier transforms.
    pub const FFT: N = N::HIPDNN_NUMERICAL_NOTE_FFT;
    /// Another execution or plan may give other bits.
    pub const NONDETERMINISTIC: N = N::HIPDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    /// Winograd's transforms.
    pub const WINOGRAD: N = N::HIPDNN_NUMERICAL_NOTE_WINOGRAD;
    /// Winograd with 4 × 4 inputs.
    pub const WINOGRAD_TILE_4X4: N = N::HIPDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4;
    /// Winograd with 6 × 6 inputs.
    pub const WINOGRAD_TILE_6X6: N = N::HIPDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6;
    /// Winograd with 13 × 13 inputs.
    pub const WINOGRAD_TILE_13X13: N = N::HIPDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    /// Maxima, minima and activations of NaN are NaN.
    pub const STRICT_NAN_PROP: N = N::HIPDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
    /// Sums are divided into parts.
    pub const SPLIT_SUMS: N = N::HIPDNN_NUMERICAL_NOTE_SPLIT_SUMS_EXT;
    /// The bits of an item may depend on the size of its batch.
    pub const BATCH_DEPENDENT: N = N::HIPDNN_NUMERICAL_NOTE_BATCH_DEPENDENT_EXT;
    /// Functions are off by more than one unit in the last place.
    pub const APPROXIMATE_FUNCTIONS: N = N::HIPDNN_NUMERICAL_NOTE_APPROXIMATE_FUNCTIONS_EXT;
    /// Subnormal numbers may count as zero.
    pub const FLUSH_SUBNORMALS: N = N::HIPDNN_NUMERICAL_NOTE_FLUSH_SUBNORMALS_EXT;
    /// Values between fused nodes are not rounded.
    pub const SKIP_ROUNDING: N = N::HIPDNN_NUMERICAL_NOTE_SKIP_ROUNDING_EXT;
}

/// A note's name in texts: that of the C interface without what all begin with, and without `_EXT`.
pub fn name_of(note: NumericalNote) -> &'static str {
    let name = CEnum::name(note).trim_start_matches("HIPDNN_NUMERICAL_NOTE_");
    name.strip_suffix("_EXT").unwrap_or(name)
}

/// What decides in which order terms are added, beside the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderBy {
    /// The shapes and strides of the tensors.
    Shapes,
    /// The number of threads.
    Threads,
    /// The device, or the processor's instruction set.
    Device,
    /// An external library, which does not tell.
    Library,
}

impl OrderBy {
    fn name(self) -> &'static str {
        match self {
            Self::Shapes => "shapes",
            Self::Threads => "threads",
            Self::Device => "device",
            Self::Library => "library",
        }
    }
}

/// How matrix instructions add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixSums {
    /// The products that an instruction adds to a sum at once, at least.
    pub terms: u32,
    /// The significant bits that it keeps of products and sums, at least, and cuts the others; one more where it rounds to the nearest.
    pub bits: u32,
}

/// What a step does to numbers. Without anything: exactly what the graph says, sums in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numerics {
    /// The notes.
    pub notes: BTreeSet<NumericalNote>,
    /// The types that sums are added up in.
    pub accumulators: BTreeSet<&'static str>,
    /// What the order of sums depends on.
    pub order: BTreeSet<OrderBy>,
    /// The most parts that a sum is divided into, if known.
    pub parts: Option<u32>,
    /// How matrix instructions add up, if known.
    pub matrix_sums: Option<MatrixSums>,
    /// Approximated functions with their largest error in units in the last place, if known.
    pub functions: BTreeMap<&'static str, Option<u32>>,
    /// The virtual tensors between fused nodes that are not rounded to their type.
    pub unrounded: BTreeSet<i64>,
}

impl Numerics {
    /// With a note.
    #[must_use]
    pub fn note(mut self, note: NumericalNote) -> Self {
        self.notes.insert(note);
        self
    }

    /// With a note, on a condition.
    #[must_use]
    pub fn note_if(self, condition: bool, note: NumericalNote) -> Self {
        if condition { self.note(note) } else { self }
    }

    /// With sums in a type, whose order depends on these.
    #[must_use]
    pub fn sums(mut self, accumulator: DataType, order: &[OrderBy]) -> Self {
        self.accumulators.insert(accumulator.name());
        self.order.extend(order);
        self
    }

    /// With sums of at most this many parts.
    #[must_use]
    pub fn parts(mut self, parts: u32) -> Self {
        self.parts = self.parts.max(Some(parts));
        self
    }

    /// With matrix instructions that add up in this way, if it is known.
    #[must_use]
    pub fn matrix_sums(mut self, sums: Option<MatrixSums>) -> Self {
        let is_first = !self.notes.contains(&note::TENSOR_CORE);
        self.matrix_sums = match (self.matrix_sums, sums) {
            (Some(one), Some(other)) => {
                Some(MatrixSums { terms: one.terms.min(other.terms), bits: one.bits.min(other.bits) })
            }
            (None, sums) if is_first => sums,
            // Not known is the coarsest.
            _ => None,
        };
        self.note(note::TENSOR_CORE)
    }

    /// With an approximated function and its largest error.
    #[must_use]
    pub fn function(mut self, name: &'static str, ulp: Option<u32>) -> Self {
        let known = self.functions.entry(name).or_insert(ulp);
        // Not known is the largest.
        *known = known.zip(ulp).map(|(one, other)| one.max(other));
        self.note(note::APPROXIMATE_FUNCTIONS)
    }

    /// With a virtual tensor that is not rounded.
    #[must_use]
    pub fn unrounded(mut self, uid: i64) -> Self {
        self.unrounded.insert(uid);
        self.note(note::SKIP_ROUNDING)
    }

    /// Adds those of another step.
    pub fn add(&mut self, other: &Self) {
        if other.notes.contains(&note::TENSOR_CORE) {
            *self = std::mem::take(self).matrix_sums(other.matrix_sums);
        }
        self.notes.extend(&other.notes);
        self.accumulators.extend(&other.accumulators);
        self.order.extend(&other.order);
        self.unrounded.extend(&other.unrounded);
        self.parts = self.parts.max(other.parts);
        for (name, ulp) in &other.functions {
            *self = std::mem::take(self).function(name, *ulp);
        }
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Appends an object with the keys `accumulators`, `functions`, `matrix_sums`, `notes`, `order`, `parts` and `unrounded`; empty
    /// ones are omitted.
    pub(crate) fn write(&self, to: &mut String) {
        let mut object = ObjectWriter::default();
        let texts: [(&str, Vec<&str>); 3] = [
            ("accumulators", self.accumulators.iter().copied().collect()),
            ("notes", self.notes.iter().map(|note| name_of(*note)).collect()),
            ("order", self.order.iter().map(|by| by.name()).collect()),
        ];
        for (key, words) in texts.into_iter().filter(|(_, words)| !words.is_empty()) {
            object.put(key, |to| list(to, words, text));
        }
        if !self.functions.is_empty() {
            object.put("functions", |to| {
                let mut functions = ObjectWriter::default();
                for (name, ulp) in &self.functions {
                    functions.put(*name, |to| match ulp {
                        Some(ulp) => plain(to, ulp),
                        None => to.push_str("null"),
                    });
                }
                functions.write(to);
            });
        }
        if let Some(MatrixSums { terms, bits }) = self.matrix_sums {
            object.put("matrix_sums", |to| {
                let mut sums = ObjectWriter::default();
                sums.plain("bits", bits);
                sums.plain("terms", terms);
                sums.write(to);
            });
        }
        if let Some(parts) = self.parts {
            object.plain("parts", parts);
        }
        if !self.unrounded.is_empty() {
            object.put("unrounded", |to| list(to, &self.unrounded, plain));
        }
        object.write(to);
    }
}

/// A setting of a knob that adds a note, or takes it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteKnob {
    /// The note.
    pub note: NumericalNote,
    /// The knob's id.
    pub knob: &'static str,
    /// Its value.
    pub value: i64,
    /// Whether the note is there with the value; if not, it is there without.
    pub adds: bool,
}

impl NoteKnob {
    /// A setting that adds a note.
    pub const fn adds(note: NumericalNote, knob: &'static str, value: i64) -> Self {
        Self { note, knob, value, adds: true }
    }

    /// A setting that takes a note away.
    pub const fn removes(note: NumericalNote, knob: &'static str, value: i64) -> Self {
        Self { note, knob, value, adds: false }
    }
}

/// What an engine may do to the numbers of a graph with its knobs set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineNumerics {
    /// What it may do.
    pub numerics: Numerics,
    /// The settings of knobs that change it.
    pub knobs: Vec<NoteKnob>,
}

impl EngineNumerics {
    /// The text for the host.
    pub(crate) fn write(&self) -> String {
        let mut object = ObjectWriter::default();
        object.put("numerics", |to| self.numerics.write(to));
        object.put("knobs", |to| {
            list(to, &self.knobs, |to, knob| {
                let mut object = ObjectWriter::default();
                object.text("note", name_of(knob.note));
                object.text("knob", knob.knob);
                object.plain("value", knob.value);
                object.plain("adds", knob.adds);
                object.write(to);
            });
        });
        let mut text = String::new();
        object.write(&mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(numerics: &Numerics) -> String {
        let mut text = String::new();
        numerics.write(&mut text);
        text
    }

    #[test]
    fn what_is_said_becomes_json_and_the_rest_no_key() {
        assert_eq!(written(&Numerics::default()), "{}");
        let all = Numerics::default()
            .note(note::WINOGRAD)
            .note_if(true, note::WINOGRAD_TILE_6X6)
            .note_if(false, note::FFT)
            .sums(DataType::Float, &[OrderBy::Threads, OrderBy::Shapes])
            .function("exp", Some(2))
            .function("tanh", None)
            .parts(4)
            .matrix_sums(Some(MatrixSums { terms: 32, bits: 14 }))
            .unrounded(7);
        let expected = r#"{"accumulators":["float"],"functions":{"exp":2,"tanh":null},"matrix_sums":{"bits":14,"terms":32},"notes":["TENSOR_CORE","WINOGRAD","WINOGRAD_TILE_6x6","APPROXIMATE_FUNCTIONS","SKIP_ROUNDING"],"order":["shapes","threads"],"parts":4,"unrounded":[7]}"#;
        assert_eq!(written(&all), expected);
    }

    #[test]
    fn steps_add_up_and_the_largest_error_counts() {
        let mut all = Numerics::default().function("exp", Some(2)).function("exp", Some(3));
        all.add(&Numerics::default().function("exp", Some(1)).function("erf", Some(8)));
        assert_eq!(all.functions, [("erf", Some(8)), ("exp", Some(3))].into());
        all.add(&Numerics::default().function("exp", None).note(note::TENSOR_CORE));
        assert_eq!(all.functions["exp"], None);
        let notes: Vec<_> = all.notes.iter().map(|note| name_of(*note)).collect();
        assert_eq!(notes, ["TENSOR_CORE", "APPROXIMATE_FUNCTIONS"]);
        assert!(!all.is_empty() && Numerics::default().is_empty());
    }

    #[test]
    fn the_most_parts_and_the_coarsest_instruction_count() {
        let sums = |terms, bits| Some(MatrixSums { terms, bits });
        let mut all = Numerics::default().parts(2).matrix_sums(sums(16, 24));
        all.add(&Numerics::default().parts(8).matrix_sums(sums(32, 14)));
        all.add(&Numerics::default().parts(4));
        assert_eq!((all.parts, all.matrix_sums), (Some(8), sums(16, 14)));
        assert_eq!(all.notes, [note::TENSOR_CORE].into());
        all.add(&Numerics::default());
        assert_eq!((all.parts, all.matrix_sums), (Some(8), sums(16, 14)));
        // Once an instruction is not known, the plan's are not.
        all.add(&Numerics::default().matrix_sums(None));
        all.add(&Numerics::default().matrix_sums(sums(8, 24)));
        assert_eq!(all.matrix_sums, None);
    }

    #[test]
    fn an_engine_names_the_knobs_that_matter() {
        let engine = EngineNumerics {
            numerics: Numerics::default().note(note::NONDETERMINISTIC),
            knobs: vec![
                NoteKnob::removes(note::NONDETERMINISTIC, "deterministic", 1),
                NoteKnob::adds(note::DOWN_CONVERT_INPUTS, "tf32", 1),
            ],
        };
        let expected = r#"{"knobs":[{"adds":false,"knob":"deterministic","note":"NONDETERMINISTIC","value":1},{"adds":true,"knob":"tf32","note":"DOWN_CONVERT_INPUTS","value":1}],"numerics":{"notes":["NONDETERMINISTIC"]}}"#;
        assert_eq!(engine.write(), expected);
    }
}
