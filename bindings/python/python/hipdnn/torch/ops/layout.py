"""How results lie."""

from __future__ import annotations

from typing import Sequence

from torch import Tensor

from ...infer import strides_in_order


def like(x: Tensor, shape: Sequence[int]) -> Tensor:
    """An empty tensor of a shape, laid out as another."""
    return x.new_empty_strided(list(shape), strides_in_order(shape, x.stride()))


def channels(tensor: Tensor, rank: int) -> Tensor:
    """[C] as [1, C, 1, ...]."""
    return tensor.view(1, -1, *(1 for _ in range(rank - 2)))
