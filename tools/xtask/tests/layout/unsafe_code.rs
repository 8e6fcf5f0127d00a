//! Rules for reviewable unsafe code: blocks that fit a screen, each with its own reason.

use std::collections::BTreeMap;

/// The most lines of an unsafe block between its braces.
const MOST_LINES: usize = 20;

/// Beginnings of comments that leave the reason to another place.
const ELSEWHERE: &[&str] = &[
    "as above",
    "as for ",
    "as in ",
    "as before",
    "as this function",
    "see ",
    "the caller guarantees",
    "the caller promises",
    "the callers promise",
];

/// Words of comments that do not say what makes the block sound.
const BARE: &[&str] = &[
    "vouch",
    "the output is valid",
    "the outputs are valid",
    "the arguments are valid",
    "the pointer is writable",
    "the output was checked above",
    "any number is fine",
];

/// Ends of short comments that only repeat what the call needs.
const STATES: &[&str] = &[
    " alive",
    " are there",
    " exist",
    " exists",
    " has as many bytes",
    " has room",
    " is there",
    " not null",
    " readable",
    " valid",
    " writable",
];

/// The most words of such a comment.
const MOST_WORDS: usize = 6;

/// First words of requirements that do not name what they are about.
const VAGUE: &[&str] = &["it", "none", "nothing", "they"];

/// A source with the texts of strings, characters and comments replaced by spaces, line by line as it was.
pub fn code(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let len = skipped(rest, code.chars().next_back());
        if len == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..len].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[len..];
        }
    }
    code
}

/// The bytes of a comment, string or character at the beginning of a text; 0 if there is something else.
fn skipped(text: &str, before: Option<char>) -> usize {
    let end_of =
        |from: usize, end: &str| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return end_of(2, "*/");
    }
    if let (Some(hashes), false) = (text.strip_prefix('r').and_then(|raw| raw.find('"')), in_word) {
        let opening = &text[1..=hashes];
        if opening.bytes().all(|byte| byte == b'#') {
            return end_of(hashes + 2, &format!("\"{opening}"));
        }
    }
    if text.starts_with('"') {
        return quoted(text, '"');
    }
    // A lifetime has no second quote nearby.
    let is_character =
        text.starts_with('\'') && (text[1..].starts_with('\\') || text.chars().nth(2) == Some('\''));
    if is_character { quoted(text, '\'') } else { 0 }
}

