"""Device properties, as in cuDNN: the device that plans are made for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from . import _native
from .errors import GraphError, UnsupportedError

#: The architecture name of the processor.
_PROCESSOR = "cpu"


@dataclass(frozen=True)
class DeviceProperties:
    """A device by its architecture, ``"sm_90"``, ``"gfx942"`` or ``"cpu"``, compute units and bytes of memory (0 for a processor)."""

    architecture: str
    compute_units: int = 0
    memory_bytes: int = 0

    def serialize(self) -> str:
        """The properties as JSON, which ``create_device_properties`` reads on another machine."""
        return json.dumps(asdict(self), sort_keys=True)

    def check_is_here(self, name: str, argument: str) -> None:
        """Raises cudnnGraphNotSupportedError if no GPU here matches: plans are made on the device that executes them."""
        if self.architecture != _PROCESSOR and self.architecture not in {device.architecture for device in _devices()}:
            words = f"describes {self.architecture}, which is not here: Graph.compile(devices=[{self.architecture!r}]) makes plans for it"
            raise UnsupportedError(name, argument, words)


def _devices() -> list[DeviceProperties]:
    # NVIDIA device names follow the architecture.
    return [DeviceProperties(name.split()[0], units, size) for _, name, units, size in _native.hardware()[1]]


def create_device_properties(device: int | str) -> DeviceProperties:
    """The properties of a device, by its number or from the text of ``serialize``. Without a GPU, device 0 is the processor.

    ``pygraph(device_property=...)`` takes them if a matching device is present. Raises GraphError for any other number or text.
    """
    if isinstance(device, int):
        found = _devices() or [DeviceProperties(_PROCESSOR)]
        if not 0 <= device < len(found):
            raise GraphError(
                "create_device_properties",
                "device",
                f"is {device}, expected a number below {len(found)}, the number of devices",
            )
        return found[device]
    try:
        read = json.loads(device)
        return DeviceProperties(str(read["architecture"]), int(read["compute_units"]), int(read["memory_bytes"]))
    except (TypeError, ValueError, KeyError) as error:
        words = f"is {device!r}, expected a number or the text of serialize() ({error!r})"
        raise GraphError("create_device_properties", "device", words) from error
