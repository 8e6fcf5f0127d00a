//! What a plugin says of itself, made ready for C while it is compiled.

use crate::engine_plugin::{EnginePlugin, engine_id};

const MAX_TEXT: usize = 128;
const MAX_ENGINES: usize = 32;

/// A text that ends with a NUL.
pub type CText = [u8; MAX_TEXT];

/// The constants of a plugin. A name that is empty, too long, not C or there twice stops the compilation.
pub struct Declaration<P>(std::marker::PhantomData<P>);

impl<P: EnginePlugin> Declaration<P> {
    pub const NAME: &'static CText = &c_text(P::NAME);
    pub const VERSION: &'static CText = &c_text(P::VERSION);
    pub const API_VERSION: &'static CText = &c_text(P::API_VERSION);
    pub const ENGINES: &'static Engines = &Engines::new(P::ENGINES);
}

/// The engines of a plugin.
pub struct Engines {
    count: usize,
    ids: [i64; MAX_ENGINES],
    names: [CText; MAX_ENGINES],
}

impl Engines {
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which reports it as an error")]
    const fn new(engines: &[&str]) -> Self {
        assert!(!engines.is_empty(), "a plugin needs an engine");
        assert!(engines.len() <= MAX_ENGINES, "a plugin has at most 32 engines");
        let mut all =
            Self { count: engines.len(), ids: [0; MAX_ENGINES], names: [[0; MAX_TEXT]; MAX_ENGINES] };
        let mut i = 0;
        while i < engines.len() {
            all.names[i] = c_text(engines[i]);
            all.ids[i] = engine_id(engines[i]);
            let mut j = 0;
            while j < i {
                assert!(all.ids[i] != all.ids[j], "two engines have the same name or the same id");
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

    /// The place of the engine with this id.
    pub fn position(&self, id: i64) -> Option<usize> {
        self.ids().iter().position(|known| *known == id)
    }

    /// The name of the engine with this id.
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
