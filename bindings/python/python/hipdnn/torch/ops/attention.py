"""Attention and its gradient."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from ..graphs import compute
from ..operation import operation
from .layout import like


def _beside(bias: Optional[Tensor], kept: Optional[Tensor], dropout: float, gradient: bool) -> list[Tensor]:
    """The bias, and the mask of dropout with the factor of what is kept (and its inverse for the gradient)."""
    tensors = [] if bias is None else [bias]
    if kept is not None:
        share = 1 - dropout
        factors = (1 / share if share else 0.0, share) if gradient else (1 / share if share else 0.0,)
        tensors += [kept, *(torch.full((1, 1, 1, 1), factor, device=kept.device) for factor in factors)]
    return tensors


@operation
def sdpa(
    q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], kept: Optional[Tensor], causal: bool, scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention of [B, H, S, D]: the result, and the statistics that gradients need. `kept` is the mask of dropout."""
    tensors = [q, k, v, *_beside(bias, kept, dropout, False)]

    def build(graph: Any, q: Any, k: Any, v: Any, *rest: Any) -> Any:
        of = _rest(bias, kept, rest)
        return graph.sdpa(q, k, v, attn_scale=scale, use_causal_mask=causal, generate_stats=True, **of)

    key = (causal, scale, bias is None, kept is None)
    o, stats = compute("sdpa", key, tensors, build, gaps=True)
    return o, stats


def _rest(bias: Any, kept: Any, rest: Sequence[Any]) -> dict[str, Any]:
    of: dict[str, Any] = {"bias": None if bias is None else rest[0]}
    if kept is not None:
        of["dropout"] = tuple(rest[0 if bias is None else 1 :])
    return of


def _scores(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], causal: bool, scale: float) -> tuple[Tensor, ...]:
    """The scores in the type of statistics, and keys and values of all heads."""
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = scale * (q @ k.mT).to(torch.float64 if q.dtype == torch.float64 else torch.float32)
    if bias is not None:
        scores = scores + bias
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    return scores, k, v


def _dropped(p: Tensor, kept: Optional[Tensor], dropout: float) -> Tensor:
    return p if kept is None else p * kept / (1 - dropout)


@sdpa.register_elsewhere
def _(q, k, v, bias, kept, causal, scale, dropout):  # type: ignore[no-untyped-def]
    scores, _, v_all = _scores(q, k, v, bias, causal, scale)
    p = _dropped(torch.softmax(scores, -1), kept, dropout)
    return p.to(v.dtype) @ v_all, torch.logsumexp(scores, -1, True)


@sdpa.register_fake
def _(q, k, v, bias, kept, causal, scale, dropout):  # type: ignore[no-untyped-def]
    shape = (*q.shape[:3], v.shape[3])
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    return like(q, shape), q.new_empty(*q.shape[:3], 1, dtype=kind)


@operation
def sdpa_backward(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, stats: Tensor, bias: Optional[Tensor],
    kept: Optional[Tensor], causal: bool, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of q, k and v."""
    tensors = [q, k, v, o, do, stats, *_beside(bias, kept, dropout, True)]

    def build(graph: Any, q: Any, k: Any, v: Any, o: Any, do: Any, stats: Any, *rest: Any) -> Any:
        of = _rest(bias, kept, rest)
        return graph.sdpa_backward(q, k, v, o, do, stats, attn_scale=scale, use_causal_mask=causal, **of)

    key = (causal, scale, bias is None, kept is None)
    dq, dk, dv = compute("sdpa_backward", key, tensors, build, gaps=True)
    return dq, dk, dv


@sdpa_backward.register_elsewhere
def _(q, k, v, o, do, stats, bias, kept, causal, scale, dropout):  # type: ignore[no-untyped-def]
    scores, k_all, v_all = _scores(q, k, v, bias, causal, scale)
    # The statistics would not be seen to depend on the scores.
    p = torch.softmax(scores, -1)
    dv = _dropped(p, kept, dropout).to(do.dtype).mT @ do
    dp = _dropped((do @ v_all.mT).to(stats.dtype), kept, dropout)
    ds = (scale * p * (dp - (do * o).sum(-1, True).to(stats.dtype))).to(q.dtype)
    dk = ds.mT @ q
    groups = lambda t, like: t.unflatten(1, (like.shape[1], -1)).sum(2)  # noqa: E731
    return ds @ k_all, groups(dk, k), groups(dv, v)


@sdpa_backward.register_fake
def _(q, k, v, o, do, stats, bias, kept, causal, scale, dropout):  # type: ignore[no-untyped-def]
    return tuple(like(t, t.shape) for t in (q, k, v))


def _sdpa_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    q, k, v, bias, kept, *ctx.settings = inputs
    ctx.save_for_backward(q, k, v, *output, bias, kept)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _sdpa_backward(ctx, do, *_):  # type: ignore[no-untyped-def]
    if do is None:
        return (None,) * 8
    q, k, v, o, stats, bias, kept = ctx.saved_tensors
    return *sdpa_backward.gradient(q, k, v, o, do, stats, bias, kept, *ctx.settings), *(None,) * 5


sdpa.register_autograd(_sdpa_backward, setup_context=_sdpa_context)
