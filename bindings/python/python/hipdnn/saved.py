"""Plans that were saved."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping

from . import _native
from .device import HOST, Device, DeviceLike, device_name, to_device
from .errors import ArrayError
from .graph import Graph
from .library import computes_on, engine_device, library
from .planning import Choice
from .tensor import Tensor

__all__ = ["SavedGraph", "load"]


class SavedGraph(Graph):
    """A graph that was saved with its plan: it is executed and called as any, and cannot be changed."""

    def __init__(self, saved: bytes) -> None:
        native = library().graph_of(saved)
        text = native.json()
        graph = json.loads(text)
        super().__init__(graph.get("name") or "")
        written: set[int] = set()
        read: set[int] = set()
        for node in graph["nodes"]:
            for key, uid in _uids(node):
                (written if _is_output(node, key) else read).add(uid)
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
        read.update(of["ragged_offset_tensor_uid"] for of in graph["tensors"] if of.get("ragged_offset_tensor_uid") is not None)
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
        self._saved = saved
        plan = library().load(saved, specs, HOST)
        # Its engine was chosen when it was saved: no other takes its place.
        vars(self).update(_plan=plan, _choice=(plan.engine_id, ()))
        if plan.engine_id not in computes_on(HOST):
            self._device = engine_device(plan.engine_id)
            self._plan = self._make_plan()

    def _change(self) -> None:
        if getattr(self, "_plan", None) is not None:
            raise TypeError("a saved graph cannot be changed")
        super()._change()

    def to_json(self, *, indent: int | None = None, aligned: bool = True) -> str:
        return json.dumps(json.loads(self._text), indent=indent)

    def validate(self) -> None:
        """Saved graphs were validated before."""

    def build(
        self, heur_modes: Any = None, *, engine: Any = None, knobs: Any = None, device: DeviceLike | None = None
    ) -> Graph:
        if engine is not None or knobs is not None:
            raise TypeError("the plan of a saved graph was made when it was saved")
        if device is not None:
            on = to_device(device)
            vars(self).update(_plan=self._make_plan(device=on), _device=on)
        return self

    def _make_plan(
        self,
        aligned: bool = True,
        device: Device | None = None,
        choice: Choice | None = None,
        without: tuple[int, ...] | None = None,
    ) -> _native.Plan:
        device = device or self._device
        if not aligned:
            raise ArrayError("an array begins where the saved plan does not expect it, at no multiple of its alignment")
        plan = library().load(self._saved, self._specs_saved, device)
        if plan.engine_id not in computes_on(device):
            name = self._engine_name(plan.engine_id)
            raise ArrayError(f"the plan was saved of {name}, which does not compute on {device_name(device)}")
        return plan


def _uids(node: Mapping[str, Any]) -> list[tuple[str, int]]:
    groups = [("", node), ("inputs", node.get("inputs") or {}), ("outputs", node.get("outputs") or {})]
    found = []
    for group, entries in groups:
        for key, value in entries.items():
            if "_tensor_uid" in key or key == "epsilon_uid":
                values = value if isinstance(value, list) else [value]
                found += [(f"{group}.{key}", uid) for uid in values if isinstance(uid, int)]
    return found


def _is_output(node: Mapping[str, Any], key: str) -> bool:
    if not key.startswith("."):
        return key.startswith("outputs.")
    return key in (".out_tensor_uid", ".y_tensor_uid", ".dx_tensor_uid") or (
        key == ".index_tensor_uid" and node["type"] == "ResampleFwdAttributes"
    )


def load(saved: bytes | str | os.PathLike[str]) -> SavedGraph:
    """A graph with its plan, from the bytes of ``Graph.save`` or the file that has them."""
    return SavedGraph(saved if isinstance(saved, bytes) else Path(saved).read_bytes())
