"""Graphs of tensor operations for Python: hipDNN's library, its engines for CPUs and GPUs, and nothing else to install.

>>> import hipdnn, numpy as np
>>> g = hipdnn.Graph()
>>> a, b = g.tensor([1, 2, 3]), g.tensor([1, 3, 2])
>>> c = g.matmul(a, b)
>>> g(np.ones((1, 2, 3), np.float32), np.ones((1, 3, 2), np.float32))
array([[[3., 3.],
        [3., 3.]]], dtype=float32)

Names and the order of arguments are those of cuDNN's Python graph API where an operation is the same.
"""

from ._native import __version__
from .device import DeviceArray
from .errors import ArgumentError, ArrayError, EngineError, EngineWarning, Error, GraphError, NoEngineError
from .graph import Graph, Verdict
from .handle import Handle, create_handle, destroy_handle, get_stream, set_stream
from .library import Engine, engines, library
from .saved import load
from .tensor import Tensor
from .types import (
    build_plan_policy,
    convolution_mode,
    data_type,
    diagonal_alignment,
    heur_mode,
    moe_grouped_matmul_mode,
    norm_forward_phase,
    padding_mode,
    reduction_mode,
    resample_mode,
    tensor_reordering,
)

#: cuDNN's name of a graph.
pygraph = Graph

__all__ = [
    "ArgumentError",
    "ArrayError",
    "DeviceArray",
    "Engine",
    "EngineError",
    "EngineWarning",
    "Error",
    "Graph",
    "GraphError",
    "Handle",
    "NoEngineError",
    "Tensor",
    "Verdict",
    "__version__",
    "build_plan_policy",
    "convolution_mode",
    "create_handle",
    "data_type",
    "destroy_handle",
    "diagonal_alignment",
    "engines",
    "get_stream",
    "heur_mode",
    "library",
    "load",
    "moe_grouped_matmul_mode",
    "norm_forward_phase",
    "padding_mode",
    "pygraph",
    "reduction_mode",
    "resample_mode",
    "set_stream",
    "tensor_reordering",
]
