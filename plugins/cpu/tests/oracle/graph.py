"""A graph with the values of its tensors, and how cases become a file of the oracle."""

import json

import numpy as np

# Formats of small floats: bits of the exponent and of the mantissa.
SHORT = {"half": (5, 10), "bfloat16": (8, 7)}
# How values are stored: NumPy's name and that of safetensors.
ARRAY_TYPES = {
    "double": ("<f8", "F64"),
    "int64": ("<i8", "I64"),
    "int32": ("<i4", "I32"),
    "int8": ("<i4", "I32"),
    "uint8": ("<i4", "I32"),
    "boolean": ("<i4", "I32"),
}


def rounded(data_type, values):
    """The values as elements of a floating-point type, to nearest and ties to even; others as they are."""
    values = np.asarray(values, dtype=np.float64)
    if data_type == "float":
        return values.astype(np.float32).astype(np.float64)
    if data_type not in SHORT:
        return values
    exponent_bits, mantissa_bits = SHORT[data_type]
    lowest = 2 - 2 ** (exponent_bits - 1)
    with np.errstate(divide="ignore"):
        exponent = np.where(values == 0, lowest, np.floor(np.log2(np.abs(values))))
    step = np.exp2(np.maximum(exponent, lowest) - mantissa_bits)
    return np.round(values / step) * step


def packed(dims, order=None):
    """Strides without gaps, the dimensions lying in `order`, outermost first."""
    strides, step = [0] * len(dims), 1
    for axis in reversed(order or range(len(dims))):
        strides[axis] = step
        step *= dims[axis]
    return strides


def channels_last(dims):
    return packed(dims, [0, *range(2, len(dims)), 1])


class Case:
    """A graph, its inputs and what it has to write."""

    def __init__(self, name, compute="float"):
        self.name, self.compute = name, compute
        self.tensors, self.nodes, self.arrays = [], [], {}

    def _tensor(self, dims, data_type, strides):
        uid = len(self.tensors) + 1
        dims = [int(dim) for dim in dims]
        self.tensors.append(
            {
                "alignment": 16,
                "data_type": data_type,
                "dims": dims,
                "is_runtime_pass_by_value": False,
                "name": f"t{uid}",
                "strides": strides or packed(dims),
                "uid": uid,
                "virtual": False,
            }
        )
        return uid

    def input(self, values, data_type="float", strides=None):
        """Adds a tensor with values; returns its uid and the values as its type holds them."""
        values = rounded(data_type, values)
        uid = self._tensor(values.shape, data_type, strides)
        self.arrays[uid] = (data_type, values)
        return uid, values

    def output(self, expected, data_type="float", strides=None):
        """Adds a tensor that the graph has to fill with these values."""
        expected = np.asarray(expected, dtype=np.float64)
        uid = self._tensor(expected.shape, data_type, strides)
        self.arrays[uid] = (data_type, expected)
        return uid

    def virtual(self, dims, data_type="float"):
        uid = self._tensor(dims, data_type, None)
        self.tensors[-1]["virtual"] = True
        return uid

    def scalar(self, value):
        """Adds a number that the graph carries."""
        uid = self._tensor([1], "float", None)
        self.tensors[-1] |= {"value_type": "Float32Value", "value": float(np.float32(value))}
        return uid

    def node(self, kind, **keys):
        """Adds a node; `inputs` and `outputs` are given by role and get their suffix here."""
        for side in ("inputs", "outputs"):
            if side in keys:
                keys[side] = {f"{role}_tensor_uid": uid for role, uid in keys[side].items()}
        name = f"n{len(self.nodes)}"
        self.nodes.append({"compute_data_type": self.compute, "name": name, "type": kind, **keys})

    def graph(self):
        graph = {
            "compute_data_type": self.compute,
            "intermediate_data_type": "float",
            "io_data_type": "float",
            "is_override_shape_enabled": False,
            "name": self.name,
            "nodes": self.nodes,
            "tensors": self.tensors,
        }
        return json.dumps(graph, sort_keys=True, separators=(",", ":"))


def save(path, cases):
    """Writes cases as a safetensors file: the length of a JSON header, the header, the arrays."""
    header, data = {"__metadata__": {case.name: case.graph() for case in cases}}, b""
    for case in cases:
        for uid, (data_type, values) in case.arrays.items():
            array_type, name = ARRAY_TYPES.get(data_type, ("<f4", "F32"))
            array = np.ascontiguousarray(values).astype(array_type).tobytes()
            header[f"{case.name}/{uid}"] = {
                "dtype": name,
                "shape": values.shape,
                "data_offsets": [len(data), len(data) + len(array)],
            }
            data += array
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
