"""Calls of PyTorch's functions, as operations of this package or the reason why not."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from . import ops
from .graphs import TYPES, Unsupported
from .operation import cast_to, step

#: Handlers by the functions that they stand for.
HANDLERS: dict[Any, Callable[..., Any]] = {}


def handles(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        HANDLERS.update(dict.fromkeys(functions, handler))
        return handler

    return register


_KINDS = (Tensor, torch.nn.Parameter)


def check(first: Tensor, *others: Tensor | None) -> None:
    """Raises Unsupported for tensors that are not computed here."""
    on_host = first.is_cpu
    number = -1 if on_host else first.get_device()
    for tensor in (first, *others):
        if tensor is None or (
            type(tensor) in _KINDS and tensor.dtype in TYPES
            and (tensor.is_cpu if on_host else tensor.is_cuda and tensor.get_device() == number)
            and tensor.layout is torch.strided and not tensor.is_neg() and tensor.numel()
        ):  # fmt: skip
            continue
        if type(tensor) not in _KINDS:
            raise Unsupported(f"a {type(tensor).__name__}")
        if tensor.device.type not in ("cpu", "cuda"):
            raise Unsupported(f"device {tensor.device}")
        if tensor.device != first.device:
            raise Unsupported("tensors on several devices")
        if tensor.layout != torch.strided or tensor.is_neg():
            raise Unsupported(f"layout {tensor.layout}")
        if tensor.dtype not in TYPES:
            raise Unsupported(f"type {tensor.dtype}")
        if tensor.numel() == 0:
            raise Unsupported("a tensor without elements")


def cast(*tensors: Tensor | None) -> list[Any]:
    """The tensors as autocast wants them for products, if it is on; else they have to be of one type."""
    device = next(t for t in tensors if t is not None).device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        return [cast_to(t, dtype) if t is not None and t.dtype != torch.float64 else t for t in tensors]
    if len({t.dtype for t in tensors if t is not None}) > 1:
        raise Unsupported("tensors of several types")
    return list(tensors)


def widened(input: Tensor) -> Tensor:
    """A tensor as autocast wants it on GPUs for what sums many numbers, if it is on."""
    if input.is_cuda and torch.is_autocast_enabled("cuda"):
        return cast_to(input, torch.float32) if input.dtype in (torch.float16, torch.bfloat16) else input
    return input


def numbers(value: Any, rank: int) -> list[int]:
    """A number for each dimension."""
    return [int(value)] * rank if isinstance(value, int) else [int(v) for v in value] * (rank if len(value) == 1 else 1)


def _conv(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    check(input, weight, bias)
    input, weight, bias = cast(input, weight, bias)
    dilation = numbers(dilation, rank)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        total = [d * (size - 1) for d, size in zip(dilation, weight.shape[2:])]
        padding = [t // 2 for t in total]
        # What is odd is padded at the end first.
        extra = [n for t in reversed(total) for n in (0, t % 2)]
        input = F.pad(input, extra) if any(extra) else input
    batched = input.dim() == rank + 2
    if (
        input.dim() not in (rank + 1, rank + 2)
        or weight.dim() != rank + 2
        or input.shape[-rank - 1] != weight.shape[1] * groups
        or weight.shape[0] % groups
    ):
        raise Unsupported("shapes that do not fit")
    x = input if batched else input.unsqueeze(0)
    y = ops.conv(x, weight, bias, numbers(stride, rank), numbers(padding, rank), dilation)
    return y if batched else y.squeeze(0)


_convolutions: tuple[Any, ...] = (torch.conv1d, torch.conv2d, torch.conv3d)
for _rank, _function in enumerate(_convolutions, 1):
    HANDLERS[_function] = functools.partial(_conv, _rank)


def _conv_transpose(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    check(input, weight, bias)
    input, weight, bias = cast(input, weight, bias)
    if input.dim() == rank + 1:
        return _conv_transpose(
            rank, input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation
        ).squeeze(0)
    if input.dim() != rank + 2 or weight.dim() != rank + 2 or input.shape[1] != weight.shape[0]:
        raise Unsupported("shapes that do not fit")
    stride, padding, extra, dilation = (numbers(v, rank) for v in (stride, padding, output_padding, dilation))
    sizes = zip(input.shape[2:], stride, padding, extra, dilation, weight.shape[2:])
    spatial = [(size - 1) * s - 2 * p + d * (f - 1) + e + 1 for size, s, p, e, d, f in sizes]
    if min(spatial) < 1:
        raise Unsupported("shapes that do not fit")
    shape = [input.shape[0], weight.shape[1] * groups, *spatial]
    y = ops.conv_data(input, weight, shape, stride, padding, dilation)
    return y if bias is None else y + bias.view(1, -1, *(1 for _ in range(rank)))


_transposed: tuple[Any, ...] = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
for _rank, _function in enumerate(_transposed, 1):
    HANDLERS[_function] = functools.partial(_conv_transpose, _rank)


@handles(F.linear)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    check(input, weight, bias)
    input, weight, bias = cast(input, weight, bias)
    if weight.dim() == 1:
        return linear(input, weight.unsqueeze(0), None if bias is None else bias.view(1)).squeeze(-1)
    if weight.dim() != 2 or input.shape[-1] != weight.shape[1] or (bias is not None and bias.shape != weight.shape[:1]):
        raise Unsupported("shapes that do not fit")
    return ops.linear(input, weight, bias)


@handles(torch.matmul, operator.matmul, torch.bmm, torch.mm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm, Tensor.mm)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    check(input, other)
    input, other = cast(input, other)
    if input.dim() == 1:
        return matmul(input.unsqueeze(0), other).squeeze(-2 if other.dim() > 1 else 0)
    if other.dim() == 1:
        return matmul(input, other.unsqueeze(1)).squeeze(-1)
    if input.dim() == 0 or other.dim() == 0 or input.shape[-1] != other.shape[-2]:
        raise Unsupported("shapes that do not fit")
    return ops.matmul(input, other)


def factor(given: Tensor | None, like: Tensor, size: int, value: float) -> Tensor:
    """A scale or bias in the type of statistics, made up where none is given."""
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    if given is None:
        return torch.full((size,), value, dtype=dtype, device=like.device)
    if given.dtype is dtype and given.dim() == 1:
        return given
    return cast_to(given if given.dim() == 1 else given.reshape(-1), dtype)


@handles(F.batch_norm, torch.batch_norm)
def batch_norm(
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    check(input, running_mean, running_var, weight, bias)
    if input.dim() < 2 or (training and input.numel() == input.shape[1]):
        raise Unsupported("one value for each channel")
    running = running_mean, running_var
    if training and input.dim() > 2 and not any(_is_converted(t, input) for t in (*running, weight, bias)):
        return ops.batch_norm.first(input, weight, bias, *running, momentum, eps)
    return step(_normalize, input, *running, weight, bias, training, momentum, eps)


def _is_converted(given: Tensor | None, like: Tensor) -> bool:
    """Whether a scale, bias or running statistic is made up, or taken in another type or shape."""
    kind = torch.float64 if like.dtype == torch.float64 else torch.float32
    return given is None or given.dtype is not kind or given.dim() != 1


def _normalize(
    input: Tensor, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Tensor:  # fmt: skip
    channels = input.shape[1]
    image = input if input.dim() > 2 else input.unsqueeze(2)
    factors = [factor(weight, input, channels, 1), factor(bias, input, channels, 0)]
    before = [factor(running_mean, input, channels, 0), factor(running_var, input, channels, 1)]
    if not training:
        y = ops.batch_norm_inference(image, *factors, before[0], (before[1] + eps).rsqrt())
        return y if input.dim() > 2 else y.squeeze(2)
    y, _, _, *after = ops.batch_norm(image, *factors, *(t.detach() for t in before), momentum, eps)
    if running_mean is not None and running_var is not None:
        torch._foreach_copy_([running_mean, running_var], [t.detach() for t in after])
    return y if input.dim() > 2 else y.squeeze(2)


@handles(F.layer_norm, torch.layer_norm)
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Tensor:
    check(input, weight, bias)
    input, size = widened(input), math.prod(normalized_shape)
    if tuple(input.shape[input.dim() - len(normalized_shape) :]) != tuple(normalized_shape):
        raise Unsupported("shapes that do not fit")
    factors = factor(weight, input, size, 1), factor(bias, input, size, 0)
    return ops.layer_norm.first(input, *factors, eps)


@handles(F.group_norm, torch.group_norm)
def group_norm(
    input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Tensor:
    check(input, weight, bias)
    if input.dim() < 2 or input.shape[1] % num_groups:
        raise Unsupported("shapes that do not fit")
    input, size = widened(input), input[0].numel() // num_groups
    factors = factor(None, input, size, 1), factor(None, input, size, 0)
    y = ops.layer_norm.first(input, *factors, eps)
    shape = (1, -1, *(1 for _ in input.shape[2:]))
    y = y if weight is None else y * weight.view(shape).to(y.dtype)
    return y if bias is None else y + bias.view(shape).to(y.dtype)


@handles(F.instance_norm, torch.instance_norm)
def instance_norm(
    input: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    check(input, running_mean, running_var, weight, bias)
    if input.dim() < 3 or input.shape[2:].numel() == 1:
        raise Unsupported("one value for each channel")
    # Batch normalization of one image that has every image's channels.
    images, channels = input.shape[:2]
    factors = [factor(weight, input, channels, 1), factor(bias, input, channels, 0)]
    before = [factor(running_mean, input, channels, 0), factor(running_var, input, channels, 1)]
    image = input.reshape(1, images * channels, *input.shape[2:])
    of = [t.repeat(images) for t in (*factors, *(t.detach() for t in before))]
    y, _, _, *after = ops.batch_norm(image, *of, momentum, eps)
    for running, new in zip((running_mean, running_var), after):
        if running is not None:
            running.copy_(new.detach().view(images, channels).mean(0))
    return y.view(input.shape)


@handles(F.rms_norm, torch.rms_norm)
def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    check(input, weight)
    size = math.prod(normalized_shape)
    if tuple(input.shape[input.dim() - len(normalized_shape) :]) != tuple(normalized_shape):
        raise Unsupported("shapes that do not fit")
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    return ops.rms_norm.first(input, factor(weight, input, size, 1), eps)


@handles(F.scaled_dot_product_attention)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, -math.inf)
    check(query, key, value, attn_mask)
    query, key, value, attn_mask = cast(query, key, value, attn_mask)
    if attn_mask is not None and (attn_mask.requires_grad or is_causal):
        raise Unsupported("a mask with a gradient, or beside is_causal")
    if all(t.dim() == 3 for t in (query, key, value)):
        return scaled_dot_product_attention(
            *(t.unsqueeze(1) for t in (query, key, value)),
            attn_mask if attn_mask is None or attn_mask.dim() < 3 else attn_mask.unsqueeze(1),
            dropout_p, is_causal, scale, enable_gqa,
        ).squeeze(1)  # fmt: skip
    if any(t.dim() != 4 for t in (query, key, value)):
        raise Unsupported("tensors that are not [batch, heads, sequence, size]")
    heads = query.shape[1], key.shape[1]
    if key.shape[1] != value.shape[1] or (heads[0] != heads[1] and not enable_gqa) or heads[0] % heads[1]:
        raise Unsupported("heads that do not fit")
    if any(t.shape[0] != query.shape[0] for t in (key, value)):
        raise Unsupported("batches that are broadcast")
    if attn_mask is not None:
        attn_mask = attn_mask.view(*(1 for _ in range(4 - attn_mask.dim())), *attn_mask.shape)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    kept = None
    if dropout_p > 0:
        if not query.is_cpu:
            raise Unsupported("dropout on a GPU")
        shape = (*query.shape[:3], key.shape[2])
        kept = torch.empty(shape, dtype=query.dtype, device=query.device).bernoulli_(1 - dropout_p)
    return ops.sdpa.first(query, key, value, attn_mask, kept, is_causal, scale, dropout_p)


@handles(F.softmax, torch.softmax, Tensor.softmax)
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    check(input)
    if dim is None or input.dim() == 0 or dtype not in (None, *TYPES):
        raise Unsupported("a result of another type, or no dimension")
    if dtype is not None or torch.is_autocast_enabled(input.device.type):
        input = cast_to(input, dtype or torch.float32)
    return ops.softmax(input, dim % input.dim())


def _activation(method: str, read: Callable[..., tuple[float, ...]]) -> Callable[..., Any]:
    def handler(input: Tensor, *args: Any, inplace: bool = False, **options: Any) -> Tensor:
        check(input)
        values = read(*args, **options)
        if inplace:
            raise Unsupported("in place")
        return ops.pointwise(input, method, [float(value) for value in values])

    return handler


def _in_place(inplace: bool) -> tuple[float, ...]:
    if inplace:
        raise Unsupported("in place")
    return ()


HANDLERS.update({
    F.relu: _activation("relu", lambda inplace=False: _in_place(inplace)),
    torch.relu: _activation("relu", lambda: ()),
    F.silu: _activation("swish", lambda inplace=False: _in_place(inplace)),
    torch.sigmoid: _activation("sigmoid", lambda: ()),
    torch.tanh: _activation("tanh", lambda: ()),
    F.relu6: _activation("relu", lambda inplace=False: (*_in_place(inplace), 0, 0, 6)),
    F.leaky_relu: _activation("leaky_relu", lambda negative_slope=0.01, inplace=False: (*_in_place(inplace), negative_slope)),
    F.elu: _activation("elu", lambda alpha=1.0, inplace=False: (*_in_place(inplace), alpha)),
})  # fmt: skip


@handles(F.gelu)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    check(input)
    return ops.pointwise(input, "gelu_approx_tanh" if approximate == "tanh" else "gelu", [])
