//! Per-thread words for the log.

use hipdnn_plugin_sdk::thread::Key;

use crate::lock::OnceLock;

/// One word for each thread, initially 0.
///
/// Not thread-local storage: before glibc 2.35, a thread's first access to a library's thread-local takes the loader's lock, and
/// plugins may hold that lock while they wait for a thread that logs. Reading a key takes no lock.
pub struct ThreadWord(OnceLock<Option<Key>>);

impl ThreadWord {
    /// A word that is 0 in every thread.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn key(&self) -> Option<Key> {
        *self.0.get_or_init(|| Key::new(None))
    }

    /// The word of this thread; none if the system has no key left.
    pub fn get(&self) -> Option<usize> {
        self.key().map(Key::get)
    }

    /// Sets the word of this thread for as long as the result lives.
    pub fn set(&self, word: usize) -> Set<'_> {
        let before = self.get().unwrap_or(0);
        self.put(word);
        Set { word: self, before }
    }

    /// Sets the word of this thread for as long as it runs.
    pub fn put(&self, word: usize) {
        if let Some(key) = self.key() {
            key.set(word);
        }
    }
}

/// Restores the word's former value when dropped.
pub struct Set<'a> {
    word: &'a ThreadWord,
    before: usize,
}

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.word.put(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_word_until_the_guard_is_dropped() {
        static WORD: ThreadWord = ThreadWord::new();
        let outer = WORD.set(1);
        std::thread::spawn(|| assert_eq!(WORD.get(), Some(0))).join().unwrap();
        {
            let _inner = WORD.set(2);
            assert_eq!(WORD.get(), Some(2));
        }
        assert_eq!(WORD.get(), Some(1));
        drop(outer);
        assert_eq!(WORD.get(), Some(0));
    }
}
