"""Pointwise operations. Operands are tensors of one rank whose dimensions are equal or 1, or numbers."""

from __future__ import annotations

from typing import Any, Union

from .errors import GraphError
from .infer import broadcast
from .node import Operations, describe_results
from .tensor import Tensor
from .types import DataTypeLike, data_type, to_data_type

Operand = Union[Tensor, float]
Compute = Union[DataTypeLike, None]


class Pointwise(Operations):
    """Pointwise operations."""

    def _pointwise(
        self, kind: str, mode: str, operands: dict[str, Any], compute: Compute, name: str, **numbers: Any
    ) -> Tensor:
        node = self._name(kind, name)
        ranks = [len(operand.dim or ()) for operand in operands.values() if isinstance(operand, Tensor)]
        rank = max(ranks, default=None)
        tensors = {key: self._operand(node, key, operand, rank) for key, operand in operands.items()}
        shapes = [self._dims(node, key, tensor, rank) for key, tensor in tensors.items()]
        dim = broadcast(shapes)
        if dim is None:
            last = list(tensors)[-1]
            raise GraphError(node, last, f"the shapes {[list(shape) for shape in shapes]} cannot be broadcast")
        # Laid out like the operand with the result's shape; gradients like their input.
        like = next((t for t in reversed(list(tensors.values())) if t.dim == dim and t.value is None), None)
        y = self._output(node, "OUT_0", dim, like)
        if mode.startswith("cmp_") and compute is not None and to_data_type(compute) is data_type.BOOLEAN:
            # cuDNN's compute type of a comparison is its result's: here it is the type that is compared in.
            compute = None
        slots = dict(zip(("in_0", "in_1", "in_2"), tensors.values()))
        inputs = {slot: slots.get(slot) for slot in ("in_0", "in_1", "in_2")}
        settings: dict[str, Any] = {
            "operation": mode, "relu_lower_clip": None, "relu_upper_clip": None, "relu_lower_clip_slope": None,
            "swish_beta": None, "elu_alpha": None, "softplus_beta": None, "axis_tensor_uid": None,
        }  # fmt: skip
        settings.update(numbers)
        self._add("PointwiseAttributes", node, inputs, {"out_0": y}, compute_data_type=compute, in_inputs=settings)
        return y

    def identity(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The input itself."""
        return self._pointwise("identity", "identity", {"input": input}, compute_data_type, name)

    def abs(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The absolute value of each element."""
        return self._pointwise("abs", "abs", {"input": input}, compute_data_type, name)

    def ceil(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The smallest integer not below each element."""
        return self._pointwise("ceil", "ceil", {"input": input}, compute_data_type, name)

    def floor(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The largest integer not above each element."""
        return self._pointwise("floor", "floor", {"input": input}, compute_data_type, name)

    def exp(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The exponential of each element."""
        return self._pointwise("exp", "exp", {"input": input}, compute_data_type, name)

    def log(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The natural logarithm of each element."""
        return self._pointwise("log", "log", {"input": input}, compute_data_type, name)

    def neg(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """Each element negated."""
        return self._pointwise("neg", "neg", {"input": input}, compute_data_type, name)

    def reciprocal(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 / input."""
        return self._pointwise("reciprocal", "reciprocal", {"input": input}, compute_data_type, name)

    def sqrt(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The square root of each element."""
        return self._pointwise("sqrt", "sqrt", {"input": input}, compute_data_type, name)

    def rsqrt(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 / √input."""
        return self._pointwise("rsqrt", "rsqrt", {"input": input}, compute_data_type, name)

    def sin(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The sine of each element."""
        return self._pointwise("sin", "sin", {"input": input}, compute_data_type, name)

    def tan(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The tangent of each element."""
        return self._pointwise("tan", "tan", {"input": input}, compute_data_type, name)

    def erf(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The error function of each element."""
        return self._pointwise("erf", "erf", {"input": input}, compute_data_type, name)

    def logical_not(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where the input is zero, else 0."""
        return self._pointwise("logical_not", "logical_not", {"input": input}, compute_data_type, name)

    def sigmoid(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 / (1 + e⁻ˣ)."""
        return self._pointwise("sigmoid", "sigmoid_fwd", {"input": input}, compute_data_type, name)

    def tanh(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The hyperbolic tangent of each element."""
        return self._pointwise("tanh", "tanh_fwd", {"input": input}, compute_data_type, name)

    def gelu(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """x/2 · (1 + erf(x/√2))."""
        return self._pointwise("gelu", "gelu_fwd", {"input": input}, compute_data_type, name)

    def gelu_approx_tanh(self, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """GELU, approximated with tanh."""
        return self._pointwise("gelu_approx_tanh", "gelu_approx_tanh_fwd", {"input": input}, compute_data_type, name)

    def add(self, a: Operand, b: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """a + b."""
        return self._pointwise("add", "add", {"a": a, "b": b}, compute_data_type, name)

    def bias(self, input: Operand, bias: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """input + bias."""
        return self._pointwise("bias", "add", {"input": input, "bias": bias}, compute_data_type, name)

    def sub(self, a: Operand, b: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """a - b."""
        return self._pointwise("sub", "sub", {"a": a, "b": b}, compute_data_type, name)

    def mul(self, a: Operand, b: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """a · b."""
        return self._pointwise("mul", "mul", {"a": a, "b": b}, compute_data_type, name)

    def scale(self, input: Operand, scale: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """input · scale."""
        return self._pointwise("scale", "mul", {"input": input, "scale": scale}, compute_data_type, name)

    def div(self, a: Operand, b: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """a / b."""
        return self._pointwise("div", "div", {"a": a, "b": b}, compute_data_type, name)

    def add_square(self, a: Operand, b: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """a + b²."""
        return self._pointwise("add_square", "add_square", {"a": a, "b": b}, compute_data_type, name)

    def max(self, input0: Operand, input1: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The larger of each two elements."""
        return self._pointwise("max", "max_op", {"input0": input0, "input1": input1}, compute_data_type, name)

    def min(self, input0: Operand, input1: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The smaller of each two elements."""
        return self._pointwise("min", "min_op", {"input0": input0, "input1": input1}, compute_data_type, name)

    def cmp_eq(self, input: Operand, comparison: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where input = comparison, else 0."""
        return self._pointwise("cmp_eq", "cmp_eq", {"input": input, "comparison": comparison}, compute_data_type, name)

    def cmp_neq(self, input: Operand, comparison: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where input ≠ comparison, else 0."""
        return self._pointwise(
            "cmp_neq", "cmp_neq", {"input": input, "comparison": comparison}, compute_data_type, name
        )

    def cmp_gt(self, input: Operand, comparison: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where input > comparison, else 0."""
        return self._pointwise("cmp_gt", "cmp_gt", {"input": input, "comparison": comparison}, compute_data_type, name)

    def cmp_ge(self, input: Operand, comparison: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where input ≥ comparison, else 0."""
        return self._pointwise("cmp_ge", "cmp_ge", {"input": input, "comparison": comparison}, compute_data_type, name)

    def cmp_lt(self, input: Operand, comparison: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where input < comparison, else 0."""
        return self._pointwise("cmp_lt", "cmp_lt", {"input": input, "comparison": comparison}, compute_data_type, name)

    def cmp_le(self, input: Operand, comparison: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where input ≤ comparison, else 0."""
        return self._pointwise("cmp_le", "cmp_le", {"input": input, "comparison": comparison}, compute_data_type, name)

    def logical_and(self, a: Operand, b: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where both are nonzero, else 0."""
        return self._pointwise("logical_and", "logical_and", {"a": a, "b": b}, compute_data_type, name)

    def logical_or(self, a: Operand, b: Operand, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """1 where either is nonzero, else 0."""
        return self._pointwise("logical_or", "logical_or", {"a": a, "b": b}, compute_data_type, name)

    def sigmoid_backward(
        self, loss: Tensor, input: Tensor, compute_data_type: Compute = None, name: str = ""
    ) -> Tensor:
        """loss · the derivative of sigmoid at input."""
        return self._pointwise(
            "sigmoid_backward", "sigmoid_bwd", {"loss": loss, "input": input}, compute_data_type, name
        )

    def tanh_backward(self, loss: Tensor, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """loss · the derivative of tanh at input."""
        return self._pointwise("tanh_backward", "tanh_bwd", {"loss": loss, "input": input}, compute_data_type, name)

    def gelu_backward(self, loss: Tensor, input: Tensor, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """loss · the derivative of gelu at input."""
        return self._pointwise("gelu_backward", "gelu_bwd", {"loss": loss, "input": input}, compute_data_type, name)

    def gelu_approx_tanh_backward(
        self, loss: Tensor, input: Tensor, compute_data_type: Compute = None, name: str = ""
    ) -> Tensor:
        """loss · the derivative of gelu_approx_tanh at input."""
        return self._pointwise(
            "gelu_approx_tanh_backward", "gelu_approx_tanh_bwd", {"loss": loss, "input": input}, compute_data_type, name
        )

    def relu(
        self,
        input: Tensor,
        negative_slope: float | None = None,
        lower_clip: float | None = None,
        upper_clip: float | None = None,
        compute_data_type: Compute = None,
        name: str = "",
    ) -> Tensor:
        """Elements within [lower_clip, upper_clip], with a slope below."""
        operands = {"input": input}
        return self._pointwise(
            "relu",
            "relu_fwd",
            operands,
            compute_data_type,
            name,
            relu_lower_clip_slope=negative_slope,
            relu_lower_clip=lower_clip,
            relu_upper_clip=upper_clip,
        )

    def relu_backward(
        self,
        loss: Tensor,
        input: Tensor,
        negative_slope: float | None = None,
        lower_clip: float | None = None,
        upper_clip: float | None = None,
        compute_data_type: Compute = None,
        name: str = "",
    ) -> Tensor:
        """loss · the derivative of relu at input."""
        operands = {"loss": loss, "input": input}
        return self._pointwise(
            "relu_backward",
            "relu_bwd",
            operands,
            compute_data_type,
            name,
            relu_lower_clip_slope=negative_slope,
            relu_lower_clip=lower_clip,
            relu_upper_clip=upper_clip,
        )

    def leaky_relu(
        self,
        input: Tensor,
        negative_slope: float,
        compute_data_type: Compute = None,
        name: str = "",
    ) -> Tensor:
        """The input where positive, else input · negative_slope."""
        operands = {"input": input}
        return self._pointwise(
            "leaky_relu", "relu_fwd", operands, compute_data_type, name, relu_lower_clip_slope=negative_slope
        )

    def leaky_relu_backward(
        self,
        loss: Tensor,
        input: Tensor,
        negative_slope: float,
        compute_data_type: Compute = None,
        name: str = "",
    ) -> Tensor:
        """loss · the derivative of leaky_relu at input."""
        operands = {"loss": loss, "input": input}
        return self._pointwise(
            "leaky_relu_backward", "relu_bwd", operands, compute_data_type, name, relu_lower_clip_slope=negative_slope
        )

    def elu(
        self, input: Tensor, compute_data_type: Compute = None, name: str = "", *, alpha: float | None = None
    ) -> Tensor:
        """The input where positive, else alpha · (eˣ - 1)."""
        operands = {"input": input}
        return self._pointwise("elu", "elu_fwd", operands, compute_data_type, name, elu_alpha=alpha)

    def elu_backward(
        self,
        loss: Tensor,
        input: Tensor,
        compute_data_type: Compute = None,
        name: str = "",
        *,
        alpha: float | None = None,
    ) -> Tensor:
        """loss · the derivative of elu at input."""
        operands = {"loss": loss, "input": input}
        return self._pointwise("elu_backward", "elu_bwd", operands, compute_data_type, name, elu_alpha=alpha)

    def softplus(
        self, input: Tensor, compute_data_type: Compute = None, name: str = "", *, beta: float | None = None
    ) -> Tensor:
        """ln(1 + e^(beta · x)) / beta."""
        operands = {"input": input}
        return self._pointwise("softplus", "softplus_fwd", operands, compute_data_type, name, softplus_beta=beta)

    def softplus_backward(
        self,
        loss: Tensor,
        input: Tensor,
        compute_data_type: Compute = None,
        name: str = "",
        *,
        beta: float | None = None,
    ) -> Tensor:
        """loss · the derivative of softplus at input."""
        operands = {"loss": loss, "input": input}
        return self._pointwise(
            "softplus_backward", "softplus_bwd", operands, compute_data_type, name, softplus_beta=beta
        )

    def swish(
        self,
        input: Tensor,
        swish_beta: float | None = None,
        compute_data_type: Compute = None,
        name: str = "",
    ) -> Tensor:
        """x / (1 + e^(-swish_beta · x))."""
        operands = {"input": input}
        return self._pointwise("swish", "swish_fwd", operands, compute_data_type, name, swish_beta=swish_beta)

    def swish_backward(
        self,
        loss: Tensor,
        input: Tensor,
        compute_data_type: Compute = None,
        swish_beta: float | None = None,
        name: str = "",
    ) -> Tensor:
        """loss · the derivative of swish at input."""
        operands = {"loss": loss, "input": input}
        return self._pointwise("swish_backward", "swish_bwd", operands, compute_data_type, name, swish_beta=swish_beta)

    def gen_index(self, input: Tensor, axis: int, compute_data_type: Compute = None, name: str = "") -> Tensor:
        """The index of each element along a dimension."""
        return self._pointwise(
            "gen_index", "gen_index", {"input": input}, compute_data_type, name, axis_tensor_uid=int(axis)
        )

    def binary_select(
        self, input0: Operand, input1: Operand, mask: Tensor, compute_data_type: Compute = None, name: str = ""
    ) -> Tensor:
        """input0 where the mask is nonzero, else input1."""
        operands = {"input0": input0, "input1": input1, "mask": mask}
        return self._pointwise("binary_select", "binary_select", operands, compute_data_type, name)


describe_results(
    Pointwise,
    """Operands are tensors of one rank, of any type, whose sizes are equal or 1, as [1, C, 1, ...] beside [N, C, ...]; the result has
        the larger sizes. Numbers may stand for all operands but one.""",
)
