"""What programs written for cuDNN use of the package besides graphs."""

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

#: The cuDNN version whose graph API is supported.
_VERSION = (9, 22, 0)


def backend_version() -> int:
    """The supported cuDNN version, encoded as by cuDNN; ``hipdnn.library().version`` is the library's own version."""
    major, minor, patch = _VERSION
    return major * 10000 + minor * 100 + patch


def backend_version_string() -> str:
    """``backend_version`` as a string."""
    return ".".join(map(str, _VERSION))


def get_last_error_string() -> str:
    """Empty: every error here carries its own message."""
    return ""


class pygraph(Graph):
    """A graph with cuDNN's conventions: arrays are plain memory.

    An array of another shape than its tensor holds the tensor from its first element on; its elements must be as large and reach
    far enough. Results without given strides take those of their arrays. Arrays of tensors that no node needs are ignored.
    """

    _as_cudnn = True

    def validate(self) -> None:
        """Raises GraphError for an invalid graph, and cudnnGraphNotSupportedError for what cuDNN refuses. Does not ask engines."""
        super().validate()
        if self._refusals:
            raise self._refusals[0]


class KernelCache:
    """What `create_kernel_cache` returns. It holds nothing: equal graphs always share plans."""


def create_kernel_cache() -> KernelCache:
    """A cache for `Graph(kernel_cache=...)`. Equal graphs share plans with or without it."""
    return KernelCache()


def graph_cache(key_fn: Callable[..., Hashable], maxsize: int = 256) -> Callable[..., Any]:
    """Decorates a function that makes graphs: calls with the same ``key_fn`` result get the first graph made for it."""

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
    """Decorates a function that returns a graph and tensors: builds the graph, and returns it with the tensors' uids."""
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
    """The names provided for programs written for cuDNN: those of the package, of graphs and of tensors."""
    package = sys.modules[__name__.rpartition(".")[0]]
    kinds = {"Graph": Graph, "Tensor": Tensor}
    methods = {of: [name for name in dir(kind) if not name.startswith("_")] for of, kind in kinds.items()}
    return {"hipdnn": sorted(name for name in package.__all__ if not name.startswith("_")), **methods}
