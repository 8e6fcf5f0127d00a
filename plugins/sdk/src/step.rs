//! Describes a plan for users: the steps of an execution, each with what computes it.

use crate::json_text::{ObjectWriter, list, plain, text};
use crate::numerics::Numerics;

/// A step of an execution. Default values are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The indices of the nodes that it computes.
    pub nodes: Vec<usize>,
    /// What they compute together, such as `ConvolutionForward + RELU_FWD`.
    pub operation: String,
    /// The name of the algorithm or of the library that is called.
    pub algorithm: String,
    /// The micro-kernel, the library's function or the generated kernel.
    pub kernel: String,
    /// The kernel's instruction set.
    pub isa: String,
    /// Maximum number of concurrent threads.
    pub threads: usize,
    /// Minimum bytes moved: each tensor that it reads or writes counted once.
    pub bytes: u64,
    /// Floating-point operations; a multiply-add counts as two.
    pub flops: u64,
    /// The algorithms that did not apply or were estimated slower, each with the reason.
    pub passed_over: Vec<String>,
    /// Why no fast kernel applied, if a reference loop computes it.
    pub reference: Option<String>,
    /// What it does to numbers.
    pub numerics: Numerics,
}

impl Step {
    fn write(&self, to: &mut String) {
        let mut object = ObjectWriter::default();
        let texts = [
            ("operation", self.operation.as_str()),
            ("algorithm", &self.algorithm),
            ("kernel", &self.kernel),
            ("isa", &self.isa),
            ("reference", self.reference.as_deref().unwrap_or_default()),
        ];
        texts.iter().filter(|(_, text)| !text.is_empty()).for_each(|(key, text)| object.text(key, text));
        let numbers = [("threads", self.threads as u64), ("bytes", self.bytes), ("flops", self.flops)];
        numbers.iter().filter(|(_, it)| *it > 0).for_each(|(key, number)| object.plain(key, number));
        object.put("nodes", |to| list(to, &self.nodes, plain));
        if !self.passed_over.is_empty() {
            object.put("passed_over", |to| list(to, &self.passed_over, |to, reason| text(to, reason)));
        }
        if !self.numerics.is_empty() {
            object.put("numerics", |to| self.numerics.write(to));
        }
        object.write(to);
    }
}

/// The text for the host: an object with a list of steps.
pub(crate) fn write(steps: &[Step]) -> String {
    let mut object = ObjectWriter::default();
    object.put("steps", |to| list(to, steps, |to, step| step.write(to)));
    let mut text = String::new();
    object.write(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::note;

    #[test]
    fn default_values_have_no_key() {
        let told = Step {
            nodes: vec![0, 2],
            operation: "Matmul".into(),
            algorithm: "reference".into(),
            flops: 128,
            passed_over: vec!["one: slow".into()],
            reference: Some("a \"stride\" is 3".into()),
            numerics: Numerics::default().note(note::TENSOR_CORE),
            ..Step::default()
        };
        let expected = r#"{"steps":[{"algorithm":"reference","flops":128,"nodes":[0,2],"numerics":{"notes":["TENSOR_CORE"]},"operation":"Matmul","passed_over":["one: slow"],"reference":"a \"stride\" is 3"},{"nodes":[]}]}"#;
        assert_eq!(write(&[told, Step::default()]), expected);
        assert_eq!(write(&[]), r#"{"steps":[]}"#);
    }
}
