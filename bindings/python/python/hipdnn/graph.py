"""Graphs of operations."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .ahead import compile_for
from .errors import ArrayError, GraphError
from .handle import to_handle
from .library import computes_on
from .memory import uid_of
from .node_errors import Numerics
from .picture import svg
from .planning import Verdict, knobs_of
from .properties import DeviceProperties
from .restored import Restored
from .tune import Tuned, search
from .types import DataTypeLike, heur_mode

__all__ = ["Graph", "Verdict"]


class Graph(Restored):
    """A graph of operations, which the library plans and executes.

    Tensors come from ``tensor``, ``tensor_like`` and from operations, whose results are virtual unless
    ``set_output(True)`` is called. If you mark no output, every result that no node reads is returned.

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
        sm_count: int | None = None,
        sm_version: int | None = None,
        kernel_cache: Any = None,
        device_property: Any = None,
        is_dynamic_shape_enabled: bool = False,
        is_override_shape_enabled: bool = False,
        *,
        inputs: Sequence[Any] | None = None,
        outputs: Sequence[Any] | None = None,
        heuristics: Sequence[heur_mode] | None = None,
        workspace_alloc: bool = True,
    ) -> None:
        """``io_data_type`` applies to tensors without a type (by default the first type given, or single precision).

        Between and within nodes the default is single precision, or double if any tensor is double. ``handle``
        sets the stream of executions without a handle of their own. ``inputs`` and ``outputs`` are the order of arrays in calls
        (`set_io_tuples`), resolved at the end of a ``with`` block. The other arguments exist for porting: engines share processors as
        they see fit, equal graphs share plans, any graph takes other shapes (`execute`), and plans own their workspace.
        """
        self._handle = None if handle is None or handle == "auto" else to_handle(handle)
        for argument, value in (("inputs", inputs), ("outputs", outputs), ("heuristics", heuristics)):
            if value is not None and not isinstance(value, (list, tuple)):
                raise GraphError(name or "graph", argument, f"is {value!r}, expected a list")
        if device_property is not None:
            if not isinstance(device_property, DeviceProperties):
                words = f"is {device_property!r}, expected what create_device_properties answers"
                raise GraphError(name or "graph", "device_property", words)
            device_property.check_is_here(name or "graph", "device_property")
        self._io_said = None if inputs is None and outputs is None else (inputs or (), outputs or ())
        self._modes = None if heuristics is None else list(heuristics)
        #: What the last ``autotune`` tried and found.
        self.tuned: Tuned | None = None
        super().__init__(name, io_data_type, intermediate_data_type, compute_data_type)

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            return
        self.build(self._modes)
        if self._io_said is not None:
            self.set_io_tuples(*self._io_said)

    # Plans in files, measurements.

    def save(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """The bytes of the graph and its plan, also written to a file if a path is given; ``hipdnn.load`` reads them."""
        saved = bytes(self._native_graph(self.to_json()).save(self.plan))
        if path is not None:
            with open(path, "wb") as file:
                file.write(saved)
        return saved

    def compile(self, devices: Sequence[str], path: str | os.PathLike[str] | None = None) -> bytes:
        """Makes plans of the graph for devices that need not be present, for example "sm_90", "gfx942" or "cpu".

        Returns the bytes of one file with all of them, also written to ``path`` if given. ``hipdnn.load`` takes the plan that
        fits, as does any program whose variable HIPDNN_PLAN_PACKAGE names the file. Raises NoEngineError if a device has no plan.
        """
        made = compile_for(self.name, self.to_json(), devices)
        if path is not None:
            with open(path, "wb") as file:
                file.write(made)
        return made

    def serialize(self) -> bytes:
        """The bytes of the graph and its plan, as ``save`` returns them; ``deserialize`` of another graph reads them."""
        return self.save()

    def autotune(
        self,
        tensors: Mapping[Any, Any],
        *,
        seconds: float = 0.2,
        progress: bool = True,
        budget: float | None = None,
        strategy: str = "halving",
        knobs: bool = False,
    ) -> dict[str, float]:
        """Searches for the fastest engine on these arrays, selects it, and records the ranking in the library.

        Returns the milliseconds of each engine with its default knobs; ``tuned`` has everything that was tried. The search takes at
        most ``budget`` seconds, by default ``seconds`` per engine. With ``knobs`` it also tunes knobs, which may choose an algorithm with
        different rounding errors. The library's default choice stays unless something is clearly faster. ``strategy`` is "halving",
        "exhaustive", or that of a tuning plugin. Outputs are overwritten.
        """
        if self._plan is None:
            self._plan_for(next(iter(dict(tensors).values()), None))
        given = {uid_of(key) for key in tensors}
        missing = [tensor._label() for tensor in (*self._inputs, *self._outputs) if tensor.uid not in given]
        if missing and not self._has_views:
            raise ArrayError(f"autotune: no array for {', '.join(missing)}")
        device = self._device
        applying = [of for of in self._verdicts() if of.rank is not None and of.id in computes_on(device)]
        engines = [(of.engine, of.id) for of in sorted(applying, key=lambda of: of.rank or 0)]

        def prepare(id: int, settings: list[tuple[str, Any]]) -> Any:
            choice = id, tuple(sorted(settings))
            plan = self._make_plan(device=device, choice=choice)

            def execute() -> None:
                nonlocal plan
                plan = self._run(plan, tensors, choice)

            return lambda: self._on(None, execute)

        native = self._native_graph(self.to_json(), device)
        seconds = max(seconds, 1e-6) * len(engines) if budget is None else budget
        synchronize = lambda: _native.synchronize(device)  # noqa: E731
        self.tuned = search(native, engines, prepare, synchronize, seconds, strategy, 8 if knobs else 1, progress)
        best = self.tuned.best
        if best is None:
            self.build(device=device)
        else:
            self.build(engine=best.engine, knobs=best.knobs or None, device=device)
        return {of.engine: of.ms for of in self.tuned.trials if not of.knobs and of.ms is not None}

    def numerics(
        self,
        tensors: Mapping[Any, Any] | None = None,
        *,
        engine: str | int | None = None,
        knobs: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> Numerics:
        """Which node loses digits, and why: each node as an engine's plan computes it, beside double precision.

        ``tensors`` are arrays of inputs in host memory, by tensor or uid; other inputs are random. ``engine`` and ``knobs`` are by default
        those of the graph's plan. Printed, the result is a table, in a notebook a picture; ``to_json()`` and ``svg()`` are for files.

        >>> import hipdnn
        >>> graph = hipdnn.Graph()
        >>> y = graph.exp(graph.tensor([4, 4], data_type="half")).set_data_type("half")
        >>> graph.numerics(engine="CPU_ENGINE").nodes[0].operation
        'Pointwise exp'
        """
        return self._numerics(tensors or {}, engine, knobs, seed)

    def _numerics(
        self,
        tensors: Mapping[Any, Any],
        engine: str | int | None,
        knobs: Mapping[str, Any] | None,
        seed: int,
        views: tuple[Sequence[tuple[int, Sequence[int], bytes, bytes]], set[int]] = ((), set()),
    ) -> Numerics:
        """The same with tensors whose elements are those of others, and the results that are for these only."""
        text = self.to_json()
        if not self._has_work():
            raise GraphError("numerics", "outputs", "have no elements, expected some")
        if engine is None:
            id, settings = self.plan.engine_id, self._choice[1]
        else:
            id, settings = self._engine_id(engine), ()
        settings = settings if knobs is None else knobs_of(knobs)
        choice = id, [f"{name}={value}" for name, value in settings]
        specs, arrays = self._specs(aligned=False), list(dict(tensors).items())
        found = _native.numerics(self._native_graph(text), choice, specs, arrays, seed, views)
        return Numerics(self._engine_name(id), *found)

    def _repr_svg_(self) -> str:
        """The picture shown by a notebook."""
        return svg(self._nodes)

    def __repr__(self) -> str:
        nodes = ", ".join(node.name for node in self._nodes[:8]) + (", ..." if len(self._nodes) > 8 else "")
        return f"<Graph {self.name!r}: {nodes or 'empty'}>"


def _name_methods() -> None:
    """Names each method as of Graph, so that Python's errors about arguments name the class that programs know."""
    for name in dir(Graph):
        method = getattr(Graph, name)
        while not name.startswith("_") and inspect.isfunction(method):
            method.__qualname__ = f"Graph.{name}"
            method = getattr(method, "__wrapped__", None)


_name_methods()
