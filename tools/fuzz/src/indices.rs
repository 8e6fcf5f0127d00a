//! Lengths, offsets, page tables and indices: all tensors are between guard pages, and inputs in read-only pages.

use std::cell::OnceCell;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

use hipdnn_abi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type, hipdnnBackendDescriptor_t,
    hipdnnBackendDescriptorType_t as Kind, hipdnnHandle_t,
};
use hipdnn_backend::c_api;
use hipdnn_plugin_sdk::graph::operation::{
    MoeGroupedMatmul, MoeGroupedMatmulBackward, ResampleBackward, Sdpa,
};
use hipdnn_plugin_sdk::graph::{
    DataType, Graph, MoeGroupedMatmulMode, Node, Operation, PaddingMode, ResampleMode, Tensor,
};
use hipdnn_plugin_sdk::os::paths;
use hipdnn_plugin_sdk::wire::{self, Layout};

use crate::bytes::Bytes;

const FLOAT: DataType = DataType::Float;
const INT: DataType = DataType::Int32;
const PAGE: usize = 4096;

thread_local! {
    static CASES: OnceCell<Vec<Case>> = const { OnceCell::new() };
}

/// A graph with its plans and memory.
struct Case {
    handle: hipdnnHandle_t,
    plans: Vec<hipdnnBackendDescriptor_t>,
    pack: hipdnnBackendDescriptor_t,
    /// The integer inputs: the first element and the count.
    indices: Vec<(*mut i32, usize)>,
}

/// A graph being built; the last added tensors are outputs.
#[derive(Default)]
struct Made {
    graph: Graph,
    written: Vec<i64>,
}

impl Made {
    fn tensor(&mut self, data_type: DataType, dims: &[i64]) -> i64 {
        let uid = self.graph.tensors.len() as i64 + 1;
        let mut strides = vec![1; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis];
        }
        self.graph.tensors.push(Tensor::new(uid, data_type, dims, &strides));
        uid
    }

    fn output(&mut self, dims: &[i64]) -> i64 {
        let uid = self.tensor(FLOAT, dims);
        self.written.push(uid);
        uid
    }

    fn node(mut self, operation: impl Into<Operation>) -> Self {
        let node = Node { name: String::new(), compute_type: FLOAT, operation: operation.into() };
        self.graph.nodes.push(node);
        self
    }
}

fn attention(paged: bool, ragged: bool) -> Made {
    let mut made = Made::default();
    let q_dims = if paged { [1, 4, 6, 8] } else { [2, 4, 5, 8] };
    let kv = if paged { [4, 2, 4, 8] } else { [2, 2, 7, 8] };
    let [q, k, v] = [q_dims, kv, kv].map(|dims| made.tensor(FLOAT, &dims));
    let o = made.output(&q_dims);
    let stats = made.output(&[q_dims[0], 4, q_dims[2], 1]);
    let mut node = Sdpa::new(q, k, v, o);
    node.stats = Some(stats);
    node.padding_mask = true;
    let [queries, keys] = [0; 2].map(|_| made.tensor(INT, &[2]));
    (node.seq_len_q, node.seq_len_kv) = (Some(queries), Some(keys));
    if paged {
        let [of_k, of_v] = [0; 2].map(|_| made.tensor(INT, &[2, 3]));
        (node.page_table_k, node.page_table_v) = (Some(of_k), Some(of_v));
    }
    if ragged {
        for uid in [q, k, v, o] {
            let offsets = made.tensor(INT, &[3]);
            made.graph.tensors[uid as usize - 1].ragged_offset_uid = Some(offsets);
        }
    }
    made.node(node)
}

fn mixture(mode: MoeGroupedMatmulMode) -> Made {
    let mut made = Made::default();
    let token = made.tensor(FLOAT, &[1, 6, 4]);
    let weight = made.tensor(FLOAT, &[2, 4, 5]);
    let output = made.output(&[1, 6, 5]);
    let first_token_offset = made.tensor(INT, &[4]);
    let [index, ks] = [0; 2].map(|_| made.tensor(INT, &[1, 6, 1]));
    let gathers = mode != MoeGroupedMatmulMode::None;
    let scatters = mode == MoeGroupedMatmulMode::Scatter;
    made.node(MoeGroupedMatmul {
        token,
        weight,
        first_token_offset,
        token_index: gathers.then_some(index),
        token_ks: scatters.then_some(ks),
        output,
        mode,
        top_k: 2,
    })
}

