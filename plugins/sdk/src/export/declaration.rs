//! A plugin's names and versions, prepared for C at compile time.

use std::marker::PhantomData;

use crate::engine_plugin::{EnginePlugin, engine_id};
use crate::ffi::{HIPDNN_PLUGIN_TYPE_ENGINE, HIPDNN_PLUGIN_TYPE_HEURISTIC, hipdnnPluginType_t};
use crate::heuristic_plugin::HeuristicPlugin;

const MAX_TEXT: usize = 128;
const MAX_NAMES: usize = 32;

/// A NUL-terminated text.
pub type CText = [u8; MAX_TEXT];

/// What plugins of every kind declare.
pub trait Describes: 'static {
    /// The plugin's name.
    const NAME: &'static str;
    /// The plugin's version.
    const VERSION: &'static str;
    /// The version of its plugin interface.
    const API_VERSION: &'static str;
    /// Its kind.
    const KIND: hipdnnPluginType_t;
}

/// Declares an engine plugin.
pub struct OfEngines<P>(PhantomData<P>);

impl<P: EnginePlugin> Describes for OfEngines<P> {
    const NAME: &'static str = P::NAME;
    const VERSION: &'static str = P::VERSION;
    const API_VERSION: &'static str = P::API_VERSION;
    const KIND: hipdnnPluginType_t = HIPDNN_PLUGIN_TYPE_ENGINE;
}

/// Declares a heuristic plugin.
pub struct OfPolicies<P>(PhantomData<P>);

impl<P: HeuristicPlugin> Describes for OfPolicies<P> {
    const NAME: &'static str = P::NAME;
    const VERSION: &'static str = P::VERSION;
    const API_VERSION: &'static str = P::API_VERSION;
    const KIND: hipdnnPluginType_t = HIPDNN_PLUGIN_TYPE_HEURISTIC;
}

/// The constants of a plugin. Compilation fails for a name that is empty, too long, duplicated or contains a
/// NUL.
pub struct Declaration<D>(PhantomData<D>);

impl<D: Describes> Declaration<D> {
    pub const NAME: &'static CText = &c_text(D::NAME);
    pub const VERSION: &'static CText = &c_text(D::VERSION);
    pub const API_VERSION: &'static CText = &c_text(D::API_VERSION);
}

/// The engines of a plugin.
pub struct EngineNames<P>(PhantomData<P>);

impl<P: EnginePlugin> EngineNames<P> {
    pub const ENGINES: &'static Names = &Names::new(P::ENGINES);
}

/// The policies of a plugin.
pub struct PolicyNames<P>(PhantomData<P>);

impl<P: HeuristicPlugin> PolicyNames<P> {
    pub const POLICIES: &'static Names = &Names::new(P::POLICIES);
}

/// The names of engines or policies, with their ids.
pub struct Names {
    count: usize,
    ids: [i64; MAX_NAMES],
    names: [CText; MAX_NAMES],
}

impl Names {
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which reports it as an error")]
    const fn new(names: &[&str]) -> Self {
        assert!(!names.is_empty(), "a plugin needs an engine or a policy");
        assert!(names.len() <= MAX_NAMES, "a plugin has at most 32 engines or policies");
        let mut all = Self { count: names.len(), ids: [0; MAX_NAMES], names: [[0; MAX_TEXT]; MAX_NAMES] };
        let mut i = 0;
        while i < names.len() {
            all.names[i] = c_text(names[i]);
            all.ids[i] = engine_id(names[i]);
            let mut j = 0;
            while j < i {
                assert!(
                    all.ids[i] != all.ids[j],
                    "two engines or policies have the same name or the same id"
                );
                j += 1;
            }
            i += 1;
        }
        all
    }

    /// The ids, in the plugin's order.
    pub fn ids(&self) -> &[i64] {
        self.ids.get(..self.count).unwrap_or_default()
    }

    /// The index of the name with this id.
    pub fn position(&self, id: i64) -> Option<usize> {
        self.ids().iter().position(|known| *known == id)
    }

    /// The name with this id.
    pub fn name(&self, id: i64) -> Option<&CText> {
        self.position(id).and_then(|position| self.names.get(position))
    }
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which reports it as an error")]
const fn c_text(text: &str) -> CText {
    let bytes = text.as_bytes();
    assert!(!bytes.is_empty(), "a name or version is empty");
    assert!(bytes.len() < MAX_TEXT, "a name or version is longer than 127 bytes");
    let mut c_text = [0; MAX_TEXT];
    let mut i = 0;
    while i < bytes.len() {
        assert!(bytes[i] != 0, "a name or version contains a NUL");
        c_text[i] = bytes[i];
        i += 1;
    }
    c_text
}
