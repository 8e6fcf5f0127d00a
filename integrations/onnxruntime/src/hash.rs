//! Maps keyed by the provider's own numbers and views, hashed without the standard library's defence against chosen keys: planning
//! looks up thousands of them.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

pub use hipdnn_plugin_sdk::hash::Mixer;

/// A map with the fast hasher.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// A set with the fast hasher.
pub type Set<K> = HashSet<K, BuildHasherDefault<Mixer>>;