fn mixture_gradient() -> Made {
    let mut made = Made::default();
    let [doutput, token] = [[1, 6, 5], [1, 6, 4]].map(|dims| made.tensor(FLOAT, &dims));
    let dweight = made.output(&[2, 4, 5]);
    let first_token_offset = made.tensor(INT, &[4]);
    made.node(MoeGroupedMatmulBackward { doutput, token, first_token_offset, dweight })
}

fn pooling() -> Made {
    let mut made = Made::default();
    let dy = made.tensor(FLOAT, &[2, 3, 4, 4]);
    let dx = made.output(&[2, 3, 8, 8]);
    let index = made.tensor(INT, &[2, 3, 4, 4]);
    made.node(ResampleBackward {
        dy,
        dx,
        index: Some(index),
        pre_padding: vec![0; 2],
        post_padding: vec![0; 2],
        stride: vec![2; 2],
        window: vec![2; 2],
        resample_mode: ResampleMode::Maxpool,
        padding_mode: PaddingMode::NegInfPad,
    })
}

fn set<T>(descriptor: hipdnnBackendDescriptor_t, name: Name, kind: Type, values: &[T]) {
    // SAFETY: the array has as many elements.
    let status = unsafe {
        let values = (values.len() as i64, values.as_ptr().cast());
        c_api::hipdnnBackendSetAttribute(descriptor, name as i32, kind as i32, values.0, values.1)
    };
    assert_eq!(status, 0, "{name:?}");
}

fn make(kind: Kind) -> hipdnnBackendDescriptor_t {
    let mut descriptor = null_mut();
    // SAFETY: the function writes only to the local `descriptor`.
    assert_eq!(unsafe { c_api::hipdnnBackendCreateDescriptor(kind as i32, &raw mut descriptor) }, 0);
    descriptor
}

fn finalize(descriptor: hipdnnBackendDescriptor_t) {
    assert_eq!(c_api::hipdnnBackendFinalize(descriptor), 0);
}

