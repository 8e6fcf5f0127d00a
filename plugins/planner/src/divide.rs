//! Divides a graph into parts that a library computes in one call each.

use std::ops::Range;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::ffi::HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;

/// A node that is refused alone is tried with up to this many nodes; also the length of the first part tried.
const COMPANY: usize = 4;

/// Up to this many remaining nodes are tried together. Libraries take long to refuse many nodes, and rarely
/// accept them.
const TOGETHER: usize = 32;

/// Divides this many nodes into consecutive parts, and returns the results of `accept`. A single part of all
/// nodes is tried first.
///
/// Each part is first tried with the length of the previous one. While it is accepted it is doubled, else
/// halved; then bisection extends it as far as possible. So the number of attempts per part is logarithmic in
/// the remaining nodes, and no range of nodes is tried twice.
///
/// # Errors
/// Those of `accept`. A refusal (not applicable) is returned only if some node is in no accepted part.
pub fn divide<T>(
    count: usize,
    mut accept: impl FnMut(Range<usize>) -> Result<T, PluginError>,
) -> Result<Vec<T>, PluginError> {
    let mut parts = Vec::new();
    let (mut start, mut guess) = (0, COMPANY);
    while start < count {
        let own = |length| accept(start..start + length);
        let (length, part) = leading(count - start, guess, start == 0, own)?;
        parts.push(part);
        start += length;
        guess = length;
    }
    Ok(parts)
}

/// A long accepted prefix of this many nodes, with its length.
fn leading<T>(
    count: usize,
    guess: usize,
    is_whole: bool,
    mut accept: impl FnMut(usize) -> Result<T, PluginError>,
) -> Result<(usize, T), PluginError> {
    let mut ask = |length| match accept(length) {
        Ok(part) => Ok(Ok(part)),
        Err(error) if error.status() == HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE => Ok(Err(error)),
        Err(error) => Err(error),
    };
    // Refused lengths; the last one is above any accepted length.
    let mut refused = vec![count + 1];
    let mut length = if is_whole || count <= TOGETHER { count } else { guess.min(count) };
    let mut part = loop {
        let refusal = match ask(length)? {
            Ok(part) => break part,
            Err(refusal) => refusal,
        };
        refused.push(length);
        length = if length == count { guess.min(count - 1) } else { length / 2 };
        if length == 0 {
            // The library may need the next nodes: for instance if the result is a boolean that must stay in
            // registers.
            for more in (2..=COMPANY.min(count)).filter(|length| !refused.contains(length)) {
                if let Ok(part) = ask(more)? {
                    return Ok((more, part));
                }
            }
            return Err(refusal);
        }
    };
    let mut above = refused.last().copied().unwrap_or(count + 1);
    while above - length > 1 {
        let next = if 2 * length < above { 2 * length } else { length + (above - length) / 2 };
        match ask(next)? {
            Ok(longer) => (length, part) = (next, longer),
            Err(_) => above = next,
        }
    }
    Ok((length, part))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Divides the nodes of a graph, and asserts that no range is tried twice.
    fn divided(
        count: usize,
        is_accepted: impl Fn(&Range<usize>) -> bool,
    ) -> (Result<Vec<Range<usize>>, String>, usize) {
        let mut asked = HashSet::new();
        let parts = divide(count, |range| {
            assert!(!range.is_empty() && range.end <= count && asked.insert(range.clone()), "{range:?}");
            let refusal = || PluginError::not_applicable(format!("node {}", range.start));
            if is_accepted(&range) { Ok(range.clone()) } else { Err(refusal()) }
        });
        (parts.map_err(|error| error.message().to_owned()), asked.len())
    }

    fn check(count: usize, is_accepted: impl Fn(&Range<usize>) -> bool) -> Result<Vec<Range<usize>>, String> {
        let (parts, attempts) = divided(count, &is_accepted);
        let most = count * (3 * count.ilog2() as usize + 2 + COMPANY);
        assert!(attempts <= most, "{attempts} attempts for {count} nodes, expected at most {most}");
        if let Ok(parts) = &parts {
            assert!(parts.iter().all(&is_accepted));
            let ends: Vec<usize> = std::iter::once(0).chain(parts.iter().map(|part| part.end)).collect();
            assert!(parts.iter().zip(&ends).all(|(part, end)| part.start == *end), "{parts:?}");
            assert_eq!(ends.last(), Some(&count));
        }
        parts
    }

    #[test]
    fn an_accepted_whole_is_tried_once() {
        for (count, asked) in [(9, 1), (1, 1), (0, 0)] {
            let (parts, attempts) = divided(count, |_| true);
            assert_eq!((parts.unwrap().iter().map(Range::len).sum(), attempts), (count, asked));
        }
    }

    #[test]
    fn a_part_ends_where_the_next_node_is_refused_with_it() {
        // Convolution | batchnorm | relu, also with a fused tail.
        assert_eq!(check(3, |range| range.len() == 1), Ok(vec![0..1, 1..2, 2..3]));
        assert_eq!(check(3, |range| !range.contains(&0) || range.len() == 1), Ok(vec![0..1, 1..3]));
        let whole = |range: &Range<usize>| range.end <= 7 || range.start >= 7;
        assert_eq!(check(10, whole), Ok(vec![0..7, 7..10]));
    }

    #[test]
    fn many_nodes_are_tried_together_only_once() {
        // 200 blocks of three nodes each.
        let block = |range: &Range<usize>| range.start / 3 == (range.end - 1) / 3;
        let asked = std::cell::RefCell::new(Vec::new());
        let parts = divide(600, |range| {
            asked.borrow_mut().push(range.len());
            if block(&range) { Ok(range) } else { Err(PluginError::not_applicable("")) }
        });
        assert_eq!(parts.unwrap().len(), 200);
        let asked = asked.into_inner();
        assert_eq!(asked.iter().filter(|length| **length > TOGETHER).count(), 1);
        assert!(asked.len() < 4 * 200, "{} attempts", asked.len());
    }

    #[test]
    fn a_node_that_needs_the_next_one_gets_it() {
        let pairs = |range: &Range<usize>| range.len() == 2 && range.start.is_multiple_of(2);
        assert_eq!(check(6, pairs), Ok(vec![0..2, 2..4, 4..6]));
    }

    #[test]
    fn a_node_in_no_part_is_named() {
        let (refused, _) = divided(12, |range| !range.contains(&5));
        assert_eq!(refused, Err("node 5".to_owned()));
    }

    #[test]
    fn a_failure_ends_the_search() {
        let mut asked = 0;
        let failed = divide(8, |_| {
            asked += 1;
            Err::<(), _>(PluginError::internal("the device is gone"))
        });
        assert_eq!((failed.unwrap_err().message(), asked), ("the device is gone", 1));
    }

    #[test]
    fn parts_of_random_oracles_are_consecutive_accepted_and_found_with_few_attempts() {
        let mut seed = 7_u32;
        let mut random = move || {
            // Numerical Recipes' linear congruential generator.
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as usize
        };
        let mut divided = 0;
        for _ in 0..2000 {
            let count = 1 + random() % 40;
            let accepted: HashSet<Range<usize>> = (0..count)
                .flat_map(|start| (start + 1..=count).map(move |end| start..end))
                .filter(|range| random() % 100 < if range.len() == 1 { 97 } else { 30 })
                .collect();
            let parts = check(count, |range| accepted.contains(range));
            divided += usize::from(parts.is_ok_and(|parts| parts.len() > 1));
        }
        assert!(divided > 500, "{divided} of 2000 were divided");
    }
}
