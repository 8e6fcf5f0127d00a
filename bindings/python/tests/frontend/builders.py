"""A graph for each operation, by the frontend's names, with memory for its tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import hipdnn_frontend as hipdnn
import ml_dtypes
import numpy as np
from hipdnn_frontend import DataType, NormFwdPhase, Tensor

FLOAT = DataType.FLOAT
NUMPY: dict[DataType, Any] = {
    DataType.FLOAT: np.float32, DataType.DOUBLE: np.float64, DataType.HALF: np.float16, DataType.BFLOAT16: ml_dtypes.bfloat16,
    DataType.INT32: np.int32, DataType.INT64: np.int64, DataType.INT8: np.int8, DataType.UINT8: np.uint8,
    DataType.BOOLEAN: np.bool_, DataType.FP8_E4M3: ml_dtypes.float8_e4m3fn, DataType.FP8_E8M0: ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


class Built(NamedTuple):
    """A graph, the tensors that it reads and those that it writes."""

    graph: hipdnn.Graph
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


def float_graph(io: DataType = FLOAT) -> hipdnn.Graph:
    """A graph that computes in floats."""
    return hipdnn.Graph().set_io_data_type(io).set_intermediate_data_type(io).set_compute_data_type(FLOAT)


def number(value: float = 1e-5) -> Tensor:
    return Tensor().set_value(value)


def _tensors(**dims: list[int]) -> dict[str, Tensor]:
    return {name: Tensor.create(dim, FLOAT).set_name(name) for name, dim in dims.items()}


def _built(graph: hipdnn.Graph, inputs: dict[str, Tensor], **outputs: Tensor) -> Built:
    for output in outputs.values():
        output.set_output(True)
    return Built(graph, inputs, outputs)


def pointwise(mode: str = "ADD") -> Built:
    graph, of = float_graph(), _tensors(a=[2, 3, 4, 5], b=[2, 3, 4, 5])
    attributes = hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode[mode])
    return _built(graph, of, y=graph.pointwise(*of.values(), attributes))


def matmul() -> Built:
    graph, of = float_graph(), _tensors(a=[4, 3], b=[3, 5])
    return _built(graph, of, c=graph.matmul(of["a"], of["b"], hipdnn.MatmulAttributes()))


def conv_fprop(io: DataType = FLOAT) -> Built:
    graph, of = float_graph(io), _tensors(x=[2, 3, 6, 6], w=[4, 3, 3, 3])
    for tensor in of.values():
        tensor.set_data_type(io)
    attributes = hipdnn.ConvFpropAttributes().set_padding([1, 1]).set_stride([1, 1]).set_dilation([1, 1])
    return _built(graph, of, y=graph.conv_fprop(of["x"], of["w"], attributes))


def conv_dgrad() -> Built:
    graph, of = float_graph(), _tensors(dy=[2, 4, 6, 6], w=[4, 3, 3, 3])
    attributes = hipdnn.ConvDgradAttributes().set_padding([1, 1]).set_stride([1, 1]).set_dilation([1, 1])
    return _built(graph, of, dx=graph.conv_dgrad(of["dy"], of["w"], attributes).set_dim([2, 3, 6, 6]))


def conv_wgrad() -> Built:
    graph, of = float_graph(), _tensors(dy=[2, 4, 6, 6], x=[2, 3, 6, 6])
    attributes = hipdnn.ConvWgradAttributes().set_padding([1, 1]).set_stride([1, 1]).set_dilation([1, 1])
    return _built(graph, of, dw=graph.conv_wgrad(of["dy"], of["x"], attributes).set_dim([4, 3, 3, 3]))


def batchnorm() -> Built:
    graph, of = float_graph(), _tensors(x=[4, 3, 5, 5], scale=[1, 3, 1, 1], bias=[1, 3, 1, 1])
    made = graph.batchnorm(*of.values(), hipdnn.BatchnormAttributes().set_epsilon(number()))
    assert isinstance(made, tuple) and len(made) == 5 and made[3:] == (None, None)
    return _built(graph, of, y=made[0], mean=made[1], inv_variance=made[2])


def batchnorm_running() -> Built:
    graph, of = float_graph(), _tensors(x=[4, 3, 5, 5], scale=[1, 3, 1, 1], bias=[1, 3, 1, 1])
    running = _tensors(running_mean=[1, 3, 1, 1], running_variance=[1, 3, 1, 1])
    attributes = hipdnn.BatchnormAttributes().set_epsilon(number())
    attributes.set_previous_running_stats(*running.values(), number(0.25))
    names = ("y", "mean", "inv_variance", "next_mean", "next_variance")
    return _built(graph, {**of, **running}, **dict(zip(names, graph.batchnorm(*of.values(), attributes))))


def batchnorm_backward() -> Built:
    graph, of = float_graph(), _tensors(dy=[4, 3, 5, 5], x=[4, 3, 5, 5], scale=[1, 3, 1, 1])
    made = graph.batchnorm_backward(*of.values(), hipdnn.BatchnormBackwardAttributes())
    return _built(graph, of, **dict(zip(("dx", "dscale", "dbias"), made)))


def batchnorm_inference() -> Built:
    graph = float_graph()
    of = _tensors(x=[4, 3, 5, 5], **dict.fromkeys(("mean", "inv_variance", "scale", "bias"), [1, 3, 1, 1]))
    return _built(graph, of, y=graph.batchnorm_inference(*of.values(), hipdnn.BatchnormInferenceAttributes()))


def batchnorm_inference_variance_ext() -> Built:
    graph = float_graph()
    of = _tensors(x=[4, 3, 5, 5], **dict.fromkeys(("mean", "variance", "scale", "bias"), [1, 3, 1, 1]))
    attributes = hipdnn.BatchnormInferenceAttributesVarianceExt()
    return _built(graph, of, y=graph.batchnorm_inference_variance_ext(*of.values(), number(), attributes))


def layernorm() -> Built:
    """Scale and bias of the normalized dimensions alone."""
    graph, of = float_graph(), _tensors(x=[2, 6, 4], scale=[6, 4], bias=[6, 4])
    attributes = hipdnn.LayernormAttributes().set_epsilon(number()).set_forward_phase(NormFwdPhase.INFERENCE)
    made = graph.layernorm(*of.values(), attributes)
    assert isinstance(made, tuple) and made[1:] == (None, None)
    return _built(graph, of, y=made[0])


def layernorm_training() -> Built:
    graph, of = float_graph(), _tensors(x=[5, 6, 4], scale=[1, 1, 4], bias=[1, 1, 4])
    attributes = hipdnn.LayernormAttributes().set_epsilon(number()).set_forward_phase(NormFwdPhase.TRAINING)
    return _built(graph, of, **dict(zip(("y", "mean", "inv_variance"), graph.layernorm(*of.values(), attributes))))


def layernorm_backward() -> Built:
    graph, of = float_graph(), _tensors(dy=[5, 6, 4], x=[5, 6, 4], scale=[1, 6, 4])
    saved = _tensors(mean=[5, 1, 1], inv_variance=[5, 1, 1])
    attributes = hipdnn.LayernormBackwardAttributes().set_mean(saved["mean"]).set_inv_variance(saved["inv_variance"])
    made = graph.layernorm_backward(*of.values(), attributes.set_epsilon(number()))
    return _built(graph, {**of, **saved}, **dict(zip(("dx", "dscale", "dbias"), made)))


def rmsnorm() -> Built:
    graph, of = float_graph(), _tensors(x=[2, 8, 3, 3], scale=[1, 8, 3, 3])
    attributes = hipdnn.RMSNormAttributes().set_epsilon(number()).set_forward_phase(NormFwdPhase.TRAINING)
    return _built(graph, of, **dict(zip(("y", "inv_rms"), graph.rmsnorm(*of.values(), attributes))))


def rmsnorm_backward() -> Built:
    graph, of = float_graph(), _tensors(dy=[2, 8, 3, 3], x=[2, 8, 3, 3], scale=[1, 8, 3, 3], inv_rms=[2, 1, 1, 1])
    dx, dscale, dbias = graph.rmsnorm_backward(*of.values(), hipdnn.RMSNormBackwardAttributes())
    assert dbias is None
    return _built(graph, of, dx=dx, dscale=dscale)


def block_scale_quantize() -> Built:
    graph, of = float_graph(), _tensors(x=[2, 8, 4, 64])
    made = graph.block_scale_quantize(of["x"], hipdnn.BlockScaleQuantizeAttributes().set_block_size(32))
    y, scale = made[0].set_data_type(DataType.FP8_E4M3), made[1].set_data_type(DataType.FP8_E8M0)
    return _built(graph, of, y=y, scale=scale)


def block_scale_dequantize() -> Built:
    """The result stays virtual: alone, no output is marked."""
    graph, of = float_graph(), _tensors(x=[2, 8, 4, 64], scale=[2, 8, 4, 2])
    of["x"].set_data_type(DataType.FP8_E4M3)
    of["scale"].set_data_type(DataType.FP8_E8M0)
    y = graph.block_scale_dequantize(of["x"], of["scale"], hipdnn.BlockScaleDequantizeAttributes().set_block_size([32]))
    return Built(graph, of, {"y": y})


def reduction(given: bool = False) -> Built:
    graph, of = float_graph(), _tensors(x=[4, 8])
    attributes = hipdnn.ReductionAttributes().set_mode(hipdnn.ReductionMode.ADD)
    if given:
        y = Tensor.create([1, 8], FLOAT)
        assert graph.reduction(of["x"], y, attributes) is y
        return _built(graph, of, y=y)
    return _built(graph, of, y=graph.reduction(of["x"], attributes).set_dim([1, 8]).set_stride([8, 1]))


def reduction_given() -> Built:
    return reduction(True)


def moe_grouped_matmul() -> Built:
    graph, of = float_graph(), _tensors(token=[1, 8, 16], weight=[2, 16, 32])
    offsets = Tensor.create([2, 1, 1], DataType.INT32).set_name("first_token_offset")
    attributes = hipdnn.MoeGroupedMatmulAttributes().set_mode(hipdnn.MoeGroupedMatmulMode.NONE)
    y = graph.moe_grouped_matmul(*of.values(), offsets, None, None, attributes)
    return _built(graph, {**of, "first_token_offset": offsets}, y=y)


def _pooling(attributes: Any, mode: str) -> Any:
    attributes.set_resample_mode(hipdnn.ResampleMode[mode]).set_padding_mode(hipdnn.PaddingMode.ZERO_PAD)
    return attributes.set_pre_padding([0, 0]).set_post_padding([0, 0]).set_stride([2, 2]).set_window([2, 2])


def resample_fwd() -> Built:
    graph, of = float_graph(), _tensors(x=[1, 3, 4, 4])
    return _built(graph, of, y=graph.resample_fwd(of["x"], _pooling(hipdnn.ResampleFwdAttributes(), "MAXPOOL")))


def resample_index() -> Built:
    graph, of = float_graph(), _tensors(x=[1, 3, 4, 4])
    attributes = _pooling(hipdnn.ResampleFwdAttributes(), "MAXPOOL").set_generate_index(True)
    y, index = graph.resample(of["x"], attributes)
    return _built(graph, of, y=y, index=index.set_data_type(DataType.INT32))


def resample_bwd() -> Built:
    graph, of = float_graph(), _tensors(dy=[1, 3, 2, 2])
    attributes = _pooling(hipdnn.ResampleBwdAttributes(), "AVGPOOL_EXCLUDE_PADDING")
    return _built(graph, of, dx=graph.resample_bwd(of["dy"], attributes))


def resample_bwd_index() -> Built:
    graph, of = float_graph(), _tensors(dy=[1, 3, 2, 2])
    index = Tensor.create([1, 3, 2, 2], DataType.INT32).set_name("index")
    attributes = _pooling(hipdnn.ResampleBwdAttributes(), "MAXPOOL")
    return _built(graph, {**of, "index": index}, dx=graph.resample_bwd(of["dy"], attributes, index=index))


def custom_op() -> Built:
    graph, of = float_graph(), _tensors(a=[4, 8], b=[4, 8])
    attributes = hipdnn.CustomOpAttributes().set_custom_op_id("example.identity").set_data([1, 2, 3])
    made = graph.custom_op(list(of.values()), 2, attributes)
    for tensor in made:
        tensor.set_dim([4, 8]).set_stride([8, 1]).set_data_type(FLOAT)
    return _built(graph, of, y=made[0], z=made[1])


def sdpa() -> Built:
    graph, of = float_graph(), _tensors(q=[2, 4, 6, 8], k=[2, 2, 5, 8], v=[2, 2, 5, 8])
    attributes = hipdnn.SdpaAttributes().set_generate_stats(True).set_attn_scale(0.5).set_causal_mask(True)
    o, stats = graph.sdpa(*of.values(), attributes)
    return _built(graph, of, o=o, stats=stats)


def sdpa_backward() -> Built:
    graph = float_graph()
    of = _tensors(q=[2, 4, 6, 8], k=[2, 4, 5, 8], v=[2, 4, 5, 8], o=[2, 4, 6, 8], do=[2, 4, 6, 8], stats=[2, 4, 6, 1])
    made = graph.sdpa_backward(*of.values(), hipdnn.SdpaBackwardAttributes().set_attn_scale(0.5))
    return _built(graph, of, **dict(zip(("dq", "dk", "dv"), made)))


ALL = {
    make.__name__: make
    for make in (
        pointwise, matmul, conv_fprop, conv_dgrad, conv_wgrad, batchnorm, batchnorm_running, batchnorm_backward,
        batchnorm_inference, batchnorm_inference_variance_ext, layernorm, layernorm_training, layernorm_backward, rmsnorm,
        rmsnorm_backward, block_scale_quantize, block_scale_dequantize, reduction, reduction_given, moe_grouped_matmul,
        resample_fwd, resample_index, resample_bwd, resample_bwd_index, custom_op, sdpa, sdpa_backward,
    )
}  # fmt: skip


def good(error: hipdnn.Error) -> None:
    """Fails with an error's message."""
    assert error.is_good(), error.get_message()


