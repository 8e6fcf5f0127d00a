"""A convolution or linear layer with what follows it, as one graph forward and one backward."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from .graphs import Unsupported, activation, compute
from .operation import plain
from .ops.elementwise import pointwise, pointwise_backward
from .ops.layout import channels
from .ops.norms import batch_norm, batch_norm_backward
from .ops.products import (
    conv,
    conv_gradients,
    conv_gradients_apart,
    linear,
    linear_gradients,
    linear_gradients_apart,
    rows,
    window_of,
)


class Norm(NamedTuple):
    """Batch normalization."""

    training: bool
    momentum: float
    eps: float


class Chain(NamedTuple):
    """What is computed: the window of a convolution (none: a linear layer), a normalization, an activation with its numbers."""

    window: Optional[tuple[tuple[int, ...], ...]]
    norm: Optional[Norm]
    method: str
    numbers: tuple[float, ...]

    @property
    def from_result(self) -> bool:
        """Whether the activation's gradient is found from its result as well as from its input."""
        return self.method == "relu" and not self.numbers


def _forward(chain: Chain, given: Sequence[Optional[Tensor]], keep: bool) -> dict[str, Tensor]:
    """Results by name; with `keep` those, too, that gradients need."""
    x, w, *rest = given
    assert x is not None and w is not None
    names = ["bias", "scale", "shift", "mean", "var", "residual"]
    others = {name: tensor for name, tensor in zip(names, rest) if tensor is not None}
    if chain.window is None:
        shape: Optional[tuple[int, ...]] = (*x.shape[:-1], w.shape[0])
        tensors = [rows(x, w.shape[1]), w.t().unsqueeze(0)]
        wide = {"bias": lambda t: t.view(1, 1, -1), "residual": lambda t: rows(t, w.shape[0])}
    else:
        shape, tensors = None, [x, w]
        wide = dict.fromkeys(names[:-1], lambda t: channels(t, x.dim()))
    tensors += [wide[name](tensor) if name in wide else tensor for name, tensor in others.items()]
    results_named = _names(chain, keep)

    def build(graph: Any, x: Any, w: Any, *rest: Any) -> Any:
        of = dict(zip(others, rest))
        y = graph.matmul(x, w) if chain.window is None else graph.conv_fprop(x, w, **window_of(chain.window))
        if "bias" in of:
            y = graph.add(y, of["bias"])
        results = {}
        if chain.norm is not None:
            factors = of["scale"], of["shift"]
            before = of["mean"], of["var"]
            if chain.norm.training:
                results["c"] = y
                y, *stats = graph.batchnorm(y, *factors, *before, chain.norm.eps, chain.norm.momentum)
                results.update(zip(("mean", "inv", "next_mean", "next_var"), stats))
            else:
                y = graph.batchnorm_inference(y, *before, *factors)
        if "residual" in of:
            y = graph.add(y, of["residual"])
        if chain.method:
            results["z"] = y
            y = activation(graph, chain.method, chain.numbers, y)
        results["y"] = y
        return [results[name] for name in results_named]

    made = compute("chain", (chain, tuple(others), keep), tensors, build, shape=shape, gaps=chain.window is None)
    return dict(zip(results_named, made))


def _names(chain: Chain, keep: bool) -> list[str]:
    """The names of the results that are handed out."""
    names = ["y"]
    if chain.norm is not None and chain.norm.training:
        names += ["c", "mean", "inv", "next_mean", "next_var"] if keep else ["next_mean", "next_var"]
    if keep and chain.method and not chain.from_result:
        names.append("z")
    return names


