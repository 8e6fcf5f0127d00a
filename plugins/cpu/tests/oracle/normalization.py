"""Layer normalization, normalization by the root of the mean square, and their gradients."""

import numpy as np

from graph import Case

EPSILON = 1e-3


def cases(random):
    epsilon = float(np.float32(EPSILON))
    for name, dims, count, data_type in [
        ("one_dim", (5, 12), 1, "float"),
        ("two_dims", (2, 3, 4, 6), 2, "half"),
        ("three_dims", (3, 4, 5, 2), 3, "bfloat16"),
    ]:
        lead = len(dims) - count
        axes = tuple(range(lead, len(dims)))
        rows = tuple(range(lead))
        ones = (1,) * lead + dims[lead:]
        for kind in ("layernorm", "rmsnorm"):
            centered = kind == "layernorm"
            table = "Layernorm" if centered else "RMSNorm"
            inverse_name = "inv_variance" if centered else "inv_rms"
            trailing = dims[lead:] if centered else ones

            def values():
                case = Case(f"{kind}_{direction}_{name}")
                x_uid, x = case.input(random.uniform(-1, 2, dims), data_type)
                scale_uid, scale = case.input(random.uniform(-2, 2, trailing))
                mean = x.mean(axes, keepdims=True) if centered else np.zeros_like(x[..., :1])
                inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)
                return case, x_uid, x, scale_uid, scale, mean, inverse

            direction = "forward"
            case, x_uid, x, scale_uid, scale, mean, inverse = values()
            bias_uid, bias = case.input(random.uniform(-1, 1, trailing))
            outputs = {
                "y": case.output(scale * (x - mean) * inverse + bias, data_type),
                inverse_name: case.output(inverse),
            }
            if centered:
                outputs["mean"] = case.output(mean)
            extra = {"forward_phase": 2, "normalized_dim_count": count} if centered else {"forward_phase": "TRAINING"}
            case.node(
                f"{table}Attributes",
                inputs={"x": x_uid, "scale": scale_uid, "bias": bias_uid, "epsilon": case.scalar(EPSILON)},
                outputs=outputs,
                **extra,
            )
            yield case

            for direction in ("backward", "backward_saved") if centered else ("backward_saved",):
                case, x_uid, x, scale_uid, scale, mean, inverse = values()
                dy_uid, dy = case.input(random.uniform(-1, 1, dims), data_type)
                inputs = {"dy": dy_uid, "x": x_uid, "scale": scale_uid}
                if direction == "backward_saved":
                    inputs[inverse_name], inverse = case.input(random.uniform(0.5, 2, inverse.shape))
                    if centered:
                        inputs["mean"], mean = case.input(random.uniform(0, 1, inverse.shape))
                hat, g = (x - mean) * inverse, dy * scale
                dx = inverse * (g - hat * (g * hat).mean(axes, keepdims=True))
                if centered:
                    dx -= inverse * g.mean(axes, keepdims=True)
                dscale, dbias = (dy * hat).sum(rows).reshape(trailing), dy.sum(rows).reshape(trailing)
                extra = {"normalized_dim_count": count} if centered else {}
                case.node(
                    f"{table}BackwardAttributes",
                    inputs=inputs,
                    outputs={
                        "dx": case.output(dx, data_type),
                        "dscale": case.output(dscale),
                        "dbias": case.output(dbias),
                    },
                    **extra,
                )
                if direction == "backward":
                    case.nodes[-1]["inputs"]["epsilon_uid"] = case.scalar(EPSILON)
                yield case
