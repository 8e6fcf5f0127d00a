//! Einsum: sums of products over letters, of operands two by two.

use hipdnn::graph::ReductionMode;

use super::Cost::Heavy;
use super::matmul::product;
use super::{Operator, floats, onnx, same_type};
use crate::lowering::{Lowered, Lowering, Reason, View, elements, refuse};
use crate::model::Node;

pub const OPERATORS: &[Operator] = &[onnx("Einsum", (12, 28), Heavy, einsum)];

/// A tensor with a letter per dimension.
#[derive(Clone, Debug)]
struct Lettered {
    view: View,
    letters: Vec<char>,
}

impl Lettered {
    fn dim(&self, letter: char) -> Option<i64> {
        let at = self.letters.iter().position(|of| *of == letter)?;
        self.view.dims.get(at).copied()
    }

    /// The dimensions in the order of letters, all of which it has.
    fn ordered(&self, letters: &[char]) -> Lowered<View> {
        let order = letters.iter().map(|letter| self.letters.iter().position(|of| of == letter));
        let order = order.collect::<Option<Vec<_>>>().filter(|order| order.len() == self.letters.len());
        let view = order.and_then(|order| self.view.permuted(&order));
        view.ok_or_else(|| Reason(format!("letters {letters:?} of {:?}", self.letters)))
    }

    /// Summed over the letters that are dropped.
    fn summed(self, lowering: &mut Lowering<'_>, is_kept: impl Fn(char) -> bool) -> Lowered<Self> {
        let away: Vec<usize> =
            self.letters.iter().enumerate().filter(|(_, of)| !is_kept(**of)).map(|(at, _)| at).collect();
        if away.is_empty() {
            return Ok(self);
        }
        let sum = lowering.reduce(ReductionMode::Add, &self.view, &away)?;
        let letters: Vec<char> = self.letters.iter().copied().filter(|of| is_kept(*of)).collect();
        let dims: Vec<i64> = letters.iter().filter_map(|letter| self.dim(*letter)).collect();
        Ok(Self { view: lowering.reshape(&sum, &dims)?, letters })
    }
}

/// The letters of each operand, and those of the result.
fn terms(equation: &str, ranks: &[usize]) -> Lowered<(Vec<Vec<char>>, Vec<char>)> {
    let plain: String = equation.chars().filter(|of| !of.is_whitespace()).collect();
    let (inputs, output) = match plain.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (plain.as_str(), None),
    };
    // Dots mean dimensions that operands share, aligned at the last one: digits name them.
    let most = inputs.split(',').zip(ranks).filter(|(term, _)| term.contains("..."));
    let most = most.map(|(term, rank)| rank.saturating_sub(term.chars().count() - 3)).max().unwrap_or(0);
    let spread = |term: &str, count: usize| -> Vec<char> {
        let figures: String =
            (most.saturating_sub(count)..most).filter_map(|at| char::from_digit(at as u32, 36)).collect();
        term.replace("...", &figures).chars().collect()
    };
    let inputs: Vec<Vec<char>> = inputs
        .split(',')
        .zip(ranks)
        .map(|(term, rank)| spread(term, rank.saturating_sub(term.chars().filter(|of| *of != '.').count())))
        .collect();
    let output = match output {
        Some(term) => spread(term, most),
        None => {
            let all: Vec<char> = inputs.iter().flatten().copied().collect();
            let mut once: Vec<char> = all
                .iter()
                .copied()
                .filter(|of| all.iter().filter(|other| *other == of).count() == 1 && !of.is_ascii_digit())
                .collect();
            once.sort_unstable();
            (0..most).filter_map(|at| char::from_digit(at as u32, 36)).chain(once).collect()
        }
    };
    let is_letter = |of: &char| of.is_ascii_alphabetic() || of.is_ascii_digit();
    let is_known = inputs.len() == ranks.len()
        && inputs.iter().zip(ranks).all(|(term, rank)| term.len() == *rank)
        && inputs.iter().flatten().chain(&output).all(is_letter)
        && most <= 10;
    if !is_known {
        return refuse(format!("the equation {equation:?} for operands of {ranks:?} dimensions"));
    }
    Ok((inputs, output))
}

fn is_twice(letters: &[char]) -> bool {
    letters.iter().enumerate().any(|(at, letter)| letters.iter().skip(at + 1).any(|of| of == letter))
}

/// An operand with each letter once: of one that is there again, the diagonal.
fn lettered(mut view: View, mut letters: Vec<char>) -> Lowered<Lettered> {
    let mut at = 0;
    while let Some(letter) = letters.get(at).copied() {
        match letters.iter().take(at).position(|of| *of == letter) {
            Some(first) => {
                let diagonal = view.diagonal(first, at);
                view =
                    diagonal.ok_or_else(|| Reason(format!("{letter} has two sizes in {:?}", view.dims)))?;
                letters.remove(at);
            }
            None => at += 1,
        }
    }
    Ok(Lettered { view, letters })
}

