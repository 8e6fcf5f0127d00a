"""PyTorch's operations that rearrange elements: views, transposes, slices, concatenations, padding, gathers.

PyTorch executes them itself, on numbers of elements in place of these: a tensor of such numbers says which element is where.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ..errors import UnsupportedError
from ..tensor import Tensor


class Moved:
    """Elements of several tensors in an order of their own, by their numbers; the graph has no node for that."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers
        #: The tensor of the graph that has these elements, once a node reads it.
        self.tensor: Tensor | None = None


class Elements:
    """A number for each element of the tensors and arrays that a module rearranges. All are exact in double precision."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        #: The tensors and arrays, and the number of the first element of each.
        self.sources: list[Any] = []
        self.starts: list[int] = []
        self.end = 0
        self._known: dict[Any, int] = {}

    def of(self, source: Any, key: Any, count: int) -> Any:
        """The numbers of a tensor's or an array's elements, in order."""
        if key not in self._known:
            self._known[key] = self.end
            self.sources.append(source)
            self.starts.append(self.end)
            self.end += count
        start = self._known[key]
        return self.torch.arange(start, start + count, dtype=self.torch.float64)

    def number(self, value: float) -> float:
        """The number for an element that is this everywhere."""
        array = importlib.import_module("numpy").full(1, value, "float32")
        return float(self.of(array, ("number", repr(value)), 1))

    def parts(self, numbers: Any) -> list[tuple[Any, Any, Any]]:
        """Where elements come from: each tensor or array, places there, and the places of those among the numbers."""
        numpy = importlib.import_module("numpy")
        numbers = numbers.detach().cpu().numpy().astype("int64").reshape(-1)
        found = numpy.searchsorted(numpy.array(self.starts, "int64"), numbers, side="right") - 1
        parts = []
        for place in numpy.unique(found):
            own = numpy.flatnonzero(found == place)
            parts.append((self.sources[place], numbers[own] - self.starts[place], own))
        return parts


def values_of(elements: Elements, numbers: Any, arrays: Mapping[Tensor, Any]) -> Any:
    """The elements with these numbers, from the arrays of tensors."""
    numpy = importlib.import_module("numpy")
    values = numpy.empty(numbers.numel(), "float32")
    for source, places, own in elements.parts(numbers):
        array = arrays[source] if isinstance(source, Tensor) else source
        values[own] = numpy.asarray(array).reshape(-1)[places]
    return values.reshape(tuple(numbers.shape))


def view_of(
    elements: Elements, uid: int, numbers: Any, arrays: Mapping[Tensor, Any]
) -> tuple[int, list[int], bytes, bytes]:
    """A tensor of rearranged elements as the library's tool takes it; tensors that have arrays are known."""
    numpy = importlib.import_module("numpy")
    parts = elements.parts(numbers)
    indices, known, sources, first = numpy.empty(numbers.numel(), "<u8"), [], [], 0
    for source, places, own in parts:
        if isinstance(source, Tensor) and source not in arrays:
            indices[own] = first + places
            first += _count(source)
            sources.append(source.uid)
    for source, places, own in parts:
        if not isinstance(source, Tensor) or source in arrays:
            array = arrays[source] if isinstance(source, Tensor) else source
            used, places = numpy.unique(places, return_inverse=True)
            indices[own] = first + places
            first += len(used)
            known.append(numpy.asarray(array, "<f8").reshape(-1)[used])
    return uid, sources, b"".join(array.tobytes() for array in known), indices.tobytes()


def _count(tensor: Tensor) -> int:
    count = 1
    for size in tensor.dim or ():
        count *= size
    return count


#: Operations that only rearrange, with the place of the argument that is a number besides the elements.
MOVES: dict[str, int | None] = {
    **dict.fromkeys((
        "view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unflatten.int", "view_as.default",
        "reshape_as.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default",
        "permute.default", "transpose.int", "t.default", "numpy_T.default", "mT.default", "swapaxes.default", "swapdims.default",
        "movedim.int", "movedim.intlist",
        "expand.default", "expand_as.default", "broadcast_to.default", "repeat.default", "repeat_interleave.self_int", "tile.default",
        "slice.Tensor", "select.int", "narrow.default", "split.Tensor", "split.sizes", "split_with_sizes.default", "chunk.default",
        "tensor_split.sections", "unbind.int", "diagonal.default", "unfold.default", "index_select.default", "index.Tensor",
        "gather.default", "embedding.default", "flip.default", "roll.default", "cat.default", "concat.default", "concatenate.default",
        "stack.default", "hstack.default", "vstack.default", "pixel_shuffle.default", "pixel_unshuffle.default",
        "channel_shuffle.default", "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest2d.default",
        "where.self", "select_scatter.default", "slice_scatter.default",
    )),
    "constant_pad_nd.default": 2, "pad.default": 3, "masked_fill.Scalar": 2, "masked_fill.Tensor": 2,
    "where.ScalarOther": 2, "where.ScalarSelf": 1, "tril.default": None, "triu.default": None,
}  # fmt: skip

#: Operations that read of their operand only its shape.
FILLS = {
    "new_ones.default", "new_zeros.default", "new_full.default", "ones_like.default", "zeros_like.default", "full_like.default",
    "zero.default", "fill.Scalar",
}  # fmt: skip

#: Operations whose result is their first operand.
SAME = {
    "contiguous.default", "clone.default", "alias.default", "lift_fresh_copy.default", "detach.default", "detach_.default", "to.dtype",
    "to.dtype_layout", "to.device", "_to_copy.default", "type_as.default",
}  # fmt: skip


def moved(reader: Any, node: Any, name: str) -> Any:
    """What a call that only rearranges makes: one tensor or a list of them."""
    torch, elements = reader.torch, reader.elements

    def operand(of: Any) -> Any:
        value = of.meta.get("val")
        is_real = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
        return reader.numbers(of) if is_real else reader.fact(of)

    arguments, named = torch.fx.node.map_arg((node.args, node.kwargs), operand)
    arguments, named, place = list(arguments), dict(named), MOVES[name]
    with torch.no_grad():
        if name in ("tril.default", "triu.default"):
            numbers = arguments[0]
            ones = node.target(torch.ones_like(numbers), *arguments[1:], **named) != 0
            return Moved(torch.where(ones, numbers, elements.number(0.0)))
        if place is not None and not (name == "pad.default" and (arguments[2:3] or ["constant"])[0] != "constant"):
            defaults = [None, None, "constant", None] if name == "pad.default" else [None] * 3
            arguments += defaults[len(arguments) : place + 1]
            number = arguments[place] if arguments[place] is not None else named.pop("value", 0.0)
            if not isinstance(number, torch.Tensor):
                arguments[place] = elements.number(float(number or 0.0))
            elif not node.args[place].meta["val"].dtype.is_floating_point:
                raise UnsupportedError(node.name, "value", f"is a tensor of {number.dtype}, expected a number")
        # The numbers lie otherwise in memory than the elements.
        is_view = name in ("view.default", "_unsafe_view.default")
        made = (torch.ops.aten.reshape.default if is_view else node.target)(*arguments, **named)
    return Moved(made) if isinstance(made, torch.Tensor) else [Moved(part) for part in made]
