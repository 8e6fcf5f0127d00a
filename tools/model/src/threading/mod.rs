//! The thread pool of the CPU plugin.

#[path = "../../../../plugins/cpu/src/threading/pool.rs"]
pub mod pool;
#[path = "../../../../plugins/cpu/src/threading/queue.rs"]
pub mod queue;
pub mod sync;
#[path = "../../../../plugins/cpu/src/threading/team.rs"]
pub mod team;

/// On which processors threads run.
pub mod affinity {
    /// On any.
    #[derive(Default)]
    pub struct Processors(());

    impl Processors {
        /// Nothing is done.
        pub fn join(&self) {}
        /// Nothing is done.
        pub fn leave_to_caller(&self) {}
    }
}
