"""Arrays of any kind, and unfit ones: a right result or an exception, never a crash."""

from __future__ import annotations

import array as standard

import hipdnn
import numpy as np
import pytest

F32 = np.float32


@pytest.fixture
def graph():
    graph = hipdnn.Graph()
    graph.x, graph.y = graph.tensor([2, 3], name="x"), graph.tensor([2, 3], name="y")
    graph.z = graph.add(graph.x, graph.y).set_name("z").set_output(True)
    return graph


def arrays(graph, **other):
    """An array for each tensor, with some replaced."""
    usual = {"x": np.arange(6, dtype=F32).reshape(2, 3), "y": np.ones((2, 3), F32), "z": np.zeros((2, 3), F32)}
    return {getattr(graph, name): array for name, array in {**usual, **other}.items()}


def test_results_are_written_in_place(graph):
    z = np.full((2, 3), np.nan, F32)
    address = z.ctypes.data
    graph.execute(arrays(graph, z=z))
    assert z.ctypes.data == address
    np.testing.assert_array_equal(z, np.arange(1, 7, dtype=F32).reshape(2, 3))


def test_tensors_are_named_by_uid_as_well(graph):
    of = {tensor.uid: array for tensor, array in arrays(graph).items()}
    graph.execute(of)
    assert of[graph.z.uid][1, 2] == 6


class Versioned:
    """An array that has only DLPack."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.calls = array, versioned, []

    def __dlpack__(self, **options):
        self.calls.append(options)
        if not self.versioned and options:
            raise TypeError("no such argument")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_of_both_kinds(graph, versioned):
    x, z = Versioned(np.ones((2, 3), F32), versioned), np.zeros((2, 3), F32)
    graph.execute(arrays(graph, x=x, z=z))
    assert (z == 2).all() and x.calls


def test_what_has_the_buffer_protocol(graph):
    flat = hipdnn.Graph()
    x = flat.tensor([4])
    y = flat.neg(x).set_output(True)
    result = standard.array("f", [0, 0, 0, 0])
    flat.execute({x: standard.array("f", [1, 2, 3, 4]), y: memoryview(result)})
    assert list(result) == [-1, -2, -3, -4]
    # Arrays lent to an execution are released after it.
    result.append(5)


def test_dimensions_of_one_may_be_left_out(graph):
    with hipdnn.Graph() as wide:
        wide.add(wide.tensor([1, 3, 1, 1]), wide.tensor([1, 3, 1, 1]))
    np.testing.assert_array_equal(wide(np.ones(3, F32), np.ones((3, 1), F32)).ravel(), [2, 2, 2])


def test_memory_that_is_not_aligned(graph):
    room = np.zeros(100, F32)
    x = room[1:7].reshape(2, 3)
    x[:] = 5
    z = room[51:57].reshape(2, 3)
    graph.execute(arrays(graph, x=x, z=z))
    assert (z == 6).all() and room[57] == 0 and room[50] == 0


def test_small_types_of_ml_dtypes():
    types = pytest.importorskip("ml_dtypes")
    for dtype in (types.bfloat16, types.float8_e4m3fn, types.float8_e5m2):
        x = np.arange(6).reshape(2, 3).astype(dtype)
        with hipdnn.Graph() as graph:
            graph.add(graph.tensor_like(x), graph.tensor_like(x))
        result = graph(x, x)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.astype(float), 2 * x.astype(float))


def big_endian():
    return np.ones((2, 3), ">f4")


def overlapping():
    return np.lib.stride_tricks.as_strided(np.ones(3, F32), (2, 3), (0, 4))


def read_only():
    array = np.zeros((2, 3), F32)
    array.flags.writeable = False
    return array


class Broken:
    """An object that claims to be an array."""

    def __dlpack__(self, **_):
        return 5


class Raising:
    def __dlpack__(self, **_):
        raise RuntimeError("gone")


class Liar:
    """An array with a broken interface."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = interface


