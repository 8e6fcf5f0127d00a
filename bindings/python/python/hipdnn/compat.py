"""What programs for cuDNN ask of the package itself, beside graphs."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Callable

from .graph import Graph
from .handle import Handle
from .tensor import Tensor
from .types import DataTypeLike, data_type, heur_mode

__all__ = [
    "backend_version",
    "backend_version_string",
    "create_kernel_cache",
    "get_last_error_string",
    "graph",
    "graph_cache",
    "jit",
    "names",
    "pygraph",
]

#: The version of cuDNN whose graphs programs may ask for.
_VERSION = (9, 22, 0)


def backend_version() -> int:
    """The version of cuDNN whose graphs are known, as cuDNN counts; ``hipdnn.library().version`` is the library's own."""
    major, minor, patch = _VERSION
    return major * 10000 + minor * 100 + patch


def backend_version_string() -> str:
    """``backend_version`` as a text."""
    return ".".join(map(str, _VERSION))


def get_last_error_string() -> str:
    """Empty: each error here has its own message."""
    return ""


class pygraph(Graph):
    """A graph as programs for cuDNN make it: their arrays are memory, as in cuDNN.

    An array of another shape than its tensor's holds the tensor from its first element on, if its own elements reach as far and are
    as large. Results whose strides the program did not give lie as their arrays do. Arrays of tensors that no node needs are left out.
    """

    _as_cudnn = True

    def validate(self) -> None:
        """Raises GraphError for what makes no sense, and cudnnGraphNotSupportedError for what cuDNN refuses. Engines are not asked."""
        super().validate()
        if self._refusals:
            raise self._refusals[0]


class KernelCache:
    """What `create_kernel_cache` answers. Equal graphs share plans anyway, so that there is nothing to keep in it."""


def create_kernel_cache() -> KernelCache:
    """A cache for `Graph(kernel_cache=...)`. Equal graphs share plans with it and without."""
    return KernelCache()


def graph_cache(key_fn: Callable[..., Hashable], maxsize: int = 256) -> Callable[..., Any]:
    """Decorates a function that makes graphs: arguments of which ``key_fn`` answers the same get the graph made first."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        made: dict[Hashable, Any] = {}

        @functools.wraps(function)
        def cached(*args: Any, **named: Any) -> Any:
            key = key_fn(*args, **named)
            if key not in made:
                found = function(*args, **named)
                while len(made) >= max(maxsize, 1):
                    made.pop(next(iter(made)), None)
                made[key] = found
            return made[key]

        return cached

    return decorate


def jit(heur_modes: Sequence[heur_mode] | heur_mode = heur_mode.A, **kwargs: Any) -> Callable[..., Any]:
    """Decorates a function that answers a graph and tensors: the graph is built, and the tensors' uids are answered beside it."""
    modes = [heur_modes] if isinstance(heur_modes, heur_mode) else list(heur_modes)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def build(*args: Any, **named: Any) -> Any:
            made, tensors = function(*args, **named)
            if not made._is_built():
                made.build(modes)
            return made, [tensor.get_uid() for tensor in tensors]

        return build

    return decorate


@contextlib.contextmanager
def graph(
    handle: Handle,
    name: str = "cudnn_graph",
    io_data_type: DataTypeLike = data_type.HALF,
    intermediate_data_type: DataTypeLike = data_type.FLOAT,
    compute_data_type: DataTypeLike = data_type.FLOAT,
) -> Iterator[tuple[pygraph, list[Any]]]:
    """A graph and an empty list, for ``with hipdnn.graph(handle) as (g, _):``."""
    yield pygraph(name, io_data_type, intermediate_data_type, compute_data_type, handle), []


def names() -> dict[str, list[str]]:
    """The names that are here for programs for cuDNN: those of the package, of graphs and of tensors."""
    package = sys.modules[__name__.rpartition(".")[0]]
    kinds = {"Graph": Graph, "Tensor": Tensor}
    methods = {of: [name for name in dir(kind) if not name.startswith("_")] for of, kind in kinds.items()}
    return {"hipdnn": sorted(name for name in package.__all__ if not name.startswith("_")), **methods}
