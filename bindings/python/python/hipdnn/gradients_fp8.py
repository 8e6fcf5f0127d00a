"""Gradients of 8-bit attention, composed of matmuls between which probabilities and their gradients have 8 bits, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import UnsupportedError
from .tensor import Tensor
from .types import data_type, reduction_mode


@dataclass(frozen=True)
class Band:
    """Which keys a query sees: how many before and behind its diagonal, which is moved by ``shift`` keys; None means all."""

    before: int | None
    behind: int | None
    shift: int


@dataclass(frozen=True)
class Fp8Gradients:
    """The operands by their names in `sdpa_fp8_backward`, with equal heads, and their scales."""

    graph: Any
    node: str
    compute: Any
    tensors: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]
    attn_scale: Tensor | float | None
    band: Band

    def results(self) -> tuple[list[Tensor], list[Tensor]]:
        """dQ, dK and dV times their scales, and the largest magnitudes of these and of dO · Vᵀ."""
        _, inner, products = self._half("rows", is_turned=False)
        of_keys, inner_of_keys, _ = self._half("columns", is_turned=True)
        parts = {
            "dQ": (inner, self.tensors["k"], "descale_dP", "descale_k"),
            "dK": (inner_of_keys, self.tensors["q"], "descale_dP", "descale_q"),
            "dV": (of_keys, self.tensors["dO"], "descale_s", "descale_dO"),
        }
        scaled, largest = [], []
        for key, (left, right, one, other) in parts.items():
            product = self.graph.matmul(left, right, compute_data_type=self.compute, name=f"{self.node}_{key}_stored")
            gradient = self._mul(
                product, self._mul(self.scales[one], self.scales[other], f"{key}_factor"), f"{key}_plain"
            )
            scaled.append(self._mul(gradient, self.scales[f"scale_{key}"], key).set_name(f"{self.node}::{key}"))
            largest.append(self._largest(gradient, key))
        largest.append(self._largest(products, "dP"))
        return scaled, largest

    def plain(self, key: str) -> Tensor:
        """An operand times its scale."""
        return self._mul(self.tensors[key], self.scales[f"descale_{key}"], f"{key}_plain")

    def _half(self, word: str, is_turned: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The 8-bit probabilities and score gradients, each times its scale, and dO · Vᵀ; rows are queries, or keys if transposed."""
        q, k, v, o, gradient = (self.tensors[key] for key in ("q", "k", "v", "o", "dO"))
        first, second = ((k, q), (v, gradient)) if is_turned else ((q, k), (gradient, v))
        stats = self._turned(self.tensors["stats"], f"{word}_stats") if is_turned else self.tensors["stats"]
        scores = self._product(first, f"{word}_scores", ("descale_q", "descale_k"))
        scores = scores if self.attn_scale is None else self._mul(scores, self.attn_scale, f"{word}_scaled")
        shares = self.graph.exp(
            self.graph.sub(scores, stats, self.compute, f"{self.node}_{word}_less"),
            self.compute,
            f"{self.node}_{word}_p",
        )
        shares = self._within(shares, word, 3 if is_turned else 2)
        products = self._product(second, f"{word}_dp", ("descale_dO", "descale_v"))
        left, right = (self._turned(one, f"{word}_{at}") if is_turned else one for at, one in enumerate((gradient, o)))
        both = self._mul(self.scales["descale_dO"], self.scales["descale_o"], f"{word}_factor")
        dims = list(left.dim or ())
        dims[2 if is_turned else 3] = 1
        total = self.graph.reduction(
            self._mul(left, right, f"{word}_do_o"), reduction_mode.ADD, self.compute, f"{self.node}_{word}_sum"
        ).set_dim(dims)
        less = self.graph.sub(
            products, self._mul(total, both, f"{word}_total"), self.compute, f"{self.node}_{word}_dp_less"
        )
        inner = self._mul(shares, less, f"{word}_inner")
        inner = inner if self.attn_scale is None else self._mul(inner, self.attn_scale, f"{word}_ds")
        return self._small(shares, "scale_s", f"{word}_p8"), self._small(inner, "scale_dP", f"{word}_ds8"), products

    def _product(self, factors: tuple[Tensor, Tensor], word: str, scales: tuple[str, str]) -> Tensor:
        """The first factor times the transposed second one, times both scales."""
        turned = self._turned(factors[1], f"{word}_turned")
        made = self.graph.matmul(factors[0], turned, compute_data_type=self.compute, name=f"{self.node}_{word}_stored")
        return self._mul(made, self._mul(self.scales[scales[0]], self.scales[scales[1]], f"{word}_factor"), word)

    def _within(self, shares: Tensor, word: str, queries: int) -> Tensor:
        """The probabilities of the keys that a query sees, 0 for the others; ``queries`` is the dimension of queries."""
        graph = self.graph
        if self.band.before is None and self.band.behind is None:
            return shares
        rows, keys = (
            graph.gen_index(shares, axis, self.compute, f"{self.node}_{word}_at_{axis}")
            for axis in (queries, 5 - queries)
        )
        distance = graph.sub(keys, rows, self.compute, f"{self.node}_{word}_distance")
        limits = {"cmp_le": self.band.behind, "cmp_gt": None if self.band.before is None else -self.band.before}
        for comparison, limit in limits.items():
            if limit is not None:
                name = f"{self.node}_{word}_{comparison}"
                seen = getattr(graph, comparison)(distance, float(limit + self.band.shift), self.compute, name)
                zero = graph._operand(self.node, "q", 0.0, 4)
                shares = graph.binary_select(
                    shares, zero, seen.set_data_type(data_type.BOOLEAN), self.compute, f"{name}_selected"
                )
        return shares

    def _small(self, tensor: Tensor, scale: str, word: str) -> Tensor:
        return self._mul(tensor, self.scales[scale], word).set_data_type(self.tensors["q"].data_type)

    def _turned(self, tensor: Tensor, word: str) -> Tensor:
        dims, steps = self.graph._dims(self.node, word, tensor, 4), tensor.stride or ()
        order = (0, 1, 3, 2)
        return self.graph._view(
            f"{self.node}_{word}", tensor, [dims[at] for at in order], [steps[at] for at in order], 0
        )

    def _mul(self, a: Any, b: Any, word: str) -> Tensor:
        return self.graph.mul(a, b, self.compute, f"{self.node}_{word}")

    def _largest(self, tensor: Tensor, key: str) -> Tensor:
        """The largest magnitude of a tensor, [1, 1, 1, 1] of float."""
        made = self.graph.reduction(tensor, reduction_mode.AMAX, self.compute, f"{self.node}_amax_{key}")
        return made.set_dim((1, 1, 1, 1)).set_data_type(data_type.FLOAT).set_name(f"{self.node}::Amax_{key}")


def expect_equal_heads(node: str, tensors: Mapping[str, Tensor]) -> None:
    """Raises cudnnGraphNotSupportedError for what the composition does not support."""
    for key, tensor in tensors.items():
        if tensor.ragged_offset is not None:
            raise UnsupportedError(node, key, "is ragged, expected sequences of one length")
        if (tensor.dim or (0, 0))[1] != (tensors["q"].dim or (0, 0))[1]:
            words = f"has {(tensor.dim or (0, 0))[1]} heads, expected those of q: gradients of shared heads are written by one node"
            raise UnsupportedError(node, key, words)
