//! What the author of a heuristic plugin writes.

use crate::error::PluginError;
use crate::ffi::heuristic_api_version::HIPDNN_HEURISTIC_API_VERSION;
use crate::graph::Graph;
use crate::wire::DeviceProperties;

/// A library with policies, which put the engines that can run a graph into an order.
///
/// [`export_heuristic_plugin!`](crate::export_heuristic_plugin) turns an implementation into the functions of the C ABI. Around
/// each of these methods it checks what the host passed, catches panics and hands errors over, so an implementation sees
/// valid arguments only.
///
#[doc = concat!("```\n", include_str!("../examples/preference_plugin.rs"), "\n```")]
///
/// A policy is named by its place in [`HeuristicPlugin::POLICIES`], which is always in range.
///
/// # Threads
/// Any method may be called from any thread, also several at once for one handle.
pub trait HeuristicPlugin: Sized + 'static {
    /// The plugin's name, 1 to 127 bytes without a NUL.
    const NAME: &'static str;
    /// The plugin's version, 1 to 127 bytes without a NUL; `env!("CARGO_PKG_VERSION")` is a good one.
    const VERSION: &'static str;
    /// The names of the policies: 1 to 32 different names of 1 to 127 bytes without a NUL.
    ///
    /// A user names policies in `HIPDNN_HEUR_POLICY_ORDER`, and a policy's id is [`engine_id`](crate::engine_id) of its name,
    /// so a name must never change and should not be taken by anybody else's policy.
    const POLICIES: &'static [&'static str];

    /// The version of the heuristic plugin interface. Hosts load plugins of their own major version.
    const API_VERSION: &'static str = match HIPDNN_HEURISTIC_API_VERSION.to_str() {
        Ok(version) => version,
        Err(_) => "",
    };

    /// What the policies know of one handle of the host: its device, and whatever they look up for it.
    type Handle: Send + Sync;

    /// Makes the state for a new handle of the host, whose graphs run on this device.
    ///
    /// # Errors
    /// When the policies cannot work there. They are passed over then.
    fn create_handle(device: &DeviceProperties) -> Result<Self::Handle, PluginError>;

    /// Puts engines into an order, best first: some or all of those given, each at most once. `None`, or no engine, leaves the
    /// choice to the next policy. The graph was read from well-formed bytes, and each of the engines said that it can run it.
    ///
    /// # Errors
    /// When the policy should have had an order and has none. It is passed over, and the host logs the text.
    fn order(
        handle: &Self::Handle,
        policy: usize,
        graph: &Graph,
        engines: &[i64],
    ) -> Result<Option<Vec<i64>>, PluginError>;
}
