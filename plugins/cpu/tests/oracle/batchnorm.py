"""Batch normalization in its four forms."""

import numpy as np

from graph import Case, channels_last, packed

EPSILON = 1e-3
MOMENTUM = 0.25


def cases(random):
    for name, dims, data_type, layout in [
        ("4d", (3, 4, 5, 3), "float", packed),
        ("4d_half_last", (2, 8, 4, 4), "half", channels_last),
        ("2d", (16, 5), "float", packed),
    ]:
        channel = (1, dims[1], *[1] * (len(dims) - 2))
        others = (0, *range(2, len(dims)))
        epsilon = float(np.float32(EPSILON))
        n = np.prod(dims) / dims[1]

        def begin(form):
            case = Case(f"batchnorm_{form}_{name}")
            tensor = lambda low, high: case.input(random.uniform(low, high, dims), data_type, layout(dims))
            parameter = lambda low, high: case.input(random.uniform(low, high, channel))
            return case, tensor, parameter, lambda values: case.output(values, data_type, layout(dims))

        case, tensor, parameter, like_x = begin("inference")
        x_uid, x = tensor(-2, 2)
        (mean_uid, mean), (inv_uid, inv), (scale_uid, scale), (bias_uid, bias) = (
            parameter(-1, 1),
            parameter(0.5, 2),
            parameter(-2, 2),
            parameter(-1, 1),
        )
        case.node(
            "BatchnormInferenceAttributes",
            inputs={"x": x_uid, "mean": mean_uid, "inv_variance": inv_uid, "scale": scale_uid, "bias": bias_uid},
            outputs={"y": like_x(scale * (x - mean) * inv + bias)},
        )
        yield case

        case, tensor, parameter, like_x = begin("inference_variance")
        x_uid, x = tensor(-2, 2)
        (mean_uid, mean), (var_uid, var), (scale_uid, scale), (bias_uid, bias) = (
            parameter(-1, 1),
            parameter(0.25, 4),
            parameter(-2, 2),
            parameter(-1, 1),
        )
        case.node(
            "BatchnormInferenceAttributesVarianceExt",
            inputs={
                "x": x_uid,
                "mean": mean_uid,
                "variance": var_uid,
                "scale": scale_uid,
                "bias": bias_uid,
                "epsilon": case.scalar(EPSILON),
            },
            outputs={"y": like_x(scale * (x - mean) / np.sqrt(var + epsilon) + bias)},
        )
        yield case

        case, tensor, parameter, like_x = begin("training")
        x_uid, x = tensor(-2, 3)
        (scale_uid, scale), (bias_uid, bias), (pm_uid, pm), (pv_uid, pv) = (
            parameter(-2, 2),
            parameter(-1, 1),
            parameter(-1, 1),
            parameter(0.25, 4),
        )
        mean, var = x.mean(others, keepdims=True), x.var(others, keepdims=True)
        inv = 1 / np.sqrt(var + epsilon)
        case.node(
            "BatchnormAttributes",
            inputs={
                "x": x_uid,
                "scale": scale_uid,
                "bias": bias_uid,
                "epsilon": case.scalar(EPSILON),
                "prev_running_mean": pm_uid,
                "prev_running_variance": pv_uid,
                "momentum": case.scalar(MOMENTUM),
            },
            outputs={
                "y": like_x(scale * (x - mean) * inv + bias),
                "mean": case.output(mean),
                "inv_variance": case.output(inv),
                "next_running_mean": case.output((1 - MOMENTUM) * pm + MOMENTUM * mean),
                "next_running_variance": case.output((1 - MOMENTUM) * pv + MOMENTUM * var * n / (n - 1)),
            },
        )
        case.nodes[-1]["inputs"]["peer_stats_tensor_uid"] = []
        yield case

        for saved in (True, False):
            case, tensor, parameter, like_x = begin("backward_saved" if saved else "backward")
            (x_uid, x), (dy_uid, dy), (scale_uid, scale) = tensor(-2, 3), tensor(-1, 1), parameter(-2, 2)
            if saved:
                (mean_uid, mean), (inv_uid, inv) = parameter(-1, 1), parameter(0.5, 2)
            else:
                mean_uid = inv_uid = None
                mean = x.mean(others, keepdims=True)
                inv = 1 / np.sqrt(x.var(others, keepdims=True) + 1e-5)
            xhat = (x - mean) * inv
            dbias, dscale = dy.sum(others, keepdims=True), (dy * xhat).sum(others, keepdims=True)
            case.node(
                "BatchnormBackwardAttributes",
                inputs={"dy": dy_uid, "x": x_uid, "scale": scale_uid, "mean": mean_uid, "inv_variance": inv_uid},
                outputs={
                    "dx": like_x(scale * inv * (dy - dbias / n - xhat * dscale / n)),
                    "dscale": case.output(dscale),
                    "dbias": case.output(dbias),
                },
            )
            case.nodes[-1]["inputs"]["peer_stats_tensor_uid"] = []
            yield case
