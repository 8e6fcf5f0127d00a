"""Which node of a network loses digits, and why."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from .graph import Graph
from .node_errors import Numerics
from .quantization.exported import Exported
from .quantization.moves import Elements, values_of, view_of
from .tensor import Tensor

__all__ = ["numerics"]


def numerics(
    model: Any,
    arrays: Any = None,
    *,
    engine: str | int | None = None,
    knobs: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Numerics:
    """Which node of a graph, or of a ``torch.nn.Module`` by way of ``torch.export``, loses digits, and why.

    For a graph it is ``graph.numerics(arrays)``. For a module ``arrays`` are those of a call: one, or several in a tuple or list. Its weights
    and the arrays are single precision; its nodes are those of the graph. Views, transposes, slices and concatenations are none: they
    divide it into several plans. ``outputs`` has the module's results.
    """
    if isinstance(model, Graph):
        return model.numerics(arrays, engine=engine, knobs=knobs, seed=seed)
    call = arrays if isinstance(arrays, (list, tuple)) else () if arrays is None else (arrays,)
    exported = Exported(model, [call])
    graph, elements, known = exported.graph, exported.reader.elements, exported.arrays(call)
    results = [exported.reader.numbers(result) for result in exported.results]
    read = {tensor for node in graph._nodes for _, tensor in node.read()}
    views = {tensor: numbers for tensor, (numbers, _) in exported.reader.views.items() if tensor in read}
    written, viewed = _written(elements, results), _written(elements, views.values())
    for tensor in written | viewed:
        tensor.set_output(True)
    rearranged = [view_of(elements, tensor.uid, numbers, known) for tensor, numbers in views.items()]
    inner = {tensor.uid for tensor in viewed - written}
    graph.to_json()
    given = {tensor: array for tensor, array in {**exported.weights, **known}.items() if tensor in graph._inputs}
    found = graph._numerics(given, engine, knobs, seed, (rearranged, inner))
    numpy = importlib.import_module("numpy")
    for tensor in written:
        known[tensor] = numpy.frombuffer(found.values[tensor.uid], "<f8")
    found.outputs = [values_of(elements, numbers, known) for numbers in results]
    return found


def _written(elements: Elements, numbers: Iterable[Any]) -> set[Tensor]:
    """The tensors that nodes write among those with these elements."""
    sources = {source for of in numbers for source, *_ in elements.parts(of) if isinstance(source, Tensor)}
    return {tensor for tensor in sources if tensor.producer is not None}
