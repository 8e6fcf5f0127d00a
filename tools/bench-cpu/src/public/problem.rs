//! Parses a line of the problem list: a kind, then `key=value` words. Numbers in lists are separated by `x`.

use std::collections::BTreeMap;

/// A line of the list.
pub struct Problem {
    /// What is computed.
    pub kind: String,
    /// The whole line.
    pub text: String,
    values: BTreeMap<String, String>,
}

impl Problem {
    /// Parses a line; none for an empty line or a comment.
    ///
    /// # Errors
    /// A word is not of the form `key=value`.
    pub fn parse(line: &str) -> Result<Option<Self>, String> {
        let text = line.split('#').next().unwrap_or_default().trim();
        let mut words = text.split_whitespace();
        let Some(kind) = words.next() else { return Ok(None) };
        let value = |word: &str| {
            let (key, value) =
                word.split_once('=').ok_or_else(|| format!("{text}: {word}, expected key=value"))?;
            Ok::<_, String>((key.to_owned(), value.to_owned()))
        };
        let values = words.map(value).collect::<Result<_, _>>()?;
        Ok(Some(Self { kind: kind.to_owned(), text: text.to_owned(), values }))
    }

    /// A word, or an error that names its key.
    pub fn word(&self, key: &str) -> Result<&str, String> {
        self.values.get(key).map(String::as_str).ok_or_else(|| format!("{}: lacks {key}", self.text))
    }

    /// Numbers.
    pub fn dims(&self, key: &str) -> Result<Vec<i64>, String> {
        let number = |part: &str| {
            part.parse().map_err(|_| format!("{}: {key} has {part}, expected numbers", self.text))
        };
        self.word(key)?.split('x').map(number).collect()
    }

    /// One number per spatial dimension; all `fill` if the key is missing.
    pub fn spatial(&self, key: &str, count: usize, fill: i64) -> Result<Vec<i64>, String> {
        if !self.values.contains_key(key) {
            return Ok(vec![fill; count]);
        }
        let dims = self.dims(key)?;
        if dims.len() == count {
            Ok(dims)
        } else {
            Err(format!("{}: {key}, expected {count} numbers", self.text))
        }
    }

    /// A number, `fill` if the key is missing.
    pub fn number(&self, key: &str, fill: i64) -> Result<i64, String> {
        Ok(self.spatial(key, 1, fill)?.first().copied().unwrap_or(fill))
    }

    /// The layout of images.
    pub fn layout(&self) -> Layout {
        match self.values.get("layout").map(String::as_str) {
            Some("last") => Layout::Last,
            _ => Layout::First,
        }
    }
}

/// The position of the channels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Before the spatial dimensions.
    First,
    /// Behind them.
    Last,
}

impl Layout {
    /// The dimensions in the order of memory.
    pub fn in_memory(self, dims: &[i64]) -> Vec<i64> {
        self.order(dims.len()).into_iter().filter_map(|axis| dims.get(axis).copied()).collect()
    }

    /// For each dimension in memory, its index among batch, channels and space.
    fn order(self, rank: usize) -> Vec<usize> {
        match self {
            Self::First => (0..rank).collect(),
            Self::Last => std::iter::once(0).chain(2..rank).chain([1]).collect(),
        }
    }

    /// For batch, channels and space, the index of the dimension in memory.
    pub fn axes_in_memory(self, rank: usize) -> Vec<usize> {
        match self {
            Self::First => (0..rank).collect(),
            Self::Last => [0, rank - 1].into_iter().chain(1..rank - 1).collect(),
        }
    }

    /// oneDNN's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_kind_and_words() {
        let problem =
            Problem::parse("pool alg=max x=2x3x8x9 window=3x2 layout=last # source").unwrap().unwrap();
        assert_eq!((problem.kind.as_str(), problem.word("alg").unwrap()), ("pool", "max"));
        assert_eq!(problem.dims("x").unwrap(), [2, 3, 8, 9]);
        assert_eq!(problem.spatial("stride", 2, 1).unwrap(), [1, 1]);
        assert!(problem.spatial("window", 3, 1).unwrap_err().contains("expected 3 numbers"));
        assert!(problem.dims("y").unwrap_err().ends_with("lacks y"));
        assert!(Problem::parse("  # nothing").unwrap().is_none());
        assert!(Problem::parse("pool max").err().unwrap().contains("expected key=value"));
    }

    #[test]
    fn channels_last_are_last_in_memory() {
        assert_eq!(Layout::Last.in_memory(&[2, 3, 8, 9]), [2, 8, 9, 3]);
        assert_eq!(Layout::Last.axes_in_memory(4), [0, 3, 1, 2]);
        assert_eq!(Layout::First.in_memory(&[2, 3, 8, 9]), [2, 3, 8, 9]);
    }
}
