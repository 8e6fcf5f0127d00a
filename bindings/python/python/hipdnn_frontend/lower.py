"""From the frontend's nodes to a graph of the package ``hipdnn``, which infers shapes, plans and executes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Callable

import hipdnn
from hipdnn.device import HOST, Device, first_gpu
from hipdnn.errors import GraphError
from hipdnn.infer import packed
from hipdnn.node import Node
from hipdnn.restored import is_output, uids_of

from .attributes import Attributes
from .tensor import VALUES, Tensor
from .types import DataType, MoeGroupedMatmulMode, NormFwdPhase, PaddingMode, PointwiseMode

__all__ = ["Lowered", "here", "lower"]

#: An operation's name, and its attributes with tensors set.
Step = tuple[str, Any]


def here() -> Device:
    """The device whose memory addresses point into: the first GPU, or the host without a GPU."""
    return first_gpu() or HOST


def to_type(of: DataType) -> hipdnn.data_type:
    """The package's type for one of the frontend."""
    return hipdnn.data_type[of.name]


def _member(kind: Any, of: Any, node: str, argument: str) -> Any:
    """The package's mode for one of the frontend."""
    if of.name not in kind.__members__:
        raise GraphError(node, argument, f"is {of.name}, expected one of {', '.join(kind.__members__)}")
    return kind[of.name]


