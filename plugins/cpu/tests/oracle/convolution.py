"""Convolutions and their gradients, as sums over every position of the window."""

import itertools

import numpy as np

from graph import Case, channels_last, packed

PARAMETERS = [
    # name, x, w, stride, dilation, pre, post, mirrored, type, layout
    ("1d", (2, 3, 9), (4, 3, 3), (2,), (1,), (1,), (1,), False, "float", packed),
    ("2d", (2, 4, 7, 6), (6, 4, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1), False, "float", packed),
    ("2d_grouped_last", (2, 6, 8, 7), (4, 3, 3, 2), (2, 1), (1, 2), (0, 2), (3, 1), False, "float", channels_last),
    ("2d_mirrored_half", (1, 8, 6, 6), (8, 1, 2, 3), (1, 2), (2, 1), (1, 0), (0, 1), True, "half", channels_last),
    (
        "3d_bfloat16",
        (1, 2, 4, 5, 4),
        (3, 2, 2, 3, 1),
        (1, 2, 1),
        (1, 1, 1),
        (0, 1, 0),
        (1, 1, 0),
        False,
        "bfloat16",
        packed,
    ),
    ("2d_double", (1, 2, 5, 5), (2, 2, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1), False, "double", packed),
]


def meetings(x_dims, w_dims, y_dims, stride, dilation, pre, mirrored):
    """For each output and window position that meet inside x: their indices and that of x."""
    for output in itertools.product(*map(range, y_dims[2:])):
        for position in itertools.product(*map(range, w_dims[2:])):
            at = tuple(o * s + r * d - p for o, s, r, d, p in zip(output, stride, position, dilation, pre))
            if all(0 <= a < n for a, n in zip(at, x_dims[2:])):
                w_at = tuple(n - 1 - r for r, n in zip(position, w_dims[2:])) if mirrored else position
                yield output, w_at, at


def cases(random):
    for name, x_dims, w_dims, stride, dilation, pre, post, mirrored, data_type, layout in PARAMETERS:
        out = [
            (n + a + b - (d * (k - 1) + 1)) // s + 1
            for n, a, b, d, k, s in zip(x_dims[2:], pre, post, dilation, w_dims[2:], stride)
        ]
        y_dims = (x_dims[0], w_dims[0], *out)
        groups = x_dims[1] // w_dims[1]
        per_in, per_out = w_dims[1], w_dims[0] // groups
        parameters = {
            "conv_mode": "CONVOLUTION" if mirrored else "CROSS_CORRELATION",
            "dilation": dilation,
            "post_padding": post,
            "pre_padding": pre,
            "stride": stride,
        }
        compute = "double" if data_type == "double" else "float"
        for direction in ("forward", "data", "filter"):
            case = Case(f"convolution_{direction}_{name}", compute)
            given = lambda dims: case.input(random.uniform(-1, 1, dims), data_type, layout(dims))
            wanted = lambda values: case.output(values, data_type, layout(values.shape))
            where = list(meetings(x_dims, w_dims, y_dims, stride, dilation, pre, mirrored))
            if direction == "forward":
                (x_uid, x), (w_uid, w), y = given(x_dims), given(w_dims), np.zeros(y_dims)
            elif direction == "data":
                (y_uid, y), (w_uid, w), x = given(y_dims), given(w_dims), np.zeros(x_dims)
            else:
                (x_uid, x), (y_uid, y), w = given(x_dims), given(y_dims), np.zeros(w_dims)
            for output, w_at, at in where:
                for group in range(groups):
                    ins = slice(group * per_in, (group + 1) * per_in)
                    outs = slice(group * per_out, (group + 1) * per_out)
                    xs, ys, ws = (slice(None), ins, *at), (slice(None), outs, *output), (outs, slice(None), *w_at)
                    if direction == "forward":
                        y[ys] += x[xs] @ w[ws].T
                    elif direction == "data":
                        x[xs] += y[ys] @ w[ws]
                    else:
                        w[ws] += y[ys].T @ x[xs]
            if direction == "forward":
                case.node(
                    "ConvolutionFwdAttributes",
                    inputs={"x": x_uid, "w": w_uid},
                    outputs={"y": wanted(y)},
                    parameters=parameters,
                )
            elif direction == "data":
                case.node(
                    "ConvolutionBwdAttributes",
                    inputs={"dy": y_uid, "w": w_uid},
                    outputs={"dx": wanted(x)},
                    parameters=parameters,
                )
            else:
                case.node(
                    "ConvolutionWrwAttributes",
                    inputs={"x": x_uid, "dy": y_uid},
                    outputs={"dw": wanted(w)},
                    parameters=parameters,
                )
            yield case
