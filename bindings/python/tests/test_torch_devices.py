"""What `hipdnn.torch` decides for GPUs, as far as that can be seen without one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
import torch.nn.functional as F  # noqa: E402

import hipdnn.torch  # noqa: E402
from hipdnn.errors import NoEngineError  # noqa: E402
from hipdnn.torch import devices, graphs  # noqa: E402

LAST = torch.channels_last


def allow_tf32(products, convolutions):
    """PyTorch's switches, which its own tests forbid to set by their names."""
    torch._C._set_cublas_allow_tf32(products)
    torch._C._set_cudnn_allow_tf32(convolutions)


@pytest.fixture(autouse=True)
def switches():
    yield
    allow_tf32(False, True)
    torch.use_deterministic_algorithms(False)


def test_settings_are_pytorchs_switches():
    for products in (False, True):
        for convolutions in (False, True):
            for exact in (False, True):
                allow_tf32(products, convolutions)
                torch.use_deterministic_algorithms(exact)
                assert devices.settings() == (products, convolutions, exact, False)
    with torch.backends.cudnn.flags(benchmark=True):
        assert devices.settings()[3]
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("high")
    assert devices.settings()[0]
    torch.set_float32_matmul_precision("highest")
    assert not devices.settings()[0]


def test_images_lie_alike():
    x, w = torch.randn(2, 16, 4, 4).to(memory_format=LAST), torch.randn(8, 16, 3, 3)
    one, scale = torch.randn(8, 16, 1, 1), torch.randn(1, 16, 1, 1)
    assert graphs._has_channels_last(x) and not graphs._has_channels_last(w) and not graphs._has_channels_last(one)
    assert graphs._alike([x, w, one, scale]) == {1: LAST}
    assert graphs._alike([x, w.to(memory_format=LAST), torch.randn(16)]) == {}
    assert graphs._strides(one, True) == (16, 1, 16, 16) and graphs._strides(one, False) == (16, 1, 1, 1)
    assert graphs._strides(w, True) == w.stride() and graphs._strides(x, True) == x.stride()
    copied = graphs._copied([x, w], {1: LAST})
    assert copied[0] is x and copied[1].is_contiguous(memory_format=LAST) and torch.equal(copied[1], w)


def test_what_begins_elsewhere_is_moved():
    room = torch.arange(100.0)
    apart = room[1:61].view(5, 12)[:, :8]
    assert apart.data_ptr() % 16 and apart.stride() == (12, 1)
    moved = graphs._moved(apart)
    assert moved.data_ptr() % 16 == 0 and moved.stride() == (12, 1) and torch.equal(moved, apart)
    assert graphs._moved(room) is room


class Engines:
    """A graph as the library sees it, with engines and knobs of its own."""

    def __init__(self, offered, knobs=()):
        self.offered, self.known = offered, knobs

    def offer(self):
        return self.offered, ""

    def knobs(self, engine):
        return [(knob, "", "0", "") for knob in self.known]


@pytest.fixture
def planned(monkeypatch):
    """What a graph is planned with where these engines are offered."""

    def plan(call, offered, knobs=(), switches=(False, False, False, False)):
        ids = {engine.name: engine.id for engine in hipdnn.engines()}
        native = Engines([ids[name] for name in offered], knobs)
        graph = hipdnn.Graph(io_data_type="half")
        call(graph)
        graph.validate()
        seen = {}
        monkeypatch.setattr(hipdnn.Graph, "_native_graph", lambda *_: native)
        monkeypatch.setattr(hipdnn.Graph, "build", lambda graph, **of: seen.update(of) or graph)
        monkeypatch.setattr(
            hipdnn.Graph, "_no_engine", lambda *_: NoEngineError("no", {name: f"{name} says no" for name in ids})
        )
        devices.build(graph, (2, 0), switches)
        names = {id: name for name, id in ids.items()}
        return names[seen["engine"]], seen["knobs"], seen["device"]

    return plan


def convolution(graph):
    graph.conv_fprop(graph.tensor([2, 8, 6, 6]), graph.tensor([8, 8, 3, 3]))


def product(graph):
    graph.matmul(graph.tensor([1, 8, 8]), graph.tensor([1, 8, 8]))


ALL = ["CPU_ENGINE", "MIOPEN_ENGINE", "NVRTC_ENGINE", "CUDNN_ENGINE", "CUBLASLT_ENGINE", "CPU_REFERENCE_ENGINE"]


