"""Graphs for PyTorch's tensors, one for each signature."""

from __future__ import annotations

import threading
from typing import Any, Callable, Sequence

import torch
from torch import Tensor

from .. import _native
from ..device import HOST, torch_type
from ..errors import Error
from ..definition import ALIGNMENT
from ..graph import Graph
from .devices import build as build_on_gpu
from .devices import SWITCHES, device_of, settings as switches

#: What the engines compute in.
TYPES = frozenset((torch.float32, torch.float16, torch.bfloat16, torch.float64))

#: Tensors are described without leaving C++ from PyTorch 2.10 on; before, those that want a gradient are refused.
_DESCRIBED = hasattr(Tensor, "__dlpack_c_exchange_api__")

#: More signatures than a program has at a time.
_MOST = 4096


class Unsupported(Exception):
    """Why a call goes on in PyTorch, as all calls with its signature do."""


class NotNow(Unsupported):
    """Why a call goes on in PyTorch, though another one with its signature may not."""


class Computation:
    """A planned graph, as it is called with PyTorch's tensors."""

    __slots__ = ("copies", "graph", "order", "outputs", "plan", "used")

    def __init__(self, graph: Graph, inputs: Sequence[Any], results: Sequence[Any], copies: dict[int, Any]) -> None:
        self.graph = graph
        self.plan = graph.plan
        types = graph._types()
        made = graph._outputs
        #: Shape, strides and type of what is written.
        self.outputs = [(t.dim or (), t.stride or (), torch_type(graph._data_type(t, types))) for t in made]
        #: Where each result is among them.
        self.order = [made.index(result) for result in results]
        #: Inputs that no engine takes as they lie, and how they are laid out.
        self.copies = copies
        #: Those that are read, where some are not.
        self.used = None if inputs == graph._inputs else [at for at, t in enumerate(inputs) if t in graph._inputs]

    def __call__(self, tensors: Sequence[Tensor], shape: Sequence[int] | None) -> list[Tensor]:
        if self.copies:
            tensors = _copied(tensors, self.copies)
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
            self.plan.run((*tensors, *written))
        except _native.Misaligned:
            if tensors[0].is_cpu:
                self.graph._make_plan(aligned=False).run((*tensors, *written))
            else:
                # Engines of GPUs want what they were planned for.
                self.plan.run((*(_moved(t) for t in tensors), *written))
        else:
            noted = getattr(_local, "noted", None)
            if noted is not None:
                noted.append((self.plan, tensors, written))
        return results


_local = threading.local()
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
        if first.is_cuda and torch.cuda.is_current_stream_capturing():
            # Planning allocates and measures. What ran before the capture was planned then.
            raise NotNow("a step that is captured before it ran")
        made = _plan(name, tensors, build, gaps)
        # Each of these is one operation, whole for other threads and for handlers of signals.
        if len(_made) >= _MOST:
            _made.clear()
        _made[key] = made
    if isinstance(made, str):
        # With other switches there may be an engine.
        raise NotNow(made)
    return made(tensors, shape)


def activation(graph: Graph, method: str, numbers: Sequence[float], *tensors: Any) -> Any:
    """An activation or its gradient: a method of a graph with its numbers, as calls have them."""
    names = ("alpha",) if method.startswith("elu") else ("negative_slope", "lower_clip", "upper_clip")
    return getattr(graph, method)(*tensors, **dict(zip(names, numbers)))


