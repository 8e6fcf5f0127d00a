"""Convolution, matmul, reductions, pooling, block scales, mixtures of experts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Callable, TypeVar

from .errors import GraphError
from .infer import broadcast, integers, window
from .node import Operations, describe_results
from .tensor import Tensor
from .types import (
    DataTypeLike,
    convolution_mode,
    moe_grouped_matmul_mode,
    padding_mode,
    reduction_mode,
    resample_mode,
)

Ints = Sequence[int]
F = TypeVar("F", bound=Callable[..., Any])


def _with_two_paddings(method: F) -> F:
    """Also accepts cuDNN's other argument order: (.., pre_padding, post_padding, stride, dilation, convolution_mode, ..)."""
    names = ("pre_padding", "post_padding", "stride", "dilation", "convolution_mode", "compute_data_type", "name")

    @functools.wraps(method)
    def convolution(self: Any, *args: Any, **named: Any) -> Any:
        tensors, rest = args[:2], args[2:]
        # With four lists, the fourth is not a mode.
        if len(rest) < 4 or not isinstance(rest[3], (list, tuple)):
            return method(self, *args, **named)
        if len(rest) > len(names):
            raise TypeError(f"{method.__name__} takes at most {2 + len(names)} arguments, {len(args)} were given")
        return method(self, *tensors, **dict(zip(names, rest)), **named)

    return convolution  # type: ignore[return-value]