def plan(graph: hipdnn.Graph, policy: Any = hipdnn.BuildPlanPolicy.HEURISTICS_CHOICE) -> hipdnn.Handle:
    """Plans a graph; returns the handle."""
    handle = hipdnn.create_handle()
    good(graph.validate())
    good(graph.build_operation_graph(handle))
    good(graph.create_execution_plans())
    good(graph.check_support())
    good(graph.build_plans(policy))
    return handle


def values(built: Built, seed: int = 7) -> dict[str, np.ndarray]:
    """Values for a graph's inputs."""
    random = np.random.default_rng(seed)
    made = {}
    for name, tensor in built.inputs.items():
        value = random.uniform(0.25, 1.0, tensor.get_dim())
        if tensor.get_data_type() is DataType.INT32:
            value = np.zeros(tensor.get_dim())
        made[name] = value.astype(NUMPY[tensor.get_data_type()])
    if "first_token_offset" in made:
        made["first_token_offset"][:, 0, 0] = (0, 3)
    if "index" in made:
        # The first element of each window, by its place in the image.
        made["index"][:] = [[0, 2], [8, 10]]
    return made


def run(built: Built, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Plans and executes a graph with buffers; returns its results."""
    handle = plan(built.graph)
    tensors = {**built.inputs, **built.outputs}
    buffers = {}
    for name, tensor in tensors.items():
        kind = np.dtype(NUMPY[tensor.get_data_type()])
        buffers[name] = hipdnn.DeviceBuffer(tensor.get_volume() * kind.itemsize)
        if name in given:
            buffers[name].copy_from_host(given[name].tobytes())
    pack = {tensors[name].get_uid(): buffer.ptr() for name, buffer in buffers.items()}
    workspace = hipdnn.DeviceBuffer(built.graph.get_workspace_size())
    good(built.graph.execute(handle, pack, workspace.ptr()))
    found = {}
    for name, tensor in built.outputs.items():
        flat = np.frombuffer(buffers[name].copy_to_host(), NUMPY[tensor.get_data_type()])
        found[name] = flat.reshape(tensor.get_dim())
    return found
