"""Quantized networks: from a graph or a PyTorch module, with samples, to a network with quantized layers.

Numerics match torchao's and ONNX Runtime's symmetric quantization: q = round(x / scale), with zero point 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..graph import Graph
from ..tensor import Tensor
from .exported import graph_of_module
from .quantized import Quantized, quantize_graph
from .recipe import RECIPES, Recipe
from .report import Layer

__all__ = ["RECIPES", "Layer", "Quantized", "Recipe", "quantize"]


def quantize(
    model: Any,
    samples: Sequence[Any],
    recipe: str | Recipe = "int8",
    *,
    weights: Mapping[Tensor, Any] | None = None,
    layers: Callable[[str], bool] | Sequence[str] | None = None,
) -> Quantized:
    """Quantizes the convolutions and matmuls of a network, calibrated with samples.

    ``model`` is a Graph, with its ``weights`` as a mapping of tensors to arrays, or a ``torch.nn.Module``, exported with ``torch.export``.
    Each sample holds the arrays of a call: one, a list, or a mapping by tensor. ``recipe`` is "int8" (a scale per output channel, ranges
    by largest magnitude), "int8-per-tensor", "int8-percentile", "int8-mse", "fp8", "int4-weights" (groups of 32), or a Recipe. ``layers``
    is the names of the layers to quantize, or a predicate on names; by default all are. ``table()`` and ``svg()`` of the result show what
    each layer costs. Calling it computes what the network computes, with its ``graph`` and ``constants``.
    """
    shapes = None
    if not isinstance(model, Graph):
        model, weights, samples, shapes = graph_of_module(model, samples)
    return quantize_graph(model, weights or {}, samples, recipe, layers, shapes)
