"""Graphs, and plans of them, through the C functions of `libhipdnn_backend.so`, for tensors of PyTorch on the GPU."""

import ctypes
import json
import time
from types import SimpleNamespace

import torch

# Numbers of include/hipdnn/backend.
HIPDNN_BACKEND_ENGINE_DESCRIPTOR = 1
HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR = 2
HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 4
HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 6
HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 11
HIPDNN_ATTR_ENGINECFG_ENGINE = 200
HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES = 202
HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 301
HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 302
HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE = 500
HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE = 501
HIPDNN_ATTR_OPERATIONGRAPH_HANDLE = 600
HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 700
HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 701
HIPDNN_ATTR_VARIANT_PACK_WORKSPACE = 703
HIPDNN_ATTR_ENGINE_OPERATION_GRAPH = 1000
HIPDNN_ATTR_ENGINE_GLOBAL_INDEX = 1001
HIPDNN_TYPE_HANDLE = 0
HIPDNN_TYPE_INT64 = 3
HIPDNN_TYPE_VOID_PTR = 6
HIPDNN_TYPE_CHAR = 19
HIPDNN_TYPE_BACKEND_DESCRIPTOR = 13
HIPDNN_SEV_INFO = 0
HIPDNN_SEV_OFF = 4
HIPDNN_LOG_CALLBACK_SYNC = 0

POINTER, INT64, SIZE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)

DATA_TYPES = {"torch.bfloat16": "bfloat16", "torch.float16": "half", "torch.float32": "float"}