def test_engines_of_the_gpu_are_taken(planned):
    assert planned(convolution, ALL) == ("CUDNN_ENGINE", {}, (2, 0))
    assert planned(lambda graph: graph.relu(graph.tensor([4])), ALL)[0] == "NVRTC_ENGINE"
    # Not even if the CPU's would copy.
    with pytest.raises(NoEngineError) as told:
        planned(product, ["CPU_ENGINE", "MIOPEN_ENGINE"])
    assert set(told.value.reasons) == {"CUDNN_ENGINE", "CUBLASLT_ENGINE", "NVRTC_ENGINE"}
    # A generated convolution computes element by element.
    with pytest.raises(NoEngineError):
        planned(convolution, ["NVRTC_ENGINE", "CPU_ENGINE"])


def test_the_cpu_computes_nothing_of_a_gpu_though_it_could(planned, monkeypatch):
    from hipdnn.library import _computes_on, computes_on

    monkeypatch.setenv("HIPDNN_CPU_FALLBACK", "1")
    _computes_on.cache_clear()
    ids = {engine.name: engine.id for engine in hipdnn.engines()}
    try:
        assert ids["CPU_ENGINE"] in computes_on((2, 0))
        with pytest.raises(NoEngineError):
            planned(product, ["CPU_ENGINE"])
    finally:
        _computes_on.cache_clear()


def test_knobs_are_pytorchs_switches(planned):
    of_cudnn = ("cudnn.engine", "cudnn.tf32", "cudnn.deterministic")
    assert planned(convolution, ALL, of_cudnn, (False, True, True, False))[1] == {"cudnn.tf32": 1, "cudnn.deterministic": 1}
    assert planned(convolution, ALL, of_cudnn, (True, False, False, False))[1] == {}
    timed = (*of_cudnn, "global.benchmarking")
    assert planned(convolution, ALL, timed, (False, False, False, True))[1] == {"global.benchmarking": 1}
    assert planned(product, ALL[4:], ("cublaslt.tf32",), (True, False, True, False))[1] == {"cublaslt.tf32": 1}
    assert planned(product, ALL[4:], ("cublaslt.tf32",), (False, True, True, False))[1] == {}


def test_one_device_at_a_time():
    hipdnn.torch.reset()
    with hipdnn.torch.enable():
        F.linear(torch.ones(2, 3), torch.ones(4, 3, device="meta"))
    assert "device meta" in hipdnn.torch.report()[0].reasons[0]


def test_fake_results_are_on_the_device():
    from torch._subclasses.fake_tensor import FakeTensorMode

    of = [2, 1], [1, 0], [1, 1]
    window = [2, 2], [2, 2], [0, 0], [0, 1]
    with FakeTensorMode(), torch.device("cuda"):
        rand = lambda *shape: torch.empty(shape, dtype=torch.float16)
        stat = lambda *shape: torch.empty(shape)
        x, w = rand(2, 8, 6, 5).to(memory_format=LAST), rand(16, 8, 3, 3).to(memory_format=LAST)
        y = torch.ops.hipdnn.conv(x, w, None, *of)
        q, scale = rand(2, 4, 6, 8), stat(8)
        o, stats = torch.ops.hipdnn.sdpa(q, q, q, None, None, True, 0.3, 0.0)
        results = {
            "conv": y,
            "conv_data": torch.ops.hipdnn.conv_data(y, w, x.shape, *of),
            "conv_weights": torch.ops.hipdnn.conv_weights(x, y, w.shape, *of),
            "linear": torch.ops.hipdnn.linear(rand(2, 3, 8), rand(16, 8), rand(16)),
            "matmul": torch.ops.hipdnn.matmul(rand(2, 3, 8), rand(1, 8, 16)),
            "layer_norm": torch.ops.hipdnn.layer_norm(rand(3, 8), scale, scale, 1e-5),
            "rms_norm": torch.ops.hipdnn.rms_norm(rand(3, 8), scale, 1e-5),
            "batch_norm": torch.ops.hipdnn.batch_norm(x, scale, scale, scale, scale, 0.1, 1e-5),
            "batch_norm_backward": torch.ops.hipdnn.batch_norm_backward(x, x, scale, scale, scale),
            "sdpa": (o, stats),
            "sdpa_backward": torch.ops.hipdnn.sdpa_backward(q, q, q, o, o, stats, None, None, True, 0.3, 0.0),
            "pointwise": torch.ops.hipdnn.pointwise(x, "gelu", []),
            "softmax": torch.ops.hipdnn.softmax(x, 1),
            "pool": torch.ops.hipdnn.pool(x, "maxpool", True, *window),
        }
    for name, found in results.items():
        for tensor in found if isinstance(found, (tuple, list)) else [found]:
            assert tensor.device.type == "cuda", name
    assert y.is_contiguous(memory_format=LAST) and results["conv_data"].is_contiguous(memory_format=LAST)
    # Statistics are of single precision.
    assert results["batch_norm"][1].dtype == stats.dtype == torch.float32
