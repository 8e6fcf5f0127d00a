"""Memory of executions, arrays with DLPack, errors, and times."""

from __future__ import annotations

import ctypes
import json
import math
import re
from typing import Any

import builders
import hipdnn_frontend as hipdnn
import numpy as np
import pytest
from builders import float_graph, good, plan
from hipdnn.device import HOST
from hipdnn_frontend import DataType, Tensor
from hipdnn_frontend.hipdnn_frontend_python import _get_data_ptr
from hipdnn_frontend.lower import here
from hipdnn_frontend.pack import _DLTensor


class Null:
    """Stands for a handle without an address."""

    def get(self) -> int:
        return 0


class Nothing:
    def __dlpack__(self, **_: Any) -> None:
        return None


class Pointed:
    def __init__(self, address: int = 4096, **fields: Any) -> None:
        self._address = address
        vars(self).update(fields)

    def data_ptr(self) -> int:
        return self._address


class Offset:
    """Exports one float behind an address, as DLPack's ``byte_offset`` says."""

    def __init__(self, address: int, offset: int, device_type: int = 1) -> None:
        self._shape = (ctypes.c_int64 * 1)(1)
        self._tensor = _DLTensor(address, device_type, 0, 1, 2, 32, 1, self._shape, None, offset)

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


def test_a_tensor_like_an_array() -> None:
    like = hipdnn.Graph.tensor_like
    made = like(np.zeros((2, 3, 4), np.float32), "x")
    assert (made.get_dim(), made.get_stride(), made.get_data_type()) == ([2, 3, 4], [12, 4, 1], DataType.FLOAT)
    assert made.get_name() == "x" and not made.has_uid() and made.get_is_pass_by_value()
    assert like(np.zeros((4, 6), np.float32)[:, ::2]).get_stride() == [6, 2]
    assert like(np.array(2.5, np.float32)).get_dim() == []
    for kind, of in {"float16": "HALF", "float64": "DOUBLE", "int8": "INT8", "int32": "INT32", "int64": "INT64",
                     "uint8": "UINT8", "bool": "BOOLEAN"}.items():  # fmt: skip
        assert like(np.zeros(1, kind)).get_data_type() is DataType[of]
    frozen = np.zeros(3, np.float32)
    frozen.setflags(write=False)
    assert like(frozen).get_dim() == [3] and _get_data_ptr(frozen) == frozen.ctypes.data
    assert Tensor().set_is_pass_by_value(True).get_is_pass_by_value()


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(ValueError, match="unsupported DLPack dtype"):
        hipdnn.Graph.tensor_like(np.zeros(2, np.uint16))
    with pytest.raises(TypeError, match="__dlpack__"):
        hipdnn.Graph.tensor_like(object())
    with pytest.raises(ValueError, match="valid DLPack capsule"):
        hipdnn.Graph.tensor_like(Nothing())


def test_addresses() -> None:
    host, scalar, buffer = np.zeros(4, np.float32), np.array(7, np.int64), hipdnn.DeviceBuffer(64)
    assert _get_data_ptr(Offset(host.ctypes.data, 8)) == host.ctypes.data + 8
    assert _get_data_ptr(1234) == 1234 and _get_data_ptr(np.uint64(4096)) == _get_data_ptr(Pointed()) == 4096
    assert _get_data_ptr(buffer) == buffer.ptr()
    # An array of one integer is memory, not an address.
    assert _get_data_ptr(scalar) == scalar.ctypes.data
    for wrong in (True, "0x10"):
        with pytest.raises(TypeError, match="expected"):
            _get_data_ptr(wrong)
    with pytest.raises(ValueError, match="valid DLPack capsule"):
        _get_data_ptr(Nothing())


class Copies:
    """Exports copies alone."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, *, copy: bool | None = None, **named: Any) -> Any:
        if copy is False:
            raise BufferError("only as a copy")
        return self._array.__dlpack__(**named)


class Old:
    """Exports as DLPack before 2023 said."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, stream: Any = None) -> Any:
        return self._array.__dlpack__()


class Fails:
    def __dlpack__(self, **_: Any) -> Any:
        raise RuntimeError("not today")


