"""Pooling and its gradient, on arrays that really are padded."""

import itertools

import numpy as np

from graph import Case, channels_last, packed

SHAPES = [  # name, x, window, stride, pre, post, type, layout
    ("2d", (2, 3, 7, 6), (3, 2), (2, 2), (1, 0), (1, 0), "float", packed),
    ("2d_half_last", (1, 4, 6, 5), (2, 3), (1, 2), (0, 1), (1, 1), "half", channels_last),
    ("3d", (1, 2, 4, 5, 3), (2, 2, 2), (2, 1, 1), (1, 0, 0), (0, 1, 1), "float", packed),
]
MODES = [
    ("maxpool", "neg_inf_pad"),
    ("maxpool", "zero_pad"),
    ("avgpool_exclude_padding", "zero_pad"),
    ("avgpool_include_padding", "zero_pad"),
]


def windows(dims, window, stride, pre, post):
    """For each output: the slice of the padded array, in the order of the outputs."""
    out = [(n + a + b - w) // s + 1 for n, a, b, w, s in zip(dims, pre, post, window, stride)]
    for output in itertools.product(*map(range, out)):
        yield output, tuple(slice(o * s, o * s + w) for o, s, w in zip(output, stride, window))


def cases(random):
    for (name, dims, window, stride, pre, post, data_type, layout), (mode, padding) in itertools.product(SHAPES, MODES):
        spatial = dims[2:]
        pad = [(0, 0), (0, 0), *zip(pre, post)]
        flags = {
            "pre_padding": pre,
            "post_padding": post,
            "stride": stride,
            "window": window,
            "resample_mode": mode,
            "padding_mode": padding,
        }
        out_dims = (*dims[:2], *[(n + a + b - w) // s + 1 for n, a, b, w, s in zip(spatial, pre, post, window, stride)])
        # Where each element of the padded array comes from: -1 from outside.
        origin = np.pad(np.arange(np.prod(spatial)).reshape(spatial), pad[2:], constant_values=-1)
        is_max = mode == "maxpool"
        short = f"{mode}_{padding}" if is_max else mode

        case = Case(f"resample_forward_{short}_{name}")
        x_uid, x = case.input(random.uniform(-2, 1, dims), data_type, layout(dims))
        padded = np.pad(x, pad, constant_values=-np.inf if padding == "neg_inf_pad" else 0)
        y, index = np.zeros(out_dims), np.full(out_dims, -1)
        for output, at in windows(spatial, window, stride, pre, post):
            part = padded[(..., *at)].reshape(*dims[:2], -1)
            inside = origin[at].ravel()
            if is_max:
                y[(..., *output)], index[(..., *output)] = part.max(-1), inside[part.argmax(-1)]
            else:
                count = np.prod(window) if mode.endswith("include_padding") else max((inside >= 0).sum(), 1)
                y[(..., *output)] = part.sum(-1) / count
        tensors = {"x_tensor_uid": x_uid, "y_tensor_uid": case.output(y, data_type, layout(out_dims))}
        if is_max:
            tensors["index_tensor_uid"] = case.output(index, "int32")
        case.node("ResampleFwdAttributes", generate_index=is_max, **tensors, **flags)
        yield case

        case = Case(f"resample_backward_{short}_{name}")
        dy_uid, dy = case.input(random.uniform(-2, 2, out_dims), data_type, layout(out_dims))
        dx = np.zeros((*dims[:2], np.prod(spatial)))
        for output, at in windows(spatial, window, stride, pre, post):
            inside = origin[at].ravel()
            for n, c in itertools.product(*map(range, dims[:2])):
                if is_max:
                    if index[(n, c, *output)] >= 0:
                        dx[n, c, index[(n, c, *output)]] += dy[(n, c, *output)]
                else:
                    real = inside[inside >= 0]
                    count = np.prod(window) if mode.endswith("include_padding") else max(len(real), 1)
                    dx[n, c, real] += dy[(n, c, *output)] / count
        tensors = {"dy_tensor_uid": dy_uid}
        if is_max:
            tensors["index_tensor_uid"] = case.input(index, "int32")[0]
        tensors["dx_tensor_uid"] = case.output(dx.reshape(dims), data_type, layout(dims))
        case.node("ResampleBwdAttributes", **tensors, **flags)
        yield case
