"""cuDNN operations that are composed of several operations here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .errors import UnsupportedError
from .node import describe_results
from .norm import Norms
from .operations import Windows
from .pointwise import Pointwise
from .tensor import Tensor
from .types import DataTypeLike, data_type, norm_forward_phase, reduction_mode

Compute = DataTypeLike
Number = Any  # a tensor, or a number


class Compositions(Windows, Pointwise, Norms):
    """Operations composed of others."""

    tensors: list[Tensor]

    def _in_order(self, results: list[Tensor]) -> list[Tensor]:
        """Has calls return the results of an operation in this order, whichever was made first."""
        self.tensors = [tensor for tensor in self.tensors if not any(tensor is of for of in results)] + results
        return results

    def _mean(self, x: Tensor, dim: Sequence[int], compute: Any, name: str) -> Tensor:
        return self.reduction(x, reduction_mode.AVG, compute, name).set_dim(dim)

    def _as_int32(self, tensor: Tensor, name: str) -> Tensor:
        return self.identity(tensor, None, name).set_data_type("int32")

    def _sum(self, x: Tensor, dim: Sequence[int], compute: Any, name: str) -> Tensor:
        return self.reduction(x, reduction_mode.ADD, compute, name).set_dim(dim)

    def _normalize(
        self,
        node: str,
        phase: norm_forward_phase,
        x: Tensor,
        scale: Any,
        bias: Any,
        epsilon: Number,
        stats: Sequence[int],
        compute: Any,
    ) -> list[Tensor | None]:
        """(x - mean) / sqrt(variance + epsilon) · scale + bias, with statistics of shape ``stats``; in training also the statistics."""
        mean = self._mean(x, stats, compute, f"{node}_mean")
        centered = self.sub(x, mean, compute, f"{node}_centered")
        variance = self._mean(
            self.mul(centered, centered, compute, f"{node}_squared"), stats, compute, f"{node}_variance"
        )
        inverse = self.rsqrt(self.add(variance, epsilon, compute, f"{node}_epsilon"), compute, f"{node}_rsqrt")
        y = self.mul(centered, inverse, compute, f"{node}_normalized")
        y = self.mul(y, scale, compute, f"{node}_scaled")
        y = self.add(y, bias, compute, f"{node}_biased") if bias is not None else y
        y.set_name(f"{node}::Y")
        if phase is norm_forward_phase.INFERENCE:
            return [y, None, None]
        return [*self._in_order([y, mean.set_name(f"{node}::MEAN"), inverse.set_name(f"{node}::INV_VARIANCE")])]

    def _normalize_backward(
        self,
        node: str,
        grad: Tensor,
        x: Tensor,
        scale: Tensor,
        mean: Any,
        inverse: Any,
        stats: Sequence[int],
        compute: Any,
    ) -> list[Tensor]:
        """The gradients of x, scale and bias of what `_normalize` computes."""
        if mean is None or inverse is None:
            lacking = "mean" if mean is None else "inv_variance"
            raise UnsupportedError(node, lacking, "is None, expected what the forward operation answers in training")
        factors = self._dims(node, "scale", self._operand(node, "scale", scale))
        centered = self.sub(x, mean, compute, f"{node}_centered")
        normalized = self.mul(centered, inverse, compute, f"{node}_normalized")
        weighted = self.mul(grad, normalized, compute, f"{node}_weighted")
        dscale = self._sum(weighted, factors, compute, f"{node}_dscale").set_name(f"{node}::DSCALE")
        dbias = self._sum(grad, factors, compute, f"{node}_dbias").set_name(f"{node}::DBIAS")
        scaled = self.mul(grad, scale, compute, f"{node}_scaled")
        along = self.mul(scaled, normalized, compute, f"{node}_along")
        first = self._mean(scaled, stats, compute, f"{node}_first")
        second = self._mean(along, stats, compute, f"{node}_second")
        rest = self.sub(scaled, first, compute, f"{node}_less_first")
        rest = self.sub(
            rest, self.mul(normalized, second, compute, f"{node}_projected"), compute, f"{node}_less_second"
        )
        dx = self.mul(rest, inverse, compute, f"{node}_dx").set_name(f"{node}::DX")
        return self._in_order([dx, dscale, dbias])

    def _instances(self, node: str, x: Tensor) -> tuple[int, ...]:
        dims = self._dims(node, "input", self._operand(node, "input", x))
        return (*dims[:2], *(1 for _ in dims[2:]))

    def instancenorm(
        self,
        norm_forward_phase: norm_forward_phase,
        input: Tensor,
        scale: Tensor,
        bias: Tensor,
        epsilon: Number = 1e-5,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Normalization of each channel of each image [N, C, ...], with [1, C, 1, ...] for scale and bias: Y, and in training mean
        and inv_variance of shape [N, C, 1, ...], of float types."""
        node = self._name("instancenorm", name)
        stats = self._instances(node, input)
        return self._normalize(node, norm_forward_phase, input, scale, bias, epsilon, stats, compute_data_type)

    def instancenorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor]:
        """The gradients of input [N, C, ...], scale and bias [1, C, 1, ...] of ``instancenorm``, of float types."""
        node = self._name("instancenorm_backward", name)
        stats = self._instances(node, input)
        return self._normalize_backward(node, grad, input, scale, mean, inv_variance, stats, compute_data_type)

    def _adaptive(self, node: str, x: Tensor, scale: Tensor) -> tuple[int, ...]:
        dims = self._dims(node, "input", self._operand(node, "input", x))
        factors = self._dims(node, "scale", self._operand(node, "scale", scale), len(dims))
        first = next((at for at, size in enumerate(factors) if at and size != 1), len(dims) - 1)
        if factors[first:] != dims[first:] or factors[0] not in (1, dims[0]):
            words = f"the shape is {list(factors)}, expected the batch, 1s and then the last of {list(dims)}"
            raise UnsupportedError(node, "scale", words)
        return (*dims[:first], *(1 for _ in dims[first:]))

    def adalayernorm(
        self,
        norm_forward_phase: norm_forward_phase,
        input: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        epsilon: Number = 1e-5,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Normalization over the last dimensions of [B, S, D] with scale and bias [B, 1, D] per batch entry: Y, and in training
        mean and inv_variance of shape [B, S, 1], of float types."""
        node = self._name("adalayernorm", name)
        stats = self._adaptive(node, input, scale)
        return self._normalize(node, norm_forward_phase, input, scale, bias, epsilon, stats, compute_data_type)

    def adalayernorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor,
        inv_variance: Tensor,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor]:
        """The gradients of input [B, S, D], scale and bias [B, 1, D] of ``adalayernorm``, of float types."""
        node = self._name("adalayernorm_backward", name)
        stats = self._adaptive(node, input, scale)
        return self._normalize_backward(node, grad, input, scale, mean, inv_variance, stats, compute_data_type)

    def _by_scores(
        self, node: str, q: Tensor, k: Tensor, v: Tensor, scale: Any, score_mod: Any, compute: Any, stats: bool
    ) -> list[Tensor | None]:
        """softmax(score_mod(q · kᵀ · scale)) · v, and the log-sum-exp of each row if ``stats`` is set."""
        rows, keys = self._dims(node, "q", q, 4), self._dims(node, "k", k, 4)
        if rows[1] != keys[1]:
            raise UnsupportedError(
                node, "score_mod", f"is given for {rows[1]} heads of q and {keys[1]} of k, expected as many"
            )
        graph: Any = self
        turned = graph.transpose(k, (0, 1, 3, 2), None, f"{node}_k")
        scores = self.matmul(q, turned, compute_data_type=compute, name=f"{node}_qk")
        scores = scores if scale is None else self.mul(scores, scale, compute, f"{node}_scaled")
        scores, line = score_mod(self, scores), (*rows[:3], 1)
        most = self.reduction(scores, reduction_mode.MAX, compute, f"{node}_max").set_dim(line)
        powers = self.exp(self.sub(scores, most, compute, f"{node}_less_max"), compute, f"{node}_exp")
        total = self._sum(powers, line, compute, f"{node}_sum")
        weights = self.div(powers, total, compute, f"{node}_p")
        o = self.matmul(weights, v, compute_data_type=compute, name=f"{node}_pv").set_name(f"{node}::O")
        # Of q's type, as attention's result is.
        o.set_data_type(q.data_type)
        if not stats:
            return [o, None]
        logs = self.add(most, self.log(total, compute, f"{node}_log"), compute, f"{node}_stats").set_name(
            f"{node}::Stats"
        )
        return [*self._in_order([o, logs])]

    def _sink_gradient(
        self, node: str, sink: Any, gradient: Any, tensors: dict[str, Tensor], lengths: Tensor | None, compute: Any
    ) -> None:
        """Minus each row's share of the sink times the sum of dO · O, summed over rows; rows beyond the lengths are skipped."""
        gradient = self._operand(node, "dSink_token", gradient)
        if sink is None or tensors["o"].ragged_offset is not None:
            words = (
                "expected together with sink_token" if sink is None else "is given beside ragged offsets, expected None"
            )
            raise UnsupportedError(node, "dSink_token", words)
        line = (*self._dims(node, "o", tensors["o"], 4)[:3], 1)
        product = self.mul(tensors["do"], tensors["o"], compute, f"{node}_do_o")
        share = self.exp(self.sub(sink, tensors["stats"], compute, f"{node}_less_stats"), compute, f"{node}_share")
        part = self.mul(self._sum(product, line, compute, f"{node}_rows"), share, compute, f"{node}_part")
        part = self.neg(part, compute, f"{node}_negated")
        if lengths is not None:
            place = self.gen_index(part, 2, compute, f"{node}_place")
            zero = self._operand(node, "dSink_token", 0.0, 4)
            inside = self.cmp_lt(place, lengths, compute, f"{node}_inside").set_data_type(data_type.BOOLEAN)
            part = self.binary_select(part, zero, inside, compute, f"{node}_selected")
        total = self._sum(part, gradient.dim or (), compute, f"{node}_dsink")
        made = self._nodes[-1]
        self.tensors = [tensor for tensor in self.tensors if tensor is not total]
        made.outputs["out"], gradient.producer = gradient, made.name

    def genstats(self, input: Tensor, compute_data_type: Compute | None = None, name: str = "") -> list[Tensor]:
        """The sum and the sum of squares of each channel [1, C, 1, ...] of [N, C, ...], of a float type."""
        node = self._name("genstats", name)
        dims = self._dims(node, "input", self._operand(node, "input", input))
        stats = (1, dims[1], *(1 for _ in dims[2:]))
        total = self._sum(input, stats, compute_data_type, f"{node}_sum").set_name(f"{node}::SUM")
        squares = self.mul(input, input, compute_data_type, f"{node}_squared")
        return [total, self._sum(squares, stats, compute_data_type, f"{node}_sq_sum").set_name(f"{node}::SQ_SUM")]

    def cos(self, input: Tensor, compute_data_type: Compute | None = None, name: str = "") -> Tensor:
        """The cosine of each element of any shape and float type, computed as sin(x + π/2)."""
        node = self._name("cos", name)
        turned = self.add(input, math.pi / 2, compute_data_type, f"{node}_turned")
        return self.sin(turned, compute_data_type, f"{node}_sin").set_name(f"{node}::OUT_0")

    def mod(self, input0: Any, input1: Any, compute_data_type: Compute | None = None, name: str = "") -> Tensor:
        """Raises cudnnGraphNotSupportedError for any shape and type: engines have no remainder operation."""
        raise UnsupportedError(
            self._name("mod", name), "input0", "expected another operation: engines have no remainder"
        )

    def pow(self, input0: Any, input1: Any, compute_data_type: Compute | None = None, name: str = "") -> Tensor:
        """Raises cudnnGraphNotSupportedError for any shape and type: engines have no power; of positive numbers it is exp(input1 · log(input0))."""
        words = "expected another operation: engines have no power; of positive numbers it is exp(input1 · log(input0))"
        raise UnsupportedError(self._name("pow", name), "input0", words)


describe_results(Compositions)
