use std::sync::atomic::AtomicUsize as Counter;

use super::record::{HAZARDS, records};
use super::*;

/// Counts its drops.
struct Counted(&'static Counter);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

static TEST: Table<Counted> = Table::new("test object", 0x7, 2);
static OTHER: Table<Counted> = Table::new("other object", 0x9, 3);

fn counter() -> &'static Counter {
    Box::leak(Box::new(Counter::new(0)))
}

#[test]
fn a_handle_is_valid_until_it_is_destroyed() {
    let drops = counter();
    let handle = TEST.insert(Counted(drops)).unwrap();
    assert!(TEST.with(handle, |_| Ok(())).is_ok());
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    TEST.remove(handle).unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    let error = TEST.remove(handle).unwrap_err();
    assert!(error.message.contains("destroyed before"), "{error}");
    assert!(TEST.with(handle, |_| Ok(())).is_err());
}

#[test]
fn null_forged_and_foreign_handles_are_told_apart() {
    let handle = OTHER.insert(Counted(counter())).unwrap();
    let status = |handle| TEST.with(handle, |_| Ok(())).err().map(|error| error.status);
    assert_eq!(status(0), Some(crate::status::Status::HIPDNN_STATUS_BAD_PARAM_NULL_POINTER));
    for forged in [1, 7, 0x7fff_dead_beef, usize::MAX, usize::MAX & !0xf | 7, handle, 0xffff_0000_0000_0007] {
        assert_eq!(status(forged), Some(crate::status::Status::HIPDNN_STATUS_BAD_PARAM), "{forged:#x}");
    }
    OTHER.remove(handle).unwrap();
}

#[test]
fn an_object_destroyed_in_use_lives_until_the_use_ends() {
    let drops = counter();
    let handle = TEST.insert(Counted(drops)).unwrap();
    TEST.with(handle, |object| {
        TEST.remove(handle)?;
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        assert_eq!(object.0.load(Ordering::SeqCst), 0);
        Ok(())
    })
    .unwrap();
    // Another thread may be burying at this moment; then the next use of any object does.
    for _ in 0..1000 {
        if drops.load(Ordering::SeqCst) == 1 {
            return;
        }
        let other = TEST.insert(Counted(counter())).unwrap();
        TEST.with(other, |_| Ok(())).unwrap();
        TEST.remove(other).unwrap();
    }
    panic!("the object was never dropped");
}

#[test]
fn an_object_lives_while_any_of_many_threads_uses_it_whoever_destroys_it() {
    // More threads than there are groups of records, so that some share one.
    for users in [1, 2, 70] {
        let drops = counter();
        let handle = TEST.insert(Counted(drops)).unwrap();
        let (inside, end) = (std::sync::Barrier::new(users + 1), std::sync::Barrier::new(users + 1));
        std::thread::scope(|scope| {
            for _ in 0..users {
                scope.spawn(|| {
                    TEST.with(handle, |object| {
                        inside.wait();
                        end.wait();
                        assert_eq!(object.0.load(Ordering::SeqCst), 0);
                        Ok(())
                    })
                    .unwrap();
                });
            }
            inside.wait();
            // Removed by a thread that neither made nor used it.
            scope.spawn(|| TEST.remove(handle).unwrap()).join().unwrap();
            assert_eq!(drops.load(Ordering::SeqCst), 0);
            end.wait();
        });
    }
}

#[test]
fn the_maker_uses_an_object_that_another_thread_destroys() {
    let drops = counter();
    let handle = TEST.insert(Counted(drops)).unwrap();
    TEST.with(handle, |_| {
        std::thread::scope(|scope| scope.spawn(|| TEST.remove(handle).unwrap()).join().unwrap());
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        Ok(())
    })
    .unwrap();
}

#[test]
fn nesting_beyond_the_limit_is_an_error() {
    let handle = TEST.insert(Counted(counter())).unwrap();
    fn nest(handle: usize, depth: usize) -> Result<()> {
        TEST.with(handle, |_| if depth == 1 { Ok(()) } else { nest(handle, depth - 1) })
    }
    nest(handle, HAZARDS).unwrap();
    assert!(nest(handle, HAZARDS + 1).unwrap_err().message.contains("nested"));
    nest(handle, HAZARDS).unwrap();
    TEST.remove(handle).unwrap();
}

