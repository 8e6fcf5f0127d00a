"""Handles, engines, tensors, buffers and the package's names."""

from __future__ import annotations

import os
import subprocess
import sys

import hipdnn as package
import hipdnn_frontend as hipdnn
import numpy as np
import pytest
from hipdnn_frontend import DataType, Tensor
from hipdnn_frontend.graph import OWN_PLUGINS


@pytest.mark.parametrize("factory", [hipdnn.Handle, hipdnn.create_handle])
def test_a_handle_has_an_address_and_a_stream(factory: type) -> None:
    handle = factory()
    assert int(handle) == handle.get() != 0 and f"{int(handle):#x}" in repr(handle)
    assert factory(0).get_stream() == 0
    handle.set_stream(0)
    hipdnn.set_stream(handle, 0)
    assert hipdnn.get_stream(handle) == handle.get_stream() == 0


def test_a_destroyed_handle_is_refused() -> None:
    handle = hipdnn.create_handle()
    hipdnn.destroy_handle(handle)
    assert "destroyed" in repr(handle)
    for call in (handle.get, handle.get_stream, lambda: handle.set_stream(0), lambda: handle.get_engine_info(0),
                 handle.get_loaded_engine_plugin_paths, lambda: handle.engine_id_to_name(0)):  # fmt: skip
        with pytest.raises(RuntimeError, match="Handle has been destroyed"):
            call()


def test_the_projects_plugins_are_known_by_name() -> None:
    folder = os.path.dirname(os.path.realpath(package.library().path))
    plugins = {engine.plugin for engine in package.engines()}
    paths = hipdnn.create_handle().get_loaded_engine_plugin_paths()
    if not all(os.path.realpath(path).startswith(folder) for path in paths):
        pytest.skip("plugins of others are loaded")
    assert plugins and plugins <= OWN_PLUGINS


def test_engines_are_found_by_number() -> None:
    handle = hipdnn.create_handle()
    for engine in package.engines():
        info = handle.get_engine_info(engine.id)
        assert (info.engine_id, info.engine_name, info.plugin_name) == (engine.id, engine.name, engine.plugin)
        assert info.version and info.type == "HIPDNN_PLUGIN_TYPE_ENGINE"
        assert handle.engine_id_to_name(engine.id) == hipdnn.engine_id_to_name(engine.id) == engine.name
        assert hipdnn.Graph().set_preferred_engine_id_ext(engine.name).get_preferred_engine_id_ext() == engine.id
    with pytest.raises(AttributeError):
        info.version = "other"
    for call in (handle.get_engine_info, handle.engine_id_to_name):
        with pytest.raises(IndexError, match="Engine ID is not loaded"):
            call((1 << 63) - 1)
    assert hipdnn.engine_id_to_name((1 << 63) - 1) == ""
    miopen = hipdnn.Graph().set_preferred_engine_id_ext("MIOPEN_ENGINE").get_preferred_engine_id_ext()
    assert miopen == 0x15B46865C717A122 and hipdnn.engine_id_to_name(miopen) == "MIOPEN_ENGINE"


def test_plugins_are_files() -> None:
    handle = hipdnn.create_handle()
    paths = hipdnn.get_loaded_engine_plugin_paths(handle)
    assert paths == handle.get_loaded_engine_plugin_paths()
    assert any("cpu" in os.path.basename(path) for path in paths) and all(map(os.path.isfile, paths))


CHOOSES_PLUGINS = """
import sys, hipdnn_frontend as hipdnn
every = hipdnn.create_handle().get_loaded_engine_plugin_paths()
cpu = next(path for path in every if "cpu" in path.rsplit("/")[-1])
hipdnn.set_engine_plugin_paths([cpu], hipdnn.PluginLoadingMode.ABSOLUTE)
handle = hipdnn.create_handle()
assert handle.get_loaded_engine_plugin_paths() == [cpu], handle.get_loaded_engine_plugin_paths()
try:
    hipdnn.set_engine_plugin_paths([cpu])
except RuntimeError as error:
    assert "active handle" in str(error), error
else:
    raise AssertionError("plugins were changed beside a handle")
a, b = (hipdnn.Tensor.create([2, 2], hipdnn.DataType.FLOAT) for _ in range(2))
graph = hipdnn.Graph()
graph.matmul(a, b, hipdnn.MatmulAttributes()).set_output(True)
assert graph.validate().is_good() and graph.build_operation_graph(handle).is_good()
assert all(config.engine_name.startswith("CPU") for config in graph.get_engine_configs())
print("chosen")
"""


