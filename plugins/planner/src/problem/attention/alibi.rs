//! ALiBi (Press, Smith and Lewis, "Train short, test long", 2022): each head adds a slope times the distance of a key.

/// The slope of a head: 2^(-8 (h+1) / n) where the number n of heads is a power of two. Otherwise the first heads have the
/// slopes of the next smaller power of two, and the rest every other slope of twice that power.
pub fn slope(head: usize, heads: usize) -> f64 {
    let power = 1 << heads.ilog2();
    let (step, of) = if head < power { (head + 1, power) } else { (2 * (head - power) + 1, 2 * power) };
    f64::exp2(-8.0 * step as f64 / of as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_paper() {
        let slopes = |heads| (0..heads).map(|head| slope(head, heads)).collect::<Vec<_>>();
        assert_eq!(slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
        assert_eq!(slopes(1), [1.0 / 256.0]);
        // 12 heads: the 8 slopes of 8 heads, then the first, third, fifth and seventh of 16.
        let odd = [0.5, 1.5, 2.5, 3.5].map(|exponent| f64::exp2(-exponent));
        assert_eq!(slopes(12)[..8], slopes(8));
        assert_eq!(slopes(12)[8..], odd);
    }
}