class ReadNode(Node):
    """A node that was read from a text."""

    def __init__(self, read: dict[str, Any], inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        super().__init__(read["type"], read.get("name") or "", inputs, outputs)
        self._text = read

    def json(self, wanted: set[int]) -> dict[str, Any]:
        return self._text


class CustomNode(Node):
    """A node with any number of tensors."""

    def json(self, wanted: set[int]) -> dict[str, Any]:
        made: dict[str, Any] = {"type": self.kind, "name": self.name}
        if self.compute_data_type is not hipdnn.data_type.NOT_SET:
            made["compute_data_type"] = self.compute_data_type.value
        uids = [[tensor.uid for tensor in of.values() if tensor is not None] for of in (self.inputs, self.outputs)]
        made.update(self.rest, input_tensor_uids=uids[0], output_tensor_uids=uids[1])
        return made


class Lowered(hipdnn.Graph):
    """A graph with the tensors of the frontend's."""

    def __init__(self, name: str, types: Iterable[DataType]) -> None:
        io, intermediate, compute = (to_type(of) for of in types)
        super().__init__(name, io, intermediate, compute)
        self._device = here()
        #: This graph's tensor for one of the frontend.
        self.of: dict[Tensor, hipdnn.Tensor] = {}

    def take(self, tensor: Tensor | None, node: str, argument: str, rank: int = 0) -> hipdnn.Tensor:
        """This graph's tensor for an input. Ones go before the sizes until there are ``rank``."""
        if not isinstance(tensor, Tensor):
            raise GraphError(node, argument, f"is {tensor!r}, expected a tensor")
        known = self.of.get(tensor)
        return known if known is not None else self._input(tensor, rank)

    def _input(self, tensor: Tensor, rank: int) -> hipdnn.Tensor:
        label = f"tensor {tensor._name!r}"
        dim, stride = tuple(tensor._dim), tuple(tensor._stride)
        if not dim and not tensor._is_pass_by_value:
            raise GraphError(label, "dim", "has no sizes, expected set_dim before")
        dim, stride = dim or (1,), stride or packed(dim or (1,))
        if len(stride) != len(dim):
            raise GraphError(label, "stride", f"is {list(stride)}, expected {len(dim)} numbers as in {list(dim)}")
        before = (1,) * (rank - len(dim))
        outer = max((size * step for size, step in zip(dim, stride)), default=1)
        dim, stride = (*before, *dim), (*(outer for _ in before), *stride)
        is_number = tensor._is_pass_by_value and tensor._value is None
        made = self._new_tensor(
            name=tensor._name, dim=dim, stride=stride, data_type=to_type(tensor._data_type), is_virtual=tensor._is_virtual,
            # In host memory, a tensor of more than one element is like any other.
            is_pass_by_value=is_number and (self._device != HOST or tensor.get_volume() <= 1), value=tensor._value,
        )  # fmt: skip
        if tensor._value is not None:
            made.value_type = VALUES.get(tensor._data_type)
        self._bind(tensor, made)
        if tensor._ragged_offset is not None:
            made.set_ragged_offset(self.take(tensor._ragged_offset, label, "ragged_offset"))
        return made

    def _bind(self, tensor: Tensor, made: hipdnn.Tensor) -> None:
        self.of[tensor] = made
        if tensor._uid is not None:
            self._give_uid(made, tensor._uid)

    def make(self, tensor: Tensor | None, made: hipdnn.Tensor | None) -> None:
        """Names an operation's result as the program did, with the shape, strides and type that it set."""
        if tensor is None or made is None:
            return
        if tensor._name:
            made.set_name(tensor._name)
        if tensor._dim:
            made.set_dim(tensor._dim)
        if tensor._stride:
            made.set_stride(tensor._stride)
        if tensor._data_type is not DataType.NOT_SET:
            made.set_data_type(to_type(tensor._data_type))
        made.set_is_virtual(tensor._is_virtual)
        self._bind(tensor, made)

    def tell(self) -> None:
        """Tells the program's tensors what was inferred: numbers, shapes, strides and types."""
        types = self._types()
        for tensor, made in self.of.items():
            tensor._uid = made.uid
            tensor._dim = tensor._dim or list(made.dim or ())
            tensor._stride = tensor._stride or list(made.stride or ())
            if tensor._data_type is DataType.NOT_SET:
                tensor._data_type = DataType[hipdnn.data_type(self._data_type(made, types)).name]

    @classmethod
    def read(cls, text: str) -> Lowered:
        """The graph in a text of the library."""
        read = json.loads(text)
        keys = ("io_data_type", "intermediate_data_type", "compute_data_type")
        types = [DataType[hipdnn.data_type(read.get(key) or "unset").name] for key in keys]
        graph = cls(read.get("name") or "", types)
        of_uid: dict[int, hipdnn.Tensor] = {}
        for of in read["tensors"]:
            made = graph._new_tensor(
                name=of.get("name") or "", dim=of["dims"], stride=of["strides"], data_type=of.get("data_type") or "unset",
                is_virtual=bool(of.get("virtual")), is_pass_by_value=bool(of.get("is_runtime_pass_by_value")), value=of.get("value"),
            )  # fmt: skip
            made.value_type = of.get("value_type")
            graph._give_uid(made, of["uid"])
            of_uid[of["uid"]] = made
        for of in read["tensors"]:
            if of.get("ragged_offset_tensor_uid") is not None:
                made = of_uid[of["uid"]].set_ragged_offset(of_uid[of["ragged_offset_tensor_uid"]])
                made.set_ragged_offset_multiplier(of.get("ragged_offset_multiplier") or 1)
        for at, node in enumerate(read["nodes"]):
            inputs: dict[str, hipdnn.Tensor] = {}
            outputs: dict[str, hipdnn.Tensor] = {}
            for key, uid in uids_of(node):
                (outputs if is_output(node, key) else inputs)[f"{key} {uid}"] = of_uid[uid]
            graph._nodes.append(ReadNode(node, inputs, outputs))
            for made in outputs.values():
                made.producer = node.get("name") or f"node {at}"
        graph._change()
        graph.validate()
        return graph

    @property
    def _spec_of(self) -> dict[int, dict[str, Any]]:
        """What memory each tensor of the program needs, by its number."""
        if self._specs_here is None:
            self._specs_here = {spec["uid"]: spec for spec in self._specs()}
        return self._specs_here

    _specs_here: dict[int, dict[str, Any]] | None = None

    # Operations: each passes its tensors and settings on.

    def _shared(self, of: Attributes) -> dict[str, Any]:
        return {"name": of.name, "compute_data_type": to_type(of.compute_data_type)}

    def _convolve(self, method: Callable[..., Any], of: Any, first: str, second: str, result: str) -> None:
        window = {key: getattr(of, key) or None for key in ("pre_padding", "post_padding", "stride", "dilation")}
        mode = _member(hipdnn.convolution_mode, of.convolution_mode, of.name, "convolution_mode")
        tensors = (self.take(getattr(of, key), of.name, key) for key in (first, second))
        self.make(getattr(of, result), method(*tensors, convolution_mode=mode, **window, **self._shared(of)))

    def lower_conv_fprop(self, of: Any) -> None:
        self._convolve(self.conv_fprop, of, "x", "w", "y")

    def lower_conv_dgrad(self, of: Any) -> None:
        self._convolve(self.conv_dgrad, of, "dy", "w", "dx")

    def lower_conv_wgrad(self, of: Any) -> None:
        self._convolve(self.conv_wgrad, of, "x", "dy", "dw")

    def lower_matmul(self, of: Any) -> None:
        a, b = self.take(of.a, of.name, "a"), self.take(of.b, of.name, "b")
        self.make(of.c, self.matmul(a, b, **self._shared(of)))

    def lower_pointwise(self, of: Any) -> None:
        if of.mode is PointwiseMode.NOT_SET:
            raise GraphError(of.name or "pointwise", "mode", "is NOT_SET, expected set_mode before")
        word = {"MAX": "max_op", "MIN": "min_op"}.get(of.mode.name, of.mode.name.lower())
        given = {key: getattr(of, key) for key in ("input_0", "input_1", "input_2")}
        operands = {key: self.take(tensor, of.name, key) for key, tensor in given.items() if tensor is not None}
        keys = (
            "relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope", "swish_beta", "elu_alpha", "softplus_beta"
        )  # fmt: skip
        numbers = {key: getattr(of, key) for key in keys}
        kind = to_type(of.compute_data_type)
        made = self._pointwise("pointwise", word, operands, kind, of.name, axis_tensor_uid=of.axis, **numbers)
        self.make(of.output_0, made)

    def lower_reduction(self, of: Any) -> None:
        mode = _member(hipdnn.reduction_mode, of.mode, of.name or "reduction", "mode")
        self.make(of.y, self.reduction(self.take(of.x, of.name, "x"), mode, **self._shared(of)))
        self._nodes[-1].rest["is_deterministic"] = bool(of.is_deterministic)

    def _window_of(self, of: Any) -> dict[str, Any]:
        return {
            "pooling_mode": _member(hipdnn.resample_mode, of.resample_mode, of.name or "resample", "resample_mode"),
            "padding_mode": hipdnn.padding_mode.ZERO_PAD
            if of.padding_mode is PaddingMode.NOT_SET
            else _member(hipdnn.padding_mode, of.padding_mode, of.name or "resample", "padding_mode"),
            "window": of.window, "stride": of.stride, "pre_padding": of.pre_padding or None,
            "post_padding": of.post_padding or None,
        }  # fmt: skip

    def lower_resample(self, of: Any) -> None:
        x = self.take(of.x, of.name, "x")
        y, index = self.resample(x, generate_index=of.generate_index, **self._window_of(of), **self._shared(of))
        self.make(of.y, y)
        self.make(of.index, index)

    def lower_resample_bwd(self, of: Any) -> None:
        dy = self.take(of.dy, of.name, "dy")
        index = None if of.index is None else self.take(of.index, of.name, "index")
        self.make(of.dx, self.resample_backward(dy, index=index, **self._window_of(of), **self._shared(of)))

    def _some(self, of: Any, *keys: str, rank: int = 0) -> list[Any]:
        """Tensors that need not be given."""
        found = (getattr(of, key) for key in keys)
        return [None if tensor is None else self.take(tensor, of.name, keys[0], rank) for tensor in found]

    def lower_batchnorm(self, of: Any) -> None:
        x = self.take(of.x, of.name, "x")
        scale, bias = (self.take(getattr(of, key), of.name, key) for key in ("scale", "bias"))
        mean, variance = self._some(of, "prev_running_mean", "prev_running_variance")
        epsilon = self.take(of.epsilon, of.name, "epsilon")
        peers = [self.take(peer, of.name, "peer_stats") for peer in of.peer_stats]
        momentum: dict[str, Any] = (
            {} if of.momentum is None else {"momentum": self.take(of.momentum, of.name, "momentum")}
        )
        made = self.batchnorm(
            x, scale, bias, mean, variance, epsilon=epsilon, peer_stats=peers, **momentum, **self._shared(of)
        )  # fmt: skip
        for key, tensor in zip(("y", "mean", "inv_variance", "next_running_mean", "next_running_variance"), made):
            self.make(getattr(of, key), tensor)

    def lower_batchnorm_backward(self, of: Any) -> None:
        dy, x, scale = (self.take(getattr(of, key), of.name, key) for key in ("dy", "x", "scale"))
        mean, inv_variance = self._some(of, "mean", "inv_variance")
        peers = [self.take(peer, of.name, "peer_stats") for peer in of.peer_stats]
        made = self.batchnorm_backward(dy, x, scale, mean, inv_variance, peers, **self._shared(of))
        for key, tensor in zip(("dx", "dscale", "dbias"), made):
            self.make(getattr(of, key), tensor)

    def lower_batchnorm_inference(self, of: Any) -> None:
        keys = ("x", "mean", "inv_variance", "scale", "bias")
        x, mean, inv_variance, scale, bias = (self.take(getattr(of, key), of.name, key) for key in keys)
        self.make(of.y, self.batchnorm_inference(x, mean, inv_variance, scale, bias, **self._shared(of)))

    def lower_batchnorm_inference_variance_ext(self, of: Any) -> None:
        keys = ("x", "mean", "variance", "scale", "bias", "epsilon")
        x, mean, variance, scale, bias, epsilon = (self.take(getattr(of, key), of.name, key) for key in keys)
        made = self.batchnorm_inference_variance(x, mean, variance, scale, bias, epsilon, **self._shared(of))
        self.make(of.y, made)

    def _phase(self, of: Any) -> hipdnn.norm_forward_phase:
        if of.forward_phase is NormFwdPhase.NOT_SET:
            raise GraphError(of.name or "norm", "forward_phase", "is NOT_SET, expected INFERENCE or TRAINING")
        return hipdnn.norm_forward_phase[of.forward_phase.name]

    def lower_layernorm(self, of: Any) -> None:
        phase, x = self._phase(of), self.take(of.x, of.name, "x")
        rank = len(x.dim or ())
        scale, bias = (self.take(getattr(of, key), of.name, key, rank) for key in ("scale", "bias"))
        epsilon = self.take(of.epsilon, of.name, "epsilon")
        made = self.layernorm(phase, x, scale, bias, epsilon, **self._shared(of))
        self._count(of)
        for key, tensor in zip(("y", "mean", "inv_variance"), made):
            self.make(getattr(of, key), tensor)

    def _count(self, of: Any) -> None:
        """Sets the number of normalized dimensions, if the program did."""
        if of.normalized_dim_count is not None:
            self._nodes[-1].rest["normalized_dim_count"] = int(of.normalized_dim_count)

    def lower_layernorm_backward(self, of: Any) -> None:
        dy, x = self.take(of.dy, of.name, "dy"), self.take(of.x, of.name, "x")
        scale = self.take(of.scale, of.name, "scale", len(x.dim or ()))
        mean, inv_variance, epsilon = self._some(of, "mean", "inv_variance", "epsilon")
        made = self.layernorm_backward(dy, x, scale, mean, inv_variance, epsilon=epsilon, **self._shared(of))
        self._count(of)
        for key, tensor in zip(("dx", "dscale", "dbias"), made):
            self.make(getattr(of, key), tensor)

    def lower_rmsnorm(self, of: Any) -> None:
        phase, x = self._phase(of), self.take(of.x, of.name, "x")
        rank = len(x.dim or ())
        scale, epsilon = self.take(of.scale, of.name, "scale", rank), self.take(of.epsilon, of.name, "epsilon")
        (bias,) = self._some(of, "bias", rank=rank)
        made = self.rmsnorm(phase, x, scale, bias, epsilon, **self._shared(of))
        for key, tensor in zip(("y", "inv_rms"), made):
            self.make(getattr(of, key), tensor)

    def lower_rmsnorm_backward(self, of: Any) -> None:
        dy, x = self.take(of.dy, of.name, "dy"), self.take(of.x, of.name, "x")
        scale = self.take(of.scale, of.name, "scale", len(x.dim or ()))
        (inv_rms,) = self._some(of, "inv_rms")
        made = self.rmsnorm_backward(dy, x, scale, inv_rms, of.compute_dbias, **self._shared(of))
        for key, tensor in zip(("dx", "dscale", "dbias"), made):
            self.make(getattr(of, key), tensor)

    def lower_block_scale_quantize(self, of: Any) -> None:
        if of.block_size is None:
            raise GraphError(
                of.name or "block_scale_quantize", "block_size", "is not set, expected set_block_size before"
            )
        y, scale = self.block_scale_quantize(
            self.take(of.x, of.name, "x"), of.block_size, of.axis, of.transpose, data_type=None, scale_data_type=None,
            **self._shared(of),
        )  # fmt: skip
        self.make(of.y, y)
        self.make(of.scale, scale)

    def lower_block_scale_dequantize(self, of: Any) -> None:
        x, scale = self.take(of.x, of.name, "x"), self.take(of.scale, of.name, "scale")
        self.make(
            of.y, self.block_scale_dequantize(x, scale, of.block_size, of.is_negative_scale, **self._shared(of))
        )  # fmt: skip

    def lower_moe_grouped_matmul(self, of: Any) -> None:
        if of.mode is MoeGroupedMatmulMode.NOT_SET:
            raise GraphError(of.name or "moe_grouped_matmul", "mode", "is NOT_SET, expected set_mode before")
        mode = hipdnn.moe_grouped_matmul_mode[of.mode.name]
        keys = ("token", "weight", "first_token_offset")
        token, weight, first = (self.take(getattr(of, key), of.name, key) for key in keys)
        index, ks = self._some(of, "token_index", "token_ks")
        made = self.moe_grouped_matmul(token, weight, first, index, ks, mode, top_k=of.top_k, **self._shared(of))
        self.make(of.output, made)

    def lower_custom_op(self, of: Any) -> None:
        node = self._name("custom_op", of.name)
        inputs = {f"input {at}": self.take(tensor, node, f"inputs[{at}]") for at, tensor in enumerate(of.inputs)}
        outputs = {f"output {at}": self._output(node, f"output {at}", None) for at in range(len(of.outputs))}
        for made, tensor in zip(outputs.values(), of.outputs):
            self.make(tensor, made)
        rest: dict[str, Any] = {"custom_op_id": of.custom_op_id, "data": list(of.data) or None}
        kind = to_type(of.compute_data_type)
        self._change()
        self._nodes.append(CustomNode("CustomOpAttributes", node, inputs, outputs, compute_data_type=kind, **rest))

    def _attend(self, of: Any, node: str, tensors: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The inputs and settings that both directions of attention share."""
        inputs: dict[str, Any] = {key: self.take(getattr(of, key), node, key) for key in tensors.split()}
        self._heads(node, inputs["q"], inputs["k"], inputs["v"])
        named = {"attn_mask": "bias", "scale": "attn_scale"}
        for key in "attn_mask scale seq_len_q seq_len_kv seed offset dropout_mask dropout_scale".split():
            (inputs[key],) = self._some(of, named.get(key, key))
        flags = {key: bool(getattr(of, key)) for key in ("alibi_mask", "padding_mask", "causal_mask")}
        numbers = {
            key: getattr(of, key) for key in ("dropout_probability", "attn_scale_value", "left_bound", "right_bound")
        }
        return inputs, {
            **flags, "causal_mask_bottom_right": bool(of.causal_mask_bottom_right), **numbers,
            "diagonal_alignment": of.diagonal_alignment.name,
        }  # fmt: skip

    def lower_sdpa(self, of: Any) -> None:
        node = self._name("sdpa", of.name)
        inputs, settings = self._attend(of, node, "q k v")
        tables = "page_table_k page_table_v block_mask"
        scales = "sink_token descale_q descale_k descale_v descale_s scale_s scale_o"
        inputs.update(zip(tables.split(), self._some(of, *tables.split())))
        inputs.update({key: self.take(getattr(of, key), node, key) for key in scales.split() if getattr(of, key)})
        q, v = inputs["q"].dim, inputs["v"].dim
        outputs = {"o": self._output(node, "O", (*q[:3], v[3]), inputs["q"])}
        is_double = inputs["q"].data_type is hipdnn.data_type.DOUBLE
        for key in ("stats", "max", "sum_exp", "rng_dump", "amax_s", "amax_o"):
            if getattr(of, key) is not None:
                dim = (1,) * 4 if key.startswith("amax") else (*q[:3], 1)
                outputs[key] = self._output(node, key, dim, None, "double" if is_double else "float")
        settings.update(generate_stats=of.stats is not None, max_seq_len_kv=of.max_seq_len_kv)
        if of.mma_core_mode is not DataType.NOT_SET:
            settings["mma_core_mode"] = to_type(of.mma_core_mode).value
        settings["implementation"] = of.implementation.name
        kind = to_type(of.compute_data_type)
        self._add("SdpaAttributes", node, inputs, outputs, compute_data_type=kind, attributes=settings)
        for key, made in outputs.items():
            self.make(getattr(of, key), made)

    def lower_sdpa_backward(self, of: Any) -> None:
        node = self._name("sdpa_backward", of.name)
        inputs, settings = self._attend(of, node, "q k v o do stats")
        (inverse,) = self._some(of, "dropout_scale_inv")
        inputs.update({} if inverse is None else {"dropout_scale_inv": inverse})
        outputs = {f"d{key}": self._output(node, f"d{key}", inputs[key].dim, inputs[key]) for key in ("q", "k", "v")}
        if of.dbias is not None:
            bias = inputs["attn_mask"]
            outputs["dbias"] = self._output(node, "dbias", None if bias is None else bias.dim, bias)
        kind = to_type(of.compute_data_type)
        self._add("SdpaBackwardAttributes", node, inputs, outputs, compute_data_type=kind, parameters=settings)
        for key, made in outputs.items():
            self.make(getattr(of, key), made)


#: The names of results, by operation.
RESULTS = {
    "conv_fprop": "y", "conv_dgrad": "dx", "conv_wgrad": "dw", "matmul": "c", "pointwise": "output_0", "reduction": "y",
    "resample": "y index", "resample_bwd": "dx", "batchnorm": "y mean inv_variance next_running_mean next_running_variance",
    "batchnorm_backward": "dx dscale dbias", "batchnorm_inference": "y", "batchnorm_inference_variance_ext": "y",
    "layernorm": "y mean inv_variance", "layernorm_backward": "dx dscale dbias", "rmsnorm": "y inv_rms",
    "rmsnorm_backward": "dx dscale dbias", "block_scale_quantize": "y scale", "block_scale_dequantize": "y",
    "moe_grouped_matmul": "output", "custom_op": "outputs", "sdpa": "o stats max sum_exp rng_dump amax_s amax_o",
    "sdpa_backward": "dq dk dv dbias",
}  # fmt: skip


def results_of(step: Step) -> list[Tensor]:
    """The tensors that a node writes."""
    found: list[Tensor] = []
    for key in RESULTS[step[0]].split():
        value = getattr(step[1], key)
        found += value if isinstance(value, list) else [] if value is None else [value]
    return found


def inputs_of(step: Step) -> list[Tensor]:
    """The tensors that a node reads."""
    results = set(results_of(step))
    found: list[Tensor] = []
    for value in vars(step[1]).values():
        found += [tensor for tensor in (value if isinstance(value, list) else [value]) if isinstance(tensor, Tensor)]
    return [tensor for tensor in found if tensor not in results]


def in_order(steps: list[Step]) -> list[Step]:
    """Nodes after those whose results they read; raises GraphError if some read each other's."""
    left, ordered = list(steps), []
    waiting = {tensor for step in steps for tensor in results_of(step)}
    while left:
        ready = next((step for step in left if not waiting.intersection(inputs_of(step))), None)
        if ready is None:
            names = ", ".join(of.name or operation for operation, of in left)
            raise GraphError("graph", "nodes", f"{names} read each other's results, expected no cycle")
        left.remove(ready)
        ordered.append(ready)
        waiting.difference_update(results_of(ready))
    return ordered


def lower(name: str, types: Iterable[DataType], steps: list[Step]) -> Lowered:
    """The graph of some nodes, validated."""
    graph = Lowered(name, types)
    for operation, of in in_order(steps):
        getattr(graph, f"lower_{operation}")(of)
    graph.validate()
    graph.tell()
    return graph
