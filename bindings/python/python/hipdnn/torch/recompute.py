"""`torch.utils.checkpoint`: what is computed again for a gradient is computed as it was before.

PyTorch takes modes of functions away while gradients are computed, so the second time everything would go on in PyTorch: other tensors
would be saved than the first time, which `checkpoint` refuses, and dropout would be another.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from torch.overrides import _get_current_function_mode_stack
from torch.utils import checkpoint


def follow(mode: type[Any]) -> None:
    """Has PyTorch compute again under a mode what was computed under it before."""

    def is_on() -> bool:
        return any(isinstance(one, mode) for one in _get_current_function_mode_stack())

    def as_now(function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is called under the mode later as well, if it is on."""
        if not is_on():
            return function

        @functools.wraps(function, updated=())
        def again(*args: Any, **kwargs: Any) -> Any:
            if is_on():
                return function(*args, **kwargs)
            with mode():
                return function(*args, **kwargs)

        return again

    # There are two ways to compute again, neither of which knows the modes of others.
    of: Any = checkpoint
    name = "_checkpoint_without_reentrant_generator"
    # Newer versions of PyTorch have what it does in a function of its own.
    name = f"{name}_impl" if hasattr(of, f"{name}_impl") else name
    begin, forward = getattr(of, name), of.CheckpointFunction.forward

    @functools.wraps(begin)
    def begun(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return begin(as_now(function), *args, **kwargs)

    def run(ctx: Any, function: Callable[..., Any], *args: Any) -> Any:
        return forward(ctx, as_now(function), *args)

    setattr(of, name, begun)
    of.CheckpointFunction.forward = staticmethod(run)
