//! The CPU engines of hipDNN, as an engine plugin.
//!
//! [`prepare`](hipdnn_plugin_problem::prepare::prepare) resolves and checks a graph. Each of its nodes becomes a [`kernel`],
//! which a [`plan`](plan::Plan) runs in order. [`mod@reference`] has a plain kernel for every operation.

pub mod compiled;
pub mod element;
pub mod fast;
pub mod kernel;
pub mod memory;
pub mod own_memory;
pub mod plan;
pub mod plugin;
pub mod reference;

use hipdnn_plugin_problem::{layout, prepare, problem, workspace};
