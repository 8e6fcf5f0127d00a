"""Networks in few bits: from a graph or a module of PyTorch, with samples, to one with quantized layers.

The numbers are those of torchao and of ONNX Runtime's quantizer where these are symmetric: q = round(x / scale), no zero point.
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
    """Quantizes the convolutions and products of a network, calibrated with samples.

    ``model`` is a Graph, with the arrays of its ``weights`` by their tensors, or a ``torch.nn.Module``, which ``torch.export`` takes apart.
    Each sample is the arrays of a call: one, a list, or by their tensors. ``recipe`` is "int8" (a scale for each output channel, ranges of
    largest magnitudes), "int8-per-tensor", "int8-percentile", "int8-mse", "fp8", "int4-weights" (groups of 32), or a Recipe. ``layers``
    names those that are quantized, or says so of each name; by default all are. Of the result, ``table()`` and ``svg()`` show what each
    layer costs; called with arrays it answers what the network answers, and its ``graph`` and ``constants`` are what computes it.
    """
    shapes = None
    if not isinstance(model, Graph):
        model, weights, samples, shapes = graph_of_module(model, samples)
    return quantize_graph(model, weights or {}, samples, recipe, layers, shapes)
