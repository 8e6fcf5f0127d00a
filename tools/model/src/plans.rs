//! Threads that share a handle and find each other's plans.

use std::sync::Arc;

use crate::graph::{FrozenGraph, VerifiedGraph};
use crate::plugin::cache::SharedContext;
use crate::plugin::{EngineRef, Session};
use crate::sync::{AtomicUsize, Ordering, check, spawn};

/// A step that the order of others' matters to.
fn take_a_while() {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// Makes a plan of a graph or finds it, as finalizing one does. The plugin takes a while, in which others go on.
fn plan(session: &Arc<Session>, graph: &FrozenGraph) -> Arc<SharedContext> {
    let entry = session.cache.entry(graph).expect("there is room");
    let known = entry.engine(EngineRef);
    let compile = || {
        take_a_while();
        Ok((session.compile(), 0))
    };
    known.plan(session, compile).expect("the plugin does not fail")
}

/// A plan is good as long as it is held, whatever others do with the cache.
fn plan_and_use(session: &Arc<Session>, graph: &FrozenGraph) {
    let plan = plan(session, graph);
    take_a_while();
    let context = plan.context().expect("it was not given back");
    assert!(!session.has_back(context));
}

fn graph(number: u64) -> FrozenGraph {
    FrozenGraph(Arc::new(VerifiedGraph { number }))
}

/// Two threads plan equal graphs: each context is given back once, after all that use it.
pub fn two_threads_plan_equal_graphs() {
    check(3, || {
        let session = Arc::new(Session::default());
        let other = {
            let session = Arc::clone(&session);
            spawn(move || plan_and_use(&session, &graph(1)))
        };
        plan_and_use(&session, &graph(1));
        other.join().expect("it ends well");
    });
}

/// A thread plans while another has the cache forget all.
pub fn all_is_forgotten_while_a_thread_plans() {
    check(3, || {
        let session = Arc::new(Session::default());
        let other = {
            let session = Arc::clone(&session);
            spawn(move || {
                plan_and_use(&session, &graph(1));
                plan_and_use(&session, &graph(2));
            })
        };
        plan_and_use(&session, &graph(1));
        session.cache.clear();
        plan_and_use(&session, &graph(1));
        other.join().expect("it ends well");
    });
}

/// A plan is held beyond the other user of its session.
pub fn a_plan_is_held_beyond_its_handle() {
    check(3, || {
        let session = Arc::new(Session::default());
        let held = plan(&session, &graph(1));
        let other = {
            let session = Arc::clone(&session);
            spawn(move || {
                session.cache.clear();
                plan_and_use(&session, &graph(1));
            })
        };
        let context = held.context().expect("it was not given back");
        assert!(!session.has_back(context));
        drop(held);
        drop(session);
        other.join().expect("it ends well");
    });
}