def test_plugins_are_chosen_before_handles() -> None:
    done = subprocess.run([sys.executable, "-c", CHOOSES_PLUGINS], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "chosen", done.stderr


def test_tensors() -> None:
    tensor = Tensor.create([4, 8, 16], DataType.FLOAT).set_name("x")
    assert (tensor.get_dim(), tensor.get_stride(), tensor.get_volume()) == ([4, 8, 16], [128, 16, 1], 512)
    assert not tensor.has_uid() and tensor.set_uid(5).get_uid() == 5 and tensor.has_uid()
    assert not tensor.clear_uid().has_uid()
    assert tensor.set_output(False).get_is_virtual() and not tensor.set_output(True).get_is_virtual()
    assert tensor.validate().is_good() and Tensor().validate().is_bad()
    assert Tensor().set_dim([2]).set_stride([1]).validate().get_code() is hipdnn.ErrorCode.ATTRIBUTE_NOT_SET
    assert "expected 2 numbers" in Tensor().set_dim([2, 3]).set_stride([1]).validate().get_message()
    number = Tensor().set_value(0.5)
    assert number.get_is_pass_by_value() and number.get_dim() == [1] and number.get_data_type() is DataType.FLOAT
    copy = hipdnn.Graph.tensor_like(tensor.set_uid(7), "copy")
    assert copy.get_dim() == tensor.get_dim() and copy.get_name() == "copy" and not copy.has_uid()
    assert hipdnn.Graph.tensor(tensor) is not tensor and hipdnn.Graph.tensor(tensor).get_uid() == 7
    assert hipdnn.TensorAttributes is Tensor


def test_a_buffer_holds_bytes() -> None:
    buffer = hipdnn.DeviceBuffer(24)
    assert buffer.size() == 24 and buffer.ptr() % 16 == 0
    data = np.arange(6, dtype=np.float32)
    buffer.copy_from_host(data.tobytes())
    assert buffer.copy_to_host() == data.tobytes()
    for wrong in (b"", bytes(23), bytes(25)):
        with pytest.raises(RuntimeError, match="expected 24"):
            buffer.copy_from_host(wrong)
    assert hipdnn.DeviceBuffer(0).size() == 0 and hipdnn.DeviceBuffer(0).copy_to_host() == b""
    for wrong in (-1, 2.5, True):
        with pytest.raises(ValueError, match="expected a number of bytes"):
            hipdnn.DeviceBuffer(wrong)
    assert hipdnn.get_dtype_size(np.dtype(np.float16)) == 2
    with pytest.raises(RuntimeError, match="complex64"):
        hipdnn.get_dtype_size(np.dtype(np.complex64))


def test_names_and_numbers() -> None:
    for name in hipdnn.__all__:
        assert hasattr(hipdnn, name), name
    assert int(hipdnn.PointwiseMode.SWISH_FWD) == 44 and hipdnn.DataType.BFLOAT16.value == 3
    assert hipdnn.MoeGroupedMatmulMode.SCATTER.name == "SCATTER"
    assert [int(hipdnn.HeuristicMode[name]) for name in ("FALLBACK", "A", "B", "OPENSOURCE")] == [0, 1, 2, 3]


def test_errors_are_values() -> None:
    assert hipdnn.Error().is_good() and hipdnn.Error().get_message() == ""
    for code in hipdnn.ErrorCode:
        error = hipdnn.Error(code, "why")
        assert error.get_code() is code and error.is_bad() is (code is not hipdnn.ErrorCode.OK)
        assert error.get_message() == error.err_msg == "why"
