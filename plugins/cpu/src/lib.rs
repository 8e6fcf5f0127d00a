//! The CPU engines of hipDNN, as an engine plugin.
//!
//! [`prepare`](prepare::prepare) resolves and checks a graph. Each of its nodes becomes a [`kernel`], which a
//! [`plan`](plan::Plan) runs in order. [`mod@reference`] has a plain kernel for every operation.

pub mod element;
pub mod fast;
pub mod kernel;
pub mod layout;
pub mod plan;
pub mod plugin;
pub mod prepare;
pub mod problem;
pub mod reference;
