"""What makes an operation of PyTorch's library, called by the shortest way that there is."""

from __future__ import annotations

import threading
from typing import Any, Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.library import Library, infer_schema, register_fake

from .counts import counts_of
from .graphs import Unsupported, cached
from .transforms import beyond_gradients, gradients_of, one_level

_LIBRARY = Library("hipdnn", "DEF")

_PLAIN = (Tensor, torch.nn.Parameter)
_modes = torch._C._len_torch_dispatch_stack
_functorch = torch._C._functorch.peek_interpreter_stack
#: Whether a tensor is of those that `torch.autograd.grad(is_grads_batched=True)` makes.
_is_batch = torch._C._functorch.is_legacy_batchedtensor


def plain(*values: Any) -> bool:
    """Whether nothing but autograd looks at what is computed with these values: no compiler, no mode, no tangent, no tensor of another kind."""
    if torch.compiler.is_compiling() or _modes() or _functorch() is not None or forward_ad._current_level >= 0:
        return False
    return all(type(value) in _PLAIN and not _is_batch(value) for value in values if isinstance(value, Tensor))


_local = threading.local()


def noted(call: Any, args: Any, result: Any) -> Any:
    """The result, once the call is noted for whoever wants to know what a function comes down to."""
    calls = getattr(_local, "calls", None)
    if calls is not None:
        calls.append((call, args, result))
    return result


class noting:
    """Notes the operations that are called, and which tensors are casts of others."""

    def __enter__(self) -> noting:
        self.before = getattr(_local, "calls", None), getattr(_local, "casts", None)
        _local.calls, _local.casts = [], {}
        self.calls: list[Any] = _local.calls
        self.casts: dict[int, tuple[Tensor, Tensor]] = _local.casts
        return self

    def __exit__(self, *error: Any) -> None:
        _local.calls, _local.casts = self.before


def step(function: Callable[..., Any], *args: Any) -> Any:
    """What a function computes by any number of operations, noted as one."""
    calls, _local.calls = getattr(_local, "calls", None), None
    try:
        result = function(*args)
    finally:
        _local.calls = calls
    return noted(function, args, result)


