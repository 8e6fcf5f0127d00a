"""``torch.compile(model, backend="hipdnn")``: inductor, with hipDNN's kernels for the operations that it leaves to libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import torch
from torch import fx

from . import graphs


def is_on_host(value: Any) -> bool:
    """Whether an input is a tensor in host memory with at least one dimension: a graph's numbers may be host tensors, too."""
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() > 0


def _compile(traced: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    """Compiles one graph, forward or backward, with inductor."""
    from torch._inductor.compile_fx import compile_fx_inner

    # Inductor changes its graph.
    name = graphs.describe(traced, inputs)
    compiled: Any = compile_fx_inner(traced, inputs, **options)
    if any(is_on_host(of) for of in inputs) and callable(getattr(compiled, "current_callable", None)):
        way = "backward" if options.get("is_backward") else "forward"
        compiled.current_callable = graphs.Chosen(compiled.current_callable, way, name)
    return compiled


def _patches(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Inductor's settings for the arguments of ``torch.compile``."""
    config: dict[str, Any] = torch._TorchCompileInductorWrapper(mode, options, None).config
    return config or None


def backend(traced: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend ``hipdnn`` of ``torch.compile``."""
    from torch._functorch import config
    from torch._inductor.compile_fx import compile_fx

    patches = _patches(options.get("mode"), options.get("options"))
    tensors: Iterable[Any] = (*inputs, *traced.parameters(), *traced.buffers())
    if not any(is_on_host(of) for of in tensors):
        # On a GPU, PyTorch is as fast for the operations that inductor leaves to libraries: inductor gets the whole graph.
        alone: Any = compile_fx(traced, inputs, config_patches=patches)
        return alone
    # Graphs from this cache would bypass `_compile`. Inductor's own graph cache stays.
    name = "enable_autograd_cache"
    with config.patch({name: False}) if hasattr(config, name) else contextlib.nullcontext():
        compiled: Any = compile_fx(traced, inputs, inner_compile=_compile, config_patches=patches)
    return compiled
