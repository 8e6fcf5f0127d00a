"""PyTorch's operations computed by hipDNN, training included.

>>> import torch, hipdnn.torch
>>> layer = torch.nn.Conv2d(4, 2, 3)
>>> with hipdnn.torch.enable(timed=False):
...     layer(torch.ones(3, 4, 8, 8)).sum().backward()
>>> [(row.function, row.routed) for row in hipdnn.torch.report()][:1]
[('convolution', 1)]

Kernels are registered with PyTorch's dispatcher, below its autograd: whatever PyTorch does with operations it does with these. What is
not computed here is computed by PyTorch's own kernels, and is counted with its reason.
"""

from __future__ import annotations

from .compiler import backend
from .counts import Ran, Report, Routed, report, reset
from .dispatch import disable, enable

__all__ = ["Ran", "Report", "Routed", "backend", "disable", "enable", "report", "reset"]
