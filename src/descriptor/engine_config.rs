//! ENGINECFG: an engine as it is to be used.

use std::ffi::c_int;
use std::sync::Arc;

use hipdnn_plugin_sdk::ffi::hipdnnPluginConstData_t as ConstData;

use super::attribute::{Incoming, Outgoing, unknown};
use super::engine::FrozenEngine;
use super::{Descriptor, Draft, Lifecycle, take_checked};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::plugin::{check, workspace_size};
use crate::status::{Error, Result};

const KIND: &str = "engine configuration";

const ENGINE: c_int = Name::HIPDNN_ATTR_ENGINECFG_ENGINE as c_int;
const WORKSPACE_SIZE: c_int = Name::HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE as c_int;

/// A configuration that is being set up.
#[derive(Default)]
pub struct ConfigDraft {
    engine: Option<FrozenEngine>,
}

/// A finalized configuration.
pub struct FrozenConfig {
    /// The engine.
    pub engine: FrozenEngine,
    /// Bytes of workspace that the plugin expects to need.
    pub workspace_size: i64,
}

impl FrozenConfig {
    /// The configuration as plugins read it.
    pub fn bytes(&self) -> Result<&[u8]> {
        bytes(&self.engine)
    }
}

/// The configuration of an engine whose knobs are all at their defaults.
fn bytes(engine: &FrozenEngine) -> Result<&[u8]> {
    Ok(&engine.session.engine(engine.engine)?.plain_config)
}

/// Asks the plugin how much workspace it expects to need.
fn expected_workspace_size(engine: &FrozenEngine) -> Result<i64> {
    let session = &engine.session;
    let plugin = session.plugin(engine.engine.plugin)?;
    let handle = session.plugin_handle(engine.engine.plugin)?;
    let config = bytes(engine)?;
    let graph = engine.graph.bytes(plugin.layout)?;
    let graph = ConstData { ptr: graph.as_ptr().cast(), size: graph.len() };
    let data = ConstData { ptr: config.as_ptr().cast(), size: config.len() };
    let mut size = 0;
    // SAFETY: the handle is the plugin's own and the bytes outlive the call, which writes one number.
    let status =
        unsafe { plugin.api.get_workspace_size(handle, &raw const data, &raw const graph, &raw mut size) };
    check(&plugin.api, "get workspace size", status)?;
    workspace_size(size)
}

impl Draft for ConfigDraft {
    type Frozen = Arc<FrozenConfig>;

    const ASKS_PLUGINS: bool = true;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            ENGINE => self.engine = Some(incoming.descriptor(Descriptor::engine)?),
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    // Inline, so that the frozen form is made where it stays.
    #[inline(always)]
    fn finalize(&mut self) -> Result<Self::Frozen> {
        let missing =
            || Error::bad_param("HIPDNN_ATTR_ENGINECFG_ENGINE of the engine configuration is not set");
        let (engine, workspace_size) = take_checked(&mut self.engine, missing, expected_workspace_size)?;
        Ok(Arc::new(FrozenConfig { engine, workspace_size }))
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            ENGINE => outgoing.exactly_one_descriptor(|| Descriptor::of_engine(frozen.engine.clone())),
            WORKSPACE_SIZE => outgoing.exactly_one(Type::HIPDNN_TYPE_INT64, frozen.workspace_size),
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

impl Descriptor {
    /// A finalized configuration descriptor that shares a configuration.
    pub(super) fn of_engine_config(config: Arc<FrozenConfig>) -> Self {
        Self::EngineConfig(Lifecycle::finalized(ConfigDraft::default(), config))
    }

    fn open_engine_config(&self) -> Result<&Lifecycle<ConfigDraft>> {
        match self {
            Self::EngineConfig(lifecycle) => Ok(lifecycle),
            other => Err(other.wrong_kind(KIND)),
        }
    }

    /// Fails unless this is an engine configuration that can still be changed.
    pub(super) fn check_open_engine_config(&self) -> Result<()> {
        match self.open_engine_config()?.frozen() {
            None => Ok(()),
            Some(_) => {
                Err(Error::not_initialized("the engine configuration is finalized and cannot be changed"))
            }
        }
    }

    /// Sets the engine of an open engine configuration.
    pub(super) fn set_engine(&self, engine: FrozenEngine) -> Result<()> {
        self.open_engine_config()?.change(|draft| {
            draft.engine = Some(engine);
            Ok(())
        })
    }
}