class Sets:
    """Equal tensors, by their names, as often as it takes that together they are more than three times the L2 cache: an
    execution that takes its turn finds nothing there of the one that had the same tensors before."""

    def __init__(self, **tensors):
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        cache = getattr(properties, "L2_cache_size", 50 << 20)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        copies = [{name: x.clone() for name, x in tensors.items()} for _ in range(3 * cache // size)]
        self.all = [SimpleNamespace(**tensors) for tensors in (tensors, *copies)]
        self.first, self.last = self.all[0], self.all[-1]

    def __len__(self):
        return len(self.all)

    def __getitem__(self, turn):
        return self.all[turn % len(self.all)]


class Graph:
    """A graph as JSON, whose tensors in memory are those of some sets, by their names. Tensors are named by their uid."""

    def __init__(self, sets):
        self.sets, self.tensors, self.nodes, self.bound = sets, [], [], {}

    def _add(self, **tensor):
        uid = len(self.tensors) + 1
        self.tensors.append({"uid": uid, "name": f"t{uid}", **tensor})
        return uid

    def tensor(self, name):
        """Adds a tensor in memory, with the shape, strides and data type of PyTorch's."""
        known = next((uid for uid, other in self.bound.items() if other == name), None)
        if known:
            return known
        tensor = getattr(self.sets.first, name)
        dims, strides, data_type = list(tensor.shape), list(tensor.stride()), DATA_TYPES[str(tensor.dtype)]
        uid = self._add(dims=dims, strides=strides, virtual=False, data_type=data_type)
        self.bound[uid] = name
        return uid

    def bind(self, names):
        """Adds tensors in memory, whose names are separated by spaces; returns their uids by name."""
        return {name: self.tensor(name) for name in names.split()}

    def virtual(self, like):
        """Adds an intermediate result of floats with the shape and strides of a tensor."""
        return self._add(dims=list(like.shape), strides=list(like.stride()), virtual=True, data_type="float")

    def virtual_column(self, rows):
        """Adds an intermediate result of floats with one element a row: [rows, 1]."""
        return self._add(dims=[rows, 1], strides=[1, 1], virtual=True, data_type="float")

    def number(self, value):
        """Adds a float constant of the graph."""
        value = {"value_type": "Float32Value", "value": value}
        return self._add(dims=[1], strides=[1], virtual=False, data_type="float", **value)

    def node(self, kind, inputs, outputs, **more):
        """Adds an operation. Inputs and outputs map the names of its tensors, without "_tensor_uid", to uids."""
        inputs, outputs = ({f"{name}_tensor_uid": uid for name, uid in m.items()} for m in (inputs, outputs))
        node = {"name": f"n{len(self.nodes)}", "type": kind, "compute_data_type": "float", **more}
        self.nodes.append({**node, "inputs": inputs, "outputs": outputs})

    def pointwise(self, mode, inputs, output):
        """Adds an element-wise operation of one or two tensors."""
        inputs = {f"in_{place}": uid for place, uid in enumerate(inputs)}
        self.node("PointwiseAttributes", inputs, {"out_0": output})
        self.nodes[-1]["inputs"]["operation"] = mode

    def reduction(self, mode, source, output):
        """Adds a reduction over the dimensions that have the size 1 in the output."""
        self.node("ReductionAttributes", {}, {}, in_tensor_uid=source, out_tensor_uid=output, mode=mode)

    def json(self):
        types = dict.fromkeys(("io_data_type", "intermediate_data_type", "compute_data_type"), "float")
        return json.dumps({"name": "bench", **types, "tensors": self.tensors, "nodes": self.nodes}).encode()


class Library:
    """`libhipdnn_backend.so` and one handle. Its descriptors live until the process ends."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.handle = POINTER()
        self.check("hipdnnCreate", self.c.hipdnnCreate(ctypes.byref(self.handle)))

    def check(self, what, status):
        """Raises RuntimeError with the library's message unless the status is 0."""
        if status:
            words = ctypes.create_string_buffer(2000)
            self.c.hipdnnGetLastErrorString(words, SIZE(len(words)))
            raise RuntimeError(f"{what}: status {status}: {words.value.decode(errors='replace')}")

    def set_stream(self, stream):
        self.check("hipdnnSetStream", self.c.hipdnnSetStream(self.handle, POINTER(stream)))

    def create(self, kind):
        descriptor = POINTER()
        status = self.c.hipdnnBackendCreateDescriptor(kind, ctypes.byref(descriptor))
        self.check("hipdnnBackendCreateDescriptor", status)
        return descriptor

    def set(self, descriptor, name, kind, c_type, values):
        """Sets an attribute to values of one type of C."""
        elements = (c_type * len(values))(*values)
        status = self.c.hipdnnBackendSetAttribute(descriptor, name, kind, INT64(len(values)), elements)
        self.check(f"hipdnnBackendSetAttribute {name}", status)

    def set_child(self, descriptor, name, child):
        self.set(descriptor, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, POINTER, [child])

    def finalize(self, descriptor, what):
        self.check(f"finalize {what}", self.c.hipdnnBackendFinalize(descriptor))

    def plan(self, graph, engine, knobs=()):
        """Has an engine plan a graph, with knobs by their names. Answers a function that executes it on the handle's stream
        with the tensors whose turn it is, the seconds that the plan took, and the bytes of its workspace."""
        text, descriptor = graph.json(), POINTER()
        status = self.c.hipdnnBackendCreateAndDeserializeJsonGraph_ext(ctypes.byref(descriptor), text, SIZE(len(text)))
        self.check("hipdnnBackendCreateAndDeserializeJsonGraph_ext", status)
        self.set(descriptor, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, POINTER, [self.handle])
        self.finalize(descriptor, "graph")
        number = INT64()
        status = self.c.hipdnnGetEngineIdByName_ext(self.handle, engine.encode(), ctypes.byref(number))
        self.check("hipdnnGetEngineIdByName_ext", status)
        chosen = self.create(HIPDNN_BACKEND_ENGINE_DESCRIPTOR)
        self.set_child(chosen, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, descriptor)
        self.set(chosen, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, INT64, [number.value])
        self.finalize(chosen, "engine")
        configuration = self.create(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        self.set_child(configuration, HIPDNN_ATTR_ENGINECFG_ENGINE, chosen)
        choices = [self.choice(name, value) for name, value in dict(knobs).items()]
        if choices:
            name = HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES
            self.set(configuration, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, POINTER, choices)
        self.finalize(configuration, "engine configuration")
        plan = self.create(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        self.set_child(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
        began = time.perf_counter()
        self.finalize(plan, "plan")
        seconds = time.perf_counter() - began
        size, count = INT64(), INT64()
        arguments = (HIPDNN_TYPE_INT64, INT64(1), ctypes.byref(count), ctypes.byref(size))
        status = self.c.hipdnnBackendGetAttribute(plan, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, *arguments)
        self.check("hipdnnBackendGetAttribute of the workspace's size", status)
        workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device="cuda")
        packs = [self.pack(graph, tensors, workspace) for tensors in graph.sets.all]

        def execute(turn, held=workspace):
            pack = packs[turn % len(packs)]
            self.check("hipdnnBackendExecute", self.c.hipdnnBackendExecute(self.handle, plan, pack))

        return execute, seconds, size.value

    def choice(self, knob, value):
        """The value of a knob."""
        choice = self.create(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
        self.set(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, ctypes.c_char, list(knob.encode()))
        self.set(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_INT64, INT64, [value])
        self.finalize(choice, "knob choice")
        return choice

    def pack(self, graph, tensors, workspace):
        """The addresses of a graph's tensors, for one of its sets."""
        pack = self.create(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        pointers = [getattr(tensors, name).data_ptr() for name in graph.bound.values()]
        self.set(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, INT64, list(graph.bound))
        self.set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, POINTER, pointers)
        self.set(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, POINTER, [workspace.data_ptr()])
        self.finalize(pack, "variant pack")
        return pack

    def refusal(self, graph, engine):
        """Why an engine refuses a graph, from the log. None if it accepts it, or the log does not say why."""
        lines = []
        keep = LOG_CALLBACK(lambda user, severity, text: lines.append(text.decode(errors="replace")))
        self._log(keep, HIPDNN_SEV_INFO)
        try:
            self.plan(graph, engine)
            lines.clear()
        except RuntimeError:
            pass  # It is the log that is wanted.
        finally:
            self._log(keep, HIPDNN_SEV_OFF)
        return next((line.split(f"{engine}: ", 1)[1] for line in lines if f"{engine}: " in line), None)

    def _log(self, callback, level):
        self.c.hipdnnBackendSetGlobalLogLevel_ext(level)
        arguments = (callback, level, HIPDNN_LOG_CALLBACK_SYNC, POINTER(1))
        self.check("hipdnnSetUserLogCallback_ext", self.c.hipdnnSetUserLogCallback_ext(*arguments))
