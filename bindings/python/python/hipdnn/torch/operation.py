"""What makes an operation of PyTorch's library, called by the shortest way that there is."""

from __future__ import annotations

import threading
from typing import Any, Callable

import torch
from torch import Tensor
from torch.library import custom_op, infer_schema

from .counts import counts_of
from .graphs import Unsupported, cached

_PLAIN = (Tensor, torch.nn.Parameter)
_modes = torch._C._len_torch_dispatch_stack
_functorch = torch._C._functorch.peek_interpreter_stack


def plain(*values: Any) -> bool:
    """Whether nothing but autograd looks at what is computed with these values: no compiler, no mode, no tensor of another kind."""
    if torch.compiler.is_compiling() or _modes() or _functorch() is not None:
        return False
    return all(type(value) in _PLAIN for value in values if isinstance(value, Tensor))


_local = threading.local()


def noted(call: Any, args: Any, result: Any) -> Any:
    """The result, once the call is noted for whoever wants to know what a function comes down to."""
    calls = getattr(_local, "calls", None)
    if calls is not None:
        calls.append((call, args, result))
    return result


class noting:
    """Notes the operations that are called, and which tensors are casts of others."""

    def __enter__(self) -> noting:
        self.before = getattr(_local, "calls", None), getattr(_local, "casts", None)
        _local.calls, _local.casts = [], {}
        self.calls: list[Any] = _local.calls
        self.casts: dict[int, tuple[Tensor, Tensor]] = _local.casts
        return self

    def __exit__(self, *error: Any) -> None:
        _local.calls, _local.casts = self.before


def step(function: Callable[..., Any], *args: Any) -> Any:
    """What a function computes by any number of operations, noted as one."""
    calls, _local.calls = getattr(_local, "calls", None), None
    try:
        result = function(*args)
    finally:
        _local.calls = calls
    return noted(function, args, result)


def cast_to(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor in another type."""
    cast = tensor.to(dtype)
    casts = getattr(_local, "casts", None)
    if casts is not None and cast is not tensor:
        casts[id(cast)] = cast, tensor
    return cast


def first_order(function: cached, *args: Any) -> Any:
    """What a function computes for a gradient; None where it cannot, or the gradient is to have one itself."""
    if torch.is_grad_enabled():
        return None
    made = function.run(*args)
    if made is None and plain(*args):
        try:
            made = function(*args)
        except Unsupported:
            pass
    return made


class Operation:
    """An operation with a fake version and a gradient: ``torch.ops.hipdnn``, and a function that autograd alone looks at.

    PyTorch's own way to a custom operation takes ten times as long as a small graph, so it is taken where somebody else looks.
    """

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = cached(forward)
        self.name = forward.__name__
        schema = infer_schema(forward, mutates_args=())
        self.custom = custom_op(f"hipdnn::{forward.__name__}", self.anyhow, mutates_args=(), schema=schema)
        self.register_fake = self.custom.register_fake
        self.function: Any = None
        #: The function as it is called where no transformation of functions looks at it.
        self.apply: Any = None
        self.elsewhere: Any = None

    def register_elsewhere(self, by_pytorch: Callable[..., Any]) -> Callable[..., Any]:
        """How PyTorch computes the same, for what no engine takes once it is too late to leave the whole function to PyTorch."""
        self.elsewhere = by_pytorch
        return by_pytorch

    def anyhow(self, *args: Any) -> Any:
        """The results, by PyTorch where no engine applies."""
        try:
            return self.forward(*args)
        except Unsupported as reason:
            return self._elsewhere(reason, args)

    def gradient(self, *args: Any) -> Any:
        """The operation as part of a gradient, by PyTorch where no engine applies."""
        if not torch.is_grad_enabled():
            made = self.forward.run(*args)
            if made is not None:
                return made
        try:
            return self(*args)
        except Unsupported as reason:
            return self._elsewhere(reason, args)

    def _elsewhere(self, reason: Unsupported, args: Any) -> Any:
        if self.elsewhere is None:
            raise reason
        counts_of(self.name, ("gradient", 0)).reasons[str(reason)] += 1
        return self.elsewhere(*args)

    def register_autograd(self, backward: Callable[..., Any], *, setup_context: Callable[..., None]) -> None:
        self.custom.register_autograd(backward, setup_context=setup_context)
        forward = self.forward

        def run(ctx: Any, *args: Any) -> Any:
            result = forward(*args)
            setup_context(ctx, args, result)
            return result

        # With a `setup_context` of its own PyTorch would look at the signature in each call.
        methods = {"forward": staticmethod(run), "backward": staticmethod(backward)}
        self.function = type(self.name, (torch.autograd.Function,), methods)
        self.apply = super(torch.autograd.Function, self.function).apply  # type: ignore[misc]

    def __call__(self, *args: Any) -> Any:
        if not plain(*args):
            return self.custom(*args)
        if self.function is not None and torch.is_grad_enabled():
            for value in args:
                if isinstance(value, Tensor) and value.requires_grad:
                    return noted(self.apply, args, self.function.apply(*args))
        return noted(self.forward, args, self.forward(*args))


operation = Operation
