"""What makes an operation of PyTorch's library, called by the shortest way that there is."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor
from torch.library import custom_op, infer_schema

from .counts import counts_of
from .graphs import Unsupported

_PLAIN = (Tensor, torch.nn.Parameter)
_modes = torch._C._len_torch_dispatch_stack
_functorch = torch._C._functorch.peek_interpreter_stack


def plain(*values: Any) -> bool:
    """Whether nothing but autograd looks at what is computed with these values: no compiler, no mode, no tensor of another kind."""
    if torch.compiler.is_compiling() or _modes() or _functorch() is not None:
        return False
    return all(type(value) in _PLAIN for value in values if isinstance(value, Tensor))


class Operation:
    """An operation with a fake version and a gradient: ``torch.ops.hipdnn``, and a function that autograd alone looks at.

    PyTorch's own way to a custom operation takes ten times as long as a small graph, so it is taken where somebody else looks.
    """

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward
        schema = infer_schema(forward, mutates_args=())
        self.custom = custom_op(f"hipdnn::{forward.__name__}", self.anyhow, mutates_args=(), schema=schema)
        self.register_fake = self.custom.register_fake
        self.function: Any = None
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
        try:
            return self(*args)
        except Unsupported as reason:
            return self._elsewhere(reason, args)

    def _elsewhere(self, reason: Unsupported, args: Any) -> Any:
        if self.elsewhere is None:
            raise reason
        counts_of(self.forward.__name__, ("gradient", 0)).reasons[str(reason)] += 1
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
        self.function = type(forward.__name__, (torch.autograd.Function,), methods)

    def __call__(self, *args: Any) -> Any:
        if not plain(*args):
            return self.custom(*args)
        if self.function is not None and torch.is_grad_enabled():
            for value in args:
                if isinstance(value, Tensor) and value.requires_grad:
                    return self.function.apply(*args)
        return self.forward(*args)


operation = Operation
