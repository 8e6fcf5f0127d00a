"""What is different on a GPU: who computes, how floats may be rounded, and what is planned again when that changes."""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import torch
from torch import Tensor

from ..device import CUDA, HOST, ROCM, Device
from ..errors import NoEngineError
from ..graph import Graph
from ..library import computes_on, engines, host_engines

#: What DLPack calls the GPUs of this PyTorch.
_KIND = ROCM if torch.version.hip else CUDA

#: Nodes that engines with generated kernels compute one element by one thread, which PyTorch does not.
_SLOW = ("ConvolutionFwdAttributes", "ConvolutionBwdAttributes", "ConvolutionWrwAttributes", "MatmulAttributes")
_GENERATED = ("NVRTC_", "HIPRTC_")

_precision = getattr(torch._C, "_get_fp32_precision_getter", None)
_deterministic = torch._C._get_cudnn_deterministic, torch._C._get_deterministic_algorithms

#: PyTorch's switches that plans depend on: the precision of products and of convolutions, two that keep results from varying, and whether
#: plans are timed.
SWITCHES: list[Callable[[], Any]] = [
    *(
        (functools.partial(_precision, "cuda", "matmul"), functools.partial(_precision, "cuda", "conv"))
        if _precision is not None
        else (lambda: torch.backends.cuda.matmul.allow_tf32, lambda: torch.backends.cudnn.allow_tf32)
    ),
    *_deterministic,
    torch._C._get_cudnn_benchmark,
]


def device_of(tensor: Tensor) -> Device:
    """Where a tensor is."""
    return HOST if tensor.is_cpu else (_KIND, tensor.device.index or 0)


def settings() -> tuple[bool, bool, bool, bool]:
    """What PyTorch's switches say: whether products and convolutions may be rounded to TF32, whether results must not vary, and whether
    plans are timed when they are made."""
    products, convolutions, exact, always_exact, timed = (switch() for switch in SWITCHES)
    return products in (True, "tf32"), convolutions in (True, "tf32"), exact or always_exact, timed


def build(graph: Graph, device: Device, switches: Sequence[bool]) -> Graph:
    """Plans a graph for a GPU as PyTorch's switches say; raises NoEngineError where no engine of the GPU is as good as PyTorch."""
    graph._device = device
    native = graph._native_graph(graph.to_json())
    of_host = host_engines()
    offered = [id for id in native.offer()[0] if id in computes_on(device) and id not in of_host]
    kinds = {node.kind for node in graph._nodes}
    if kinds.intersection(_SLOW):
        generated = {engine.id for engine in engines() if engine.name.startswith(_GENERATED)}
        offered = [id for id in offered if id not in generated]
    if not offered:
        raise _no_engine(graph, native)
    products, convolutions, exact, timed = switches
    tf32 = products if "MatmulAttributes" in kinds else convolutions
    wanted = {"cudnn.tf32": tf32, "cublaslt.tf32": tf32, "cudnn.deterministic": exact, "global.benchmarking": timed}
    known = {id for id, *_ in native.knobs(offered[0])}
    return graph.build(
        engine=offered[0], knobs={id: 1 for id, on in wanted.items() if on and id in known}, device=device
    )


def _no_engine(graph: Graph, native: Any) -> NoEngineError:
    error = graph._no_engine(native, graph._device)
    on_gpu = {engine.name for engine in engines() if engine.id in computes_on(graph._device)}
    reasons = {name: reason for name, reason in error.reasons.items() if name in on_gpu}
    return NoEngineError(
        "no engine of the GPU: " + "; ".join(f"{name}: {why}" for name, why in reasons.items()), reasons
    )
