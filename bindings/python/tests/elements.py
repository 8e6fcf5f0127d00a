"""What graphs compute on each element, in NumPy, under the names of their methods: the closed forms of the CPU engine's oracle."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any, Callable

Function = Callable[..., Any]

_PATH = pathlib.Path(__file__).parents[3] / "plugins/cpu/tests/oracle/elements.py"
_spec = importlib.util.spec_from_file_location("oracle_elements", _PATH)
_forms = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_forms)


def _methods(forms: dict[str, Function]) -> dict[str, Function]:
    """The method of `gelu_fwd` is `gelu`, that of `gelu_bwd` `gelu_backward`, that of `max_op` `max`."""
    return {mode.removesuffix("_fwd").removesuffix("_op").replace("_bwd", "_backward"): f for mode, f in forms.items()}


UNARY = _methods({**_forms.ANY, **_forms.POSITIVE})
#: The unary ones that are tested with positive numbers.
POSITIVE = _methods(_forms.POSITIVE)
#: `bias` and `scale` are cuDNN's second names.
BINARY = {**_methods(_forms.TWO), "bias": _forms.TWO["add"], "scale": _forms.TWO["mul"]}
BACKWARD = _methods(_forms.BACKWARD)
