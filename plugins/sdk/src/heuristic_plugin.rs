//! The trait that the author of a heuristic plugin implements.

use crate::error::PluginError;
use crate::ffi::heuristic_api_version::HIPDNN_HEURISTIC_API_VERSION;
use crate::graph::Graph;
use crate::predictions::Predictions;
use crate::wire::{DeviceProperties, KnobSetting};

/// An engine in the order of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// The engine's id.
    pub engine: i64,
    /// The knobs that the host is to set; all others have their defaults.
    pub knobs: Vec<KnobSetting>,
    /// Why the engine has this place: a JSON object, which `hipdnn explain` shows.
    pub trace: Option<String>,
}

impl From<i64> for Chosen {
    fn from(engine: i64) -> Self {
        Self { engine, ..Self::default() }
    }
}

/// A library with policies, which order the engines that can run a graph.
///
/// [`export_heuristic_plugin!`](crate::export_heuristic_plugin) turns an implementation into the functions of
/// the C ABI. They check the host's arguments, catch panics and pass errors on, so an implementation only
/// sees valid arguments.
///
#[doc = concat!("```\n", include_str!("../examples/preference_plugin.rs"), "\n```")]
///
/// [`order`](HeuristicPlugin::order) is all that a simple policy needs. [`choose`](HeuristicPlugin::choose) is what hosts call, and its
/// default passes the order on; a policy that uses the host's predictions, sets knobs of engines or says why it chose implements it
/// instead:
///
#[doc = concat!("```\n", include_str!("../examples/informed_plugin.rs"), "\n```")]
///
/// Policies are identified by their index in [`HeuristicPlugin::POLICIES`], which is always in range.
///
/// # Threads
/// Any method may be called from any thread, and concurrently for one handle.
pub trait HeuristicPlugin: Sized + 'static {
    /// The plugin's name, 1 to 127 bytes without a NUL.
    const NAME: &'static str;
    /// The plugin's version, 1 to 127 bytes without a NUL, usually `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// The names of the policies: 1 to 32 different names of 1 to 127 bytes without a NUL.
    ///
    /// Users name policies in `HIPDNN_HEUR_POLICY_ORDER`, and a policy's id is
    /// [`engine_id`](crate::engine_id) of its name, so a name must never change and must not collide with
    /// another plugin's policy.
    const POLICIES: &'static [&'static str];

    /// The version of the heuristic plugin interface. Hosts load only plugins of their own major version.
    const API_VERSION: &'static str = match HIPDNN_HEURISTIC_API_VERSION.to_str() {
        Ok(version) => version,
        Err(_) => "",
    };

    /// Per-handle state: the device, and whatever the policies look up for it.
    type Handle: Send + Sync;

    /// Makes the state for a new handle of the host, whose graphs run on this device.
    ///
    /// # Errors
    /// When the policies cannot work there. They are skipped then.
    fn create_handle(device: &DeviceProperties) -> Result<Self::Handle, PluginError>;

    /// Orders engines, best first: some or all of those given, each at most once. `None` or an empty list
    /// leaves the choice to the next policy. The graph was read from well-formed bytes, and each of the
    /// engines can run it.
    ///
    /// # Errors
    /// When the policy failed to produce an order. It is skipped, and the host logs the text.
    fn order(
        handle: &Self::Handle,
        policy: usize,
        graph: &Graph,
        engines: &[i64],
    ) -> Result<Option<Vec<i64>>, PluginError> {
        let _ = (handle, policy, graph, engines);
        Err(PluginError::internal("the policy implements neither order nor choose"))
    }

    /// The same, where an engine may have knobs and a reason. Hosts that have `predictions` answer them during this call only.
    ///
    /// # Errors
    /// As [`order`](HeuristicPlugin::order).
    fn choose(
        handle: &Self::Handle,
        policy: usize,
        graph: &Graph,
        engines: &[i64],
        predictions: Option<&Predictions<'_>>,
    ) -> Result<Option<Vec<Chosen>>, PluginError> {
        let _ = predictions;
        let order = Self::order(handle, policy, graph, engines)?;
        Ok(order.map(|order| order.into_iter().map(Chosen::from).collect()))
    }
}