def test_how_arrays_are_exported() -> None:
    host = np.zeros((2, 3), np.float32)
    assert hipdnn.Graph.tensor_like(Old(host)).get_dim() == [2, 3] and _get_data_ptr(Old(host)) == host.ctypes.data
    # A copy would end before the execution; shape and type are those of the array.
    with pytest.raises(BufferError, match="only as a copy"):
        _get_data_ptr(Copies(host))
    assert hipdnn.Graph.tensor_like(Copies(host)).get_dim() == [2, 3]
    for call in (_get_data_ptr, hipdnn.Graph.tensor_like):
        with pytest.raises(RuntimeError, match="not today"):
            call(Fails())


class SaysCopy(Old):
    """Knows no ``copy``, and says that what it exports is one."""

    def __dlpack__(self, *, max_version: Any = None) -> Any:
        return self._array.__dlpack__(max_version=max_version, copy=True)


class CopiesUnsaid(Old):
    """Exports a copy, which ends with the capsule, and does not say so."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self._array.copy().__dlpack__()


def test_copies_are_not_the_arrays_memory() -> None:
    built = builders.pointwise()
    handle = plan(built.graph)
    memory = {t: np.ones(t.get_dim(), np.float32) for t in (*built.inputs.values(), *built.outputs.values())}
    for kind in (SaysCopy, CopiesUnsaid):
        with pytest.raises(ValueError, match="data pointer: .* exports a copy, expected the array's own memory"):
            _get_data_ptr(kind(np.zeros((2, 3), np.float32)))
        for tensor, array in memory.items():
            with pytest.raises(ValueError, match=rf"variant_pack\[{tensor.get_uid()}\]: .* a copy"):
                built.graph.execute(handle, {**memory, tensor: kind(array)})


def test_results_are_not_written_to_read_only_memory() -> None:
    built = builders.pointwise()
    handle = plan(built.graph)
    (a, b), (y,) = built.inputs.values(), built.outputs.values()
    memory = {tensor: np.ones(tensor.get_dim(), np.float32) for tensor in (a, b, y)}
    memory[a].setflags(write=False)
    good(built.graph.execute(handle, memory))
    assert (memory[y] == 2).all()
    memory[b][:] = 4
    memory[y].setflags(write=False)
    with pytest.raises(ValueError, match=rf"variant_pack\[{y.get_uid()}\]: is read-only, expected memory"):
        built.graph.execute(handle, memory)
    assert (memory[y] == 2).all()


@pytest.mark.skipif(here() != HOST, reason="there is a GPU")
def test_without_a_gpu_its_memory_is_the_hosts() -> None:
    built = builders.pointwise()
    handle = plan(built.graph)
    tensors = (*built.inputs.values(), *built.outputs.values())
    buffers = [hipdnn.DeviceBuffer(4 * tensor.get_volume()) for tensor in tensors]
    pack = {tensor: Offset(buffer.ptr(), 0, 10) for tensor, buffer in zip(tensors, buffers)}
    error, timing = built.graph.execute_timed_ext(handle, pack, Offset(buffers[0].ptr(), 0, 10))
    good(error)
    assert not timing.timed_out
    assert not hipdnn.Graph.tensor_like(Offset(buffers[0].ptr(), 0, 10)).get_is_pass_by_value()
    with pytest.raises(ValueError, match="device_type=2"):
        _get_data_ptr(Offset(buffers[0].ptr(), 0, 2))
    # Other memory of a device of ROCm is none of the host's, however it is told.
    at, size = buffers[0].ptr(), buffers[0].size()
    for address, is_inside in ((at, True), (at + size - 1, True), (at - 1, False), (1 << 46, False)):
        for array in (Offset(address, 0, 10), Pointed(address, device="rocm:0"), Pointed(address, device=(10, 0))):
            if is_inside:
                assert _get_data_ptr(array) == address
            else:
                with pytest.raises(ValueError, match="data pointer: unsupported .*, expected memory of the host"):
                    _get_data_ptr(array)
    assert _get_data_ptr(Pointed(device="somewhere")) == _get_data_ptr(Pointed(device="cpu")) == 4096
    freed = Offset(hipdnn.DeviceBuffer(1 << 26).ptr(), 0, 10)
    with pytest.raises(ValueError, match="device_type=10"):
        _get_data_ptr(freed)


def test_numbers_that_are_part_of_a_graph() -> None:
    for value, data_type, wanted, value_type in (
        (True, None, "BOOLEAN", "BoolValue"), (2**53 + 1, None, "INT64", "Int64Value"), (0.5, None, "FLOAT", "Float32Value"),
        (1e-5, DataType.DOUBLE, "DOUBLE", "Float64Value"), (-2, DataType.HALF, "HALF", "Float16Value"),
        (1.5, DataType.BFLOAT16, "BFLOAT16", "BFloat16Value"), (255, DataType.UINT8, "UINT8", "Float8Value"),
        (-(2**31), DataType.INT32, "INT32", "Int32Value"),
    ):  # fmt: skip
        made = Tensor().set_value(value, data_type)
        assert made.get_data_type() is DataType[wanted] and made.get_dim() == made.get_stride() == [1]
        graph = float_graph()
        x = Tensor.create([2], made.get_data_type())
        graph.pointwise(x, made, hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD)).set_output(True)
        good(graph.validate())
        text = graph.to_json()
        (told,) = (of for of in json.loads(text)["tensors"] if "value" in of)
        assert (told["value_type"], told["value"]) == (value_type, value) and isinstance(value, bool) is isinstance(
            told["value"], bool
        )
        again = hipdnn.Graph()
        good(again.from_json(text))
        assert again.to_json() == text and again.to_binary() == graph.to_binary()
    for value, kind in (("0.5", DataType.FLOAT), (70000, DataType.HALF), (1e39, DataType.FLOAT)):
        with pytest.raises(ValueError, match=re.escape(f"set_value(): value is {value!r}, expected a")):
            Tensor().set_value(value, kind)
    assert Tensor().set_data_type(DataType.HALF).set_value(0.5).get_data_type() is DataType.HALF
    scale = hipdnn.Graph.tensor_like(np.ones((1, 1), np.float32)).set_value(0.5)
    assert (scale.get_dim(), scale.get_data_type()) == ([1], DataType.FLOAT)
    for tensor, kind, words in (
        (Tensor(), DataType.FP8_E4M3, "is FP8_E4M3"),
        (Tensor.create([2], DataType.FLOAT), None, "2 elements"),
    ):
        with pytest.raises(ValueError, match=words):
            tensor.set_value(1, kind)


def test_numbers_of_a_type_alone_are_taken() -> None:
    for value, wanted in ((np.int32(3), DataType.INT64), (np.uint8(3), DataType.INT64), (np.bool_(True), DataType.BOOLEAN),
                          (np.float32(0.5), DataType.FLOAT), (np.array(3), DataType.INT64), (np.array(0.5), DataType.FLOAT)):  # fmt: skip
        made = Tensor().set_value(value)
        assert made.get_data_type() is wanted and made._value == value and type(made._value).__module__ == "builtins"
    for data_type, least, most in (
        (DataType.UINT8, 0, 255),
        (DataType.INT32, -(2**31), 2**31 - 1),
        (DataType.INT64, -(2**63), 2**63 - 1),
    ):
        for value in (least, most, np.int64(7), True, np.bool_(True)):
            assert Tensor().set_value(value, data_type)._value == value
        for value in (0.5, 1.0, np.float32(1), "1", least - 1, most + 1):
            words = re.escape(f"set_value(): value is {value!r}, expected an integer from {least} to {most}")
            with pytest.raises(ValueError, match=words):
                Tensor().set_value(value, data_type)
    for value in (True, False, np.bool_(True), 0, 1, np.int8(1)):
        assert Tensor().set_value(value, DataType.BOOLEAN)._value is bool(value)
    for value in (2, -1, 0.5, 1.0, "True"):
        with pytest.raises(ValueError, match="expected a bool, 0 or 1"):
            Tensor().set_value(value, DataType.BOOLEAN)


def test_keys_and_values_of_executions() -> None:
    built = builders.pointwise()
    handle = plan(built.graph)
    a, b, y = *built.inputs.values(), *built.outputs.values()
    one, two, sum = (np.full((2, 3, 4, 5), of, np.float32) for of in (1, 2, 0))
    good(built.graph.execute(handle, {a: one, b: two, y: sum}))
    assert (sum == 3).all()
    buffer = hipdnn.DeviceBuffer(two.nbytes)
    buffer.copy_from_host((two * 2).tobytes())
    good(
        built.graph.execute(
            handle, {a: one, b.get_uid(): buffer, np.int64(y.get_uid()): np.uint64(sum.ctypes.data)}, None
        )
    )
    assert (sum == 5).all()
    good(built.graph.execute_plan_at_index(handle, {a: one, b: one, y: sum}, 0, 0))
    assert (sum == 2).all()
    with pytest.raises(ValueError, match="has no uid"):
        built.graph.execute(handle, {Tensor(): one})
    with pytest.raises(TypeError, match="expected a tensor or its uid"):
        built.graph.execute(handle, {"a": one})


def test_memory_at_any_element() -> None:
    """Plans expect aligned memory; unaligned memory gets plans of its own."""
    built = builders.pointwise()
    handle = plan(built.graph)
    memory = [np.zeros(121, np.float32)[1:] for _ in range(3)]
    memory[0][:], memory[1][:] = 1, 2
    tensors = (*built.inputs.values(), *built.outputs.values())
    good(built.graph.execute(handle, {tensor.get_uid(): of.ctypes.data for tensor, of in zip(tensors, memory)}))
    assert (memory[2] == 3).all()


def test_a_number_of_the_host_comes_with_each_execution() -> None:
    scale = np.full((1, 1, 1, 1), 2.5, np.float32)
    graph, x = float_graph(), Tensor.create([2, 3, 4, 5], DataType.FLOAT)
    factor = graph.tensor_like(scale, "scale")
    y = graph.pointwise(x, factor, hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.MUL)).set_output(True)
    handle = plan(graph)
    assert '"is_runtime_pass_by_value": true' in graph.to_json() or '"is_runtime_pass_by_value":true' in graph.to_json()
    given, result = np.ones((2, 3, 4, 5), np.float32), np.empty((2, 3, 4, 5), np.float32)
    for value in (2.5, -7.0):
        scale[...] = value
        good(graph.execute(handle, {x: given, factor: scale, y: result}))
        assert (result == value).all()


def test_results_without_a_mark_are_written() -> None:
    """hipdnn_torch marks no result of a product, and gives it memory."""
    graph = hipdnn.Graph().set_io_data_type(DataType.HALF).set_compute_data_type(DataType.FLOAT)
    m, n, k = 16, 32, 48

    def tensor(dim: list[int], stride: list[int], uid: int) -> Tensor:
        return graph.tensor(Tensor().set_dim(dim).set_stride(stride).set_data_type(DataType.HALF).set_uid(uid))

    c = graph.matmul(tensor([m, k], [k, 1], 1), tensor([k, n], [1, k], 2), hipdnn.MatmulAttributes())
    c.set_dim([m, n]).set_stride([n, 1]).set_data_type(DataType.HALF).set_uid(3)
    handle = hipdnn.Handle()
    good(graph.build_operation_graph(handle))
    assert graph.get_ranked_engine_ids([hipdnn.HeuristicMode.FALLBACK])
    good(graph.create_execution_plans([hipdnn.HeuristicMode.FALLBACK]))
    good(graph.check_support())
    good(graph.build_plans())
    x, w = (np.random.default_rng(1).standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    y = np.empty((m, n), np.float16)
    good(graph.execute(handle, {1: x.ctypes.data, 2: w.ctypes.data, 3: y.ctypes.data}, 0))
    np.testing.assert_allclose(
        y.astype(np.float32), x.astype(np.float32) @ w.astype(np.float32).T, rtol=1e-2, atol=1e-2
    )


def test_a_bias_of_one_row_has_any_stride() -> None:
    graph = float_graph()
    a, b = Tensor.create([4, 3], DataType.FLOAT), Tensor.create([3, 5], DataType.FLOAT)
    between = graph.matmul(a, b, hipdnn.MatmulAttributes()).set_output(False)
    bias = Tensor().set_dim([1, 5]).set_stride([0, 1]).set_data_type(DataType.FLOAT)
    y = graph.pointwise(between, bias, hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD)).set_output(True)
    handle = plan(graph)
    given = [np.random.default_rng(at).random(shape, np.float32) for at, shape in enumerate(((4, 3), (3, 5), (1, 5)))]
    result = np.empty((4, 5), np.float32)
    good(graph.execute(handle, dict(zip((a, b, bias, y), (*given, result)))))
    np.testing.assert_allclose(result, given[0] @ given[1] + given[2], rtol=1e-5)


def test_executions_without_a_plan_handle_or_memory() -> None:
    graph = hipdnn.Graph()
    error, timing = graph.execute_timed_ext(Null(), {}, 0)
    assert error.is_bad() and "compiled execution plan" in error.get_message()
    assert timing.elapsed_ms is None and timing.quality is hipdnn.TimingQuality.INVALID
    built = builders.matmul()
    handle = plan(built.graph)
    assert built.graph.execute(Null(), {}).get_code() is hipdnn.ErrorCode.HANDLE_ERROR
    error = built.graph.execute(handle, {built.inputs["a"]: np.zeros((4, 3), np.float32)})
    assert error.is_bad() and '"b"' in error.get_message()
    assert built.graph.build_operation_graph(Null()).is_bad()
    null = built.graph.execute(handle, {tensor: 0 for tensor in (*built.inputs.values(), *built.outputs.values())})
    assert null.is_bad() and "address" in null.get_message()


def test_an_execution_is_timed() -> None:
    built = builders.matmul()
    handle = plan(built.graph)
    arrays = {
        tensor: np.ones(tensor.get_dim(), np.float32) for tensor in (*built.inputs.values(), *built.outputs.values())
    }
    error, timing = built.graph.execute_timed_ext(handle, arrays)
    good(error)
    assert (
        math.isfinite(timing.elapsed_ms)
        and timing.elapsed_ms >= 0
        and timing.quality is hipdnn.TimingQuality.UNSTALLED
        and not timing.timed_out
    )
    assert (arrays[built.outputs["c"]] == 3).all()
    for name in ("elapsed_ms", "quality", "timed_out"):
        with pytest.raises(AttributeError):
            setattr(timing, name, None)


@pytest.mark.parametrize(
    "shapes, words", [(([8, 16], [4, 4]), "broadcast"), (([], [8, 16]), "has no sizes")], ids=["shapes", "no sizes"]
)
def test_an_invalid_graph_is_an_error(shapes: tuple[list[int], list[int]], words: str) -> None:
    graph = float_graph()
    a, b = (Tensor.create(shape, DataType.FLOAT) if shape else Tensor() for shape in shapes)
    graph.pointwise(a, b, hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD)).set_output(True)
    error = graph.validate()
    assert error.is_bad() and words in error.get_message(), error
    for call in (graph.to_json, graph.to_binary):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_what_is_missing_or_twice_there_is_named() -> None:
    graph = float_graph()
    assert "no operation" in graph.validate().get_message()
    a, b = (Tensor.create([8, 16], DataType.FLOAT).set_uid(1) for _ in range(2))
    graph.pointwise(a, b, hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD)).set_output(True)
    assert "uid: is 1" in graph.validate().get_message()
    assert graph.checkNoDuplicateTensorIds().is_bad()
    for attributes, words in (
        (hipdnn.PointwiseAttributes(), "mode: is NOT_SET"), (hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.ADD), "")
    ):  # fmt: skip
        other = float_graph()
        other.pointwise(Tensor.create([2], DataType.FLOAT), None, attributes).set_output(True)
        assert words in other.validate().get_message() or not words
    with pytest.raises(RuntimeError, match="Failed to get ranked engine ids"):
        float_graph().get_ranked_engine_ids()
    wrong = float_graph()
    wrong.matmul(
        Tensor.create([4, 3], DataType.FLOAT), Tensor.create([5, 6], DataType.FLOAT), hipdnn.MatmulAttributes()
    )
    assert wrong.validate().get_code() is hipdnn.ErrorCode.INVALID_VALUE
    pooled = float_graph()
    attributes = hipdnn.ResampleFwdAttributes().set_resample_mode(hipdnn.ResampleMode.BILINEAR).set_window([2, 2])
    pooled.resample_fwd(Tensor.create([1, 1, 4, 4], DataType.FLOAT), attributes)
    assert "is BILINEAR, expected one of MAXPOOL" in pooled.validate().get_message()


def test_what_is_no_graph_is_not_read() -> None:
    graph = hipdnn.Graph()
    for method, form in (("from_json", "{"), ("from_json", '{"nodes": 3}'), ("from_binary", b"nothing")):
        error = getattr(graph, method)(form)
        assert error.get_code() is hipdnn.ErrorCode.UNSUPPORTED_GRAPH_FORMAT and error.get_message()
    for call in (graph.from_json, lambda: graph.from_json(data="{}"), lambda: graph.from_binary(b"", b"", data=b"")):
        with pytest.raises(TypeError, match="expected"):
            call()


def test_a_graph_is_read_with_a_handle() -> None:
    of = builders.matmul()
    handle = hipdnn.create_handle()
    good(of.graph.validate())
    for method, name, form in (
        ("from_json", "json_string", of.graph.to_json()),
        ("from_binary", "data", of.graph.to_binary()),
    ):
        for given, named in (((handle, form), {}), ((form,), {"handle": handle}), ((handle,), {name: form}),
                             ((), {"handle": handle, name: form})):  # fmt: skip
            graph = hipdnn.Graph()
            good(getattr(graph, method)(*given, **named))
            good(graph.create_execution_plans())
        graph = hipdnn.Graph()
        good(getattr(graph, method)(**{name: form}))
        assert "build_operation_graph" in graph.create_execution_plans().get_message()
        for given, named in (((handle, form), {"handle": handle}), ((form,), {name: form, "handle": handle}),
                             ((handle, form), {name: form}), ((), {"handle": handle}), ((handle, form, form), {})):  # fmt: skip
            with pytest.raises(TypeError, match=f"expected {name} once"):
                getattr(hipdnn.Graph(), method)(*given, **named)
    for kind in (bytearray, memoryview):
        good(hipdnn.Graph().from_binary(kind(of.graph.to_binary())))
    for wrong in (5, "text", handle):
        with pytest.raises(TypeError, match="data: is of type .*, expected bytes, bytearray or memoryview"):
            hipdnn.Graph().from_binary(wrong)


def test_a_graph_is_saved_with_its_plan() -> None:
    of = builders.matmul()
    good(of.graph.build_operation_graph(hipdnn.create_handle()))
    alone = of.graph.to_binary()
    handle = plan(of.graph)
    saved, json_form = of.graph.to_binary(), of.graph.to_json()
    assert len(saved) > len(alone) and saved[4:8] == b"HDGP"
    loaded, structure = hipdnn.Graph(), hipdnn.Graph()
    good(loaded.from_binary(handle, saved))
    assert loaded.get_execution_plan_engine_id() == of.graph.get_execution_plan_engine_id()
    assert loaded.to_json() == json_form and loaded.to_binary()[4:8] == b"HDGP"
    result = of.outputs["c"]
    tensors = (*of.inputs.values(), result)
    arrays = {tensor.get_uid(): np.full(tensor.get_dim(), 2, np.float32) for tensor in tensors}
    good(loaded.execute(handle, arrays))
    assert (arrays[result.get_uid()] == 12).all()
    good(structure.from_binary(saved))
    assert "build_plans()" in structure.execute(handle, arrays).get_message()
    good(loaded.from_binary(handle, alone))
    assert loaded.execute(handle, arrays).is_bad() and loaded.to_binary() == alone
    # What a graph gained later has no plan.
    of.graph.pointwise(result, hipdnn.PointwiseAttributes().set_mode(hipdnn.PointwiseMode.NEG)).set_output(True)
    assert of.graph.to_binary()[4:8] != b"HDGP"
    assert loaded.from_binary(handle, saved[:-1]).is_bad()


def test_a_graph_that_no_engine_computes() -> None:
    built = builders.custom_op()
    handle = hipdnn.create_handle()
    good(built.graph.validate())
    good(built.graph.build_operation_graph(handle))
    error = built.graph.create_execution_plans()
    assert error.get_code() is hipdnn.ErrorCode.GRAPH_NOT_SUPPORTED and "CPU_ENGINE" in error.get_message()