#[test]
fn threads_that_use_and_destroy_the_same_handles_never_see_a_dropped_object() {
    struct Live(AtomicUsize);
    impl Drop for Live {
        fn drop(&mut self) {
            self.0.store(0xdead, Ordering::SeqCst);
        }
    }
    static RACE: Table<Live> = Table::new("raced object", 0xb, 4);
    static CURRENT: AtomicUsize = AtomicUsize::new(0);
    let rounds = 20_000;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let _ = RACE.with(CURRENT.load(Ordering::SeqCst), |object| {
                        assert_eq!(object.0.load(Ordering::SeqCst), 42);
                        std::hint::spin_loop();
                        assert_eq!(object.0.load(Ordering::SeqCst), 42);
                        Ok(())
                    });
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..rounds {
                let handle = RACE.insert(Live(AtomicUsize::new(42))).unwrap();
                let old = CURRENT.swap(handle, Ordering::SeqCst);
                if old != 0 {
                    RACE.remove(old).unwrap();
                }
            }
        });
    });
}

#[test]
fn a_thread_that_makes_calls_while_it_ends_gives_its_record_back() {
    fn make_and_end() {
        let handle = TEST.insert(Counted(counter())).unwrap();
        TEST.with(handle, |_| Ok(())).unwrap();
        TEST.remove(handle).unwrap();
    }
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            make_and_end();
        }
    }
    thread_local! {
        static LATE: Late = const { Late };
    }
    let before = records(ALL).count();
    for _ in 0..500 {
        let thread = std::thread::spawn(|| {
            // Initialized first, so that it is destroyed last.
            LATE.with(|_| ());
            make_and_end();
        });
        thread.join().unwrap();
    }
    // Other tests run in parallel and take a few.
    assert!(records(ALL).count() < before + 100);
}

#[test]
fn exclusive_access_keeps_others_out_and_the_object_alive() {
    let drops = counter();
    let handle = TEST.insert(Counted(drops)).unwrap();
    let is_alone = || TEST.alone(handle, |_, access| Ok(access.is_alone())).unwrap();
    assert!(is_alone());
    TEST.alone(handle, |object, access| {
        assert!(access.is_alone());
        // Another call gets only shared access.
        assert!(!is_alone());
        TEST.with_access(handle, |_, access| {
            assert!(!access.is_alone() && access.take().is_none());
            Ok(())
        })?;
        std::thread::scope(|scope| scope.spawn(|| TEST.remove(handle).unwrap()).join().unwrap());
        assert!(TEST.alone(handle, |_, _| Ok(())).is_err());
        assert_eq!((drops.load(Ordering::SeqCst), object.0.load(Ordering::SeqCst)), (0, 0));
        Ok(())
    })
    .unwrap();
    assert!(TEST.alone(handle, |_, _| Ok(())).is_err());
    // The lock of a dead handle is also released: the next object in its slot is free.
    let next = TEST.insert(Counted(counter())).unwrap();
    assert!(TEST.alone(next, |_, access| Ok(access.is_alone())).unwrap());
    TEST.remove(next).unwrap();
}

#[test]
fn threads_that_change_and_destroy_the_same_handles_never_meet_in_one() {
    struct Live(AtomicUsize);
    impl Drop for Live {
        fn drop(&mut self) {
            assert_eq!(self.0.swap(0xdead, Ordering::SeqCst), 0, "dropped while a call has it to itself");
        }
    }
    static RACE: Table<Live> = Table::new("raced object", 0xd, 5);
    static CURRENT: AtomicUsize = AtomicUsize::new(0);
    let change = |object: &Live| {
        assert_eq!(object.0.swap(1, Ordering::Relaxed), 0);
        std::hint::spin_loop();
        assert_eq!(object.0.swap(0, Ordering::Relaxed), 1);
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let _ = RACE.alone(CURRENT.load(Ordering::SeqCst), |object, access| {
                        let taken = if access.is_alone() { None } else { access.take() };
                        if access.is_alone() || taken.is_some() {
                            change(object);
                        }
                        Ok(())
                    });
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..20_000 {
                let handle = RACE.insert(Live(AtomicUsize::new(0))).unwrap();
                let old = CURRENT.swap(handle, Ordering::SeqCst);
                if old != 0 {
                    RACE.remove(old).unwrap();
                }
            }
        });
    });
}