/// Memory whose last byte is adjacent to a guard page.
fn memory(size: usize) -> (*mut u8, *mut c_void, usize) {
    let pages = size.next_multiple_of(PAGE);
    let (none, both) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: new pages, of which all but the first and the last are made accessible.
    unsafe {
        let first =
            libc::mmap(null_mut(), pages + 2 * PAGE, none, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(first, libc::MAP_FAILED);
        let usable = first.byte_add(PAGE);
        assert_eq!(libc::mprotect(usable, pages, both), 0);
        (usable.cast::<u8>().add(pages - size), usable, pages)
    }
}

fn case(made: Made, handle: hipdnnHandle_t) -> Case {
    let bytes = wire::write(&made.graph, Layout::G2).expect("a graph");
    let mut graph = null_mut();
    // SAFETY: the bytes live during the call, and the function writes only to the local `graph`.
    let status = unsafe {
        c_api::hipdnnBackendCreateAndDeserializeGraph_ext(&raw mut graph, bytes.as_ptr(), bytes.len())
    };
    assert_eq!(status, 0);
    set(graph, Name::HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, Type::HIPDNN_TYPE_HANDLE, &[handle]);
    finalize(graph);
    let heuristic = make(Kind::HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    let (graph_name, descriptor) =
        (Name::HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR);
    set(heuristic, graph_name, descriptor, &[graph]);
    set(heuristic, Name::HIPDNN_ATTR_ENGINEHEUR_MODE, Type::HIPDNN_TYPE_HEUR_MODE, &[0_i32]);
    finalize(heuristic);
    let mut configs = [0; 2].map(|_| make(Kind::HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    let mut count = 0;
    // SAFETY: there is room for two.
    let status = unsafe {
        c_api::hipdnnBackendGetAttribute(
            heuristic,
            Name::HIPDNN_ATTR_ENGINEHEUR_RESULTS as i32,
            descriptor as i32,
            2,
            &raw mut count,
            configs.as_mut_ptr().cast(),
        )
    };
    assert_eq!((status, count), (0, 2), "both CPU engines");
    let plans = configs.map(|config| {
        finalize(config);
        let plan = make(Kind::HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set(plan, Name::HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, descriptor, &[config]);
        finalize(plan);
        plan
    });
    let (mut uids, mut pointers, mut indices) = (Vec::new(), Vec::new(), Vec::new());
    for tensor in &made.graph.tensors {
        let elements = tensor.dims.iter().product::<i64>() as usize;
        let (first, pages, size) = memory(4 * elements);
        if tensor.data_type == INT {
            indices.push((first.cast::<i32>(), elements));
        } else if !made.written.contains(&tensor.uid) {
            // SAFETY: the pages are the tensor's own.
            assert_eq!(unsafe { libc::mprotect(pages, size, libc::PROT_READ) }, 0);
        }
        uids.push(tensor.uid);
        pointers.push(first);
    }
    let pack = make(Kind::HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, Name::HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::HIPDNN_TYPE_INT64, &uids);
    set(pack, Name::HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::HIPDNN_TYPE_VOID_PTR, &pointers);
    // With a null workspace, plans use their own.
    set(pack, Name::HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, Type::HIPDNN_TYPE_VOID_PTR, &[null::<u8>()]);
    finalize(pack);
    Case { handle, plans: plans.into(), pack, indices }
}

fn cases() -> Vec<Case> {
    let file = crate::plugins().join("libhipdnn_cpu_plugin.so");
    let file = CString::new(&*paths::bytes(file.as_os_str())).expect("a path");
    let (mut handle, path) = (null_mut(), file.as_ptr());
    // SAFETY: the array is one path that ends with a NUL, and the function writes only to the local `handle`.
    unsafe {
        assert_eq!(c_api::hipdnnSetEnginePluginPaths_ext(1, &raw const path, 1), 0);
        assert_eq!(c_api::hipdnnCreate(&raw mut handle), 0);
    }
    [
        attention(false, false),
        attention(false, true),
        attention(true, false),
        mixture(MoeGroupedMatmulMode::None),
        mixture(MoeGroupedMatmulMode::Gather),
        mixture(MoeGroupedMatmulMode::Scatter),
        mixture_gradient(),
        pooling(),
    ]
    .map(|made| case(made, handle))
    .into()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    (0..16).map(|case| [vec![case, 0], [0, 1, 2, 3, 4, 1, 2, 5, 0, 2, 4, 6].repeat(2)].concat()).collect()
}

/// The case, whether integers have one byte or four, and the integers.
pub(crate) fn run(data: &[u8]) {
    CASES.with(|all| {
        let all = all.get_or_init(cases);
        let mut bytes = Bytes(data);
        let number = usize::from(bytes.byte());
        let case = &all[number % all.len()];
        let is_wide = bytes.byte() % 4 == 3;
        for (first, count) in &case.indices {
            for place in 0..*count {
                let integer = if is_wide {
                    i32::from_le_bytes(bytes.array())
                } else {
                    i32::from(bytes.byte().cast_signed())
                };
                // SAFETY: the tensor has as many elements.
                unsafe { first.add(place).write_unaligned(integer) };
            }
        }
        let plan = case.plans[number / all.len() % case.plans.len()];
        // SAFETY: every tensor has its memory, and engines must not access others whatever the integers are.
        let status = unsafe { c_api::hipdnnBackendExecute(case.handle, plan, case.pack) };
        if status != 0 {
            let mut text = [0_u8; 4096];
            // SAFETY: the text is writable for its size.
            unsafe { c_api::hipdnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
            let text = String::from_utf8_lossy(&text);
            // A panic inside the plugin, which it catches.
            assert!(!text.contains("panic") && !text.contains("defect"), "status {status}: {text}");
        }
    });
}
