//! Dependency cycles.

use std::collections::{BTreeMap, BTreeSet};

/// The dependencies of each item.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// The cycles, each as a line that names its items.
pub fn between(uses: &Uses) -> Vec<String> {
    let mut left = uses.clone();
    // Items without dependencies or dependents are in no cycle.
    loop {
        let used: BTreeSet<String> = left.values().flatten().cloned().collect();
        let before = left.len();
        left.retain(|name, others| !others.is_empty() && used.contains(name));
        if left.len() == before {
            break;
        }
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.values_mut().for_each(|others| others.retain(|other| names.contains(other)));
    }
    left.iter().map(|(name, used)| format!("{name} is in a circle with {}", joined(used))).collect()
}

fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The cycles among folders, and among the files and folders within each folder.
pub fn between_folders(uses: &Uses, separator: &str) -> Vec<String> {
    let mut levels: BTreeMap<String, Uses> = BTreeMap::new();
    for (name, used) in uses {
        for other in used {
            let (a, b): (Vec<&str>, Vec<&str>) =
                (name.split(separator).collect(), other.split(separator).collect());
            let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            if let (Some(first), Some(second)) = (a.get(common), b.get(common)) {
                let level = levels.entry(a[..common].join(separator)).or_default();
                level.entry((*first).to_owned()).or_default().insert((*second).to_owned());
            }
        }
    }
    let in_level = |(folder, uses): (&String, &Uses)| -> Vec<String> {
        between(uses).into_iter().map(|circle| format!("in {folder:?}: {circle}")).collect()
    };
    levels.iter().flat_map(in_level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(pairs: &[(&str, &str)]) -> Uses {
        let mut uses = Uses::new();
        for (a, b) in pairs {
            uses.entry((*a).to_owned()).or_default().insert((*b).to_owned());
        }
        uses
    }

    #[test]
    fn a_circle_is_found_and_a_chain_is_not() {
        assert!(between(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
        assert_eq!(between(&uses(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")])).len(), 2);
    }

    #[test]
    fn folders_that_use_each_other_are_a_circle_where_their_files_are_none() {
        let pairs = [("x/a", "y/b"), ("y/c", "x/d")];
        assert!(between(&uses(&pairs)).is_empty());
        assert_eq!(between_folders(&uses(&pairs), "/").len(), 2);
        assert_eq!(between_folders(&uses(&[("r/x/a", "r/y/b"), ("r/y/c", "r/x/d")]), "/").len(), 2);
    }
}
