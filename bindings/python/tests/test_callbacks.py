"""Reading arrays, keys and streams may run any Python code: an error or a right result, never a panic."""

from __future__ import annotations

import subprocess
import sys

import hipdnn
import numpy as np
import pytest

F32 = np.float32


class Interrupt(BaseException):
    """Like KeyboardInterrupt not an Exception, so nothing may replace it."""


class Array:
    """A DLPack array that does something first, each time it is read."""

    def __init__(self, array, act, at=("__dlpack__",)):
        self.array, self.act, self.at = array, act, at

    def __dlpack__(self, **options):
        if "__dlpack__" in self.at:
            self.act()
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        if "__dlpack_device__" in self.at:
            self.act()
        return (1, 0)


class Interface:
    """An array by `__cuda_array_interface__` or `__array_interface__` with any items."""

    def __init__(self, attribute, value):
        self.attribute, self.value = attribute, value

    def __getattr__(self, name):
        if name == self.attribute:
            return self.value() if callable(self.value) else self.value
        raise AttributeError(name)


class Index:
    """An integer that does something when its value is read."""

    def __init__(self, value, act):
        self.value, self.act = value, act

    def __index__(self):
        self.act()
        return self.value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self is other


@pytest.fixture
def graph():
    made = hipdnn.Graph()
    made.x = made.tensor([6], name="x")
    made.y = made.neg(made.x).set_output(True).set_name("y")
    return made


def changes(given, x):
    """Changes that a callback may make to the dictionary of an execution."""
    return {
        "grows": lambda: given.update({len(given) + 10: x}),
        "shrinks": lambda: given.pop(next(reversed(given)), None),
        "is emptied": given.clear,
        "has other keys": lambda: (given.clear(), given.update({n: x for n in range(50)})),
        "has other values": lambda: given.update(dict.fromkeys(list(given), None)),
    }


@pytest.mark.parametrize("at", ["__dlpack__", "__dlpack_device__"])
@pytest.mark.parametrize("what", list(changes({}, None)))
def test_the_dictionary_changes_while_arrays_are_asked(graph, what, at):
    x, y = np.arange(6, dtype=F32), np.zeros(6, F32)
    graph.build()
    for first in (True, False):
        given = {}
        array = Array(x, changes(given, x)[what], (at,))
        given.update({graph.x: array, graph.y: y} if first else {graph.y: y, graph.x: array})
        # The arrays given at the beginning are used.
        y[:] = 0
        graph.execute(given)
        np.testing.assert_array_equal(y, -x)


@pytest.mark.parametrize("what", list(changes({}, None)))
def test_the_dictionary_changes_while_keys_are_asked(graph, what):
    x, y = np.arange(6, dtype=F32), np.zeros(6, F32)
    graph.build()
    given = {}
    given.update({Index(graph.x.uid, changes(given, x)[what]): x, Index(graph.y.uid, changes(given, x)[what]): y})
    graph.execute(given)
    np.testing.assert_array_equal(y, -x)


def raising(error):
    def act():
        raise error

    return act


@pytest.mark.parametrize("error", [ValueError("mine"), TypeError("mine"), BufferError("mine"), AttributeError("mine")])
def test_errors_of_arrays_are_told(graph, error):
    y = np.zeros(6, F32)
    for at in ("__dlpack__", "__dlpack_device__"):
        with pytest.raises((hipdnn.ArrayError, type(error)), match="mine"):
            graph.execute({graph.x: Array(y, raising(error), (at,)), graph.y: y})
    with pytest.raises((hipdnn.ArrayError, type(error))):
        graph.execute({Index(graph.x.uid, raising(error)): y, graph.y: y})


