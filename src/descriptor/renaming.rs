//! Maps a graph's uids to those of a plan made for an equal graph with other uids.

use std::fmt::Write;

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t as DeviceBuffer;
use hipdnn_plugin_sdk::wire::TensorSummary;
use smallvec::SmallVec;

/// The map from a graph's uids to a plan's.
pub struct Renaming {
    /// Pairs of graph uid and plan uid, sorted by graph uid.
    pairs: Vec<(i64, i64)>,
    /// A uid that no tensor of the plan has, used for uids that the graph does not have.
    unknown: i64,
}

impl Renaming {
    /// Maps the tensors of a graph to the uids of a plan, in the same order; none if all are equal.
    #[inline]
    pub fn new(tensors: &[TensorSummary], plans: &[i64]) -> Option<Box<Self>> {
        if tensors.iter().map(|tensor| tensor.uid).eq(plans.iter().copied()) {
            return None;
        }
        let mut pairs: Vec<_> = tensors.iter().map(|tensor| tensor.uid).zip(plans.iter().copied()).collect();
        pairs.sort_unstable();
        let unknown = (i64::MIN..).find(|uid| !plans.contains(uid)).unwrap_or(i64::MIN);
        Some(Box::new(Self { pairs, unknown }))
    }

    /// The plan's uid for a uid of the graph.
    pub fn of(&self, uid: i64) -> i64 {
        let found = self.pairs.binary_search_by_key(&uid, |(own, _)| *own);
        found.ok().and_then(|at| self.pairs.get(at)).map_or(self.unknown, |(_, plans)| *plans)
    }

    /// The buffers with the plan's uids. Allocates for more than 16 tensors.
    pub fn buffers(&self, buffers: &[DeviceBuffer]) -> SmallVec<[DeviceBuffer; 16]> {
        buffers.iter().map(|buffer| DeviceBuffer { uid: self.of(buffer.uid), ptr: buffer.ptr }).collect()
    }

    /// Explains the uids in the plugin's messages.
    pub fn explanation(&self) -> String {
        let mut text = String::from("its engine knows tensor");
        for (place, (own, plans)) in self.pairs.iter().enumerate() {
            let _ = write!(text, "{}{own} as {plans}", if place == 0 { " " } else { ", " });
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::wire::Span;

    use super::*;

    fn tensors(uids: &[i64]) -> Vec<TensorSummary> {
        let (is_virtual, is_written, span) = (false, false, Span::default());
        uids.iter().map(|&uid| TensorSummary { uid, alignment: 1, is_virtual, is_written, span }).collect()
    }

    #[test]
    fn equal_uids_need_no_renaming() {
        assert!(Renaming::new(&tensors(&[3, 1, 2]), &[3, 1, 2]).is_none());
        assert!(Renaming::new(&tensors(&[3, 1, 2]), &[3, 2, 1]).is_some());
    }

    #[test]
    fn tensors_at_the_same_position_correspond() {
        // Uid 2 of the graph must not become uid 2 of the plan.
        let renaming = Renaming::new(&tensors(&[10, 7, -1]), &[1, 2, i64::MIN]).unwrap();
        let names: Vec<i64> = [10, 7, -1, 2, i64::MIN].iter().map(|&uid| renaming.of(uid)).collect();
        assert_eq!(names, [1, 2, i64::MIN, i64::MIN + 1, i64::MIN + 1]);
        let mut memory = [0_u8; 2];
        let buffers =
            [(7, 0), (7, 1)].map(|(uid, at)| DeviceBuffer { uid, ptr: (&raw mut memory[at]).cast() });
        let renamed = renaming.buffers(&buffers);
        assert!(renamed.iter().zip(&buffers).all(|(new, old)| new.uid == 2 && new.ptr == old.ptr));
        assert_eq!(renamed.len(), 2);
        assert_eq!(
            renaming.explanation(),
            format!("its engine knows tensor -1 as {}, 7 as 2, 10 as 1", i64::MIN)
        );
    }
}
