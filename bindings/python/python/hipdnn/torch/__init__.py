"""PyTorch's functions computed by hipDNN, training included.

>>> import torch, hipdnn.torch
>>> layer = torch.nn.Linear(4, 2)
>>> with hipdnn.torch.enable() as routed:
...     layer(torch.ones(3, 4)).sum().backward()
>>> [(row.function, row.routed) for row in hipdnn.torch.report()][-1:]
[('linear', 1)]

The operations themselves are ``torch.ops.hipdnn``, with gradients and fake versions for ``torch.compile``. What is not supported goes on
in PyTorch, and is counted with its reason.
"""

from __future__ import annotations

import collections
import os
import sys
import threading
from typing import Any, Iterable, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from . import ops
from .graphs import Unsupported
from .route import HANDLERS

__all__ = ["Routed", "disable", "enable", "ops", "report", "reset"]

_HERE = os.path.dirname(__file__)
_TORCH = os.path.dirname(torch.__file__)


class Routed(NamedTuple):
    """How often a function was computed here and in PyTorch, from one place of a program."""

    function: str
    place: str
    routed: int
    passed_on: int
    #: Why it went on in PyTorch, where it did.
    reasons: tuple[str, ...]


class _Counts:
    def __init__(self) -> None:
        self.routed = 0
        self.reasons: collections.Counter[str] = collections.Counter()


_counts: dict[tuple[str, str], _Counts] = collections.defaultdict(_Counts)


def _place() -> str:
    """The line of the program that called PyTorch."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, _TORCH)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class enable(TorchFunctionMode):
    """Routes this thread's calls of PyTorch's functions to hipDNN: until ``disable()``, or as a context manager."""

    def __init__(self) -> None:
        super().__init__()
        _modes().append(self)
        super().__enter__()

    def __enter__(self) -> enable:
        # It is on already; the end of the context switches it off.
        return self

    def __exit__(self, *error: Any) -> None:
        if self in _modes():
            _modes().remove(self)
            super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        handler = HANDLERS.get(func)
        if handler is None:
            return func(*args, **kwargs)
        counts = _counts[getattr(func, "__name__", str(func)), _place()]
        try:
            if torch._C._functorch.peek_interpreter_stack() is not None:
                raise Unsupported("inside torch.func")
            result = handler(*args, **kwargs)
        except (Unsupported, TypeError) as reason:
            counts.reasons[str(reason)] += 1
            return func(*args, **kwargs)
        counts.routed += 1
        return result


_local = threading.local()


def _modes() -> list[enable]:
    """What is on in this thread, the last one last."""
    if not hasattr(_local, "modes"):
        _local.modes = []
    modes: list[enable] = _local.modes
    return modes


def disable() -> None:
    """Ends what ``enable()`` began in this thread."""
    while _modes():
        _modes()[-1].__exit__(None, None, None)


def report() -> list[Routed]:
    """What was computed where, one entry for each place of the program."""
    return [
        Routed(function, place, counts.routed, sum(counts.reasons.values()), tuple(counts.reasons))
        for (function, place), counts in _counts.items()
    ]


def reset() -> None:
    """Begins the report anew."""
    _counts.clear()
