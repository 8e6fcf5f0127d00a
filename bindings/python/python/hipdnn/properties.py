"""What programs for cuDNN call the properties of a device: which one plans are made for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from . import _native
from .errors import GraphError, UnsupportedError

#: What properties of the processor are named.
_PROCESSOR = "cpu"


@dataclass(frozen=True)
class DeviceProperties:
    """A device by its architecture, ``"sm_90"``, ``"gfx942"`` or ``"cpu"``, compute units and bytes of memory (0 of a processor)."""

    architecture: str
    compute_units: int = 0
    memory_bytes: int = 0

    def serialize(self) -> str:
        """The properties as JSON, which ``create_device_properties`` reads on another machine."""
        return json.dumps(asdict(self), sort_keys=True)

    def check_is_here(self, name: str, argument: str) -> None:
        """Raises cudnnGraphNotSupportedError for a device that no GPU here is like: plans are made on the device that executes them."""
        if self.architecture != _PROCESSOR and self.architecture not in {device.architecture for device in _devices()}:
            words = f"describes {self.architecture}, which is not here: Graph.compile(devices=[{self.architecture!r}]) makes plans for it"
            raise UnsupportedError(name, argument, words)


def _devices() -> list[DeviceProperties]:
    # The names of NVIDIA's devices follow the architecture.
    return [DeviceProperties(name.split()[0], units, size) for _, name, units, size in _native.hardware()[1]]


def create_device_properties(device: int | str) -> DeviceProperties:
    """The properties of a device by its number, or those that ``serialize`` wrote. Without a GPU, device 0 is the processor.

    ``pygraph(device_property=...)`` takes them where the device is here, or one like it. Raises GraphError for a number or a text
    that is none of these.
    """
    if isinstance(device, int):
        found = _devices() or [DeviceProperties(_PROCESSOR)]
        if not 0 <= device < len(found):
            raise GraphError(
                "create_device_properties",
                "device",
                f"is {device}, expected a number below {len(found)}: there are so many",
            )
        return found[device]
    try:
        read = json.loads(device)
        return DeviceProperties(str(read["architecture"]), int(read["compute_units"]), int(read["memory_bytes"]))
    except (TypeError, ValueError, KeyError) as error:
        words = f"is {device!r}, expected a number or the text of serialize() ({error!r})"
        raise GraphError("create_device_properties", "device", words) from error