class cached:
    """A function of tensors and settings, which goes straight to its plan where it was called with the same signature before.

    Its results, or a tuple with None among them, are what one graph computes: other tensors than those are made in each call.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = _native.Calls(SWITCHES)
        #: What was computed before with such arguments, or None.
        self.run = self.calls.run
        _caches.append(self.calls)

    def __call__(self, *args: Any) -> Any:
        made = self.run(*args)
        if made is not None:
            return made
        before, _local.noted = getattr(_local, "noted", None), []
        try:
            result = self.function(*args)
            noted = _local.noted
        finally:
            _local.noted = before
        if len(noted) == 1:
            self._keep(args, result, *noted[0])
        return result

    def _keep(
        self, args: Sequence[Any], result: Any, plan: Any, tensors: Sequence[Tensor], written: Sequence[Tensor]
    ) -> None:
        given = [arg.data_ptr() for arg in args if isinstance(arg, Tensor)]
        read = [t.data_ptr() for t in tensors]
        # What is one memory twice now may be two another time, and what was made on the way is made anew.
        if len(set(given)) < len(given) or not set(read) <= set(given):
            return
        results = result if isinstance(result, tuple) else (result,)
        made, addresses = list(written), [t.data_ptr() for t in written]
        order: list[Any] = []
        for tensor in results:
            if tensor is None:
                order.append(None)
                continue
            if tensor.numel() == 0:
                order.append(len(made))
                made.append(tensor)
                continue
            if tensor.data_ptr() not in addresses:
                return
            at = addresses.index(tensor.data_ptr())
            if at in order or _extent(tensor) != _extent(written[at]):
                return
            order.append(at)
            made[at] = tensor
        specs = [(tuple(t.shape), t.stride(), t.dtype) for t in made]
        inputs = [given.index(address) for address in read]
        of = tensors[0].device, plan, inputs, specs, len(written), order, not isinstance(result, tuple)
        self.calls.keep(args, *of)


_caches: list[_native.Calls] = []


def forget() -> None:
    """Has everything planned anew."""
    _made.clear()
    for calls in _caches:
        calls.clear()


def _extent(tensor: Tensor) -> tuple[int, int]:
    """How many elements there are, and from the first to the last one."""
    return tensor.numel(), 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))


def _moved(tensor: Tensor) -> Tensor:
    """The tensor, or a copy with its strides where it does not begin at a multiple of what graphs promise."""
    if tensor.data_ptr() % ALIGNMENT == 0:
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


#: Operations on images, whose tensors engines of GPUs want to lie alike.
_OF_IMAGES = frozenset(
    "conv conv_data conv_weights batch_norm batch_norm_backward batch_norm_inference pool pool_backward chain".split()
)
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _copied(tensors: Sequence[Tensor], layouts: dict[int, Any]) -> list[Tensor]:
    """The tensors, some of them copied to lie otherwise."""
    return [t.contiguous(memory_format=layouts[at]) if at in layouts else t for at, t in enumerate(tensors)]


def _has_channels_last(image: Tensor) -> bool:
    """Whether an image has the channels last, and could not be said to have them first."""
    last = _LAST.get(image.dim())
    return last is not None and image.is_contiguous(memory_format=last) and not image.is_contiguous()


def _alike(tensors: Sequence[Tensor]) -> dict[int, Any]:
    """What has to be copied so that all tensors have the channels last, as the first one."""
    images = {at: _LAST[t.dim()] for at, t in enumerate(tensors) if t.dim() in _LAST}
    lies = {at: tensors[at].is_contiguous(memory_format=last) for at, last in images.items()}
    # Factors of channels lie as they do in any case.
    return {at: last for at, last in images.items() if not lies[at] and tensors[at].numel() > tensors[at].shape[1]}


def _strides(tensor: Tensor, last: bool) -> tuple[int, ...]:
    """The strides of a tensor; where channels are last, also of those that might be either, as filters of 1 x 1."""
    layout = _LAST.get(tensor.dim())
    if last and layout is not None and tensor.is_contiguous(memory_format=layout):
        return torch.empty(tensor.shape, device="meta", memory_format=layout).stride()
    return tensor.stride() or (1,)


def _is_apart(tensor: Tensor, gaps: bool) -> bool:
    """Whether a tensor's elements overlap, or lie apart where they must not."""
    if torch.ops.aten.is_non_overlapping_and_dense(tensor):
        return False
    steps = [step for size, step in zip(tensor.shape, tensor.stride()) if size > 1]
    return not gaps or 0 in steps or 1 not in steps


def _plan(name: str, tensors: Sequence[Tensor], build: Callable[..., Any], gaps: bool) -> Computation | str:
    if any(t.numel() == 0 for t in tensors):
        return "a tensor without elements"
    copies: dict[int, Any] = {at: torch.contiguous_format for at, t in enumerate(tensors) if _is_apart(t, gaps)}
    device = device_of(tensors[0])
    last = device != HOST and name in _OF_IMAGES and _has_channels_last(tensors[0])
    if last:
        copies.update(_alike(tensors))
    tensors = _copied(tensors, copies)
    graph = Graph(name, io_data_type=tensors[0].dtype)
    try:
        inputs = [graph.tensor(t.shape or (1,), _strides(t, last), t.dtype) for t in tensors]
        results = build(graph, *inputs)
        results = results if isinstance(results, (list, tuple)) else [results]
        for result in results:
            result.set_output(True)
        made = graph.build() if device == HOST else build_on_gpu(graph, device, switches())
        return Computation(made, inputs, results, copies)
    except Error as error:
        return str(error)