def cast_to(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor in another type."""
    cast = tensor.to(dtype)
    casts = getattr(_local, "casts", None)
    if casts is not None and cast is not tensor:
        casts[id(cast)] = cast, tensor
    return cast


def first_order(function: cached, *args: Any) -> Any:
    """What a function computes for a gradient; None where it cannot, or the gradient is to have one itself."""
    if torch.is_grad_enabled():
        return None
    made = function.run(*args)
    if made is None and plain(*args):
        try:
            made = function(*args)
        except Unsupported:
            pass
    return made


class Operation:
    """An operation with a fake version and a gradient: ``torch.ops.hipdnn``, and a function that autograd alone looks at.

    PyTorch's own way to an operation of its library takes ten times as long as a small graph, so it is taken where somebody else looks.
    """

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = cached(forward)
        self.name = forward.__name__
        schema = infer_schema(forward, mutates_args=())
        _LIBRARY.define(self.name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        _LIBRARY.impl(self.name, self.anyhow, "CompositeExplicitAutograd")
        _LIBRARY.impl(self.name, self._with_autograd, "Autograd", with_keyset=True)
        _LIBRARY.impl(self.name, self._batched, "FuncTorchBatched")
        self.custom = getattr(torch.ops.hipdnn, self.name).default
        #: How PyTorch computes the same, of parts that it knows the derivatives of.
        self.elsewhere: Any = None
        self.register_autograd(self._gradients, setup_context=_keep_all)

    def register_fake(self, fake: Callable[..., Any]) -> Callable[..., Any]:
        register_fake(f"hipdnn::{self.name}", fake, lib=_LIBRARY)
        return fake

    def register_elsewhere(self, by_pytorch: Callable[..., Any]) -> Callable[..., Any]:
        """How PyTorch computes the same, for what no engine takes once it is too late to leave the whole function to PyTorch."""
        self.elsewhere = by_pytorch
        return by_pytorch

    def anyhow(self, *args: Any) -> Any:
        """The results, by PyTorch where no engine applies."""
        try:
            return self.forward(*args)
        except Unsupported as reason:
            return self._elsewhere(reason, args)

    def gradient(self, *args: Any) -> Any:
        """The operation as part of a gradient, by PyTorch where no engine applies."""
        if not torch.is_grad_enabled():
            made = self.forward.run(*args)
            if made is not None:
                return made
        try:
            return self(*args)
        except Unsupported as reason:
            return self._elsewhere(reason, args)

    def _elsewhere(self, reason: Any, args: Any) -> Any:
        counts_of(self.name, ("gradient", 0)).reasons[str(reason)] += 1
        return self._by_pytorch(*args)

    def _by_pytorch(self, *args: Any) -> Any:
        # Neither routed here again, nor cast.
        with torch._C.DisableTorchFunction(), torch._C._DisableAutocast():
            return self.elsewhere(*args)

    def _with_autograd(self, keyset: Any, *args: Any) -> Any:
        """What PyTorch's library calls with tensors that may be differentiated."""
        reason = beyond_gradients()
        if reason is not None:
            return self._elsewhere(reason, args)
        if _has_gradients(args):
            # What is called here is at one level of derivatives, whose parts go to the next one.
            with one_level():
                return self.apply_in_levels(*args)
        return self.custom.redispatch(keyset & torch._C._after_autograd_keyset, *args)

    def _batched(self, *args: Any) -> Any:
        """What it calls with tensors that `torch.vmap` has batches of."""
        return self._elsewhere("inside torch.func", args)

    def _gradients(self, ctx: Any, *grads: Any) -> Any:
        """The gradient of an operation that has none of its own, as those that are gradients themselves."""
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors) if is_tensor else value for is_tensor, value in ctx.given]
        counts_of(self.name, ("gradient", 0)).reasons["the gradient of a gradient"] += 1
        return gradients_of(self._by_pytorch, args, ctx.needs_input_grad, grads)

    def register_autograd(
        self,
        backward: Callable[..., Any],
        *,
        setup_context: Callable[..., None],
        others: Callable[[Any, Any], None] | None = None,
    ) -> None:
        """Its gradient; `others` is told the arguments and all results of a call that answers the first one alone."""
        forward, known = self.forward, self.forward.run

        def run(ctx: Any, *args: Any) -> Any:
            result = known(*args)
            if result is None:
                result = forward(*args)
            setup_context(ctx, args, result)
            return result

        def run_first(ctx: Any, *args: Any) -> Any:
            result = run(ctx, *args)
            if others is not None:
                others(args, result)
            return result[0]

        def forward_first(*args: Any) -> Any:
            result = forward(*args)
            if others is not None:
                others(args, result)
            return result[0]

        def run_in_levels(ctx: Any, *args: Any) -> Any:
            # The next level of derivatives wants its own ones.
            with torch._C._AutoDispatchBelowAutograd(), torch.enable_grad():
                result = self.custom(*args)
            setup_context(ctx, args, result)
            return result

        #: The function as it is called where no transformation of functions looks at it.
        self.apply = self._applied(run, backward)
        self.apply_in_levels = self._applied(run_in_levels, backward)
        self.others = others
        #: The functions that answer the first result.
        self.apply_first, self.forward_first = self._applied(run_first, backward), forward_first

    def _applied(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
        # With a `setup_context` of its own PyTorch would look at the signature in each call.
        methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        function: Any = type(self.name, (torch.autograd.function._SingleLevelFunction,), methods)
        return function.apply

    def __call__(self, *args: Any) -> Any:
        if not plain(*args):
            return self.custom(*args)
        call = self.apply if _has_gradients(args) else self.forward
        return noted(call, args, call(*args))

    def first(self, *args: Any) -> Any:
        """The first of several results; autograd has less to look at than with all of them."""
        if not plain(*args):
            result = self.custom(*args)
            if self.others is not None:
                self.others(args, [t.detach() for t in result])
            return result[0]
        call = self.apply_first if _has_gradients(args) else self.forward_first
        return noted(call, args, call(*args))


def _has_gradients(args: Any) -> bool:
    return torch.is_grad_enabled() and any(isinstance(value, Tensor) and value.requires_grad for value in args)


def _keep_all(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps all arguments for a gradient."""
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)))
    ctx.given = [(True, None) if isinstance(value, Tensor) else (False, value) for value in inputs]
    ctx.set_materialize_grads(False)


operation = Operation
