"""Graphs of operations."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Mapping, Sequence

from . import _native
from .attention import Attention
from .device import HOST, Device, DeviceLike, device_name, device_of, empty_like, to_device
from .errors import GraphError, NoEngineError
from .handle import to_handle
from .infer import packed
from .library import computes_on, engine_device, library, quiet_log
from .node import Node
from .norm import Norms
from .operations import Windows
from .phases import Phases
from .plans import Verdict, steps_of
from .plans import plans as _plans
from .pointwise import Pointwise
from .tensor import Tensor
from .types import DataTypeLike, data_type, tensor_reordering, to_data_type

__all__ = ["Graph", "Verdict"]

#: What arrays are promised to begin at; others get a plan of their own.
ALIGNMENT = 16

_SIZES = {"double": 8, "int64": 8, "float": 4, "int32": 4, "half": 2, "bfloat16": 2}


class Graph(Windows, Pointwise, Norms, Attention, Phases):
    """A graph of operations, which a library plans and executes.

    Tensors come from ``tensor``, ``tensor_like`` and from operations, whose results exist only between nodes unless
    ``set_output(True)`` is called. If it is called for none, the results that no node reads are handed out.

    >>> import numpy as np, hipdnn
    >>> with hipdnn.Graph() as graph:
    ...     x, w = graph.tensor([1, 3, 8, 8]), graph.tensor([4, 3, 3, 3])
    ...     y = graph.relu(graph.conv_fprop(x, w, padding=[1, 1]))
    >>> graph(np.ones((1, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)).shape
    (1, 4, 8, 8)
    """

    def __init__(
        self,
        name: str = "",
        io_data_type: DataTypeLike | None = None,
        intermediate_data_type: DataTypeLike | None = None,
        compute_data_type: DataTypeLike | None = None,
        handle: Any = None,
    ) -> None:
        """``io_data_type`` is that of tensors that do not say theirs (by default the first that is said, or single precision).

        Between nodes and within them it is single precision, or double where tensors are. ``handle``
        says the stream of executions that are given none of their own.
        """
        self._handle = None if handle is None else to_handle(handle)
        self.name = name
        self.io_data_type = to_data_type(io_data_type)
        self.intermediate_data_type = to_data_type(intermediate_data_type)
        self.compute_data_type = to_data_type(compute_data_type)
        self.tensors: list[Tensor] = []
        #: The last number that a tensor got here, and those that the program gave.
        self._last_uid = 0
        self._given_uids: set[int] = set()
        self._nodes: list[Node] = []
        self._choice: tuple[int | None, tuple[tuple[str, Any], ...]] = (None, ())
        #: What plans are made for: said by `build`, or the device of an array.
        self._device: Device = HOST
        self._change()

    def _change(self) -> None:
        self._plan: _native.Plan | None = None
        self._candidates = None
        self._outputs: list[Tensor] = []
        self._inputs: list[Tensor] = []

    def _new_tensor(self, **options: Any) -> Tensor:
        self._change()
        tensor = Tensor(self, self._free_uid(), **options)
        self.tensors.append(tensor)
        return tensor

    def _free_uid(self) -> int:
        self._last_uid += 1
        while self._last_uid in self._given_uids:
            self._last_uid += 1
        return self._last_uid

    def _give_uid(self, tensor: Tensor, uid: int) -> None:
        """Numbers a tensor as the program says; one that was numbered here makes room."""
        if not isinstance(uid, int) or not 0 <= uid < 1 << 63:
            raise GraphError(tensor._label(), "uid", f"is {uid!r}, expected an integer from 0 to 2⁶³ - 1")
        other = next((t for t in self.tensors if t.uid == uid and t is not tensor), None)
        if other is not None and uid in self._given_uids:
            raise GraphError(tensor._label(), "uid", f"is {uid}, the number of {other._label()}, expected another")
        self._given_uids.discard(tensor.uid)
        self._given_uids.add(uid)
        tensor._renumber(uid)
        if other is not None:
            other._renumber(self._free_uid())

    def tensor(
        self,
        dim: Sequence[int],
        stride: Sequence[int] | None = None,
        data_type: DataTypeLike | None = None,
        is_virtual: bool = False,
        is_pass_by_value: bool = False,
        ragged_offset: Tensor | None = None,
        reordering_type: tensor_reordering = tensor_reordering.NONE,
        name: str = "",
        uid: int = -1,
        ragged_offset_multiplier: int = 1,
    ) -> Tensor:
        """A tensor in the caller's memory of shape ``dim``, without gaps unless strides (in elements) are given, of type ``data_type``.

        Executions may name it by ``uid``, where one is given. With ``ragged_offset``, int32 or int64 of [B + 1, 1, 1, 1], sequence b
        of a batch begins at element offset[b] · ``ragged_offset_multiplier`` (`Tensor.set_ragged_offset`).
        """
        dim = [int(d) for d in dim]
        label = f"tensor {name!r}" if name else f"tensor {len(self.tensors) + 1}"
        if any(d < 0 for d in dim):
            raise GraphError(label, "dim", f"is {dim}, expected no negative sizes")
        if stride is not None and len(stride) != len(dim):
            raise GraphError(label, "stride", f"is {list(stride)}, expected {len(dim)} numbers")
        tensor = self._new_tensor(
            name=name, dim=dim, stride=packed(dim) if stride is None else stride, data_type=data_type,
            is_virtual=is_virtual, is_pass_by_value=is_pass_by_value,
        )  # fmt: skip
        tensor.set_reordering_type(reordering_type).set_ragged_offset_multiplier(ragged_offset_multiplier)
        if ragged_offset is not None:
            tensor.set_ragged_offset(ragged_offset)
        return tensor if uid == -1 else tensor.set_uid(uid)

    def tensor_like(self, input: Any, name: str = "") -> Tensor:
        """A tensor with the shape, strides and type of another, or of an array of any library."""
        if isinstance(input, Tensor):
            return self._new_tensor(name=name, dim=input.dim, stride=input.stride, data_type=input.data_type)
        dim, stride, kind, device, _ = _native.describe(input)
        if not self.tensors:
            self._device = to_device(device)
        return self._new_tensor(name=name, dim=dim or [1], stride=stride or [1], data_type=kind)

    # What is handed to the library.

    def _types(self) -> dict[str, data_type]:
        io = self.io_data_type
        if io is data_type.NOT_SET:
            said = (t.data_type for t in self.tensors if not t.producer and not t.is_virtual and t.value is None)
            io = next((kind for kind in said if kind is not data_type.NOT_SET), data_type.FLOAT)
        kinds = [t.data_type for t in self.tensors if not t.is_virtual] + [io]
        wide = data_type.DOUBLE if data_type.DOUBLE in kinds else data_type.FLOAT
        pick = lambda kind: wide if kind is data_type.NOT_SET else kind  # noqa: E731
        return {
            "io": io, "intermediate": pick(self.intermediate_data_type), "compute": pick(self.compute_data_type)
        }  # fmt: skip

    def _finish(self) -> None:
        """Finds what goes in and out, and marks results where nobody did."""
        written = {t.uid for node in self._nodes for t in node.outputs.values()}
        read = {t.uid for node in self._nodes for _, t in node.read()}
        if not any(t.uid in written and not t.is_virtual for t in self.tensors):
            for node in self._nodes:
                for key, tensor in node.outputs.items():
                    if tensor.uid not in read and key not in node.optional:
                        tensor.is_virtual = False
        self._outputs = [t for t in self.tensors if t.uid in written and not t.is_virtual]
        self._inputs = [
            t for t in self.tensors if t.uid in read and t.uid not in written and not t.is_virtual and t.value is None
        ]

    def validate(self) -> None:
        """Raises GraphError for what makes no sense, naming node and argument. Engines are not asked."""
        if not self._nodes:
            raise GraphError(f"graph {self.name!r}", "nodes", "has none, expected at least one operation")
        self._finish()
        known: set[int] = {t.uid for t in self.tensors if t.producer is None and not t.is_virtual}
        for node in self._nodes:
            for key, tensor in node.read():
                if tensor.uid not in known:
                    raise GraphError(node.name, key, f"{tensor._label()} is virtual, and no node before this writes it")
            known.update(tensor.uid for tensor in node.outputs.values())
        for tensor in self.tensors:
            place = tensor.producer or tensor._label()
            if tensor.dim is None:
                raise GraphError(place, tensor.name or "dim", "has no shape, call set_dim")
            if tensor.stride is None:
                tensor.stride = packed(tensor.dim)
            if len(tensor.stride) != len(tensor.dim):
                expected = f"has the strides {list(tensor.stride)}, expected {len(tensor.dim)} numbers"
                raise GraphError(place, tensor.name or "stride", expected)

    def _data_type(self, tensor: Tensor, types: Mapping[str, data_type]) -> str:
        if tensor.data_type is not data_type.NOT_SET:
            return tensor.data_type.value
        return types["intermediate" if tensor.is_virtual else "io"].value

    def to_json(self, *, indent: int | None = None, aligned: bool = True) -> str:
        """The graph in hipDNN's JSON form."""
        self.validate()
        types = self._types()
        read = {t.uid for node in self._nodes for _, t in node.read()}
        wanted = read | {t.uid for t in self._outputs}
        used = read | {node.outputs[key].uid for node in self._nodes for key in node.kept(wanted)}
        tensors = []
        for tensor in self.tensors:
            if tensor.uid not in used:
                continue
            kind = self._data_type(tensor, types)
            entry: dict[str, Any] = {
                "uid": tensor.uid, "name": tensor.name, "dims": tensor.dim, "strides": tensor.stride,
                "data_type": kind, "virtual": tensor.is_virtual,
            }  # fmt: skip
            if tensor.value is not None:
                entry.update(value_type="Float64Value" if kind == "double" else "Float32Value", value=tensor.value)
            if tensor.is_pass_by_value:
                entry["is_runtime_pass_by_value"] = True
            if not aligned and not tensor.is_virtual:
                entry["alignment"] = _SIZES.get(kind, 1)
            if tensor.ragged_offset is not None:
                entry["ragged_offset_tensor_uid"] = tensor.ragged_offset.uid
                entry["ragged_offset_multiplier"] = tensor.ragged_offset_multiplier
            tensors.append(entry)
        graph = {
            "name": self.name,
            "io_data_type": types["io"].value,
            "intermediate_data_type": types["intermediate"].value,
            "compute_data_type": types["compute"].value,
            "nodes": [node.json(wanted) for node in self._nodes],
            "tensors": tensors,
        }
        return json.dumps(graph, indent=indent)

    def _specs(self, aligned: bool = True) -> list[dict[str, Any]]:
        types = self._types()
        outputs = {t.uid for t in self._outputs}
        specs = []
        for tensor in (*self._inputs, *self._outputs):
            kind = self._data_type(tensor, types)
            alignment = _SIZES.get(kind, 1) if not aligned or tensor.is_pass_by_value else ALIGNMENT
            specs.append({
                "uid": tensor.uid, "name": tensor.name, "data_type": kind, "dims": list(tensor.dim or ()),
                "strides": list(tensor.stride or ()), "alignment": alignment, "is_output": tensor.uid in outputs,
                "is_pass_by_value": tensor.is_pass_by_value,
            })  # fmt: skip
        return specs

    def _native_graph(self, text: str, on: Device | None = None) -> _native.OperationGraph:
        device = on or self._device
        return _plans.get((os.getpid(), text, device), lambda: library().graph(text, device))

    # Engines and plans.

    def explain(self) -> list[Verdict]:
        """Every engine: its rank and what its plan would do, or the reason why it cannot run the graph.

        Those that apply come first, best first. A plan is made for each of them.
        """
        native = self._native_graph(self.to_json())
        return [verdict._replace(steps=steps_of(native, verdict)) for verdict in self._verdicts(native)]

    def _verdicts(self, native: _native.OperationGraph | None = None) -> list[Verdict]:
        with quiet_log():
            return [Verdict(*verdict) for verdict in (native or self._native_graph(self.to_json())).explain()]

    def engines(self) -> list[str]:
        """The names of the engines that can run the graph, best first; on a GPU those that compute there."""
        on = computes_on(self._device)
        return [of.engine for of in self._verdicts() if of.rank is not None and (self._device == HOST or of.id in on)]

    def knobs(self, engine: str | int) -> dict[str, dict[str, str]]:
        """What can be tuned at an engine: description, default and choices of each knob."""
        knobs = self._native_graph(self.to_json()).knobs(self._engine_id(engine))
        return {
            id: {"description": text, "default": default, "choices": choices} for id, text, default, choices in knobs
        }

    def _engine_id(self, engine: str | int) -> int:
        """The id of an engine that is loaded, by its name or by the id itself."""
        ids = {name: id for name, id, *_ in library().engines()}
        found = ids.get(engine) if isinstance(engine, str) else engine
        if not isinstance(found, int) or found not in ids.values():
            known = ", ".join(f"{name} ({id})" for name, id in ids.items())
            raise GraphError("build", "engine", f"is {engine!r}, expected a name or an id of {known}")
        return found

    def build(
        self,
        heur_modes: Any = None,
        *,
        engine: str | int | None = None,
        knobs: Mapping[str, Any] | None = None,
        device: DeviceLike | None = None,
    ) -> Graph:
        """Plans the graph with the engine that the library offers first, or with the one named, its knobs set.

        The plan is for arrays on ``device`` ("cpu", "cuda:0", "rocm:0"), by default that of the array which the first tensor was
        made like, else the host. Executions with arrays on another plan the graph for that. Raises NoEngineError with the reason
        of each engine where none applies. ``heur_modes`` is there for porting.
        """
        self._choice = (None if engine is None else self._engine_id(engine), tuple(sorted((knobs or {}).items())))
        if device is not None:
            self._device = to_device(device)
        elif self._choice[0] is not None and self._choice[0] not in computes_on(self._device):
            self._device = engine_device(self._choice[0])
        self._plan = self._make_plan()
        return self

    def _make_plan(self, aligned: bool = True, device: Device | None = None) -> _native.Plan:
        device = device or self._device
        text = self.to_json(aligned=aligned)

        def make() -> _native.Plan:
            graph = self._native_graph(text, device)
            engine, knobs = self._choice
            on = computes_on(device)
            if engine is None:
                engine = self._offered(graph, device)[0]
            elif engine not in on:
                words = f"is {self._engine_name(engine)}, which does not compute on {device_name(device)}"
                raise GraphError("build", "engine", words)
            return graph.plan(engine, list(knobs), self._specs(aligned))

        return _plans.get((os.getpid(), text, device, self._choice), make)

    def _offered(self, graph: _native.OperationGraph, device: Device) -> list[int]:
        """The ids of the engines that can run the graph on a device, best first."""
        on = computes_on(device)
        offered = [id for id in graph.offer()[0] if id in on]
        if not offered:
            raise self._no_engine(graph, device)
        return offered

    def _no_engine(self, graph: _native.OperationGraph, device: Device) -> NoEngineError:
        with quiet_log():
            reasons = {
                name: reason or f"applies, but does not compute on {device_name(device)}"
                for name, _, _, _, reason in graph.explain()
            }
        lines = [f"  {name}: {reason}" for name, reason in reasons.items()]
        return NoEngineError("\n".join([f"no engine can run graph {self.name!r}:", *lines]), reasons)

    @property
    def plan(self) -> _native.Plan:
        """The plan; the graph is built first where it is not yet."""
        return self._plan or self.build()._plan  # type: ignore[return-value]

    @property
    def engine(self) -> str:
        """The name of the engine that runs it."""
        return self._engine_name(self.plan.engine_id)

    @staticmethod
    def _engine_name(id: int) -> str:
        return next((name for name, of, *_ in library().engines() if of == id), hex(id))

    def get_workspace_size(self) -> int:
        """The bytes that an execution needs besides the tensors. The plan brings them itself."""
        return self.plan.workspace_size

    # Executions.

    def execute(self, tensors: Mapping[Any, Any], workspace: Any = None, handle: Any = None) -> None:
        """Computes the graph with an array for each tensor, by tensor or uid: inputs are read, outputs written, nothing is copied.

        Arrays are those of NumPy, PyTorch, JAX, CuPy, ml_dtypes, or anything with DLPack, the buffer protocol or
        ``__cuda_array_interface__``, each with its tensor's shape, strides and type (dimensions of 1 may be left out), and all on
        one device; numbers that are passed by value are on the host. On a GPU the work is queued on the current stream of PyTorch
        or CuPy, or that of ``handle`` (`create_handle`), and is not waited for. Other Python threads go on meanwhile. ``workspace`` is
        there for porting.
        """
        handle = self._handle if handle is None else to_handle(handle)
        if handle is not None:
            handle._run(self._execute, tensors)
            return
        self._execute(tensors)

    def _execute(self, tensors: Mapping[Any, Any]) -> None:
        plan = self._plan
        if plan is None:
            plan = self._plan_for(next(iter(dict(tensors).values()), None))
        try:
            plan.execute(tensors)
        except (_native.Elsewhere, _native.Misaligned) as other:
            self._again(plan, other, lambda plan: plan.execute(tensors))

    def _plan_for(self, array: Any) -> _native.Plan:
        """The plan for the device of an array; the graph is built first where it is not yet."""
        if array is not None and self._choice[0] is None:
            # What is no array is told with its tensor's name, by the execution.
            with contextlib.suppress(Exception):
                self._device = device_of(array)
        return self.plan

    def _again(self, plan: _native.Plan, other: _native.ArrayError, run: Any) -> None:
        """Plans for arrays that do not lie where a plan expects them, and executes."""
        device = other.args if isinstance(other, _native.Elsewhere) else plan.device
        plan = self._make_plan(isinstance(other, _native.Elsewhere), device)
        try:
            run(plan)
        except _native.Misaligned:
            if not isinstance(other, _native.Elsewhere):
                raise
            plan = self._make_plan(False, device)
            run(plan)
        # Threads may have arrays on several devices: each found its plan, and the next is tried with the last one.
        self._device, self._plan = device, plan

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Computes the graph with arrays for its inputs, in the order they were made or by name, and answers new arrays.

        They are of the first array's library and on its device.
        """
        if self._plan is None:
            self._plan_for(next(iter((*arrays, *named.values())), None))
        inputs = self._inputs
        if len(arrays) > len(inputs):
            raise TypeError(f"{len(arrays)} arrays, expected at most {len(inputs)}")
        given: dict[Tensor, Any] = dict(zip(inputs, arrays))
        by_name = {tensor.name: tensor for tensor in inputs if tensor.name}
        for name, array in named.items():
            tensor = by_name.get(name)
            if tensor is None or tensor in given:
                raise TypeError(f"{name!r} is no input that lacks an array, expected one of {', '.join(by_name)}")
            given[tensor] = array
        first = next((array for tensor, array in given.items() if not tensor.is_pass_by_value), None)
        types = self._types()
        results = [empty_like(first, t.dim or (), t.stride or (), self._data_type(t, types)) for t in self._outputs]
        self.execute({**given, **dict(zip(self._outputs, results))})
        return results[0] if len(results) == 1 else tuple(results)

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.build()

    # Plans in files, measurements.

    def save(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """The bytes of the graph and its plan, written to a file as well where one is named; ``hipdnn.load`` reads them."""
        saved = bytes(self._native_graph(self.to_json()).save(self.plan))
        if path is not None:
            with open(path, "wb") as file:
                file.write(saved)
        return saved

    def autotune(self, tensors: Mapping[Any, Any], *, seconds: float = 0.2, progress: bool = True) -> dict[str, float]:
        """Measures every engine that applies on these arrays, takes the fastest, and tells the library which were best.

        Answers the milliseconds of each engine. Outputs are overwritten.
        """
        from .tune import autotune

        return autotune(self, tensors, seconds, progress)

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        from .picture import svg

        return svg(self)

    def __repr__(self) -> str:
        nodes = ", ".join(node.name for node in self._nodes[:8]) + (", ..." if len(self._nodes) > 8 else "")
        return f"<Graph {self.name!r}: {nodes or 'empty'}>"