@pytest.mark.parametrize("error", [Interrupt(), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_base_exceptions_are_passed_on(graph, error):
    x = np.zeros(6, F32)
    given = [
        {graph.x: Array(x, raising(error), ("__dlpack__",)), graph.y: x},
        {graph.x: Array(x, raising(error), ("__dlpack_device__",)), graph.y: x},
        {Index(graph.x.uid, raising(error)): x, graph.y: x},
        {graph.x: Interface("__cuda_array_interface__", raising(error)), graph.y: x},
    ]
    base = {"shape": (6,), "typestr": "<f4", "data": (1 << 20, False), "version": 3}
    for key, value in (("shape", (Index(6, raising(error)),)), ("data", (Index(1, raising(error)), False)),
                       ("shape", Sequence(raising(error)))):  # fmt: skip
        given.append({graph.x: Interface("__cuda_array_interface__", {**base, key: value}), graph.y: x})
    graph.build()
    for of in given:
        with pytest.raises(type(error)):
            graph.execute(of)
    np.testing.assert_array_equal(graph(np.ones(6, F32)), -np.ones(6, F32))


class Sequence:
    """A sequence that lies about its length, and does something when it is read."""

    def __init__(self, act, length=1 << 60):
        self.act, self.length = act, length

    def __len__(self):
        return self.length

    def __getitem__(self, at):
        self.act()
        return 1


INTERFACE = {"shape": (6,), "typestr": "<f4", "data": (1 << 20, False), "version": 3}


@pytest.mark.parametrize("attribute", ["__cuda_array_interface__"])
@pytest.mark.parametrize(
    "value, words",
    [
        (None, "is None, expected a dictionary"),
        ("text", "is 'text', expected a dictionary"),
        ({}, "has no data"),
        ({**INTERFACE, "data": None}, "has no data"),
        ({**INTERFACE, "data": 7}, "has the data 7, expected an address"),
        ({**INTERFACE, "data": (1, 2, 3)}, "expected an address"),
        ({**INTERFACE, "data": ("a", False)}, "expected an address"),
        ({**INTERFACE, "data": (-1, False)}, "expected an address"),
        ({**INTERFACE, "shape": None}, "has no shape"),
        ({**INTERFACE, "shape": 6}, "has the shape 6, expected a tuple of integers"),
        ({**INTERFACE, "shape": (1.5,)}, "expected a tuple of integers"),
        ({**INTERFACE, "shape": Sequence(lambda: None)}, "shape"),
        ({**INTERFACE, "shape": (1,) * 40}, "shape"),
        ({**INTERFACE, "shape": (1 << 70,)}, "expected a tuple of integers"),
        ({**INTERFACE, "typestr": 5}, "has the typestr 5, expected a text"),
        ({**INTERFACE, "typestr": "<c8"}, "not known"),
        ({**INTERFACE, "mask": 1}, "mask"),
    ],
)
def test_wrong_interfaces_are_told(graph, attribute, value, words):
    with pytest.raises(hipdnn.ArrayError) as told:
        graph.execute({graph.x: Interface(attribute, value), graph.y: np.zeros(6, F32)})
    assert words in str(told.value) and 'tensor "x"' in str(told.value)


def test_sequences_that_lie_about_their_length_are_read_in_part():
    for dims in (Sequence(lambda: None), Sequence(lambda: None, -1), iter(range(10**9))):
        with pytest.raises((hipdnn.Error, ValueError, TypeError, OverflowError)):
            hipdnn.DeviceArray(dims, [1], "float", (2, 0))


@pytest.mark.parametrize("answer", [None, 5, "ab", (1,), (1, 2, 3), ("a", 0), (1 << 40, 0), [1, 0]])
def test_wrong_devices_are_told(graph, answer):
    x = Array(np.zeros(6, F32), lambda: None)
    type_ = type("Wrong", (Array,), {"__dlpack_device__": lambda self: answer})
    with pytest.raises(hipdnn.ArrayError, match="__dlpack_device__ returned .*, expected kind and number"):
        graph.execute({graph.x: type_(x.array, x.act), graph.y: np.zeros(6, F32)})


def test_a_capsule_that_is_handed_on_meanwhile_is_kept(graph):
    """An array whose capsule another consumer takes and frees while the array is still being read."""
    x, y = np.arange(6, dtype=F32), np.zeros(6, F32)

    class HandsOn:
        def __init__(self):
            self.capsule, self.refused = x.__dlpack__(), 0

        def __dlpack__(self, **_):
            return self.capsule

        def __dlpack_device__(self):
            return (1, 0)

        def is_neg(self):
            try:
                np.from_dlpack(self)
            except (ValueError, BufferError):
                self.refused += 1
            return False

    array = HandsOn()
    graph.execute({graph.x: array, graph.y: y})
    np.testing.assert_array_equal(y, -x)
    gaps = np.arange(12, dtype=F32)[::2]
    array.capsule = gaps.__dlpack__()
    graph = hipdnn.Graph()
    a = graph.tensor([6], [2])
    b = graph.neg(a).set_output(True).set_stride([1])
    graph.execute({a: array, b: y})
    np.testing.assert_array_equal(y, -gaps)
    assert array.refused >= 1
    # Afterwards it is unchanged.
    np.testing.assert_array_equal(np.from_dlpack(array), gaps)


BUFFERS = """
import sys
import numpy as np
import hipdnn

graph = hipdnn.Graph()
a = graph.tensor([6]); b = graph.neg(a).set_output(True)
x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
log = []

class Buffer:
    def __init__(self, act):
        self.act = act
    def __buffer__(self, flags):
        self.act()
        return memoryview(x)
    def __release_buffer__(self, view):
        log.append("released")
        raise ValueError("too late")

class Interrupt(BaseException):
    pass

def interrupt():
    raise Interrupt

given = {}
for act in (given.clear, lambda: given.update({99: x}), lambda: graph.execute({a: x, b: y})):
    given.clear()
    given.update({a: Buffer(act), b: y})
    y[:] = 0
    graph.execute(given)
    assert (y == -x).all()
try:
    graph.execute({a: Buffer(interrupt), b: y})
except Interrupt:
    print("right", len(log))
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="buffers of Python code are new in Python 3.12")
def test_buffers_of_python_code():
    ended = subprocess.run([sys.executable, "-c", BUFFERS], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "right 3\n"), ended.stdout + ended.stderr


def test_executions_inside_of_executions(graph):
    x, y, z = np.arange(6, dtype=F32), np.zeros(6, F32), np.zeros(6, F32)
    array = Array(x, lambda: graph.execute({graph.x: x, graph.y: z}))
    graph.execute({graph.x: array, graph.y: y})
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(z, -x)


def test_the_graph_changes_while_arrays_are_asked(graph):
    x, y = np.arange(6, dtype=F32), np.zeros(6, F32)

    def change():
        graph.x.set_dim([3])
        graph.y.set_dim([3])
        graph.build()

    graph.build()
    graph.execute({graph.x: Array(x, change), graph.y: y})
    np.testing.assert_array_equal(y, -x)


@pytest.mark.parametrize(
    "stream",
    [None, "text", 1.5, True, -1, 1 << 64, (0, 1)]
    + [type("Stream", (), {"__cuda_stream__": lambda self, of=of: of})() for of in (None, 5, (0,), (0, None), (0, -1))]
    + [type("Stream", (), {"cuda_stream": of})() for of in (None, "a", -5)],
)
def test_wrong_streams_are_told(stream):
    handle = hipdnn.create_handle()
    with pytest.raises(hipdnn.ArgumentError, match="stream: is .*, expected an address"):
        hipdnn.set_stream(handle, stream)
    assert hipdnn.get_stream(handle) == 0


def test_errors_of_streams_are_passed_on():
    class Stream:
        def __cuda_stream__(self):
            raise Interrupt

    with pytest.raises(Interrupt):
        hipdnn.set_stream(hipdnn.create_handle(), Stream())


@pytest.mark.parametrize("handle", [None, 0, "handle", object()])
def test_wrong_handles_are_told(handle):
    for call in (lambda: hipdnn.set_stream(handle=handle, stream=0), lambda: hipdnn.get_stream(handle)):
        with pytest.raises(hipdnn.ArgumentError, match="handle: is .*, expected a handle from create_handle"):
            call()


class Key:
    """A key with any hash and equality."""

    def __init__(self, act):
        self.act = act

    def __hash__(self):
        return 5

    def __eq__(self, other):
        self.act()
        return True


def test_keys_that_compare_with_anything(graph):
    x, y = np.arange(6, dtype=F32), np.zeros(6, F32)
    key = Key(lambda: None)
    with pytest.raises(hipdnn.ArrayError, match="the key is .*, expected a tensor of the graph or its uid"):
        graph.execute({key: x, graph.y: y})
    for wrong in ("x", 1.5, b"x", (1,), 1 << 70):
        with pytest.raises(hipdnn.ArrayError, match="execute: the key is"):
            graph.execute({graph.x: x, graph.y: y, wrong: x})
    with pytest.raises((hipdnn.Error, TypeError)):
        graph.build(knobs={key: 1})
