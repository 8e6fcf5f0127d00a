"""``torch.compile(model, backend="hipdnn")``: chains of operations become one graph each, other functions are routed one by one.

What PyTorch's tracer found is changed and then run as it is, so autograd, hooks and everything that is not known here are PyTorch's.
"""

from __future__ import annotations

import functools
import operator
import re
from typing import Any, Callable, NamedTuple, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from .. import _native
from .counts import counts_of
from .fused import Chain, Norm, run
from .graphs import TYPES, Unsupported
from .route import HANDLERS, cast, check, factor, numbers

CONVOLUTIONS = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
PRODUCTS = (torch.matmul, torch.mm, operator.matmul, Tensor.matmul, Tensor.mm, Tensor.__matmul__)
SUMS = (operator.add, operator.iadd, torch.add, Tensor.add, Tensor.add_)


def _none(input: Any, inplace: bool = False) -> tuple[float, ...]:
    return ()


#: Activations: the method of a graph, and what finds its numbers among the arguments.
ACTIVATIONS: dict[Any, tuple[str, Callable[..., tuple[float, ...]]]] = {
    **dict.fromkeys((F.relu, torch.relu, Tensor.relu, torch.relu_, Tensor.relu_), ("relu", _none)),
    F.relu6: ("relu", lambda input, inplace=False: (0.0, 0.0, 6.0)),
    F.silu: ("swish", _none),
    **dict.fromkeys((torch.sigmoid, torch.sigmoid_, Tensor.sigmoid, Tensor.sigmoid_, F.sigmoid), ("sigmoid", _none)),
    **dict.fromkeys((torch.tanh, torch.tanh_, Tensor.tanh, Tensor.tanh_, F.tanh), ("tanh", _none)),
    F.leaky_relu: ("leaky_relu", lambda input, negative_slope=0.01, inplace=False: (float(negative_slope),)),
    F.elu: ("elu", lambda input, alpha=1.0, inplace=False: (float(alpha),)),
}


def _function(node: fx.Node) -> Any:
    """What a node calls; methods as functions of the class."""
    if node.op == "call_function":
        return node.target
    return getattr(Tensor, str(node.target), None) if node.op == "call_method" else None


def _shape(node: Any) -> Optional[tuple[int, ...]]:
    """The shape of a node's tensor; none where it is none that is computed here, or its shape is not known before."""
    value = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    if not isinstance(value, Tensor) or value.device.type not in ("cpu", "cuda") or value.dtype not in TYPES:
        return None
    return tuple(value.shape) if all(type(size) is int for size in value.shape) else None


class Part(NamedTuple):
    """The operands of a chain, as nodes or numbers of a traced graph."""

    nodes: list[fx.Node]
    window: Optional[tuple[tuple[int, ...], ...]]
    operands: dict[str, Any]
    norm: Optional[Norm]
    activation: tuple[str, tuple[float, ...]]


