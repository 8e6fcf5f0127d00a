//! The library, loaded like by a host, computes the same as its engines called directly.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::c_void;
use std::ptr::null_mut;

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plugin::{CPU_ENGINE, CPU_REFERENCE_ENGINE};
use hipdnn_plugin_sdk::engine_id;
use hipdnn_plugin_sdk::ffi::{
    hipdnnPluginConstData_t as ConstData, hipdnnPluginDeviceBuffer_t as DeviceBuffer,
};
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use libloading::Library;

use super::whole_graphs::training_step;

type Pointer = *mut c_void;

fn data(bytes: &[u8]) -> ConstData {
    ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() }
}

#[test]
fn a_training_step_through_the_c_interface() {
    // The staged library next to the test folders: building another would take minutes.
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap();
    let file = format!("hipdnn_plugins/engines/{DLL_PREFIX}hipdnn_cpu_plugin{DLL_SUFFIX}");
    let staged = ["stage/lib", "../stage-windows/bin"].map(|folder| target.join(folder).join(&file));
    let path = staged.iter().find(|path| path.is_file()).unwrap_or(&staged[0]);
    // SAFETY: the library does nothing when it is loaded.
    let library =
        unsafe { Library::new(path) }.unwrap_or_else(|e| panic!("{e}; `cargo xtask build` lays it out"));
    macro_rules! call {
        ($name:literal, $($type:ty = $value:expr),+) => {
            // SAFETY: the signature is that of the plugin interface, and the arguments live during the call.
            assert_eq!(unsafe { library.get::<unsafe extern "C" fn($($type),+) -> i32>($name).unwrap()($($value),+) }, 0)
        };
    }
    type In = *const ConstData;
    let (mut handle, mut context): (Pointer, Pointer) = (null_mut(), null_mut());
    call!("hipdnnEnginePluginCreate", *mut Pointer = &mut handle);
    call!("hipdnnEnginePluginSetStream", Pointer = handle, Pointer = null_mut());
    let case = training_step(DataType::Half);
    let expected_ids = [CPU_ENGINE, CPU_REFERENCE_ENGINE].map(engine_id);
    for (layout, all) in [(Layout::G2, 0), (Layout::G1, 1), (Layout::G2, 1)] {
        let graph = wire::write(&case.graph, layout).unwrap();
        let (mut ids, mut count) = ([0_i64; 2], 0_u32);
        call!("hipdnnEnginePluginOfferAllEngines_ext", u32 = all);
        call!(
            "hipdnnEnginePluginGetApplicableEngineIds",
            Pointer = handle,
            In = &data(&graph),
            *mut i64 = ids.as_mut_ptr(),
            u32 = 2,
            *mut u32 = &mut count
        );
        if all == 0 {
            assert_eq!((count, ids), (1, [expected_ids[0], 0]));
            continue;
        }
        assert_eq!((count, ids), (2, expected_ids));
        for (engine, id) in ids.into_iter().enumerate() {
            let config = wire::write_engine_config(&EngineConfig { engine_id: id, knobs: vec![] });
            call!(
                "hipdnnEnginePluginCreateExecutionContext",
                Pointer = handle,
                In = &data(&config),
                In = &data(&graph),
                *mut Pointer = &mut context
            );
            let mut size = 0_usize;
            call!(
                "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext",
                Pointer = handle,
                Pointer = context,
                *mut usize = &mut size
            );
            let mut workspace = vec![0_u8; size];
            let (mut loaded, mut native) = (case.clone(), case.clone());
            let buffers = loaded.buffers();
            call!(
                "hipdnnEnginePluginExecuteOpGraph",
                Pointer = handle,
                Pointer = context,
                Pointer = workspace.as_mut_ptr().cast(),
                *const DeviceBuffer = buffers.as_ptr(),
                u32 = buffers.len() as u32
            );
            native.run(planner(engine));
            for memory in &case.memory {
                let uid = memory.tensor.uid;
                assert_eq!(loaded.values(uid), native.values(uid), "engine {engine}, tensor {uid}");
            }
            call!("hipdnnEnginePluginDestroyExecutionContext", Pointer = handle, Pointer = context);
        }
    }
    call!("hipdnnEnginePluginDestroy", Pointer = handle);
}
