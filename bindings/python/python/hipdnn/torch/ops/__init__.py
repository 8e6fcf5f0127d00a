"""Operations of PyTorch's library, each computed by a graph: `torch.ops.hipdnn`.

Shapes of results are known without computing them, so the operations work under ``torch.compile``; gradients are operations, too.
"""

from .attention import sdpa, sdpa_backward
from .elementwise import pointwise, pointwise_backward, softmax, softmax_backward
from .norms import (
    batch_norm,
    batch_norm_backward,
    batch_norm_inference,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
)
from .pooling import pool, pool_backward
from .products import conv, conv_data, conv_weights, linear, matmul

__all__ = [
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_inference",
    "conv",
    "conv_data",
    "conv_weights",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "matmul",
    "pointwise",
    "pointwise_backward",
    "pool",
    "pool_backward",
    "rms_norm",
    "rms_norm_backward",
    "sdpa",
    "sdpa_backward",
    "softmax",
    "softmax_backward",
]
