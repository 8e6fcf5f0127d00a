"""Graphs of tensor operations in Python, with hipDNN's library and its engines for CPUs and GPUs included.

>>> import hipdnn, numpy as np
>>> g = hipdnn.Graph()
>>> a, b = g.tensor([1, 2, 3]), g.tensor([1, 3, 2])
>>> c = g.matmul(a, b)
>>> g(np.ones((1, 2, 3), np.float32), np.ones((1, 3, 2), np.float32))
array([[[3., 3.],
        [3., 3.]]], dtype=float32)

Where an operation is the same as in cuDNN's Python graph API, names and argument order are cuDNN's.
"""

from . import ops
from ._native import __version__

# Imported last: `graph` hides the module of that name.
from .compat import (
    backend_version,
    backend_version_string,
    create_kernel_cache,
    get_last_error_string,
    graph,
    graph_cache,
    jit,
    pygraph,
)  # isort: skip
from .device_array import DeviceArray
from .errors import (
    ArgumentError,
    ArrayError,
    EngineError,
    EngineWarning,
    Error,
    GraphError,
    NoEngineError,
    UnsupportedError,
    cudnnGraphNotSupportedError,
)
from .graph import Graph, Verdict
from .handle import Handle, create_handle, destroy_handle, get_stream, set_stream
from .library import Engine, engines, library, reset
from .losses import numerics
from .node_errors import NodeErrors, Numerics, ResultErrors
from .properties import DeviceProperties, create_device_properties
from .quantization import Quantized, Recipe, quantize
from .saved import load
from .tensor import Tensor
from .types import (
    attention_implementation,
    behavior_note,
    build_plan_policy,
    convolution_mode,
    data_type,
    diagonal_alignment,
    heur_mode,
    knob_type,
    moe_grouped_matmul_mode,
    norm_forward_phase,
    numerical_note,
    padding_mode,
    reduction_mode,
    resample_mode,
    reshape_mode,
    scalar_type,
    tensor_reordering,
)

#: cuDNN's name for a tensor.
tensor = Tensor

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
    "NodeErrors",
    "Numerics",
    "Quantized",
    "Recipe",
    "ResultErrors",
    "Tensor",
    "UnsupportedError",
    "Verdict",
    "__version__",
    "attention_implementation",
    "backend_version",
    "backend_version_string",
    "behavior_note",
    "build_plan_policy",
    "convolution_mode",
    "DeviceProperties",
    "create_device_properties",
    "create_handle",
    "create_kernel_cache",
    "cudnnGraphNotSupportedError",
    "data_type",
    "destroy_handle",
    "diagonal_alignment",
    "engines",
    "get_last_error_string",
    "get_stream",
    "graph",
    "graph_cache",
    "heur_mode",
    "jit",
    "knob_type",
    "library",
    "load",
    "moe_grouped_matmul_mode",
    "norm_forward_phase",
    "numerical_note",
    "numerics",
    "ops",
    "padding_mode",
    "pygraph",
    "quantize",
    "reduction_mode",
    "resample_mode",
    "reset",
    "reshape_mode",
    "scalar_type",
    "set_stream",
    "tensor",
    "tensor_reordering",
]
