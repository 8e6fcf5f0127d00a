//! What a thread has for itself on its way through the log.

use hipdnn_plugin_sdk::thread::Key;

use crate::lock::OnceLock;

/// A word of each thread's own, 0 at first.
///
/// Not thread-local storage: where the C library is older than glibc 2.35, a thread's first access to that of a library takes the
/// loader's lock, and the log is written by threads that plugins wait for while that lock is held. A key's value is at hand without it,
/// as long as the thread runs.
pub struct ThreadWord(OnceLock<Option<Key>>);

impl ThreadWord {
    /// 0 for every thread.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn key(&self) -> Option<Key> {
        *self.0.get_or_init(|| Key::new(None))
    }

    /// The word of this thread, none where the system has no key left.
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

/// Gives the word its former value back when it is dropped.
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
    fn each_thread_has_its_own_for_as_long_as_it_says() {
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