fn einsum(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let views = (0..node.inputs.len()).map(|at| lowering.input(node, at)).collect::<Lowered<Vec<_>>>()?;
    let all: Vec<&View> = views.iter().collect();
    floats(&all)?;
    same_type(&all)?;
    let ranks: Vec<usize> = views.iter().map(View::rank).collect();
    let (inputs, output) = terms(node.text("equation", ""), &ranks)?;
    if is_twice(&output) {
        return refuse("a letter is twice in the result");
    }
    let mut made = views
        .into_iter()
        .zip(inputs)
        .map(|(view, letters)| lettered(view, letters))
        .collect::<Lowered<std::collections::VecDeque<_>>>()?;
    let Some(mut y) = made.pop_front() else { return refuse("no operand") };
    while let Some(next) = made.pop_front() {
        let later = made.iter().flat_map(|of| &of.letters);
        let kept: Vec<char> = output.iter().chain(later).copied().collect();
        y = of_two(node, lowering, y, next, &kept)?;
    }
    let y = y.summed(lowering, |letter| output.contains(&letter))?;
    let y = y.ordered(&output)?;
    lowering.set(node, 0, y)
}

fn of_two(
    node: &Node,
    lowering: &mut Lowering<'_>,
    a: Lettered,
    b: Lettered,
    output: &[char],
) -> Lowered<Lettered> {
    let (of_a, of_b) = (a.letters.clone(), b.letters.clone());
    let a = a.summed(lowering, |letter| output.contains(&letter) || of_b.contains(&letter))?;
    let b = b.summed(lowering, |letter| output.contains(&letter) || of_a.contains(&letter))?;
    let pick = |is: &dyn Fn(char) -> bool, of: &[char]| -> Vec<char> {
        of.iter().copied().filter(|of| is(*of)).collect()
    };
    let batch = pick(&|of| b.letters.contains(&of) && output.contains(&of), &a.letters);
    let inner = pick(&|of| b.letters.contains(&of) && !output.contains(&of), &a.letters);
    let rows = pick(&|of| !b.letters.contains(&of), &a.letters);
    let columns = pick(&|of| !a.letters.contains(&of), &b.letters);
    let sizes = |of: &Lettered, letters: &[char]| -> Lowered<Vec<i64>> {
        let sizes = letters.iter().map(|letter| of.dim(*letter)).collect::<Option<Vec<_>>>();
        sizes.ok_or_else(|| Reason(format!("letters {letters:?}")))
    };
    for letter in batch.iter().chain(&inner) {
        if a.dim(*letter) != b.dim(*letter) {
            return refuse(format!("{letter} is {:?} and {:?}", a.dim(*letter), b.dim(*letter)));
        }
    }
    let (of_batch, of_rows) = (sizes(&a, &batch)?, sizes(&a, &rows)?);
    let (of_inner, of_columns) = (sizes(&a, &inner)?, sizes(&b, &columns)?);
    let (left, right) = (
        a.ordered(&[batch.clone(), rows.clone(), inner.clone()].concat())?,
        b.ordered(&[batch.clone(), inner.clone(), columns.clone()].concat())?,
    );
    let one = elements(&of_batch);
    let left = lowering.reshape(&left, &[one, elements(&of_rows), elements(&of_inner)])?;
    let right = lowering.reshape(&right, &[one, elements(&of_inner), elements(&of_columns)])?;
    let y = product(lowering, &node.name, &left, &right)?;
    let view = lowering.reshape(&y, &[of_batch, of_rows, of_columns].concat())?;
    Ok(Lettered { view, letters: [batch, rows, columns].concat() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(equation: &str, ranks: &[usize]) -> Option<String> {
        let (inputs, output) = terms(equation, ranks).ok()?;
        let text = |letters: &Vec<char>| letters.iter().collect::<String>();
        Some(format!("{}->{}", inputs.iter().map(text).collect::<Vec<_>>().join(","), text(&output)))
    }

    #[test]
    fn equations_are_read() {
        assert_eq!(read("bij, bjk -> bik", &[3, 3]).unwrap(), "bij,bjk->bik");
        assert_eq!(read("ij,jk", &[2, 2]).unwrap(), "ij,jk->ik");
        assert_eq!(read("ba", &[2]).unwrap(), "ba->ab");
        assert_eq!(read("...ij,...jk->...ik", &[4, 3]).unwrap(), "01ij,1jk->01ik");
        assert_eq!(read("ij,jk->ik", &[2, 3]), None);
        assert_eq!(read("i?->i", &[2]), None);
    }
}
