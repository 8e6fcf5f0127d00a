//! Some nodes of a graph as a graph of their own.

use std::collections::{HashMap, HashSet};

use super::{Model, Node, ValueId};

impl Model {
    /// The nodes at some places, with their values alone; and the values of this graph that are its inputs and outputs.
    pub fn part(&self, is_own: &dyn Fn(usize) -> bool) -> (Self, Vec<ValueId>, Vec<ValueId>) {
        let nodes = || self.nodes.iter().enumerate();
        let own = || nodes().filter(|(at, _)| is_own(*at)).map(|(_, node)| node);
        let mut seen: HashSet<ValueId> =
            own().flat_map(|node| node.outputs.iter().flatten()).copied().collect();
        let reads = own().flat_map(Node::reads).filter(|id| seen.insert(*id)).collect::<Vec<_>>();
        let read_by_others: HashSet<ValueId> = nodes()
            .filter(|(at, _)| !is_own(*at))
            .flat_map(|(_, node)| node.reads())
            .chain(self.outputs.iter().copied())
            .collect();
        let written = own().flat_map(|node| node.outputs.iter().flatten()).copied();
        let writes: Vec<ValueId> = written.filter(|id| read_by_others.contains(id)).collect();
        let mut part = Self::default();
        let mut ids: HashMap<ValueId, ValueId> = HashMap::new();
        let mut place = |id: ValueId| {
            *ids.entry(id).or_insert_with(|| {
                part.values.extend(self.values.get(id).cloned());
                part.values.len() - 1
            })
        };
        part.inputs = reads.iter().map(|id| place(*id)).collect();
        for node in own() {
            let mut node = node.clone();
            node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(|id| *id = place(*id));
            node.implicit.iter_mut().for_each(|id| *id = place(*id));
            part.nodes.push(node);
        }
        part.outputs = writes.iter().map(|id| place(*id)).collect();
        (part, reads, writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;

    #[test]
    fn a_part_reads_what_others_write() {
        let node = |inputs: &[usize], output: usize| Node {
            inputs: inputs.iter().map(|id| Some(*id)).collect(),
            outputs: vec![Some(output)],
            ..Node::default()
        };
        let value = |id: usize| Value { name: id.to_string(), ..Value::default() };
        let model = Model {
            values: (0..6).map(value).collect(),
            nodes: vec![node(&[0, 1], 2), node(&[2, 1], 3), node(&[3, 2], 4), node(&[3], 5)],
            inputs: vec![0, 1],
            outputs: vec![4, 3],
        };
        let (part, reads, writes) = model.part(&|at| at == 1 || at == 3);
        assert_eq!((reads, writes), (vec![2, 1], vec![3]));
        let names = |ids: &[usize]| ids.iter().map(|id| part.values[*id].name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(&part.inputs), names(&part.outputs)),
            (vec!["2".into(), "1".into()], vec!["3".into()])
        );
        assert_eq!(part.nodes.len(), 2);
        assert_eq!(part.values.len(), 4);
    }
}