class Products(Operations):
    """Convolutions and matmul."""

    def _window(
        self,
        node: str,
        rank: int,
        padding: Ints | None,
        pre: Ints | None,
        post: Ints | None,
        stride: Any,
        dilation: Any,
    ) -> dict[str, list[int]]:
        """The parameters of a convolution, each with one number per spatial dimension."""

        def numbers(argument: str, value: Any, default: int) -> list[int]:
            if value is None:
                return [default] * rank
            numbers = [value] * rank if isinstance(value, int) else list(integers(node, argument, value))
            if not numbers:
                return [default] * rank
            least = 0 if default == 0 else 1
            if len(numbers) != rank or min(numbers) < least:
                raise GraphError(node, argument, f"is {numbers}, expected {rank} integers of at least {least}")
            return numbers

        if padding is not None and (pre is not None or post is not None):
            raise GraphError(node, "padding", "is given beside pre_padding or post_padding, expected one of them")
        if padding is not None:
            pre = post = numbers("padding", padding, 0)
        return {
            "pre_padding": numbers("pre_padding", pre, 0),
            "post_padding": numbers("post_padding", post, 0),
            "stride": numbers("stride", stride, 1),
            "dilation": numbers("dilation", dilation, 1),
        }

    @_with_two_paddings
    def conv_fprop(
        self,
        image: Tensor,
        weight: Tensor,
        padding: Ints | None = None,
        stride: Ints | None = None,
        dilation: Ints | None = None,
        convolution_mode: convolution_mode = convolution_mode.CROSS_CORRELATION,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
        *,
        pre_padding: Ints | None = None,
        post_padding: Ints | None = None,
    ) -> Tensor:
        """Convolution of an image [N, C, ...] with a filter [K, C / groups, ...] into [N, K, ...].

        Parameters have one number per spatial dimension; ``padding`` sets both ``pre_padding`` and ``post_padding``. Image, filter and
        result may each be of any type; sums are accumulated in the compute type.
        """
        node = self._name("conv_fprop", name)
        image, weight = self._operand(node, "image", image), self._operand(node, "weight", weight)
        x = self._dims(node, "image", image)
        w = self._dims(node, "weight", weight, len(x))
        if len(x) < 3:
            raise GraphError(node, "image", f"the shape is {list(x)}, expected [N, C, ...]")
        # Without channels there is one group.
        left, groups = (x[1] % w[1], x[1] // w[1]) if w[1] else (x[1], 1)
        if left or w[0] % (groups or 1):
            raise GraphError(
                node, "weight", f"has {w[1]} input and {w[0]} output channels, expected a share of the image's {x[1]}"
            )
        of = self._window(node, len(x) - 2, padding, pre_padding, post_padding, stride, dilation)
        spatial = [
            window(*sizes)
            for sizes in zip(x[2:], of["pre_padding"], of["post_padding"], of["stride"], of["dilation"], w[2:])
        ]
        if min(spatial) < 1:
            raise GraphError(node, "weight", f"the window {list(w[2:])} does not fit into the image {list(x[2:])}")
        y = self._output(node, "Y", (x[0], w[0], *spatial), image)
        self._conv(
            "ConvolutionFwdAttributes",
            node,
            {"x": image, "w": weight},
            {"y": y},
            of,
            convolution_mode,
            compute_data_type,
        )
        return y

    def _conv(
        self, kind: str, node: str, inputs: Any, outputs: Any, of: dict[str, Any], mode: Any, compute: Any
    ) -> None:
        parameters = {**of, "conv_mode": mode.value}
        self._add(kind, node, inputs, outputs, parameters=parameters, compute_data_type=compute)

    @_with_two_paddings
    def conv_dgrad(
        self,
        loss: Tensor,
        filter: Tensor,
        padding: Ints | None = None,
        stride: Ints | None = None,
        dilation: Ints | None = None,
        convolution_mode: convolution_mode = convolution_mode.CROSS_CORRELATION,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
        *,
        pre_padding: Ints | None = None,
        post_padding: Ints | None = None,
    ) -> Tensor:
        """The gradient of a convolution's image, from that of its result [N, K, ...] and the filter [K, C / groups, ...].

        By default the image has the smallest possible shape, [N, C, ...], and one group; ``set_dim`` sets another. Types are floats.
        """
        node = self._name("conv_dgrad", name)
        loss, filter = self._operand(node, "loss", loss), self._operand(node, "filter", filter)
        dy = self._dims(node, "loss", loss)
        w = self._dims(node, "filter", filter, len(dy))
        of = self._window(node, len(dy) - 2, padding, pre_padding, post_padding, stride, dilation)
        spatial = [
            (size - 1) * step + dilation * (width - 1) + 1 - pre - post
            for size, pre, post, step, dilation, width in zip(
                dy[2:], of["pre_padding"], of["post_padding"], of["stride"], of["dilation"], w[2:]
            )
        ]
        dx = self._output(node, "DX", (dy[0], w[1], *spatial), loss)
        inputs = {"dy": loss, "w": filter}
        self._conv("ConvolutionBwdAttributes", node, inputs, {"dx": dx}, of, convolution_mode, compute_data_type)
        return dx

    @_with_two_paddings
    def conv_wgrad(
        self,
        image: Tensor,
        loss: Tensor,
        padding: Ints | None = None,
        stride: Ints | None = None,
        dilation: Ints | None = None,
        convolution_mode: convolution_mode = convolution_mode.CROSS_CORRELATION,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
        *,
        pre_padding: Ints | None = None,
        post_padding: Ints | None = None,
    ) -> Tensor:
        """The gradient of a convolution's filter, from the image [N, C, ...] and the gradient of the result [N, K, ...].

        By default the filter has the largest possible shape, [K, C, ...], and one group; ``set_dim`` sets another. Types are floats.
        """
        node = self._name("conv_wgrad", name)
        image, loss = self._operand(node, "image", image), self._operand(node, "loss", loss)
        x = self._dims(node, "image", image)
        dy = self._dims(node, "loss", loss, len(x))
        of = self._window(node, len(x) - 2, padding, pre_padding, post_padding, stride, dilation)
        spatial = [
            (size + pre + post - (steps - 1) * step - 1) // dilation + 1
            for size, steps, pre, post, step, dilation in zip(
                x[2:], dy[2:], of["pre_padding"], of["post_padding"], of["stride"], of["dilation"]
            )
        ]
        dw = self._output(node, "DW", (dy[1], x[1], *spatial), image)
        inputs = {"x": image, "dy": loss}
        self._conv("ConvolutionWrwAttributes", node, inputs, {"dw": dw}, of, convolution_mode, compute_data_type)
        return dw

    def matmul(
        self, A: Tensor, B: Tensor, compute_data_type: DataTypeLike | None = None, padding: float = 0.0, name: str = ""
    ) -> Tensor:
        """The matrix product of [..., M, K] and [..., K, N], each of any type; the other dimensions are broadcast.

        ``padding`` exists for porting: operands are never padded, so it must be 0.
        """
        node = self._name("matmul", name)
        if padding != 0:
            raise GraphError(node, "padding", f"is {padding}, expected 0: operands are not padded")
        A, B = self._operand(node, "A", A), self._operand(node, "B", B)
        a = self._dims(node, "A", A)
        b = self._dims(node, "B", B, len(a))
        if len(a) < 2 or a[-1] != b[-2]:
            raise GraphError(node, "B", f"the shape is {list(b)}, expected [..., {a[-1]}, N] for A {list(a)}")
        batch = broadcast([a[:-2], b[:-2]])
        if batch is None:
            raise GraphError(node, "B", f"the shape is {list(b)}, which cannot be broadcast with A {list(a)}")
        c = self._output(node, "C", (*batch, a[-2], b[-1]))
        self._add("MatmulAttributes", node, {"a": A, "b": B}, {"c": c}, compute_data_type=compute_data_type)
        return c


class Windows(Products):
    """Reductions, pooling, block scales and mixtures of experts."""

    def reduction(
        self,
        input: Tensor,
        mode: reduction_mode,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
        *,
        axis: int | Ints | None = None,
    ) -> Tensor:
        """Reduces dimensions to one element: those of ``axis``, or those that ``set_dim`` of the result makes 1 (by default all).

        The result has the input's rank, [N, 1, 1, ...] for [N, C, H, ...] and axes from 1 on. Any type.
        """
        node = self._name("reduction", name)
        input = self._operand(node, "input", input)
        x = self._dims(node, "input", input)
        axes = range(len(x)) if axis is None else [axis] if isinstance(axis, int) else axis
        if any(not -len(x) <= at < len(x) for at in axes):
            raise GraphError(node, "axis", f"is {axis}, expected dimensions of {list(x)}")
        gone = {at % len(x) for at in axes}
        y = self._output(node, "Y", [1 if at in gone else size for at, size in enumerate(x)], input)
        self._add(
            "ReductionAttributes", node, {"in": input}, {"out": y}, tensors_in_groups=False, sparse=True,
            compute_data_type=compute_data_type, mode=reduction_mode(mode).value, is_deterministic=False,
        )  # fmt: skip
        return y

    def resample(
        self,
        input: Tensor,
        pooling_mode: resample_mode,
        padding_mode: padding_mode = padding_mode.ZERO_PAD,
        window: Ints = (),
        stride: Ints = (),
        pre_padding: Ints | None = None,
        post_padding: Ints | None = None,
        generate_index: bool = False,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Pooling over windows of an image [N, C, ...] of any type: the result [N, C, ...], and the index of each maximum in its window.

        The index, of the result's shape and type int32, is None unless ``generate_index`` is set.
        """
        node = self._name("resample", name)
        input = self._operand(node, "input", input)
        x = self._dims(node, "input", input)
        of = self._window(node, len(x) - 2, None, pre_padding, post_padding, stride or None, None)
        sizes = self._window(node, len(x) - 2, None, None, None, list(window), None)["stride"]
        spatial = [
            (size + pre + post - width) // step + 1
            for size, pre, post, step, width in zip(x[2:], of["pre_padding"], of["post_padding"], of["stride"], sizes)
        ]
        dim = (*x[:2], *spatial)
        y = self._output(node, "Y", dim, input)
        index = self._output(node, "INDEX", dim, input, "int32") if generate_index else None
        outputs = {"y": y, **({"index": index} if index is not None else {})}
        self._add(
            "ResampleFwdAttributes", node, {"x": input}, outputs, tensors_in_groups=False, sparse=True,
            compute_data_type=compute_data_type, resample_mode=resample_mode(pooling_mode).value,
            padding_mode=padding_mode.value, window=sizes, stride=of["stride"], pre_padding=of["pre_padding"],
            post_padding=of["post_padding"], generate_index=bool(generate_index),
        )  # fmt: skip
        return [y, index]

    def resample_backward(
        self,
        loss: Tensor,
        pooling_mode: resample_mode,
        padding_mode: padding_mode = padding_mode.ZERO_PAD,
        window: Ints = (),
        stride: Ints = (),
        pre_padding: Ints | None = None,
        post_padding: Ints | None = None,
        index: Tensor | None = None,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
    ) -> Tensor:
        """The gradient of pooling's image, from that of its result [N, C, ...] and, for a maximum, the index that ``resample`` returns.

        By default the image has the smallest possible shape, [N, C, ...]; ``set_dim`` sets another. Types are floats; the index is int32.
        """
        node = self._name("resample_backward", name)
        loss = self._operand(node, "loss", loss)
        dy = self._dims(node, "loss", loss)
        of = self._window(node, len(dy) - 2, None, pre_padding, post_padding, stride or None, None)
        sizes = self._window(node, len(dy) - 2, None, None, None, list(window), None)["stride"]
        if index is not None and self._dims(node, "index", self._operand(node, "index", index), len(dy)) != dy:
            raise GraphError(node, "index", f"the shape is {list(index.dim or ())}, expected the loss's {list(dy)}")
        spatial = [
            (size - 1) * step + width - pre - post
            for size, step, width, pre, post in zip(dy[2:], of["stride"], sizes, of["pre_padding"], of["post_padding"])
        ]
        dx = self._output(node, "DX", (*dy[:2], *spatial), loss)
        inputs = {"dy": loss, **({"index": index} if index is not None else {})}
        self._add(
            "ResampleBwdAttributes", node, inputs, {"dx": dx}, tensors_in_groups=False, sparse=True,
            compute_data_type=compute_data_type, resample_mode=resample_mode(pooling_mode).value,
            padding_mode=padding_mode.value, window=sizes, stride=of["stride"], pre_padding=of["pre_padding"],
            post_padding=of["post_padding"],
        )  # fmt: skip
        return dx

    def block_scale_quantize(
        self,
        input: Tensor,
        block_size: int,
        axis: int | None = None,
        transpose: bool = False,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
        *,
        data_type: DataTypeLike = "fp8_e4m3",
        scale_data_type: DataTypeLike = "fp8_e8m0",
    ) -> list[Tensor]:
        """Divides each block of elements by a scale and rounds to a small type: the result, and the scales.

        For [..., S] their shapes are [..., S] and [..., S / block_size] along ``axis`` (by default the last), and their types
        ``data_type`` and ``scale_data_type``. The input's type is float, half or bfloat16.
        """
        node = self._name("block_scale_quantize", name)
        input = self._operand(node, "input", input)
        x = self._dims(node, "input", input)
        if block_size < 1:
            raise GraphError(node, "block_size", f"is {block_size}, expected at least 1")
        at = len(x) - 1 if axis is None else axis % len(x)
        dim = (*x[:-2], x[-1], x[-2]) if transpose else x
        scales = [-(-size // block_size) if place == at else size for place, size in enumerate(dim)]
        y = self._output(node, "Y", dim, None if transpose else input, data_type)
        scale = self._output(node, "scale", scales, None if transpose else input, scale_data_type)
        self._add(
            "BlockScaleQuantizeAttributes", node, {"x": input}, {"y": y, "scale": scale}, sparse=True,
            compute_data_type=compute_data_type, block_size=block_size, axis=axis, transpose=bool(transpose),
        )  # fmt: skip
        return [y, scale]

    def block_scale_dequantize(
        self,
        input: Tensor,
        descale: Tensor,
        block_size: Ints | int,
        is_negative_scale: bool = False,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
    ) -> Tensor:
        """Multiplies each block of elements by a scale: [..., S] of a 4-bit or 8-bit type by [..., S / block_size].

        ``block_size`` has a number for each dimension, or for the last ones.
        """
        node = self._name("block_scale_dequantize", name)
        input, descale = self._operand(node, "input", input), self._operand(node, "descale", descale)
        y = self._output(node, "Y", self._dims(node, "input", input), input)
        sizes = [block_size] if isinstance(block_size, int) else list(block_size)
        self._add(
            "BlockScaleDequantizeAttributes", node, {"x": input, "scale": descale}, {"y": y}, sparse=True,
            compute_data_type=compute_data_type, block_size=sizes, is_negative_scale=bool(is_negative_scale),
        )  # fmt: skip
        return y

    def moe_grouped_matmul(
        self,
        token: Tensor,
        weight: Tensor,
        first_token_offset: Tensor,
        token_index: Tensor | None = None,
        token_ks: Tensor | None = None,
        mode: moe_grouped_matmul_mode = moe_grouped_matmul_mode.NONE,
        compute_data_type: DataTypeLike | None = None,
        top_k: int = 0,
        name: str = "",
    ) -> Tensor:
        """Multiplies groups of tokens [1, T, K], each with its expert's matrix of [E, K, N], into [1, T, N].

        ``first_token_offset`` [E, 1, 1] has the first token of each group, of type int32, as are ``token_index`` and ``token_ks``;
        tokens and weights are floats.
        """
        node = self._name("moe_grouped_matmul", name)
        inputs = {"token": token, "weight": weight, "first_token_offset": first_token_offset}
        inputs = {key: self._operand(node, key, tensor) for key, tensor in inputs.items()}
        t = self._dims(node, "token", inputs["token"], 3)
        w = self._dims(node, "weight", inputs["weight"], 3)
        if t[2] != w[1]:
            raise GraphError(node, "weight", f"the shape is {list(w)}, expected [experts, {t[2]}, N]")
        rows = t[1]
        for key, tensor in (("token_index", token_index), ("token_ks", token_ks)):
            if tensor is not None:
                inputs[key] = self._operand(node, key, tensor)
        if mode is moe_grouped_matmul_mode.GATHER and token_index is not None:
            rows = max(self._dims(node, "token_index", inputs["token_index"]))
        y = self._output(node, "OUTPUT", (1, rows, w[2]), inputs["token"])
        self._add(
            "MoeGroupedMatmulAttributes", node, inputs, {"output": y}, sparse=True,
            compute_data_type=compute_data_type, mode=mode.value, top_k=int(top_k),
        )  # fmt: skip
        return y

    def moe_grouped_matmul_bwd(
        self,
        doutput: Tensor,
        token: Tensor,
        first_token_offset: Tensor,
        compute_data_type: DataTypeLike | None = None,
        name: str = "",
    ) -> Tensor:
        """The gradient of the experts' matrices [E, K, N], from the gradient of the result [1, T, N] and the tokens [1, T, K], of float types.

        ``first_token_offset`` [E, 1, 1] has the first token of each group, as int32.
        """
        node = self._name("moe_grouped_matmul_bwd", name)
        inputs = {"doutput": doutput, "token": token, "first_token_offset": first_token_offset}
        inputs = {key: self._operand(node, key, tensor) for key, tensor in inputs.items()}
        n = self._dims(node, "doutput", inputs["doutput"], 3)[2]
        k = self._dims(node, "token", inputs["token"], 3)[2]
        experts = max(self._dims(node, "first_token_offset", inputs["first_token_offset"]))
        dweight = self._output(node, "DWEIGHT", (experts, k, n))
        self._add(
            "MoeGroupedMatmulBwdAttributes", node, inputs, {"dweight": dweight}, sparse=True,
            compute_data_type=compute_data_type,
        )  # fmt: skip
        return dweight


describe_results(Products)
describe_results(Windows)
