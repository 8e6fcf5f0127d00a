//! What engines are ranked by where predictions rank them.

/// A metric of predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// 10¹² operations a second; more is better.
    #[default]
    Tflops,
    /// Milliseconds; less is better.
    Time,
}

impl Metric {
    /// The metric of a name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tflops, Self::Time].into_iter().find(|metric| metric.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tflops => "tflops",
            Self::Time => "time",
        }
    }

    /// The value for a graph of so many operations that takes so many seconds.
    pub fn value(self, operations: f64, seconds: f64) -> f64 {
        match self {
            Self::Tflops => operations / seconds / 1e12,
            Self::Time => seconds * 1e3,
        }
    }

    /// A key that is less for better values.
    pub fn key(self, value: f64) -> f64 {
        match self {
            Self::Tflops => -value,
            Self::Time => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_names_and_directions() {
        for metric in [Metric::Tflops, Metric::Time] {
            assert_eq!(Metric::named(metric.name()), Some(metric));
            let better = |seconds| metric.key(metric.value(1e9, seconds));
            assert!(better(1e-3) < better(2e-3), "{metric:?}");
        }
        assert_eq!(Metric::named("latency"), None);
        assert_eq!((Metric::Time.value(2e9, 1e-3), Metric::Tflops.value(2e9, 1e-3)), (1.0, 2.0));
    }
}