/// The bytes up to the closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The line of each unsafe block with more than [`MOST_LINES`] lines, and how many it has.
fn long_blocks(source: &str) -> Vec<(usize, usize)> {
    let code = code(source);
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    let mut found = Vec::new();
    for (at, word) in code.match_indices("unsafe") {
        let body = code[at + word.len()..].trim_start();
        if !body.starts_with('{') {
            continue;
        }
        let mut depth = 0;
        let start = code.len() - body.len();
        let end = body.char_indices().find(|(_, c)| {
            depth += match c {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            depth == 0
        });
        let lines = end.map_or(0, |(end, _)| line_of(start + end) - line_of(start)).saturating_sub(1);
        if lines > MOST_LINES {
            found.push((line_of(at), lines));
        }
    }
    found
}

/// The comments on safety with their lines.
fn reasons(source: &str) -> Vec<(usize, String)> {
    const BEGIN: &str = "// SAFETY:";
    let mut lines = (1..).zip(source.lines().map(str::trim)).peekable();
    let mut reasons = Vec::new();
    while let Some((number, line)) = lines.next() {
        let Some(reason) = line.strip_prefix(BEGIN) else { continue };
        let mut reason = reason.trim().to_lowercase();
        let goes_on = |line: &str| line.starts_with("// ") && !line.starts_with(BEGIN);
        while let Some((_, more)) = lines.next_if(|(_, line)| goes_on(line)) {
            reason.push_str(&more[2..].to_lowercase());
        }
        reasons.push((number, reason));
    }
    reasons
}

/// The lines of comments on safety that only point elsewhere, or state no reason.
fn reasons_elsewhere(source: &str) -> Vec<usize> {
    let repeats = |reason: &str| {
        let reason = reason.trim_end_matches('.');
        STATES.iter().any(|end| reason.ends_with(end))
            && reason.split_whitespace().count() <= MOST_WORDS
            && !reason.contains([',', ';', ':'])
    };
    let points = |reason: &str| {
        ELSEWHERE.iter().any(|begin| reason.starts_with(begin))
            || BARE.iter().any(|words| reason.contains(words))
            || repeats(reason)
    };
    reasons(source).into_iter().filter(|(_, reason)| points(reason)).map(|(number, _)| number).collect()
}

/// The lines of sections `# Safety` that do not name what they require something of.
pub fn vague(source: &str) -> Vec<String> {
    let mut lines = (1..).zip(source.lines().map(|line| line.trim().trim_start_matches('/').trim()));
    let mut found = Vec::new();
    while let Some((number, line)) = lines.next() {
        let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_lowercase();
        if line == "# Safety" && lines.next().is_some_and(|(_, text)| VAGUE.contains(&&*first(text))) {
            found.push(format!("line {number}"));
        }
    }
    found
}

/// The files whose number of findings differs from the known exceptions, which may only become fewer.
fn differences(found: &BTreeMap<&str, Vec<String>>, known: &[(&str, usize)]) -> Vec<String> {
    let known: BTreeMap<&str, usize> = known.iter().copied().collect();
    let mut differences = Vec::new();
    for (file, places) in found {
        let allowed = known.get(file).copied().unwrap_or(0);
        if places.len() > allowed {
            differences.push(format!("{file}: {}, expected {allowed}", places.join(", ")));
        }
    }
    for (file, allowed) in known {
        let count = found.get(file).map_or(0, Vec::len);
        if count < allowed {
            differences.push(format!(
                "{file}: {count} are left, and the list of exceptions says {allowed}: lower it"
            ));
        }
    }
    differences
}

/// Panics unless the number of findings in each file is the known one.
pub fn expect(
    what: &str,
    sources: &BTreeMap<String, String>,
    known: &[(&str, usize)],
    find: fn(&str) -> Vec<String>,
) {
    let found = sources.iter().map(|(file, text)| (file.as_str(), find(text)));
    let found: BTreeMap<&str, Vec<String>> = found.filter(|(_, places)| !places.is_empty()).collect();
    let differences = differences(&found, known);
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
}

/// Long unsafe blocks as text.
pub fn blocks(source: &str) -> Vec<String> {
    long_blocks(source).into_iter().map(|(line, lines)| format!("line {line} with {lines} lines")).collect()
}

/// Reasons elsewhere as text.
pub fn elsewhere(source: &str) -> Vec<String> {
    reasons_elsewhere(source).into_iter().map(|line| format!("line {line}")).collect()
}

/// The names of unsafe functions without a section `# Safety`. Functions of a trait's implementation have the trait's.
pub fn without_requirements(source: &str) -> Vec<String> {
    let original: Vec<char> = source.chars().collect();
    let code: Vec<char> = code(source).chars().collect();
    let mut found = Vec::new();
    // For each block around: whether it implements a trait, and how many brackets are open before it.
    let mut blocks = vec![(false, 0)];
    // Braces of constant arguments count as brackets.
    let (mut start, mut open, mut constants) = (0, 0, 0);
    let mut before = ' ';
    for (at, c) in code.iter().enumerate() {
        let is_constant = (*c == '{' && matches!(before, '<' | ',')) || (*c == '}' && constants > 0);
        match c {
            '(' | '[' => open += 1,
            ')' | ']' => open -= 1,
            '{' if is_constant || constants > 0 => constants += 1,
            '}' if is_constant => constants -= 1,
            _ => {}
        }
        // A brace on its own line follows a `where`.
        if !c.is_whitespace() || *c == '\n' {
            before = *c;
        }
        // The length of an array is no end.
        if is_constant || constants > 0 || !matches!(c, '{' | '}') && (*c != ';' || open > 0) {
            continue;
        }
        let head: String = code[start..at].iter().collect();
        let of_trait = blocks.last().is_some_and(|(of_trait, _)| *of_trait);
        let is_documented = || original[start..at].iter().collect::<String>().contains("# Safety");
        found.extend(unsafe_function(&head).filter(|_| !of_trait && !is_documented()));
        if *c == '{' {
            blocks.push((implements_trait(&head), open));
            open = 0;
        } else if *c == '}' {
            open = blocks.pop().map_or(0, |(_, open)| open);
        }
        start = at + 1;
    }
    found
}

/// The name of the unsafe function that a piece of code begins.
fn unsafe_function(head: &str) -> Option<String> {
    let words = head.split_whitespace().skip_while(|word| *word != "unsafe");
    let mut words = words.skip(1).skip_while(|word| *word == "extern");
    words.next().filter(|word| *word == "fn")?;
    let is_of_name = |c: &char| c.is_alphanumeric() || *c == '_';
    let name: String = words.next()?.chars().take_while(is_of_name).collect();
    (!name.is_empty()).then_some(name)
}

/// Whether a piece of code begins the implementation of a trait.
fn implements_trait(head: &str) -> bool {
    let has = |is: fn(&str) -> bool| head.split_whitespace().any(is);
    has(|word| word == "for") && has(|word| word == "impl" || word.starts_with("impl<"))
}

/// The functions with more positional arguments than clippy allows.
pub fn crowded(source: &str) -> Vec<String> {
    let lines = (1..).zip(source.lines());
    let crowded =
        lines.filter(|(_, line)| line.trim_start().starts_with("#[") && line.contains("too_many_arguments"));
    crowded.map(|(number, _)| format!("line {number}")).collect()
}

#[test]
fn blocks_are_measured_between_their_braces() {
    let block = |lines: usize| {
        format!(
            "fn f() {{\n    // unsafe {{\n    unsafe {{\n{}    }}\n}}\n",
            "        g('}', \"}\");\n".repeat(lines)
        )
    };
    assert_eq!(long_blocks(&block(MOST_LINES)), []);
    assert_eq!(long_blocks(&block(MOST_LINES + 1)), [(3, MOST_LINES + 1)]);
    assert_eq!(long_blocks(&format!("unsafe fn f<'a>() {{\n{}}}\n", "g();\n".repeat(30))), []);
    assert_eq!(
        code("a(\"}\\\"\", 'b', r#\"{\"#) // {\n/* } */ <'c>"),
        "a(     ,    ,       )     \n        <'c>"
    );
}

#[test]
fn reasons_have_to_stand_where_they_are_needed() {
    let comments = "// SAFETY: as above.\n    // SAFETY: the caller promises it.\n// SAFETY: the row has the element.\n// As above.\n";
    assert_eq!(reasons_elsewhere(comments), [1, 2]);
    let reasons =
        ["the output is valid.", "the function writes only to the local `x`.", "the caller vouches for it."];
    let comments = reasons.map(|reason| format!("// SAFETY: {reason}\n")).concat();
    assert_eq!(reasons_elsewhere(&comments), [1, 3]);
    let states = "// SAFETY: the handle is alive.\n// SAFETY: the handle is\n// alive.\n\
         // SAFETY: `self` owns the handle, which is alive.\n// SAFETY: a null pointer was refused\n// above, others are valid.\n";
    assert_eq!(reasons_elsewhere(states), [1, 2]);
}

#[test]
fn requirements_name_what_they_are_about() {
    let source = "/// # Safety\n/// It is readable.\nunsafe fn f() {}\n\
         \n    /// # Safety\n    /// `from` is readable.\n    unsafe fn g() {}\n// # Safety\n// They are.\n";
    assert_eq!(vague(source), ["line 1", "line 8"]);
}

#[test]
fn unsafe_functions_state_what_they_require() {
    let found = |source: &str| without_requirements(source).join(" ");
    assert_eq!(found("/// Reads.\n#[inline]\npub unsafe fn f(a: [u8; 4]) -> u8 { a[0] }\nfn g() {}"), "f");
    assert_eq!(
        found("trait T {\n    /// # Safety\n    /// No.\n    unsafe fn f();\n    unsafe fn g();\n}"),
        "g"
    );
    assert_eq!(
        found(
            "impl T<{ 2 * N }> for U<V, { M }>\nwhere\n    V: W,\n{\n    unsafe fn f() {}\n}\nunsafe fn g() {}"
        ),
        "g"
    );
    assert_eq!(found("impl<T> T for [U; 4] {\n    unsafe fn f() {}\n}\nunsafe extern \"C\" fn g() {}"), "g");
    assert_eq!(found("impl U {\n    // # Safety\n    unsafe fn f() { g(h(|| { i(); j[0] })) }\n}"), "");
    assert_eq!(
        found("struct S { f: unsafe fn(u8), g: unsafe extern \"C\" fn() }\nmacro!(unsafe fn $f() {})"),
        ""
    );
}

#[test]
fn exceptions_only_become_fewer() {
    let two = vec!["line 1".to_owned(), "line 2".to_owned()];
    let found = BTreeMap::from([("a", two)]);
    assert_eq!(differences(&found, &[("a", 2)]), Vec::<String>::new());
    assert_eq!(differences(&found, &[("a", 1)]), ["a: line 1, line 2, expected 1"]);
    assert_eq!(differences(&found, &[]), ["a: line 1, line 2, expected 0"]);
    let lower = [
        "a: 2 are left, and the list of exceptions says 3: lower it",
        "b: 0 are left, and the list of exceptions says 1: lower it",
    ];
    assert_eq!(differences(&found, &[("a", 3), ("b", 1)]), lower);
}
