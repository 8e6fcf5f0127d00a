"""PyTorch's functions computed by hipDNN, training included.

>>> import torch, hipdnn.torch
>>> layer = torch.nn.Linear(4, 2)
>>> with hipdnn.torch.enable() as routed:
...     layer(torch.ones(3, 4)).sum().backward()
>>> [(row.function, row.routed) for row in hipdnn.torch.report()][-1:]
[('linear', 1)]

``torch.compile(model, backend="hipdnn")`` finds convolution, normalization, addition and activation, and makes one graph of them.

The operations themselves are ``torch.ops.hipdnn``, with gradients and fake versions for ``torch.compile``. What is not supported goes on
in PyTorch, and is counted with its reason.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from .. import _native

# PyTorch's OpenMP threads poll for a while after each of its functions: CPU_ENGINE computes on them instead of taking their processors.
# In a child by fork these threads are missing, and OpenMP would wait for them.
if os.environ.setdefault("HIPDNN_CPU_THREAD_POOL", "openmp") == "openmp":
    os.register_at_fork(after_in_child=lambda: os.environ.update(HIPDNN_CPU_THREAD_POOL="own"))

# `pooling` adds to the handlers.
from . import ops, pooling as _pooling, recompute as _recompute  # noqa: F401
from .compiler import backend
from .counts import Ran, Report, Routed, report
from .router import ROUTER, reset

__all__ = ["Ran", "Report", "Routed", "backend", "disable", "enable", "ops", "report", "reset"]


class enable(_native.Mode, TorchFunctionMode):
    """Routes this thread's calls of PyTorch's functions to hipDNN: until ``disable()``, or as a context manager."""

    def __new__(cls) -> enable:
        made: enable = super().__new__(cls, ROUTER)
        return made

    def __init__(self) -> None:
        functions: Any = F
        if not isinstance(functions.handle_torch_function, _native.Overrides):
            # By this one PyTorch's functions in Python come to a mode. It takes longer than all that the mode does.
            functions.handle_torch_function = _native.Overrides(functions.handle_torch_function)
        _modes().append(self)
        super().__enter__()

    def __enter__(self) -> enable:
        # It is on already; the end of the context switches it off.
        return self

    def __exit__(self, *error: Any) -> None:
        if self in _modes():
            _modes().remove(self)
            super().__exit__(*error)


_recompute.follow(enable)

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
