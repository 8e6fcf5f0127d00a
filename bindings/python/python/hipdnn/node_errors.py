"""The errors of a graph, node by node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["NodeErrors", "Numerics", "ResultErrors"]


class NodeErrors(NamedTuple):
    """A node's errors: of all tensors that it writes, the largest. Relative errors are of the norm."""

    node: int
    name: str
    operation: str
    data_type: str
    ulps: float
    """The error that it adds, in units in the last place."""
    added: float
    """The same, relative."""
    so_far: float
    """With the errors of its operands."""
    bound: float | None
    """A bound of ``added`` for sums and products, known before they are computed."""
    condition: float | None
    """What it multiplies the errors of its operands by."""
    share: float
    """Its share of the results' error, from 0 to 1."""
    lost: float
    """The decimal digits that it loses."""
    infinities: int
    nans: int
    reasons: list[str]


class ResultErrors(NamedTuple):
    """The errors of a result: in units in the last place, relative, and relative if each node stores what it writes."""

    uid: int
    name: str
    ulps: float
    relative: float
    node_by_node: float


def _fields(kind: Any, found: Mapping[str, Any]) -> Any:
    """A tuple of this kind. JSON has infinities as text."""
    numbers = {"ulps", "added", "so_far", "bound", "condition", "relative", "node_by_node"}
    read = {key: float(value) if key in numbers else value for key, value in found.items()}
    return kind(**{key: read.get(key) for key in kind._fields})


class Numerics:
    """The errors of each node of a graph. Printed, it is a table; a notebook shows the picture."""

    def __init__(self, engine: str, text: str, table: str, svg: str, values: Sequence[tuple[int, bytes]] = ()) -> None:
        found = json.loads(text)
        #: The engine whose plan was measured.
        self.engine = engine
        #: The errors of each node.
        self.nodes: list[NodeErrors] = [_fields(NodeErrors, row) for row in found["rows"]]
        #: The errors of each result.
        self.results: list[ResultErrors] = [_fields(ResultErrors, result) for result in found["results"]]
        #: The decimal digits of the most precise result's type.
        self.digits: float = found["digits"]
        culprit = found["culprit"]
        #: The node that loses most digits, if one does.
        self.culprit: NodeErrors | None = None if culprit is None else self.nodes[culprit]
        self._json, self._table, self._svg = text, table, svg
        #: The bytes of each result, in double precision, by uid.
        self.values: dict[int, bytes] = dict(values)
        #: For a module: what it returns as the plan computes it, as NumPy arrays.
        self.outputs: list[Any] = []

    def to_json(self) -> str:
        """The errors as JSON, as ``hipdnn numerics --json`` writes them."""
        return self._json

    def table(self) -> str:
        """The errors as a table, with the reasons below it."""
        return self._table

    def svg(self) -> str:
        """The graph as an SVG picture, its nodes coloured by their share of the error."""
        return self._svg

    def __str__(self) -> str:
        return self._table

    def __repr__(self) -> str:
        return f"<Numerics of {len(self.nodes)} nodes: {self._table.strip().splitlines()[-1]}>"

    def _repr_svg_(self) -> str:
        return self._svg
