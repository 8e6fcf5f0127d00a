"""Graphs for PyTorch's tensors, one for each signature."""

from __future__ import annotations

import threading
from typing import Any, Callable, Sequence

import torch
from torch import Tensor

from .. import _native
from ..device import HOST, torch_type
from ..errors import Error
from ..graph import Graph
from .devices import build as build_on_gpu
from .devices import device_of, settings as switches

#: What the engines compute in.
TYPES = frozenset((torch.float32, torch.float16, torch.bfloat16, torch.float64))

#: Tensors are described without leaving C++ from PyTorch 2.10 on; before, those that want a gradient are refused.
_DESCRIBED = hasattr(Tensor, "__dlpack_c_exchange_api__")

#: More signatures than a program has at a time.
_MOST = 4096


class Unsupported(Exception):
    """Why a call goes on in PyTorch."""


class Computation:
    """A planned graph, as it is called with PyTorch's tensors."""

    __slots__ = ("copies", "graph", "order", "outputs", "run", "used")

    def __init__(self, graph: Graph, inputs: Sequence[Any], results: Sequence[Any], copies: Sequence[int]) -> None:
        self.graph = graph
        self.run = graph.plan.run
        types = graph._types()
        made = graph._outputs
        #: Shape, strides and type of what is written.
        self.outputs = [(t.dim or (), t.stride or (), torch_type(graph._data_type(t, types))) for t in made]
        #: Where each result is among them.
        self.order = [made.index(result) for result in results]
        #: Inputs that no engine takes as they lie.
        self.copies = copies
        #: Those that are read, where some are not.
        self.used = None if inputs == graph._inputs else [at for at, t in enumerate(inputs) if t in graph._inputs]

    def __call__(self, tensors: Sequence[Tensor], shape: Sequence[int] | None) -> list[Tensor]:
        if self.copies:
            tensors = [t.contiguous() if at in self.copies else t for at, t in enumerate(tensors)]
        if self.used is not None:
            tensors = [tensors[at] for at in self.used]
        if not _DESCRIBED:
            tensors = [t.detach() for t in tensors]
        device = tensors[0].device
        written = [torch.empty_strided(dim, stride, dtype=kind, device=device) for dim, stride, kind in self.outputs]
        results = [written[at] for at in self.order]
        if shape is not None:
            # The tensor itself has the shape, rather than a view of it: views made here could not be changed in place later.
            at = self.order[0]
            results[0] = torch.empty(shape, dtype=self.outputs[at][2], device=device)
            written[at] = results[0].view(self.outputs[at][0])
        try:
            self.run((*tensors, *written))
        except _native.Misaligned:
            self.graph._make_plan(aligned=False).run((*tensors, *written))
        return results


_lock = threading.Lock()
_made: dict[Any, Computation | str] = {}


def compute(
    name: str,
    settings: Any,
    tensors: Sequence[Tensor],
    build: Callable[..., Any],
    *,
    shape: Sequence[int] | None = None,
    gaps: bool = False,
) -> list[Tensor]:
    """The results of an operation, as new tensors, in the order that `build` answers them; raises Unsupported where no engine applies.

    The first result may be given another shape of as many elements. With `gaps`, inputs may be parts of others.
    """
    first = tensors[0]
    # What is planned for a GPU depends on which one it is, and on PyTorch's switches.
    where = None if first.is_cpu else (first.device.index, switches())
    key = (name, settings, where, tuple([(t.shape, t.stride(), t.dtype) for t in tensors]))
    made = _made.get(key)
    if made is None:
        made = _plan(name, tensors, build, gaps)
        with _lock:
            if len(_made) >= _MOST:
                _made.clear()
            _made[key] = made
    if isinstance(made, str):
        raise Unsupported(made)
    return made(tensors, shape)


def _copied(tensor: Tensor, gaps: bool) -> bool:
    """Whether a tensor's elements overlap, or lie apart where they must not."""
    if torch.ops.aten.is_non_overlapping_and_dense(tensor):
        return False
    steps = [step for size, step in zip(tensor.shape, tensor.stride()) if size > 1]
    return not gaps or 0 in steps or 1 not in steps


def _plan(name: str, tensors: Sequence[Tensor], build: Callable[..., Any], gaps: bool) -> Computation | str:
    if any(t.numel() == 0 for t in tensors):
        return "a tensor without elements"
    copies = [at for at, t in enumerate(tensors) if _copied(t, gaps)]
    tensors = [t.contiguous() if at in copies else t for at, t in enumerate(tensors)]
    graph = Graph(name, io_data_type=tensors[0].dtype)
    try:
        inputs = [graph.tensor(t.shape or (1,), t.stride() or (1,), t.dtype) for t in tensors]
        results = build(graph, *inputs)
        results = results if isinstance(results, (list, tuple)) else [results]
        for result in results:
            result.set_output(True)
        device = device_of(tensors[0])
        made = graph.build() if device == HOST else build_on_gpu(graph, device, switches())
        return Computation(made, inputs, results, copies)
    except Error as error:
        return str(error)
