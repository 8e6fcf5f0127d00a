"""Runs PyTorch's operations on hipDNN, including training.

>>> import torch, hipdnn.torch
>>> layer = torch.nn.Conv2d(4, 2, 3)
>>> with hipdnn.torch.enable(timed=False):
...     layer(torch.ones(3, 4, 8, 8)).sum().backward()
>>> [(row.function, row.routed) for row in hipdnn.torch.report()][:1]
[('convolution', 1)]

Kernels are registered with PyTorch's dispatcher, below autograd, so everything that PyTorch does with operations works with them.
Operations that are unsupported here run on PyTorch's own kernels, and are counted with the reason.
"""

from __future__ import annotations

from .compiler import backend
from .counts import Ran, Report, Routed, report, reset
from .dispatch import disable, enable

__all__ = ["Ran", "Report", "Routed", "backend", "disable", "enable", "report", "reset"]