def _conv(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> tuple[dict[str, Any], Any]:
    rank = len(_shape(weight) or ()) - 2
    if isinstance(padding, str) or len(_shape(input) or ()) != rank + 2:
        raise Unsupported("another form of convolution")
    return {"x": input, "w": weight, "bias": bias}, tuple(tuple(numbers(v, rank)) for v in (stride, padding, dilation))


def _linear(input: Any, weight: Any, bias: Any = None) -> tuple[dict[str, Any], Any]:
    return {"x": input, "w": weight, "bias": bias}, None


def _batch_norm(
    input: Any, mean: Any, var: Any, scale: Any = None, shift: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> tuple[dict[str, Any], Norm]:  # fmt: skip
    return {"mean": mean, "var": var, "scale": scale, "shift": shift}, Norm(bool(training), float(momentum), float(eps))


def _call_of(node: fx.Node) -> tuple[Any, dict[str, Any]]:
    """The arguments of a node, of any type."""
    return node.args, dict(node.kwargs)


def _anchor(node: fx.Node) -> Optional[tuple[dict[str, Any], Any]]:
    """The operands of a convolution or product that a chain may begin with."""
    function = _function(node)
    try:
        if function in CONVOLUTIONS:
            args, kwargs = _call_of(node)
            return _conv(*args, **kwargs)
        if function is F.linear:
            args, kwargs = _call_of(node)
            of = _linear(*args, **kwargs)
            return of if len(_shape(of[0]["w"]) or ()) == 2 else None
        if function in PRODUCTS and len(node.args) == 2 and len(_shape(node.args[1]) or ()) == 2:
            return {"x": node.args[0], "columns": node.args[1], "bias": None}, None
    except (Unsupported, TypeError):
        pass
    return None


def _follow(anchor: fx.Node) -> Optional[Part]:
    """The chain that begins at a node, if there is one of several operations."""
    begun = _anchor(anchor)
    if begun is None or _shape(anchor) is None:
        return None
    operands, window = begun
    nodes, norm = [anchor], None
    activation: tuple[str, tuple[float, ...]] = ("", ())
    here = anchor
    while len(here.users) == 1 and not activation[0]:
        node = next(iter(here.users))
        function = _function(node)
        if _shape(node) != _shape(anchor) or node.all_input_nodes.count(here) != 1 or not node.args:
            break
        others = [arg for arg in node.args if arg is not here]
        if function is F.batch_norm and node.args[0] is here and window is not None and norm is None:
            if "residual" in operands:
                break
            args, kwargs = _call_of(node)
            found, norm = _batch_norm(*args, **kwargs)
            operands.update(found)
        elif function in SUMS and len(node.args) == 2 and len(others) == 1 and not node.kwargs:
            in_place = function in (operator.iadd, Tensor.add_)
            if in_place and node.args[0] is not here:
                break
            if _shape(others[0]) == _shape(here) and "residual" not in operands:
                operands["residual"] = others[0]
            elif window is None and _shape(others[0]) == _shape(here)[-1:] and operands["bias"] is None:  # type: ignore[index]
                if "residual" in operands:
                    break
                operands["bias"] = others[0]
            else:
                break
        elif node.args[0] is here and (function in ACTIVATIONS or function is F.gelu):
            if function is F.gelu:
                tanh = node.kwargs.get("approximate") == "tanh" or "tanh" in node.args
                activation = "gelu_approx_tanh" if tanh else "gelu", ()
            else:
                method, read = ACTIVATIONS[function]
                activation = method, read(*node.args, **node.kwargs)
        else:
            break
        nodes.append(node)
        here = node
    return Part(nodes, window, operands, norm, activation) if len(nodes) > 1 and not _disturbed(nodes) else None


def _disturbed(nodes: Sequence[fx.Node]) -> bool:
    """Whether something is changed in place between the nodes of a chain, which are all computed where the last one is."""
    node = nodes[0]
    while node is not nodes[-1]:
        node = node.next
        name = getattr(node.target, "__name__", str(node.target))
        changes = (
            name.endswith("_") and not name.endswith("__") or node.kwargs.get("inplace") or "out" in node.kwargs or node.args[1:2] == (True,)
            or (node.op == "call_function" and getattr(operator, name, None) is node.target and name.startswith("i"))
        )  # fmt: skip
        if changes and node not in nodes:
            of: Any = node.args[0] if node.args else None
            value = of.meta.get("example_value") if isinstance(of, fx.Node) else None
            # Counters of batches.
            if of is None or of.op != "placeholder" or value is None or value.is_floating_point():
                return True
    return False


def _place(node: fx.Node) -> tuple[str, int]:
    """The line of the program that a node comes from."""
    found = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return (found[-1][0], int(found[-1][1])) if found else ("compiled", 0)


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target)).strip("_")


class _Counted(torch.nn.Module):
    """What stands in a traced graph for nodes of it."""

    #: The nodes computed here, and in PyTorch.
    here: Callable[..., Any]
    there: Callable[..., Any]

    def __init__(self, nodes: Sequence[fx.Node]) -> None:
        super().__init__()
        self.function = "+".join(_name(node) for node in nodes)
        self.place = _place(nodes[-1])
        #: The counts that have what computed it: shapes and types do not change.
        self.noted: Optional[_native.Counts] = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        counts = counts_of(self.function, self.place)
        try:
            if counts is self.noted:
                result = self.here(*args, **kwargs)
            else:
                result, plans = _native.noting(functools.partial(self.here, *args, **kwargs))
                counts.ran(plans)
                self.noted = counts
        except (Unsupported, TypeError) as reason:
            counts.reasons[str(reason)] += 1
            return self.there(*args, **kwargs)
        counts.add()
        return result

    def extra_repr(self) -> str:
        return self.function


