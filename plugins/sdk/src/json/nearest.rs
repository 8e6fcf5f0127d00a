//! Suggestions for unknown words.

/// Maximum number of suggestions.
const MOST: usize = 3;
/// Longer words are not compared.
const LONGEST: usize = 64;

/// Type names of other libraries and the name used here: by its letters alone, float16 would be closest to
/// bfloat16.
const SPELLINGS: [(&str, &str); 10] = [
    ("float16", "half"),
    ("fp16", "half"),
    ("f16", "half"),
    ("float32", "float"),
    ("fp32", "float"),
    ("f32", "float"),
    ("float64", "double"),
    ("fp64", "double"),
    ("bf16", "bfloat16"),
    ("bool", "boolean"),
];

/// The known words with the smallest edit distance to this one, if it is small: `"relu_fwd" or "elu_fwd"`.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let letters: Vec<char> = word.to_lowercase().chars().take(LONGEST + 1).collect();
    if letters.len() > LONGEST {
        return None;
    }
    let known: Vec<&str> = known.collect();
    let meant = SPELLINGS.iter().find(|(other, _)| other.eq_ignore_ascii_case(word)).map(|(_, meant)| *meant);
    if let Some(meant) = meant.filter(|meant| known.contains(meant)) {
        return Some(format!("{meant:?}"));
    }
    let far = |other: &str| distance(&letters, &other.to_lowercase().chars().collect::<Vec<_>>());
    let mut found: Vec<(usize, &str)> = known.into_iter().map(|other| (far(other), other)).collect();
    found.sort_unstable();
    found.dedup();
    let least = found.first()?.0;
    let near = found.iter().take_while(|(far, _)| *far == least && least <= 1 + letters.len() / 4).take(MOST);
    let words: Vec<String> = near.map(|(_, word)| format!("{word:?}")).collect();
    (!words.is_empty()).then(|| words.join(" or "))
}

/// The same as a suffix of a message.
pub fn suggestion<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |words| format!("; did you mean {words}?"))
}

/// Edit distance: the number of insertions, deletions, changes and transpositions of neighbouring letters.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let changed = at(&row, j) + usize::from(a != b);
            let mut best = changed.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            if i > 0 && j > 0 && one.get(i - 1) == Some(b) && other.get(j - 1) == Some(a) {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    at(&row, other.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_named_and_far_ones_are_not() {
        let known = ["float", "half", "double", "relu_fwd", "relu_bwd", "ConvolutionFwdAttributes"];
        let suggest = |word: &str| suggestion(word, known.iter().copied());
        assert_eq!(suggest("flaot"), "; did you mean \"float\"?");
        assert_eq!(suggest("FLOAT "), "; did you mean \"float\"?");
        let types = ["half", "float", "double", "bfloat16", "boolean"];
        for (word, meant) in
            [("float16", "half"), ("FP16", "half"), ("float64", "double"), ("bool", "boolean")]
        {
            assert_eq!(suggestion(word, types.into_iter()), format!("; did you mean {meant:?}?"));
        }
        // Only if that word is known.
        assert_eq!(suggestion("float16", ["bfloat16"].into_iter()), "; did you mean \"bfloat16\"?");
        assert_eq!(suggest("relu_fw"), "; did you mean \"relu_fwd\"?");
        assert_eq!(suggest("relu_wd"), "; did you mean \"relu_bwd\" or \"relu_fwd\"?");
        assert_eq!(suggest("ConvolutionFwdAtributes"), "; did you mean \"ConvolutionFwdAttributes\"?");
        for word in ["", "integer", "x", &"float".repeat(100)] {
            assert_eq!(suggest(word), "", "{word}");
        }
        for (one, other, expected) in
            [("abc", "abc", 0), ("abc", "acb", 1), ("", "ab", 2), ("kitten", "sitting", 3)]
        {
            let letters = |word: &str| word.chars().collect::<Vec<_>>();
            assert_eq!(distance(&letters(one), &letters(other)), expected, "{one} {other}");
        }
    }
}
