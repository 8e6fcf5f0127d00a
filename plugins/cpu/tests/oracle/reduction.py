"""The nine reductions."""

import numpy as np

from graph import Case

MODES = {
    "add": np.sum,
    "mul": np.prod,
    "min": np.min,
    "max": np.max,
    "avg": np.mean,
    "amax": lambda x, axis, keepdims: np.max(np.abs(x), axis, keepdims=keepdims),
    "norm1": lambda x, axis, keepdims: np.sum(np.abs(x), axis, keepdims=keepdims),
    "norm2": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis, keepdims=keepdims)),
    "mul_no_zeros": lambda x, axis, keepdims: np.prod(np.where(x == 0, 1, x), axis, keepdims=keepdims),
}


def cases(random):
    for name, axes, data_type in [("last", (3,), "float"), ("middle", (1, 2), "half"), ("all", (0, 1, 2, 3), "double")]:
        case = Case(f"reduction_{name}", "double" if data_type == "double" else "float")
        values = random.uniform(0.5, 1.5, (2, 3, 4, 5)) * random.choice([-1, 1], (2, 3, 4, 5))
        values[:, 1, 2, 3] = 0
        uid, x = case.input(values, data_type)
        for mode, function in MODES.items():
            out = case.output(function(x, axis=axes, keepdims=True), "float" if data_type == "half" else data_type)
            case.node("ReductionAttributes", mode=mode, in_tensor_uid=uid, out_tensor_uid=out, is_deterministic=False)
        yield case
