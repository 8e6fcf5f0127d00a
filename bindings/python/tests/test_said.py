"""What programs were not told, or told in other words than they needed."""

from __future__ import annotations

import subprocess
import sys
import warnings

import hipdnn
import numpy as np
import pytest


def negated(name: str = "x") -> tuple[hipdnn.Graph, hipdnn.Tensor, hipdnn.Tensor]:
    graph = hipdnn.Graph()
    x = graph.tensor([2, 3], name=name)
    return graph, x, graph.neg(x).set_output(True)


def test_autotune_without_arrays_names_them():
    graph, _, y = negated()
    for given in ({}, {y: np.empty((2, 3), np.float32)}):
        with pytest.raises(hipdnn.ArrayError, match="autotune: no array for tensor 'x'"):
            graph.autotune(given, progress=False)
    assert graph.tuned is None


def test_a_process_that_compiles_says_nothing_of_itself():
    graph, *_ = negated()
    with pytest.raises(hipdnn.NoEngineError) as error:
        graph.compile(["sm_9x"])
    assert "runpy" not in str(error.value) and "sm_9x" in str(error.value)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import array, hipdnn
graph = hipdnn.Graph()
x = graph.tensor([4])
y = graph.neg(x).set_output(True)
a, b = array.array("f", [1, 2, 3, 4]), array.array("f", [0] * 4)
graph.execute({x: a, y: b})
print(list(b))
try:
    graph(a)
except ModuleNotFoundError as error:
    print(error)
"""


def test_without_numpy_the_error_says_what_needs_it():
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], capture_output=True, text=True, timeout=120)
    computed, words = done.stdout.splitlines()
    assert computed == "[-1.0, -2.0, -3.0, -4.0]"
    assert words.startswith("NumPy, which makes new arrays for results, is not installed: pip install numpy"), done


def test_a_graph_of_the_host_is_not_told_of_libraries_for_gpus():
    graph = hipdnn.Graph()
    dy = graph.tensor([1, 4, 6, 6], data_type="int32", name="dy")
    w = graph.tensor([4, 3, 3, 3], data_type="int32", name="w")
    graph.conv_dgrad(dy, w).set_data_type("int32").set_output(True)
    with pytest.raises(hipdnn.NoEngineError) as error:
        graph.build(device="cpu")
    words = str(error.value)
    assert "CPU_ENGINE" in words and "lib" not in words.replace("library", "")
    others = {name: reason for name, reason in error.value.reasons.items() if not name.startswith("CPU_")}
    assert others and set(others.values()) == {"does not compute on cpu"}


torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")


def test_arrays_that_require_gradients():
    graph, x, y = negated()
    given, result = torch.ones(2, 3, requires_grad=True), torch.empty(2, 3)
    for call in (lambda: graph(given), lambda: graph.execute({x: given, y: result})):
        with pytest.raises(hipdnn.ArrayError, match='tensor "x": the array requires gradients.*detach'):
            call()
    with torch.no_grad():
        graph.execute({x: given, y: result})
    assert result.sum() == -6 and graph(given.detach()).sum() == -6
    # A description needs no memory.
    assert hipdnn.Graph().tensor_like(given).get_dim() == [2, 3]


def test_graphs_of_cudnn_take_arrays_as_memory():
    graph = hipdnn.pygraph(io_data_type=hipdnn.data_type.FLOAT)
    x = graph.tensor(dim=[2, 3], stride=[3, 1])
    y = graph.neg(x).set_output(True)
    result = torch.empty(2, 3)
    graph.build([hipdnn.heur_mode.A])
    graph.execute({x: torch.ones(2, 3, requires_grad=True), y: result}, None)
    assert result.sum() == -6


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: torch.ones(2, 3, device="meta"), "on the meta device, expected one with memory"),
        (lambda: torch.ones(2, 3).to_sparse(), "layout is torch.sparse_coo, expected torch.strided"),
        (lambda: torch.ones(2, 3).to_sparse_csr(), "layout is torch.sparse_csr, expected torch.strided"),
    ],
    ids=["meta", "sparse", "csr"],
)
def test_arrays_without_memory(make, words):
    graph, x, y = negated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = make()
    for call in (lambda: graph.execute({x: array, y: torch.empty(2, 3)}), lambda: hipdnn.Graph().tensor_like(array)):
        with pytest.raises(hipdnn.ArrayError) as error:
            call()
        assert words in str(error.value) and "frame" not in str(error.value) and ".cpp" not in str(error.value)


def test_enable_is_a_decorator():
    import hipdnn.torch
    from hipdnn.torch.dispatch import is_enabled

    @hipdnn.torch.enable(timed=False)
    def compute(x):
        """What it computes."""
        assert is_enabled()
        return torch.nn.functional.gelu(x)

    assert not is_enabled() and compute.__doc__ == "What it computes."
    for _ in range(2):
        compute(torch.ones(2, 3))
        assert not is_enabled()
    with pytest.raises(ZeroDivisionError):
        hipdnn.torch.enable()(lambda: 1 / 0)()
    assert not is_enabled()

    def steps():
        yield 1

    with pytest.raises(TypeError, match="expected a function that is neither a coroutine nor a generator"):
        hipdnn.torch.enable()(steps)
    assert not is_enabled()
