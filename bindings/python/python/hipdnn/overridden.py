"""Copies of graphs with other shapes for one execution, so that other threads can go on using the graph itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from .infer import strides_in_order
from .tensor import Tensor

Shapes = Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]
Made = TypeVar("Made")


def with_shapes(graph: Made, shapes: Shapes) -> Made:
    """A copy of a graph with other dimensions and strides, by uid. Virtual tensors with the same shape as one of these follow it."""
    old: Any = graph
    new: Any = object.__new__(type(old))
    vars(new).update(vars(old))
    known: dict[int, Any] = {id(old): new}
    for tensor in old.tensors:
        known[id(tensor)] = Tensor(new, tensor.uid)
    for tensor in old.tensors:
        twin = known[id(tensor)]
        vars(twin).update(vars(tensor), graph=new, ragged_offset=known.get(id(tensor.ragged_offset)))
        like = next((of for of in old.tensors if of.uid in shapes and of.dim == tensor.dim), None)
        if tensor.uid in shapes:
            dim, stride = shapes[tensor.uid]
            vars(twin).update(dim=dim, stride=stride)
        elif like is not None and old._is_virtual(tensor):
            dim = shapes[like.uid][0]
            vars(twin).update(dim=dim, stride=strides_in_order(dim, tensor.stride))
    lists = {name: [known[id(tensor)] for tensor in getattr(old, name)] for name in ("tensors", "_inputs", "_outputs")}
    handed_out = frozenset(known[id(tensor)] for tensor in old._handed_out)
    vars(new).update(lists, _handed_out=handed_out, _nodes=copy.deepcopy(old._nodes, known), _plan=None)
    return new
