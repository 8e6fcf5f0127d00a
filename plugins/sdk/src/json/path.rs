//! Paths of values in a JSON text, for messages: `nodes[2].inputs.x_tensor_uid`.

use std::cell::RefCell;

use crate::graph::GraphError;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A key of an object.
    Key(String),
    /// An index of a list.
    Index(usize),
}

impl Segment {
    /// The path with this step appended. Long keys are truncated.
    pub fn after(&self, mut path: String) -> String {
        match self {
            Self::Index(index) => path.push_str(&format!("[{index}]")),
            Self::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.extend(key.chars().take(60));
            }
        }
        path
    }
}

/// A place in the text, with its parents.
#[derive(Clone, Copy)]
pub struct At<'a> {
    above: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root(&'a RefCell<Vec<String>>),
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    /// The whole text, and where remarks are collected.
    pub fn root(remarks: &'a RefCell<Vec<String>>) -> Self {
        Self { above: None, step: Step::Root(remarks) }
    }

    /// The place of a key's value.
    pub fn key(&'a self, key: &'a str) -> Self {
        Self { above: Some(self), step: Step::Key(key) }
    }

    /// The place of an element of a list.
    pub fn index(&'a self, index: usize) -> Self {
        Self { above: Some(self), step: Step::Index(index) }
    }

    fn path(&self) -> String {
        let above = self.above.map(Self::path).unwrap_or_default();
        match self.step {
            Step::Root(_) => above,
            Step::Key(key) => Segment::Key(key.to_owned()).after(above),
            Step::Index(index) => Segment::Index(index).after(above),
        }
    }

    /// Adds a remark: something at this place is allowed but may not be what the writer meant.
    pub fn remark(&self, text: &str) {
        self.remark_with(text, "");
    }

    /// The same, followed by an explanation that only the first remark with it has.
    pub fn remark_with(&self, text: &str, explanation: &str) {
        let mut top = self;
        while let Some(above) = top.above {
            top = above;
        }
        if let Step::Root(remarks) = top.step {
            let is_known = remarks.borrow().iter().any(|remark| remark.ends_with(explanation));
            let explanation = if is_known { "" } else { explanation };
            let remark = self.error(&format!("{text}{explanation}")).0;
            remarks.borrow_mut().push(remark);
        }
    }

    /// An error at this place.
    pub fn error(&self, text: &str) -> GraphError {
        let path = self.path();
        GraphError(if path.is_empty() { format!("the graph {text}") } else { format!("{path}: {text}") })
    }
}
