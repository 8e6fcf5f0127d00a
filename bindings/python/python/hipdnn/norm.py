"""Normalizations and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import GraphError
from .node import Operations, describe_results
from .tensor import Tensor
from .types import DataTypeLike, data_type, norm_forward_phase

Compute = DataTypeLike
Number = Any  # a tensor, or a number


def _stat_type(scale: Tensor) -> data_type:
    """The type of statistics: the scale's, or single precision."""
    return scale.data_type if scale.data_type is not data_type.NOT_SET else data_type.FLOAT


class Norms(Operations):
    """Normalizations and their gradients."""

    def _operands(self, node: str, rank_of: str, tensors: dict[str, Any]) -> dict[str, Tensor]:
        first = self._operand(node, rank_of, tensors[rank_of])
        rank = len(self._dims(node, rank_of, first))
        numbers = ("epsilon", "momentum")
        return {
            key: self._operand(node, key, value, rank if key in numbers else None) for key, value in tensors.items()
        }

    def batchnorm(
        self,
        input: Tensor,
        scale: Tensor,
        bias: Tensor,
        in_running_mean: Tensor | None = None,
        in_running_var: Tensor | None = None,
        epsilon: Number = 1e-5,
        momentum: Number = 0.1,
        peer_stats: Sequence[Tensor] = (),
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Batch normalization in training, of [N, C, ...] with [1, C, 1, ...] for scale, bias and statistics.

        Returns Y, mean, 1 / sqrt(variance + epsilon), and the new running mean and variance (None if no running ones are given). The
        input's type is a float; statistics have the type given for the scale, else float.
        """
        node = self._name("batchnorm", name)
        of = self._operands(
            node, "input", {"input": input, "scale": scale, "bias": bias, "epsilon": epsilon, "momentum": momentum}
        )
        x = self._dims(node, "input", of["input"])
        stats = (1, x[1], *(1 for _ in x[2:]))
        kind = _stat_type(of["scale"])
        outputs = {"y": self._output(node, "Y", x, of["input"])}
        for key in ("mean", "inv_variance"):
            outputs[key] = self._output(node, key, stats, None, kind)
        inputs = {
            "x": of["input"], "scale": of["scale"], "bias": of["bias"], "epsilon": of["epsilon"],
            "prev_running_mean": None, "prev_running_variance": None, "momentum": None,
        }  # fmt: skip
        if (in_running_mean is None) != (in_running_var is None):
            raise GraphError(node, "in_running_var", "expected together with in_running_mean, or neither")
        if in_running_mean is not None:
            inputs["prev_running_mean"] = self._operand(node, "in_running_mean", in_running_mean)
            inputs["prev_running_variance"] = self._operand(node, "in_running_var", in_running_var)
            inputs["momentum"] = of["momentum"]
            for key in ("next_running_mean", "next_running_variance"):
                outputs[key] = self._output(node, key, stats, None, kind)
        optional = ("mean", "inv_variance", "next_running_mean", "next_running_variance")
        peers = [self._operand(node, "peer_stats", peer) for peer in peer_stats]
        self._add(
            "BatchnormAttributes", node, inputs, outputs, optional=optional,
            together=(optional[:2], optional[2:]) if in_running_mean is not None else (optional[:2],),
            compute_data_type=compute_data_type, in_inputs={"peer_stats_tensor_uid": peers},
        )  # fmt: skip
        return [outputs.get(key) for key in ("y", *optional)]

    def batchnorm_inference(
        self,
        input: Tensor,
        mean: Tensor,
        inv_variance: Tensor,
        scale: Tensor,
        bias: Tensor,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> Tensor:
        """(input - mean) · inv_variance · scale + bias, with [1, C, 1, ...] for [N, C, ...], all of float types."""
        node = self._name("batchnorm_inference", name)
        tensors = {"input": input, "mean": mean, "inv_variance": inv_variance, "scale": scale, "bias": bias}
        of = self._operands(node, "input", tensors)
        y = self._output(node, "Y", of["input"].dim, of["input"])
        inputs = {"x": of.pop("input"), **of}
        self._add("BatchnormInferenceAttributes", node, inputs, {"y": y}, compute_data_type=compute_data_type)
        return y

    def batchnorm_inference_variance(
        self,
        input: Tensor,
        mean: Tensor,
        variance: Tensor,
        scale: Tensor,
        bias: Tensor,
        epsilon: Number = 1e-5,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> Tensor:
        """(input - mean) / sqrt(variance + epsilon) · scale + bias, with [1, C, 1, ...] for [N, C, ...], all of float types."""
        node = self._name("batchnorm_inference", name)
        tensors = {
            "input": input, "mean": mean, "variance": variance, "scale": scale, "bias": bias, "epsilon": epsilon
        }  # fmt: skip
        of = self._operands(node, "input", tensors)
        y = self._output(node, "Y", of["input"].dim, of["input"])
        inputs = {"x": of.pop("input"), **of}
        kind = "BatchnormInferenceAttributesVarianceExt"
        self._add(kind, node, inputs, {"y": y}, compute_data_type=compute_data_type)
        return y

    def batchnorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        peer_stats: Sequence[Tensor] = (),
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor]:
        """The gradients of input [N, C, ...], scale and bias [1, C, 1, ...] of ``batchnorm``; those of scale and bias have the scale's type."""
        node = self._name("batchnorm_backward", name)
        inputs = self._gradient_inputs(node, grad, input, scale, mean=mean, inv_variance=inv_variance)
        outputs = self._gradients(node, inputs)
        peers = [self._operand(node, "peer_stats", peer) for peer in peer_stats]
        self._add(
            "BatchnormBackwardAttributes", node, inputs, outputs, compute_data_type=compute_data_type,
            in_inputs={"peer_stats_tensor_uid": peers},
        )  # fmt: skip
        return list(outputs.values())

    def _gradient_inputs(
        self, node: str, grad: Tensor, input: Tensor, scale: Tensor, **statistics: Tensor | None
    ) -> dict[str, Tensor | None]:
        inputs: dict[str, Tensor | None] = {
            "dy": self._operand(node, "grad", grad),
            "x": self._operand(node, "input", input),
            "scale": self._operand(node, "scale", scale),
        }
        self._dims(node, "input", inputs["x"])  # type: ignore[arg-type]
        for key, tensor in statistics.items():
            inputs[key] = None if tensor is None else self._operand(node, key, tensor)
        return inputs

    def _gradients(self, node: str, inputs: dict[str, Any]) -> dict[str, Tensor]:
        scale = inputs["scale"]
        return {
            "dx": self._output(node, "DX", inputs["x"].dim, inputs["x"]),
            "dscale": self._output(node, "Dscale", scale.dim, scale, scale.data_type),
            "dbias": self._output(node, "Dbias", scale.dim, scale, scale.data_type),
        }

    def _normalized(self, node: str, x: Tensor, scale: Tensor) -> int:
        """The number of trailing dimensions that are normalized: those of the scale."""
        dims = self._dims(node, "input", x)
        factors = self._dims(node, "scale", scale, len(dims))
        first = next((at for at, size in enumerate(factors) if size != 1), len(dims) - 1)
        if factors[first:] != dims[first:]:
            raise GraphError(
                node, "scale", f"the shape is {list(factors)}, expected 1s and then the last of {list(dims)}"
            )
        return len(dims) - first

    def layernorm(
        self,
        norm_forward_phase: norm_forward_phase,
        input: Tensor,
        scale: Tensor,
        bias: Tensor,
        epsilon: Number = 1e-5,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Normalization over the last dimensions, those where the scale is not 1: Y, and in training mean and inv_variance.

        For [N, S, D] with a scale of [1, 1, D] these are [N, S, D] and [N, S, 1]. Types are floats; statistics
        have the type given for the scale, else float.
        """
        node = self._name("layernorm", name)
        of = self._operands(node, "input", {"input": input, "scale": scale, "bias": bias, "epsilon": epsilon})
        count = self._normalized(node, of["input"], of["scale"])
        inputs = {"x": of.pop("input"), **of}
        keys = ("mean", "inv_variance")
        outputs = self._statistics(node, inputs, norm_forward_phase, count, keys)
        self._add(
            "LayernormAttributes", node, inputs, outputs, optional=keys,
            together=(keys,) if len(outputs) > 1 else (), compute_data_type=compute_data_type,
            normalized_dim_count=count, forward_phase=norm_forward_phase.value,
        )  # fmt: skip
        return [outputs.get(key) for key in ("y", *keys)]

    def _statistics(
        self, node: str, inputs: dict[str, Any], phase: norm_forward_phase, count: int, keys: Sequence[str]
    ) -> dict[str, Tensor]:
        x, scale = inputs["x"], inputs["scale"]
        outputs = {"y": self._output(node, "Y", x.dim, x)}
        if phase is not norm_forward_phase.INFERENCE:
            stats = (*x.dim[: len(x.dim) - count], *(1 for _ in range(count)))
            for key in keys:
                outputs[key] = self._output(node, key, stats, x, _stat_type(scale))
        return outputs

    def layernorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Compute | None = None,
        name: str = "",
        *,
        epsilon: Number | None = None,
    ) -> list[Tensor]:
        """The gradients of input [N, ..., D], scale and bias [1, ..., D] of ``layernorm``; those of scale and bias have the scale's type."""
        node = self._name("layernorm_backward", name)
        inputs = self._gradient_inputs(node, grad, input, scale, mean=mean, inv_variance=inv_variance)
        count = self._normalized(node, inputs["x"], inputs["scale"])  # type: ignore[arg-type]
        outputs = self._gradients(node, inputs)
        epsilon = None if epsilon is None else self._operand(node, "epsilon", epsilon, len(input.dim or ()))
        self._add(
            "LayernormBackwardAttributes", node, inputs, outputs, compute_data_type=compute_data_type,
            normalized_dim_count=count, in_inputs={"epsilon_uid": epsilon},
        )  # fmt: skip
        return list(outputs.values())

    def rmsnorm(
        self,
        norm_forward_phase: norm_forward_phase,
        input: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        epsilon: Number = 1e-5,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Divides by the root mean square over the dimensions where the scale is not 1: Y, and in training 1 / rms.

        For [N, S, D] with a scale of [1, 1, D] these are [N, S, D] and [N, S, 1]. Types are floats; 1 / rms
        has the type given for the scale, else float.
        """
        node = self._name("rmsnorm", name)
        of = self._operands(node, "input", {"input": input, "scale": scale, "epsilon": epsilon})
        count = self._normalized(node, of["input"], of["scale"])
        inputs = {"x": of.pop("input"), **of}
        if bias is not None:
            inputs["bias"] = self._operand(node, "bias", bias)
        outputs = self._statistics(node, inputs, norm_forward_phase, count, ("inv_rms",))
        phase = {0: None, 1: "INFERENCE", 2: "TRAINING"}[norm_forward_phase.value]
        self._add(
            "RMSNormAttributes", node, inputs, outputs, optional=("inv_rms",), sparse=True,
            compute_data_type=compute_data_type, forward_phase=phase,
        )  # fmt: skip
        return [outputs["y"], outputs.get("inv_rms")]

    def rmsnorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        inv_variance: Tensor | None = None,
        has_dbias: bool = False,
        compute_data_type: Compute | None = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """The gradients of input [N, ..., D], scale and (if ``has_dbias``, else None) bias [1, ..., D] of ``rmsnorm``.

        Those of scale and bias have the scale's type.
        """
        node = self._name("rmsnorm_backward", name)
        inputs = self._gradient_inputs(node, grad, input, scale, inv_rms=inv_variance)
        outputs = self._gradients(node, inputs)
        if not has_dbias:
            del outputs["dbias"]
        self._add("RMSNormBackwardAttributes", node, inputs, outputs, sparse=True, compute_data_type=compute_data_type)
        return [outputs["dx"], outputs["dscale"], outputs.get("dbias")]


describe_results(Norms)
