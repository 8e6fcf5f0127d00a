"""What else than first derivatives is asked of operations: derivatives of gradients, forward mode and `torch.func`."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function as one_level
from torch.autograd import forward_ad

__all__ = ["asked", "beyond_gradients", "forward_mode", "gradients_of", "one_level"]

_functorch = torch._C._functorch
_GRADIENT = _functorch.TransformType.Grad


def asked() -> str | None:
    """What is differentiated or batched otherwise than by autograd; none where nothing is."""
    if _functorch.peek_interpreter_stack() is not None:
        return "inside torch.func"
    return forward_mode()


def forward_mode() -> str | None:
    """That tensors may have tangents, which no graph carries along; none where no level of dual numbers is open."""
    # Both numbers belong to the whole process; a call of another thread meanwhile goes on in PyTorch, and is as right there.
    return "forward-mode differentiation" if forward_ad._current_level >= 0 else None


def beyond_gradients() -> str | None:
    """What only PyTorch's own operations carry along; gradients by `torch.func` are none of it, however deep."""
    stack = _functorch.get_interpreter_stack()
    if stack is not None and any(level.key() != _GRADIENT for level in stack):
        return "inside torch.func"
    return forward_mode()


def gradients_of(
    function: Callable[..., Any], args: Sequence[Any], wanted: Sequence[bool], grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradients of arguments, by what PyTorch knows of a function's parts; they have gradients themselves."""
    if all(grad is None for grad in grads):
        return (None,) * len(args)
    places = [at for at, want in enumerate(wanted) if want]

    def of(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = list(args)
        for at, tensor in zip(places, tensors):
            given[at] = tensor
        results = function(*given)
        results = results if isinstance(results, (list, tuple)) else [results]
        # What no gradient comes to counts for nothing.
        return tuple(result for result, grad in zip(results, grads) if grad is not None)

    _, backward, *_ = torch.func.vjp(of, *(args[at] for at in places))
    found = iter(backward(tuple(grad for grad in grads if grad is not None)))
    return tuple(next(found) if want else None for want in wanted)
