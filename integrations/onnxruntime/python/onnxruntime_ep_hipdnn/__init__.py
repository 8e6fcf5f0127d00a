"""hipDNN's execution provider for ONNX Runtime 1.23 and newer.

import onnxruntime as ort, onnxruntime_ep_hipdnn as ep

ort.register_execution_provider_library("hipdnn", ep.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.ep_name == ep.get_ep_name()]
options.add_provider_for_devices(devices, {})
session = ort.InferenceSession("model.onnx", options)
"""

import os

__all__ = ["get_ep_name", "get_ep_names", "get_library_path"]

_NAME = "HipDNNExecutionProvider"


def get_library_path() -> str:
    """The library that ``register_execution_provider_library`` takes."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "libonnxruntime_ep_hipdnn.so")


def get_ep_name() -> str:
    """The name of the execution provider."""
    return _NAME


def get_ep_names() -> list[str]:
    """The names of all execution providers in the library."""
    return [_NAME]