class _Gradient(torch.autograd.Function):
    """The chain, with the gradients of all that goes in."""

    @staticmethod
    def forward(ctx: Any, chain: Chain, *given: Optional[Tensor]) -> Any:
        found = _forward(chain, given, True)
        x, w, bias, scale, shift, _, _, residual = given
        ctx.chain = chain
        # Only second derivatives need what is added, and of that nothing where the activation is known from its result. A program may
        # change it in place after the chain, which PyTorch forbids for what is saved.
        added = bias, shift, None if chain.from_result else residual
        ctx.added = [(t, 0 if t is None else t._version) for t in added]
        ctx.save_for_backward(
            x, w, scale, found.get("c"), found.get("mean"), found.get("inv"),
            found["y"] if chain.from_result else found.get("z"),
        )  # fmt: skip
        after = tuple(found[name].view(-1) for name in ("next_mean", "next_var") if name in found)
        ctx.mark_non_differentiable(*after)
        return (found["y"], *after)

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Any) -> Any:
        chain: Chain = ctx.chain
        x, w, scale, c, mean, inv, seen = ctx.saved_tensors
        if torch.is_grad_enabled():
            if any(t is not None and t._version != version for t, version in ctx.added):
                raise RuntimeError(
                    "hipdnn: a bias, a shift or what is added was changed in place after a chain whose second derivative is asked for"
                )
            bias, shift, residual = (t for t, _ in ctx.added)
            of = x, w, bias, scale, shift, scale, scale, residual
            return None, *_gradients_with_gradients(chain, dy, of, seen, ctx.needs_input_grad[1:])
        need_x, need_w, need_bias, need_scale, need_shift, _, _, need_residual = ctx.needs_input_grad[1:]
        wanted = need_x, need_w, need_bias
        if chain.window is None:
            shape = dy.shape
            tensors = {"dy": rows(dy, w.shape[0]), "x": rows(x, w.shape[1]).mT, "w": w.unsqueeze(0)}
            if seen is not None:
                tensors["seen"] = rows(seen, w.shape[0])
        else:
            tensors = {"dy": dy, "x": x, "w": w, "seen": seen, "c": c, "mean": mean, "inv": inv}
            if c is not None:
                tensors["scale"] = channels(scale, x.dim())
            tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}

        def build(graph: Any, *given: Any) -> Any:
            of = dict(zip(tensors, given))
            dz = of["dy"]
            results = []
            if chain.method:
                dz = activation(graph, f"{chain.method}_backward", chain.numbers, dz, of["seen"])
                if need_residual:
                    results.append(dz)
            if chain.norm is not None:
                dz, *factors = graph.batchnorm_backward(dz, of["c"], of["scale"], of["mean"], of["inv"])
                results += factors
            if chain.window is None:
                return results + linear_gradients(graph, dz, of["x"], of["w"], wanted)
            return results + conv_gradients(graph, dz, of["x"], of["w"], chain.window, wanted)

        key = (chain, wanted, need_residual)
        try:
            if dy.is_cuda:
                raise Unsupported("engines of GPUs take one gradient at a time")
            found = iter(compute("chain_gradients", key, list(tensors.values()), build, gaps=chain.window is None))
        except Unsupported:
            dx, dw, dbias, dscale, dshift, dz = _apart(chain, dy, wanted, *ctx.saved_tensors)
            dresidual = dz if need_residual else None
        else:
            dresidual = None
            if need_residual:
                dresidual = next(found).view(dy.shape) if chain.method else dy
            dscale = dshift = None
            if chain.norm is not None:
                dscale, dshift = (next(found).view(-1) for _ in range(2))
            dx, dw, dbias = (next(found) if want else None for want in wanted)
            if chain.window is None:
                dx = None if dx is None else dx.view(*shape[:-1], w.shape[1])
                dw = None if dw is None else dw[0].t()
            dbias = None if dbias is None else dbias.view(-1)
        return (
            None, dx, dw, dbias, dscale if need_scale else None, dshift if need_shift else None, None, None, dresidual
        )  # fmt: skip


def _apart(
    chain: Chain, dy: Tensor, wanted: Sequence[bool], x: Tensor, w: Tensor, scale: Any, c: Any, mean: Any, inv: Any, seen: Any
) -> list[Optional[Tensor]]:  # fmt: skip
    """The gradients one by one: of image or rows, weights, bias, scale, shift, and of what is added."""
    dz = dy
    if chain.method:
        dz = pointwise_backward.gradient(dy, seen.reshape(dy.shape), chain.method, chain.numbers)
    added, dscale, dshift = dz, None, None
    if chain.norm is not None:
        dz, dscale, dshift = batch_norm_backward.gradient(dz, c, scale, mean.view(-1), inv.view(-1))
    if chain.window is not None:
        return [*conv_gradients_apart(dz, x, w, chain.window, wanted), dscale, dshift, added]
    dx, dw, dbias = linear_gradients_apart(rows(dz, w.shape[0]), rows(x, w.shape[1]), w, wanted)
    return [None if dx is None else dx.view(x.shape), dw, dbias, None, None, added]


def _gradients_with_gradients(
    chain: Chain, dy: Tensor, given: Sequence[Optional[Tensor]], seen: Any, wanted: Sequence[bool]
) -> list[Optional[Tensor]]:
    """The gradients of what was given, by operations that have gradients themselves. Running statistics are of no consequence."""
    is_from_result = chain.from_result
    # An alias for each: one tensor may be given twice.
    of: list[Any] = [t.view_as(t) if t is not None and want else t for t, want in zip(given, wanted)]
    x, w, bias, scale, shift, mean, var, residual = of
    if is_from_result:
        dy = pointwise_backward.gradient(dy, seen.detach(), chain.method, chain.numbers)
    y = linear.gradient(x, w, bias) if chain.window is None else conv.gradient(x, w, bias, *chain.window)
    if chain.norm is not None:
        y = batch_norm.gradient(y, scale, shift, mean, var, chain.norm.momentum, chain.norm.eps)[0]
    if residual is not None:
        y = y + residual
    if chain.method and not is_from_result:
        y = pointwise.gradient(y, chain.method, list(chain.numbers))
    places = [at for at, (t, want) in enumerate(zip(of, wanted)) if t is not None and want]
    found: list[Optional[Tensor]] = [None] * len(of)
    grads = torch.autograd.grad(y, [of[at] for at in places], dy, create_graph=True) if places else ()
    for at, grad in zip(places, grads):
        found[at] = grad
    if is_from_result and wanted[-1]:
        found[-1] = dy
    return found


def run(chain: Chain, given: Sequence[Optional[Tensor]]) -> tuple[Tensor, ...]:
    """The result, and in training the running statistics after; raises Unsupported where no engine computes it in one graph.

    `given` are image or rows, weights, bias, scale, shift, mean, variance (in inference 1 / its root) and what is added.
    """
    if not plain(*given):
        raise Unsupported("inside another mode of PyTorch")
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in given):
        if chain.norm is not None and not chain.norm.training:
            raise Unsupported("gradients of a normalization by given statistics")
        result: tuple[Tensor, ...] = _Gradient.apply(chain, *given)
        return result
    found = _forward(chain, given, False)
    return (found["y"], *(found[name].view(-1) for name in ("next_mean", "next_var") if name in found))
