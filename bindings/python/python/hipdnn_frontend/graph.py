"""Graphs: nodes with their attributes, as text and bytes, and executions."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import hipdnn
from hipdnn import _native
from hipdnn.device import HOST
from hipdnn.library import engines, library

from .autotune import Autotune
from .error import Error, ErrorCode, Refused, as_error, raising
from .handle import address_of as handle_address
from .handle import stream_of
from .lower import RESULTS, Lowered, Step, here, in_order, lower
from .pack import array_at, pack_of, tensor_from
from .plans import Entry
from .tensor import Tensor
from .tuning import ExecutionTiming
from .types import DataType, NormFwdPhase, TimingQuality

__all__ = ["Graph"]

#: The names of the project's plugins.
OWN_PLUGINS = {"CPU", "cuDNN", "hipBLASLt", "MIOpen", "RTC", "Vulkan"}

Tensors = tuple["Tensor | None", ...]


class Graph(Autotune):
    """A graph of operations by hipDNN's names, which the library plans and executes.

    >>> graph = Graph().set_io_data_type(DataType.FLOAT).set_compute_data_type(DataType.FLOAT)
    >>> from hipdnn_frontend import MatmulAttributes
    >>> a, b = Tensor.create([2, 3], DataType.FLOAT), Tensor.create([3, 4], DataType.FLOAT)
    >>> c = graph.matmul(a, b, MatmulAttributes()).set_output(True)
    >>> graph.validate().is_good(), c.get_dim()
    (True, [2, 4])
    """

    def __init__(self) -> None:
        super().__init__()
        self._name = ""
        self._types = {"io": DataType.NOT_SET, "intermediate": DataType.NOT_SET, "compute": DataType.NOT_SET}
        self._preferred: int | None = None
        self._steps: list[Step] = []
        #: The text that it was read from, if it was.
        self._text: str | None = None

    def __repr__(self) -> str:
        return f"<hipdnn_frontend.Graph {self._name!r} of {len(self._steps)} operations>"

    # Names and types.

    def set_name(self, name: str) -> Graph:
        """A name for messages."""
        self._name = str(name)
        return self

    def get_name(self) -> str:
        """The name for messages."""
        return self._name

    def _set_type(self, key: str, data_type: DataType) -> Graph:
        self._types[key] = DataType(data_type)
        return self

    def set_io_data_type(self, data_type: DataType) -> Graph:
        """The type of tensors of the program without a type."""
        return self._set_type("io", data_type)

    def set_intermediate_data_type(self, data_type: DataType) -> Graph:
        """The type of tensors between nodes without a type."""
        return self._set_type("intermediate", data_type)

    def set_compute_data_type(self, data_type: DataType) -> Graph:
        """The type that operations compute in."""
        return self._set_type("compute", data_type)

    def get_io_data_type(self) -> DataType:
        """The type of tensors of the program without a type."""
        return self._types["io"]

    def get_intermediate_data_type(self) -> DataType:
        """The type of tensors between nodes without a type."""
        return self._types["intermediate"]

    def get_compute_data_type(self) -> DataType:
        """The type that operations compute in."""
        return self._types["compute"]

    @staticmethod
    def tensor(tensor: Tensor) -> Tensor:
        """A copy of a tensor, for the graph."""
        return tensor._copy()

    @staticmethod
    def tensor_like(tensor: Any, name: str = "") -> Tensor:
        """A tensor with the shape, strides and type of another, or of an array with DLPack."""
        if isinstance(tensor, Tensor):
            return tensor._copy().clear_uid().set_name(name)
        return tensor_from(tensor, name)

    # Operations.

    def _add(self, operation: str, attributes: Any, given: Mapping[str, Any], without: Sequence[str] = ()) -> Tensors:
        """Adds a node; returns the tensors that it writes, None for those in ``without``."""
        if self._text is not None:
            raise hipdnn.GraphError(operation, "graph", "was read from a text or bytes, expected one that was not")
        of = attributes._copy()
        for key, value in given.items():
            setattr(of, key, value)
        of.name = of.name or f"{operation}_{len(self._steps)}"
        results = []
        for key in RESULTS[operation].split():
            if getattr(of, key) is None and key not in without:
                setattr(of, key, Tensor().set_is_virtual(True))
            results.append(getattr(of, key))
        self._steps.append((operation, of))
        self._inner, self._native = None, None
        return tuple(results)

    def conv_fprop(self, x: Tensor, w: Tensor, attributes: Any) -> Any:
        """A convolution of an image [N, C, ...] with a filter [K, C / groups, ...]."""
        return self._add("conv_fprop", attributes, {"x": x, "w": w})[0]

    def conv_dgrad(self, dy: Tensor, w: Tensor, attributes: Any) -> Any:
        """The gradient of a convolution's image."""
        return self._add("conv_dgrad", attributes, {"dy": dy, "w": w})[0]

    def conv_wgrad(self, dy: Tensor, x: Tensor, attributes: Any) -> Any:
        """The gradient of a convolution's filter."""
        return self._add("conv_wgrad", attributes, {"dy": dy, "x": x})[0]

    def matmul(self, a: Tensor, b: Tensor, attributes: Any) -> Any:
        """The product of [..., M, K] and [..., K, N]."""
        return self._add("matmul", attributes, {"a": a, "b": b})[0]

    def pointwise(self, *tensors_and_attributes: Any) -> Any:
        """A pointwise operation of one to three tensors; the attributes come last."""
        *tensors, attributes = tensors_and_attributes
        if not 1 <= len(tensors) <= 3:
            raise TypeError(
                f"pointwise(): takes one to three tensors and then attributes, {len(tensors)} tensors were given"
            )
        given = {f"input_{at}": tensor for at, tensor in enumerate(tensors)}
        return self._add("pointwise", attributes, given)[0]

    def reduction(self, x: Tensor, *output_and_attributes: Any) -> Any:
        """A reduction to the sizes of the result, which is given or set afterwards."""
        *output, attributes = output_and_attributes
        return self._add("reduction", attributes, {"x": x, **({"y": output[0]} if output else {})})[0]

    def resample(self, x: Tensor, attributes: Any) -> Tensors:
        """Pooling: the result, and the index of each maximum if the attributes ask for it."""
        return self._add("resample", attributes, {"x": x}, () if attributes.generate_index else ("index",))

    def resample_fwd(self, x: Tensor, attributes: Any) -> Any:
        """Pooling: the result."""
        return self.resample(x, attributes)[0]

    def resample_bwd(self, dy: Tensor, attributes: Any, index: Tensor | None = None) -> Any:
        """The gradient of pooling."""
        return self._add("resample_bwd", attributes, {"dy": dy, **({} if index is None else {"index": index})})[0]

    def batchnorm(self, x: Tensor, scale: Tensor, bias: Tensor, attributes: Any) -> Tensors:
        """Batch normalization in training: the result, mean, 1 / √(variance + ε), and the new running mean and variance."""
        running = attributes.prev_running_mean is not None
        without = () if running else ("next_running_mean", "next_running_variance")
        return self._add("batchnorm", attributes, {"x": x, "scale": scale, "bias": bias}, without)

    def batchnorm_backward(self, dy: Tensor, x: Tensor, scale: Tensor, attributes: Any) -> Tensors:
        """The gradients of input, scale and bias of batch normalization."""
        return self._add("batchnorm_backward", attributes, {"dy": dy, "x": x, "scale": scale})

    def batchnorm_inference(
        self, x: Tensor, mean: Tensor, inv_variance: Tensor, scale: Tensor, bias: Tensor, attributes: Any
    ) -> Any:
        """Batch normalization in inference."""
        given = {"x": x, "mean": mean, "inv_variance": inv_variance, "scale": scale, "bias": bias}
        return self._add("batchnorm_inference", attributes, given)[0]

    def batchnorm_inference_variance_ext(
        self, x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, bias: Tensor, epsilon: Tensor, attributes: Any
    ) -> Any:
        """Batch normalization in inference, of a variance."""
        given = {"x": x, "mean": mean, "variance": variance, "scale": scale, "bias": bias, "epsilon": epsilon}
        return self._add("batchnorm_inference_variance_ext", attributes, given)[0]

    def layernorm(self, x: Tensor, scale: Tensor, bias: Tensor, attributes: Any) -> Tensors:
        """Layer normalization: the result, and in training mean and 1 / √(variance + ε)."""
        without = () if attributes.forward_phase is NormFwdPhase.TRAINING else ("mean", "inv_variance")
        return self._add("layernorm", attributes, {"x": x, "scale": scale, "bias": bias}, without)

    def layernorm_backward(self, dy: Tensor, x: Tensor, scale: Tensor, attributes: Any) -> Tensors:
        """The gradients of input, scale and bias of layer normalization."""
        return self._add("layernorm_backward", attributes, {"dy": dy, "x": x, "scale": scale})

    def rmsnorm(self, x: Tensor, scale: Tensor, attributes: Any) -> Tensors:
        """RMS normalization: the result, and in training 1 / rms."""
        without = () if attributes.forward_phase is NormFwdPhase.TRAINING else ("inv_rms",)
        return self._add("rmsnorm", attributes, {"x": x, "scale": scale}, without)

    def rmsnorm_backward(self, dy: Tensor, x: Tensor, scale: Tensor, inv_rms: Tensor, attributes: Any) -> Tensors:
        """The gradients of input, scale and, if the attributes ask for it, bias of RMS normalization."""
        given = {"dy": dy, "x": x, "scale": scale, "inv_rms": inv_rms}
        return self._add("rmsnorm_backward", attributes, given, () if attributes.compute_dbias else ("dbias",))

    def block_scale_quantize(self, x: Tensor, attributes: Any) -> Tensors:
        """Rounding to a small type: the result, and a scale for each block."""
        return self._add("block_scale_quantize", attributes, {"x": x})

    def block_scale_dequantize(self, x: Tensor, scale: Tensor, attributes: Any) -> Any:
        """Each block times its scale."""
        return self._add("block_scale_dequantize", attributes, {"x": x, "scale": scale})[0]

    def moe_grouped_matmul(
        self, token: Tensor, weight: Tensor, first_token_offset: Tensor, token_index: Tensor | None,
        token_ks: Tensor | None, attributes: Any,
    ) -> Any:  # fmt: skip
        """Groups of tokens, each times its expert's matrix."""
        given = {
            "token": token, "weight": weight, "first_token_offset": first_token_offset, "token_index": token_index,
            "token_ks": token_ks,
        }  # fmt: skip
        return self._add("moe_grouped_matmul", attributes, given)[0]

    def custom_op(self, inputs: Sequence[Tensor], output_count: int, attributes: Any) -> Tensors:
        """An operation that only some plugin knows, with so many results."""
        outputs = [Tensor().set_is_virtual(True) for _ in range(output_count)]
        self._add("custom_op", attributes, {"inputs": list(inputs), "outputs": outputs})
        return tuple(outputs)

    def sdpa(self, q: Tensor, k: Tensor, v: Tensor, attributes: Any) -> Tensors:
        """Attention: the result, and the statistics that gradients need if the attributes ask for them."""
        without = ("max", "sum_exp", "rng_dump", "amax_s", "amax_o", *(() if attributes.generate_stats else ("stats",)))
        return self._add("sdpa", attributes, {"q": q, "k": k, "v": v}, without)[:2]

    def sdpa_backward(
        self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, stats: Tensor, attributes: Any
    ) -> Tensors:
        """The gradients of q, k and v of attention."""
        given = {"q": q, "k": k, "v": v, "o": o, "do": do, "stats": stats}
        return self._add("sdpa_backward", attributes, given, ("dbias",))[:3]

    # Checks, texts and bytes.

    def _lowered(self) -> Lowered:
        if self._text is not None:
            return Lowered.read(self._text)
        if not self._steps:
            raise Refused("the graph has no operation, expected at least one", ErrorCode.ATTRIBUTE_NOT_SET)
        return lower(self._name, self._types.values(), self._steps)

    @as_error
    def validate(self) -> None:
        """Checks the graph, and infers numbers, shapes, strides and types that were not set."""
        self._lowered()

    @as_error
    def checkNoDuplicateTensorIds(self) -> None:
        """Checks that each tensor's number is its own."""
        self._lowered()

    @as_error
    def topologicallySortGraph(self) -> None:
        """Puts nodes after those whose results they read."""
        self._steps = in_order(self._steps)

    def _as_text(self) -> str:
        return library().text_of(self._lowered().to_json())

    @raising("to_json() failed")
    def to_json(self) -> str:
        """The graph in hipDNN's JSON form."""
        return self._as_text()

    @raising("to_binary() failed")
    def to_binary(self) -> bytes:
        """The graph in hipDNN's binary form, with the plan that executions use if its engine can save it."""
        text = self._as_text()
        return self._saved(text) or library().bytes_of(text)

    def _read(self, given: Sequence[Any], named: Mapping[str, Any], name: str, text_of: Any) -> None:
        # The form comes last of one or two, and alone if the handle has its name.
        names = ("handle", name) if len(given) > 1 or name in named else (name,)
        bound = dict(zip(names, given))
        twice = bound.keys() & named.keys()
        if twice or len(given) > 2 or not named.keys() <= {"handle", name} or name not in {**bound, **named}:
            words = [f"{len(given)} by position", *sorted(named)]
            raise TypeError(f"expected {name} once, and a handle before it or none, were given {', '.join(words)}")
        bound.update(named)
        try:
            text = text_of(bound[name])
        except hipdnn.Error as error:
            raise Refused(str(error), ErrorCode.UNSUPPORTED_GRAPH_FORMAT) from None
        inner = Lowered.read(text)
        vars(self).update(_text=text, _name=inner.name, _steps=[], _inner=None, _native=None)
        for key in self._types:
            self._types[key] = DataType[getattr(inner, f"{key}_data_type").name]
        if "handle" in bound:
            built = self.build_operation_graph(bound["handle"])
            if built.is_bad():
                raise Refused(built.get_message(), built.get_code())

    def from_json(self, *handle_and_text: Any, **named: Any) -> Error:
        """Reads the graph from hipDNN's JSON form, ``json_string``; with a ``handle`` before it, also passes it to the library."""
        return as_error(self._read)(handle_and_text, named, "json_string", library().text_of)

    def from_binary(self, *handle_and_bytes: Any, **named: Any) -> Error:
        """Reads the graph from hipDNN's binary form, ``data``; with a ``handle`` before it, also passes it to the library.

        With a handle, a graph that was saved with its plan can be executed at once.
        """
        data = named.get("data", *handle_and_bytes[-1:])

        @as_error
        def read() -> None:
            self._read(handle_and_bytes, named, "data", _text_of_bytes)
            if self._native is not None and bytes(data[4:8]) == _WITH_PLAN:
                self._take(bytes(data))

        return read()

    # Executions.

    def execute(self, handle: Any, variant_pack: Mapping[Any, Any], workspace: Any = 0) -> Error:
        """Computes the graph with memory by tensor or uid: addresses, `DeviceBuffer`s, or arrays with ``data_ptr()`` or DLPack.

        Addresses are of the first GPU, or of the host if there is no GPU. On a GPU the work is queued on the handle's stream,
        without waiting for it. ``workspace`` exists for porting: plans own theirs.
        """
        return self._execute(self._active, "execute()", handle, variant_pack)

    def execute_plan_at_index(
        self, handle: Any, variant_pack: Mapping[Any, Any], workspace: Any, plan_index: int
    ) -> Error:
        """Computes the graph with one of its plans."""
        return self._execute(plan_index, "execute_plan_at_index()", handle, variant_pack)

    def execute_timed_ext(
        self, handle: Any, variant_pack: Mapping[Any, Any], workspace: Any = 0
    ) -> tuple[Error, ExecutionTiming]:
        """Computes the graph once; returns how long that took, from the host's call to the end of the work."""
        timing = ExecutionTiming()
        _native.synchronize(here())
        began = time.perf_counter()
        error = self.execute(handle, variant_pack, workspace)
        if error.is_good():
            _native.synchronize(here())
            took = (time.perf_counter() - began) * 1e3
            vars(timing).update(elapsed_ms=took, quality=TimingQuality.UNSTALLED)
        return error, timing

    def _execute(self, index: int, what: str, handle: Any, variant_pack: Mapping[Any, Any]) -> Error:
        @as_error
        def execute() -> None:
            if not self._entries and what == "execute()":
                raise Refused("execute(): there is no compiled execution plan, expected build_plans() before")
            entry, plan = self._ready(index, what)
            if not handle_address(handle):
                raise Refused(f"{what}: handle must not be null", ErrorCode.HANDLE_ERROR)
            self._run(entry, plan, self._arrays(variant_pack), stream_of(handle))

        return execute()

    def _arrays(self, variant_pack: Mapping[Any, Any]) -> dict[int, Any]:
        """The memory of each tensor as an array of its shape."""
        inner, _ = self._built()
        given = pack_of(variant_pack)
        return {uid: array_at(spec, given[uid], inner._device) for uid, spec in inner._spec_of.items() if uid in given}

    def _run(self, entry: Entry, plan: _native.Plan, arrays: Mapping[int, Any], stream: int) -> None:
        inner, _ = self._built()
        run: Callable[[], Any] = functools.partial(inner._run, plan, arrays, (entry.engine, entry.settings))
        if len(arrays) < len(inner._spec_of) and not any(
            of.id == entry.engine and of.plugin in OWN_PLUGINS for of in engines()
        ):
            # As in hipDNN, another party's engine says itself what it cannot do without.
            run = functools.partial(plan.execute, arrays, True)
        if inner._device == HOST:
            run()
        else:
            _native.on_stream(stream, run)

    def _core(self) -> tuple[str, list[tuple[list[int], list[int]]]]:
        """The operation that a rule about the graph names, and the shapes and strides of its inputs."""
        core = next((step for step in self._steps if step[0] != "pointwise"), self._steps[0])
        shapes = []
        for node in self._built()[0]._nodes:
            if node.name == core[1].name:
                shapes = [(list(of.dim or ()), list(of.stride or ())) for _, of in node.read()]
        return core[0], shapes


#: What graphs that are saved with a plan have behind their first four bytes.
_WITH_PLAN = b"HDGP"


def _text_of_bytes(data: Any) -> str:
    # `bytes` of a number, and a handle is one, are as many zeros.
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data: is of type {type(data).__name__}, expected bytes, bytearray or memoryview")
    return library().text_of_bytes(bytes(data))
