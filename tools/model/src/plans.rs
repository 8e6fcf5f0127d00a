//! Threads that share a handle and reuse each other's plans.

use std::sync::Arc;

use crate::graph::{FrozenGraph, VerifiedGraph};
use crate::plugin::made::{Compiled, Made, SharedContext, Sharing};
use crate::plugin::{EngineRef, Plugin, Session};
use crate::sync::{AtomicUsize, Ordering, check, spawn};

/// A step at which loom may switch threads.
fn take_a_while() {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// Makes or finds a plan of a graph, like finalizing. Other threads go on while the plugin works.
fn plan_for(session: &Arc<Session>, graph: &FrozenGraph, sharing: Sharing) -> Arc<SharedContext> {
    let plugins = (sharing == Sharing::AnyHandle).then_some(1);
    let entry = session.cache.entry(graph, || plugins).expect("there is room");
    let known = entry.engine(EngineRef);
    let compile = || {
        take_a_while();
        Ok(Made { context: session.compile(), workspace_size: 0, uids: None })
    };
    let compiled = known.plan(session, compile, |_| sharing, || [].into());
    let plan = match compiled.expect("the plugin does not fail") {
        Compiled::Shared(plan) => Some(plan),
        Compiled::Own(_) => None,
    };
    plan.expect("the plugin lets plans share")
}

fn plan(session: &Arc<Session>, graph: &FrozenGraph) -> Arc<SharedContext> {
    plan_for(session, graph, Sharing::Handle)
}

fn use_plan(session: &Arc<Session>, plan: &SharedContext) {
    take_a_while();
    let made = plan.made().expect("it was not given back");
    assert!(!session.has_back(made.context));
}

/// A plan is valid as long as it is held, whatever others do with the cache.
fn plan_and_use(session: &Arc<Session>, graph: &FrozenGraph) {
    use_plan(session, &plan(session, graph));
}

fn graph(number: u64) -> FrozenGraph {
    FrozenGraph(Arc::new(VerifiedGraph { number }))
}

/// Two threads plan equal graphs: each context is destroyed once, after its last use.
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

/// A thread plans while another clears the cache.
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
        use_plan(&session, &held);
        drop(held);
        drop(session);
        other.join().expect("it ends well");
    });
}

/// Two handles of a plugin, one of which ends while the other makes a plan or finds the first one's.
pub fn a_plan_is_found_by_another_handle() {
    check(3, || {
        let plugin = Arc::<Plugin>::default();
        let plan_and_end = |session: Arc<Session>| {
            let plan = plan_for(&session, &graph(1), Sharing::AnyHandle);
            use_plan(&session, &plan);
            drop(plan);
            drop(session);
        };
        let (one, another) = (Session::of(&plugin), Session::of(&plugin));
        let other = spawn(move || plan_and_end(another));
        plan_and_end(one);
        other.join().expect("it ends well");
    });
}
