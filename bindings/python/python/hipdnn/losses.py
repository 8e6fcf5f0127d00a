"""Which node of a network loses digits, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .graph import Graph
from .node_errors import Numerics
from .quantization.exported import graph_of_module

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
    and the arrays are single precision; its nodes are those of the graph.
    """
    if isinstance(model, Graph):
        return model.numerics(arrays, engine=engine, knobs=knobs, seed=seed)
    call = arrays if isinstance(arrays, (list, tuple)) else () if arrays is None else (arrays,)
    graph, weights, samples, _ = graph_of_module(model, [call])
    graph.to_json()
    inputs = [tensor for tensor in graph._inputs if tensor not in weights]
    given = {**weights, **dict(zip(inputs, samples[0]))}
    return graph.numerics(given, engine=engine, knobs=knobs, seed=seed)
