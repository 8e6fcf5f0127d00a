"""``torch.compile(model, backend="hipdnn")``: inductor, with hipDNN's kernels for the operations that it leaves to libraries."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any, Callable

import torch
from torch import fx

from .dispatch import enable


def _enabled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose operations are computed here where that is faster."""

    @functools.wraps(function, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        with enable():
            return function(*args, **kwargs)

    return run


def is_on_host(value: Any) -> bool:
    """Whether an input is a tensor in memory of the host with elements to compute with: numbers of a graph may be tensors there as well."""
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() > 0


def _compile(traced: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    """One graph, forward or backward, as inductor compiles it."""
    from torch._inductor.compile_fx import compile_fx_inner

    compiled: Any = compile_fx_inner(traced, inputs, **options)
    if not any(is_on_host(of) for of in inputs):
        # What inductor leaves to libraries on a GPU, PyTorch computes as fast.
        return compiled
    if callable(getattr(compiled, "current_callable", None)):
        compiled.current_callable = _enabled(compiled.current_callable)
        return compiled
    return compiled


def backend(traced: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend ``hipdnn`` of ``torch.compile``."""
    from torch._functorch import config
    from torch._inductor.compile_fx import compile_fx

    # What comes out of this cache was never given to `_compile`. Inductor's own cache of graphs stays.
    name = "enable_autograd_cache"
    with config.patch({name: False}) if hasattr(config, name) else contextlib.nullcontext():
        compiled: Any = compile_fx(traced, inputs, inner_compile=_compile, config_patches=options.get("options"))
    return compiled
