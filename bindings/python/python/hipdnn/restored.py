"""Graphs read from bytes, with the plan that was saved with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .device import HOST, Device, device_name
from .errors import ArrayError, UnsupportedError
from .library import computes_on, engine_device, library
from .phases import Phases
from .planning import Choice
from .tensor import Tensor


class Restored(Phases):
    """A graph that may be read from bytes; it is then executed and called like any other, but cannot be changed."""

    _saved: bytes | None = None
    _text: str = ""
    _specs_saved: Sequence[dict[str, Any]] = ()

    def deserialize(self, handle_: Any = None, pyobj: Any = None) -> None:
        """Reads a graph with its plan from the bytes of ``serialize`` into this graph, which must be empty.

        The bytes are the last argument; a handle before them exists for porting.
        """
        saved = handle_ if pyobj is None else pyobj
        if isinstance(saved, str):
            raise UnsupportedError("deserialize", "pyobj", "is a text, expected the bytes from serialize")
        if self._nodes:
            raise UnsupportedError(
                "deserialize", "graph", f"has {len(self._nodes)} operations, expected an empty graph"
            )
        self._restore(bytes(saved))

    def _restore(self, saved: bytes) -> None:
        native = library().graph_of(saved)
        text = native.json()
        graph = json.loads(text)
        self.name = graph.get("name") or ""
        written: set[int] = set()
        read: set[int] = set()
        for node in graph["nodes"]:
            for key, uid in uids_of(node):
                (written if is_output(node, key) else read).add(uid)
        self.tensors.clear()
        for of in graph["tensors"]:
            tensor = Tensor(
                self, of["uid"], name=of.get("name") or "", dim=of["dims"], stride=of["strides"],
                data_type=of["data_type"], is_virtual=bool(of.get("virtual")), value=of.get("value"),
                is_pass_by_value=bool(of.get("is_runtime_pass_by_value")),
            )  # fmt: skip
            tensor.producer = "saved" if tensor.uid in written else None
            self.tensors.append(tensor)
        of_uid = {tensor.uid: tensor for tensor in self.tensors}
        for tensor, of in zip(self.tensors, graph["tensors"]):
            tensor.ragged_offset = of_uid.get(of.get("ragged_offset_tensor_uid"))
            tensor.ragged_offset_multiplier = of.get("ragged_offset_multiplier") or 1
        read.update(
            of["ragged_offset_tensor_uid"] for of in graph["tensors"] if of.get("ragged_offset_tensor_uid") is not None
        )
        bound = [t for t in self.tensors if not t.is_virtual and t.value is None]
        self._outputs = [t for t in bound if t.uid in written]
        self._inputs = [t for t in bound if t.uid in read and t.uid not in written]
        self._text = text
        alignments = {of["uid"]: of.get("alignment", 16) for of in graph["tensors"]}
        specs = self._specs()
        for spec in specs:
            spec["alignment"] = min(spec["alignment"], alignments[spec["uid"]])
            spec["is_used"] = True
        self._specs_saved = specs
        plan = library().load(saved, specs, HOST)
        # The engine was chosen when it was saved: no other replaces it.
        vars(self).update(_saved=saved, _plan=plan, _choice=(plan.engine_id, ()))
        if plan.engine_id not in computes_on(HOST):
            self._device = engine_device(plan.engine_id)
            self._plan = self._make_plan()

    def _change(self) -> None:
        if self._saved is not None:
            raise TypeError("a saved graph cannot be changed")
        super()._change()

    def to_json(self, *, indent: int | None = None, aligned: bool = True) -> str:
        """The graph in hipDNN's JSON form."""
        if self._saved is None:
            return super().to_json(indent=indent, aligned=aligned)
        return json.dumps(json.loads(self._text), indent=indent)

    def validate(self) -> None:
        """Raises GraphError for an invalid graph, naming node and argument. Does not ask engines. Saved graphs were validated before."""
        if self._saved is None:
            super().validate()

    def _make_plan(
        self,
        aligned: bool = True,
        device: Device | None = None,
        choice: Choice | None = None,
        without: tuple[int, ...] | None = None,
    ) -> _native.Plan:
        if self._saved is None:
            return super()._make_plan(aligned, device, choice, without)
        device = device or self._device
        if not aligned:
            raise ArrayError("an array is less aligned than the saved plan expects")
        plan = library().load(self._saved, self._specs_saved, device)
        if plan.engine_id not in computes_on(device):
            name = self._engine_name(plan.engine_id)
            raise ArrayError(f"the plan was saved of {name}, which does not compute on {device_name(device)}")
        return plan


def uids_of(node: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The tensors of a node in JSON: their places and uids."""
    groups = [("", node), ("inputs", node.get("inputs") or {}), ("outputs", node.get("outputs") or {})]
    found = []
    for group, entries in groups:
        for key, value in entries.items():
            if "_tensor_uid" in key or key == "epsilon_uid":
                values = value if isinstance(value, list) else [value]
                found += [(f"{group}.{key}", uid) for uid in values if isinstance(uid, int)]
    return found


def is_output(node: Mapping[str, Any], key: str) -> bool:
    """Whether a node in JSON writes the tensor at a place."""
    if not key.startswith("."):
        return key.startswith("outputs.")
    return key in (".out_tensor_uid", ".y_tensor_uid", ".dx_tensor_uid", ".output_tensor_uids") or (
        key == ".index_tensor_uid" and node["type"] == "ResampleFwdAttributes"
    )
