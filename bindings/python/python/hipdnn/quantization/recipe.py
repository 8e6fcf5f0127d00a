"""How to quantize a network: which types, which granularity, and how to find ranges."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import ArgumentError
from ..types import data_type

#: The largest magnitude used of each type. Integers are symmetric, with zero point 0, as torchao and ONNX Runtime's
#: quantizer do for weights.
LARGEST = {data_type.INT8: 127.0, data_type.INT4: 7.0, data_type.FP8_E4M3: 448.0, data_type.FP8_E5M2: 57344.0}

OBSERVERS = ("min-max", "percentile", "mse")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How weights and activations are quantized.

    A number x becomes q = x / scale, rounded to the type, and represents q · scale; scales are single precision, and zero is exact.
    """

    name: str
    #: The type of weights.
    weights: data_type
    #: The type of the other operand of convolutions and matmuls; None leaves it unquantized.
    activations: data_type | None
    #: How to find a tensor's range: its largest magnitude, a percentile of magnitudes, or the range with the least squared error.
    observer: str = "min-max"
    #: The fraction of magnitudes within the range, for the observer "percentile".
    percentile: float = 0.9999
    #: Whether each output channel has its own scale.
    is_per_channel: bool = True
    #: How many weights along the reduced dimension share a scale; None means all.
    group: int | None = None

    def __post_init__(self) -> None:
        if self.weights not in LARGEST or self.activations not in (*LARGEST, None):
            raise ArgumentError(
                f"recipe {self.name!r}: the types are {self.weights} and {self.activations}, expected some of "
                f"{', '.join(kind.value for kind in LARGEST)}"
            )
        if self.observer not in OBSERVERS:
            raise ArgumentError(
                f"recipe {self.name!r}: the observer is {self.observer!r}, expected one of {', '.join(OBSERVERS)}"
            )
        if not 0 < self.percentile <= 1:
            raise ArgumentError(
                f"recipe {self.name!r}: the percentile is {self.percentile}, expected a part above 0 and up to 1"
            )
        if self.group is not None and self.group < 1:
            raise ArgumentError(f"recipe {self.name!r}: the group is {self.group}, expected at least 1")

    def replace(self, **changes: Any) -> Recipe:
        """This recipe with some fields changed."""
        return dataclasses.replace(self, **changes)


#: The named recipes.
RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("int8", data_type.INT8, data_type.INT8),
        Recipe("int8-per-tensor", data_type.INT8, data_type.INT8, is_per_channel=False),
        Recipe("int8-percentile", data_type.INT8, data_type.INT8, observer="percentile"),
        Recipe("int8-mse", data_type.INT8, data_type.INT8, observer="mse"),
        Recipe("fp8", data_type.FP8_E4M3, data_type.FP8_E4M3, is_per_channel=False),
        Recipe("int4-weights", data_type.INT4, None, observer="mse", group=32),
    )
}


def to_recipe(recipe: str | Recipe) -> Recipe:
    """The recipe with a name, or the recipe itself."""
    found = RECIPES.get(recipe) if isinstance(recipe, str) else recipe
    if not isinstance(found, Recipe):
        raise ArgumentError(f"the recipe is {recipe!r}, expected a Recipe or one of {', '.join(RECIPES)}")
    return found