@pytest.mark.parametrize(
    "name, wrong, words",
    [
        ("x", np.ones((3, 2), F32), "shape [3, 2], expected [2, 3]"),
        ("x", np.ones((2, 3), np.float64), "type double, expected float"),
        ("x", np.ones((2, 3), np.int16), "not known"),
        ("x", np.ones((2, 3), np.complex64), "not known"),
        ("x", np.ones((2, 3), F32).T.copy().T, "strides [1, 2] (in elements), expected [3, 1]"),
        ("x", np.ones((2, 3), F32)[:, ::-1], "strides [3, -1]"),
        ("x", np.ones((4, 3), F32)[::2], "strides [6, 1]"),
        (
            "x",
            np.frombuffer(bytes(30), np.dtype([("a", "f4"), ("b", "i1")]))["a"][:6].reshape(2, 3),
            "expected a multiple",
        ),
        ("x", big_endian(), "not known"),
        ("x", overlapping(), "strides [0, 1]"),
        ("z", read_only(), "read-only"),
        ("z", Versioned(np.ones((3, 2), F32)), "shape [3, 2]"),
        ("x", np.ones((1,) * 17, F32), "dimensions"),
        ("x", [[1.0, 2.0, 3.0]] * 2, "is not an array"),
        ("x", None, "is not an array"),
        ("x", 3.0, "is not an array"),
        ("x", "text", "is not an array"),
        ("x", b"bytes", "type uint8, expected float"),
        ("x", Broken(), "expected a capsule"),
        ("x", Raising(), "gone"),
        ("x", Liar(), "no data"),
        ("x", Liar(data=(4096, False), shape=(2, 3), typestr="<f4"), "CUDA driver"),
        ("x", Liar(data="x", shape=(2, 3), typestr="<f4"), ""),
    ],
)
def test_what_does_not_fit_is_told(graph, name, wrong, words):
    with pytest.raises((hipdnn.Error, TypeError, ValueError)) as told:
        graph.execute(arrays(graph, **{name: wrong}))
    assert words in str(told.value)
    # Nothing is left behind: the graph still works.
    of = arrays(graph)
    graph.execute(of)
    assert of[graph.z][0, 0] == 1


def test_arrays_that_are_missing_or_too_many(graph):
    of = arrays(graph)
    del of[graph.y]
    with pytest.raises(hipdnn.ArrayError, match='no array for tensor "y"'):
        graph.execute(of)
    with pytest.raises(hipdnn.ArrayError, match="takes no array"):
        graph.execute({**arrays(graph), 99: np.zeros(1, F32)})
    with pytest.raises(hipdnn.ArrayError, match="two arrays"):
        graph.execute({**arrays(graph), graph.x.uid: np.zeros((2, 3), F32)})
    with pytest.raises(hipdnn.ArrayError, match="the key is 'x', expected a tensor of the graph or its uid"):
        graph.execute({**arrays(graph), "x": np.zeros((2, 3), F32)})
    with pytest.raises(TypeError):
        graph.execute([1, 2, 3])


@pytest.mark.parametrize("engine", ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"])
def test_a_result_may_not_lie_over_an_operand(engine):
    x, w = (np.random.default_rng(seed).random((1, 64, 64), F32) for seed in range(2))
    graph = hipdnn.Graph()
    a, b = graph.tensor_like(x), graph.tensor_like(w)
    c = graph.matmul(a, b).set_output(True)
    graph.build(engine=engine)
    kept = x.copy()
    with pytest.raises(
        hipdnn.Error, match=f"tensor {c.uid}, which the graph writes, and tensor {a.uid}, which it reads"
    ):
        graph.execute({a: x, b: w, c: x})
    assert (x == kept).all()
    # Operands may be one array, and results may be interleaved row by row.
    rows = np.zeros((2, 64, 64), F32)
    graph.execute({a: x, b: x, c: rows[:1]})
    assert np.allclose(rows[0], x[0] @ x[0], rtol=1e-5)


def test_a_result_may_lie_where_each_element_comes_from():
    memory = np.arange(80, dtype=F32)
    graph = hipdnn.Graph()
    a = graph.tensor([64])
    b = graph.neg(a).set_output(True)
    with pytest.raises(hipdnn.Error, match="memory that overlaps"):
        graph.execute({a: memory[:64], b: memory[4:68]})
    graph.execute({a: memory[:64], b: memory[:64]})
    assert (memory[:64] == -np.arange(64, dtype=F32)).all() and memory[64] == 64
    two = hipdnn.Graph()
    a = two.tensor([64])
    b, c = two.neg(a).set_output(True), two.exp(a).set_output(True)
    one = np.zeros(64, F32)
    with pytest.raises(hipdnn.Error, match="which it writes, too"):
        two.execute({a: memory[:64], b: one, c: one})


def test_arrays_are_let_go(graph):
    import sys

    of = arrays(graph)
    before = [sys.getrefcount(array) for array in of.values()]
    for _ in range(1000):
        graph.execute(of)
    assert [sys.getrefcount(array) for array in of.values()] == before


def test_empty_tensors():
    graph = hipdnn.Graph()
    x = graph.tensor([0, 3])
    y = graph.neg(x).set_output(True)
    try:
        graph.execute({x: np.zeros((0, 3), F32), y: np.zeros((0, 3), F32)})
    except hipdnn.Error as error:
        assert str(error)
