//! Objects that threads create, use, change and destroy by their handles.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;

use crate::object::Table;
use crate::sync::{AtomicUsize as AtomicUsizeOfModel, check, spawn};

static TABLE: Table<Watched> = Table::new("object of a model", 0x7, 0);

/// An object whose reads and writes loom checks, and which counts its drops.
struct Watched {
    content: UnsafeCell<usize>,
    drops: Arc<AtomicUsize>,
}

// SAFETY: loom detects every unordered access.
unsafe impl Send for Watched {}
// SAFETY: loom detects every unordered access.
unsafe impl Sync for Watched {}

impl Watched {
    fn read(&self, expected: usize) {
        // SAFETY: loom stops where another thread writes.
        self.content.with(|content| assert_eq!(unsafe { *content }, expected));
    }

    fn change(&self) {
        // SAFETY: loom stops where another thread reads or writes.
        self.content.with_mut(|content| unsafe { *content += 1 });
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: loom stops where another thread reads or writes.
        self.content.with_mut(|content| unsafe { *content = usize::MAX });
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn insert(content: usize) -> (usize, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    let watched = Watched { content: UnsafeCell::new(content - 1), drops: Arc::clone(&drops) };
    // A write that loom checks, like an object's initialization.
    watched.change();
    let handle = TABLE.insert(watched).expect("there is room");
    (handle, drops)
}

fn read(handle: usize, expected: usize) {
    let _ = TABLE.with(handle, |object| {
        object.read(expected);
        Ok(())
    });
}

/// Like a call that sets an attribute: exclusively, or else with the lock if it is free.
fn change(handle: usize) {
    let _ = TABLE.alone(handle, |object, access| {
        let taken = if access.is_alone() { None } else { access.take() };
        if access.is_alone() || taken.is_some() {
            object.change();
        }
        Ok(())
    });
}

/// After all threads have ended, the next call drops what is left, and nothing is dropped twice.
fn assert_dropped(drops: &AtomicUsize) {
    read(0, 0);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

/// A thread gets a handle without synchronization.
pub fn a_handle_is_passed_on_by_a_number() {
    static NUMBER: AtomicUsizeOfModel = AtomicUsizeOfModel::new(0);
    check(3, || {
        let user = spawn(|| {
            let handle = NUMBER.load(Ordering::Relaxed);
            read(handle, 5);
            change(handle);
        });
        let (handle, drops) = insert(5);
        NUMBER.store(handle, Ordering::Relaxed);
        user.join().expect("it ends well");
        TABLE.remove(handle).expect("only this thread destroys it");
        assert_dropped(&drops);
    });
}

/// Another thread uses an object while its maker destroys it.
pub fn another_uses_what_the_maker_destroys() {
    check(3, || {
        let (handle, drops) = insert(5);
        let (next, others) = insert(7);
        let user = spawn(move || {
            read(handle, 5);
            read(next, 7);
        });
        TABLE.remove(handle).expect("only this thread destroys it");
        user.join().expect("it ends well");
        assert_dropped(&drops);
        TABLE.remove(next).expect("only this thread destroys it");
        assert_dropped(&others);
    });
}

/// The maker uses an object while another thread destroys it.
pub fn the_maker_uses_what_another_destroys() {
    check(3, || {
        let (handle, drops) = insert(5);
        let destroyer = spawn(move || TABLE.remove(handle).is_ok());
        read(handle, 5);
        assert!(destroyer.join().expect("it ends well"));
        assert_dropped(&drops);
    });
}

/// Two threads destroy, a third uses.
pub fn two_destroy_and_a_third_uses() {
    check(2, || {
        let (handle, drops) = insert(5);
        let destroy = move || TABLE.remove(handle).is_ok();
        let (one, user) = (spawn(destroy), spawn(move || read(handle, 5)));
        let other = destroy();
        assert!(other != one.join().expect("it ends well"));
        user.join().expect("it ends well");
        assert_dropped(&drops);
    });
}

/// The slot of a destroyed object is refilled while another thread uses the old handle.
pub fn a_place_is_filled_anew_while_its_old_handle_is_used() {
    check(3, || {
        let (old, drops) = insert(5);
        let user = spawn(move || {
            read(old, 5);
            change(old);
        });
        TABLE.remove(old).expect("only this thread destroys it");
        let (new, others) = insert(7);
        assert_ne!(old, new);
        read(new, 7);
        user.join().expect("it ends well");
        read(new, 7);
        assert_dropped(&drops);
        TABLE.remove(new).expect("only this thread destroys it");
        assert_dropped(&others);
    });
}

/// One thread changes an object while another destroys it.
pub fn one_changes_what_another_destroys() {
    check(3, || {
        let (handle, drops) = insert(5);
        let changer = spawn(move || change(handle));
        TABLE.remove(handle).expect("only this thread destroys it");
        changer.join().expect("it ends well");
        assert_dropped(&drops);
    });
}

/// Two threads change the same object, and one of them destroys it.
pub fn two_change_what_one_destroys() {
    check(3, || {
        let (handle, drops) = insert(5);
        let other = spawn(move || {
            change(handle);
            TABLE.remove(handle).expect("only this thread destroys it");
        });
        change(handle);
        other.join().expect("it ends well");
        assert_dropped(&drops);
    });
}

/// A thread ends, and another reuses its record: the one slot outside of the list, and what its list gave back.
pub fn a_thread_takes_what_another_kept() {
    check(2, || {
        let one = spawn(|| {
            let both = [insert(5), insert(6)];
            both.map(|(handle, drops)| {
                TABLE.remove(handle).expect("only this thread destroys it");
                drops
            })
        });
        let other = spawn(|| {
            [7, 8].map(|content| {
                let (handle, drops) = insert(content);
                read(handle, content);
                (handle, drops)
            })
        });
        one.join().expect("it ends well").iter().for_each(|drops| assert_dropped(drops));
        let others = other.join().expect("it ends well");
        for ((handle, drops), content) in others.into_iter().zip([7, 8]) {
            read(handle, content);
            TABLE.remove(handle).expect("only this thread destroys it");
            assert_dropped(&drops);
        }
    });
}