def _one(node: fx.Node, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """One function of a chain that no engine takes as a whole."""
    handler = HANDLERS.get(function)
    if handler is not None:
        counts = counts_of(_name(node), _place(node))
        try:
            result, plans = _native.noting(functools.partial(handler, *args, **kwargs))
            counts.add()
            counts.ran(plans)
            return result
        except (Unsupported, TypeError) as reason:
            counts.reasons[str(reason)] += 1
    return function(*args, **kwargs)


class RoutedCall(_Counted):
    """One function."""

    def __init__(self, node: fx.Node) -> None:
        super().__init__([node])
        self.there = _function(node)
        self.here = HANDLERS[self.there]


class FusedCall(_Counted):
    """A chain."""

    def __init__(self, part: Part) -> None:
        super().__init__(part.nodes)
        self.norm, self.names = part.norm, list(part.operands)
        self.chain = Chain(part.window, part.norm, *part.activation)
        self.calls = [(_function(node), node.args, node.kwargs, node) for node in part.nodes]
        self.operands = part.operands

    def here(self, *given: Any) -> Tensor:
        of = dict(zip(self.names, given))
        x, bias, residual = of["x"], of.get("bias"), of.get("residual")
        w = of["w"] if "w" in of else of["columns"].t()
        check(x, w, bias, residual, *(of.get(name) for name in ("scale", "shift", "mean", "var")))
        x, w, bias, residual = cast(x, w, bias, residual)
        stats: list[Any] = [None] * 4
        if self.norm is not None:
            channels = w.shape[0]
            wide = {"scale": 1, "shift": 0, "mean": 0, "var": 1}
            stats = [factor(of[name], x, channels, value) for name, value in wide.items()]
            if not self.norm.training:
                stats[3] = (stats[3] + self.norm.eps).rsqrt()
        y, *after = run(self.chain, [x, w, bias, *stats, residual])
        for name, new in zip(("mean", "var"), after):
            if of[name] is not None:
                of[name].copy_(new)
        return y

    def there(self, *given: Any) -> Any:
        values = {id(node): value for node, value in zip(self.operands.values(), given) if isinstance(node, fx.Node)}
        result = None
        for function, args, kwargs, node in self.calls:
            of = lambda a: values.get(id(a), a)  # noqa: E731
            result = _one(node, function, [of(a) for a in args], {key: of(value) for key, value in kwargs.items()})
            values[id(node)] = result
        return result


def fuse(traced: fx.GraphModule) -> fx.GraphModule:
    """Puts chains and functions that are known here in the place of their nodes."""
    graph = traced.graph
    taken: set[fx.Node] = set()
    for node in list(graph.nodes):
        if node in taken:
            continue
        part = _follow(node)
        if part is not None:
            call: _Counted = FusedCall(part)
            args, kwargs, last = tuple(part.operands.values()), {}, part.nodes[-1]
            taken.update(part.nodes)
        elif _function(node) in HANDLERS and _shape(node) is not None:
            call, args, kwargs, last = RoutedCall(node), node.args, node.kwargs, node
        else:
            continue
        name = f"hipdnn_{len(taken)}_{node.name}"
        traced.add_submodule(name, call)
        with graph.inserting_after(last):
            new = graph.call_module(name, args, kwargs)
        new.meta = dict(last.meta)
        last.replace_all_uses_with(new)
        for gone in reversed(part.nodes if part is not None else [last]):
            graph.erase_node(gone)
    graph.lint()
    traced.recompile()
    return traced


def backend(traced: fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    """The backend ``hipdnn`` of ``torch.compile``."""
    return fuse(traced).forward
