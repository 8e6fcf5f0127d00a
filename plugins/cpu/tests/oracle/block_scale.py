"""Block scale quantization and its inverse. A type is the list of its numbers, in the order of their codes."""

import numpy as np

from graph import Case


def numbers(exponent_bits, mantissa_bits, bias, left_out=0):
    """The numbers from 0 up of a type, without those of the last codes."""
    codes = np.arange(2 ** (exponent_bits + mantissa_bits) - left_out)
    exponent, mantissa = codes >> mantissa_bits, codes % 2**mantissa_bits
    return np.where(
        exponent == 0,
        mantissa * 2.0 ** (1 - bias - mantissa_bits),
        (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias),
    )


TYPES = {
    "fp8_e4m3": numbers(4, 3, 7, 1),
    "fp8_e5m2": numbers(5, 2, 15, 4),
    "fp8_e4m3_fnuz": numbers(4, 3, 8),
    "fp8_e5m2_fnuz": numbers(5, 2, 16),
    "fp6_e2m3": numbers(2, 3, 1),
    "fp6_e3m2": numbers(3, 2, 3),
    "fp4_e2m1": numbers(2, 1, 1),
    "int4": np.arange(8.0),
    "fp8_e8m0": 2.0 ** np.arange(-127, 128),
}


def nearest(values, data_type):
    """The nearest numbers of a type; ties go to the even code."""
    known = TYPES[data_type]
    distance = np.abs(np.abs(values)[..., None] - known)
    best = distance.min(-1, keepdims=True)
    codes = np.arange(len(known))
    first = np.where(distance == best, codes, len(known)).min(-1)
    last = np.where(distance == best, codes, -1).max(-1)
    return np.copysign(known[np.where(first % 2 == 0, first, last)], values)


def cases(random):
    for y_type, scale_type, dims, block, axis, transpose in [
        ("fp8_e4m3", "fp8_e8m0", (3, 70), 32, None, False),
        ("fp8_e5m2", "fp8_e8m0", (2, 5, 32), 32, 2, False),
        ("fp4_e2m1", "fp8_e4m3", (3, 35), 16, 1, False),
        ("fp6_e2m3", "fp8_e8m0", (5, 9), 4, 0, False),
        ("fp6_e3m2", "fp8_e8m0", (2, 7, 6), 3, 1, True),
        ("fp8_e4m3_fnuz", "float", (4, 12), 5, 1, True),
        ("fp8_e5m2_fnuz", "fp8_e8m0", (40,), 8, None, False),
        ("int4", "float", (3, 21), 8, None, False),
    ]:
        case = Case(f"block_scale_quantize_{y_type}")
        # Blocks of very different sizes, and one of zeros.
        values = random.uniform(-1, 1, dims) * np.exp2(random.integers(-6, 7, dims))
        along = len(dims) - 1 if axis is None else axis
        np.moveaxis(values, along, 0)[:block] *= random.integers(0, 2, np.moveaxis(values, along, 0)[:block].shape[1:])
        x_uid, x = case.input(values)
        y, scales = np.zeros_like(x), []
        for begin in range(0, dims[along], block):
            part = np.moveaxis(x, along, 0)[begin : begin + block]
            exact = np.abs(part).max(0) / TYPES[y_type][-1]
            if scale_type == "float":
                scale = exact.astype(np.float32)
                scale = np.where(scale < exact, np.nextafter(scale, np.float32(np.inf)), scale).astype(np.float64)
            else:
                scale = TYPES[scale_type][np.searchsorted(TYPES[scale_type], exact)]
            divisor = np.where(scale == 0, 1, scale)
            rounded = nearest(np.where(scale == 0, 0, part / divisor), y_type)
            np.moveaxis(y, along, 0)[begin : begin + block] = rounded
            scales.append(scale)
        scale = np.stack(scales, along)
        if transpose:
            y, scale = np.swapaxes(y, -1, -2), np.swapaxes(scale, -1, -2)
        keys = {"block_size": block, "transpose": transpose} | ({} if axis is None else {"axis": axis})
        case.node(
            "BlockScaleQuantizeAttributes",
            inputs={"x": x_uid},
            outputs={"y": case.output(y, y_type), "scale": case.output(scale, scale_type)},
            **keys,
        )
        yield case

    for x_type, scale_type, dims, blocks, negative in [
        ("fp8_e4m3", "fp8_e8m0", (3, 70), {1: 32}, False),
        ("fp8_e5m2", "float", (4, 10), {0: 2, 1: 5}, False),
        ("fp4_e2m1", "fp8_e4m3", (5, 33), {1: 16}, False),
        ("fp6_e2m3", "fp8_e8m0", (2, 6, 7), {1: 4, 2: 3}, False),
        ("fp6_e3m2", "fp8_e5m2", (9, 5), {0: 4}, False),
        ("int4", "int8", (3, 11), {1: 4}, True),
        ("fp8_e4m3_fnuz", "float", (2, 8), {1: 8}, False),
        ("fp8_e5m2_fnuz", "float", (2, 8), {1: 4}, False),
    ]:
        case = Case(f"block_scale_dequantize_{x_type}")
        x_uid, x = case.input(random.choice(TYPES[x_type], dims) * random.choice([-1, 1], dims), x_type)
        scale_dims = [-(-dim // blocks.get(axis, 1)) for axis, dim in enumerate(dims)]
        if negative:
            scale = random.integers(-5, 6, scale_dims)
        elif scale_type == "fp8_e8m0":
            scale = np.exp2(random.integers(-9, 10, scale_dims))
        else:
            scale = random.choice(TYPES.get(scale_type, np.linspace(-2, 2, 33)), scale_dims)
        scale_uid, scale = case.input(scale, scale_type)
        spread = scale
        for axis, block in blocks.items():
            spread = np.repeat(spread, block, axis)
        spread = spread[tuple(slice(dim) for dim in dims)]
        y = x * (np.exp2(-spread) if negative else spread)
        case.node(
            "BlockScaleDequantizeAttributes",
            inputs={"x": x_uid, "scale": scale_uid},
            outputs={"y": case.output(y)},
            block_size=list(blocks.values()),
            is_negative_scale=negative,
        )
        yield case
