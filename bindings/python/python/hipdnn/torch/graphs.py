"""Graphs for PyTorch's tensors, one for each signature."""

from __future__ import annotations

import threading
from typing import Any, Callable, Sequence

import torch
from torch import Tensor

from ..errors import Error
from ..graph import Graph

#: What the engines compute in.
TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class Unsupported(Exception):
    """Why a call goes on in PyTorch."""


_lock = threading.Lock()
_made: dict[Any, Graph | str] = {}


def dense(tensor: Tensor) -> Tensor:
    """The tensor, or a copy where its elements overlap or lie apart."""
    return tensor if torch.ops.aten.is_non_overlapping_and_dense(tensor) else tensor.contiguous()


def planned(name: str, settings: Any, tensors: Sequence[Tensor], build: Callable[..., Any]) -> Graph:
    """The planned graph of an operation for tensors like these; raises Unsupported where no engine applies."""
    key = (name, settings, tuple((t.shape, t.stride(), t.dtype) for t in tensors))
    graph = _made.get(key)
    if graph is None:
        graph = _plan(name, tensors, build)
        with _lock:
            _made[key] = graph
    if isinstance(graph, str):
        raise Unsupported(graph)
    return graph


def _plan(name: str, tensors: Sequence[Tensor], build: Callable[..., Any]) -> Graph | str:
    if any(t.numel() == 0 for t in tensors):
        return "a tensor without elements"
    graph = Graph(name, io_data_type=tensors[0].dtype)
    try:
        inputs = [graph.tensor(t.shape or (1,), t.stride() or (1,), t.dtype) for t in tensors]
        results = build(graph, *inputs)
        for result in results if isinstance(results, (list, tuple)) else [results]:
            result.set_output(True)
        return graph.build()
    except Error as error:
        return str(error)


def compute(name: str, settings: Any, tensors: Sequence[Tensor], build: Callable[..., Any]) -> Any:
    """The results of an operation, as new tensors, in the order that `build` answers them."""
    tensors = [dense(t.detach()) for t in tensors]
    results = planned(name, settings, tensors, build)(*tensors)
    # A graph has no tensor without dimensions.
    return results.view(()) if tensors[0].dim() == 0 else results
