"""Every pointwise mode, by the closed forms of `elements.py`, and those with numbers of their own."""

import numpy as np
from elements import ANY, BACKWARD, POSITIVE, TWO, sigmoid, swish_slope

from graph import Case

NUMBERS = [  # modes with numbers of their own
    (
        "relu_fwd",
        {"relu_lower_clip": -0.5, "relu_upper_clip": 1.5, "relu_lower_clip_slope": 0.25},
        lambda x: np.where(x <= -0.5, 0.25 * (x + 0.5) - 0.5, np.minimum(x, 1.5)),
    ),
    ("swish_fwd", {"swish_beta": 1.5}, lambda x: x * sigmoid(1.5 * x)),
    ("elu_fwd", {"elu_alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    ("softplus_fwd", {"softplus_beta": 2.0}, lambda x: np.log1p(np.exp(2 * x)) / 2),
]
BACKWARD_NUMBERS = [
    (
        "relu_bwd",
        {"relu_lower_clip": -0.5, "relu_upper_clip": 1.5, "relu_lower_clip_slope": 0.25},
        lambda dy, x: dy * np.where(x <= -0.5, 0.25, np.where(x > 1.5, 0, 1)),
    ),
    ("swish_bwd", {"swish_beta": 1.5}, lambda dy, x: dy * swish_slope(x, 1.5)),
    ("elu_bwd", {"elu_alpha": 0.5}, lambda dy, x: dy * np.where(x > 0, 1, 0.5 * np.exp(x))),
    ("softplus_bwd", {"softplus_beta": 2.0}, lambda dy, x: dy * sigmoid(2 * x)),
]


def put(case, mode, operands, expected, data_type="float", **numbers):
    keys = ("relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope", "swish_beta", "elu_alpha", "softplus_beta")
    inputs = dict(zip(("in_0", "in_1", "in_2"), operands))
    if "axis" in numbers:
        inputs["axis"] = numbers.pop("axis")
    case.node("PointwiseAttributes", inputs=inputs, outputs={"out_0": case.output(expected, data_type)})
    case.nodes[-1]["inputs"] |= {"operation": mode} | {key: numbers.get(key) for key in keys}


def cases(random):
    shape = (3, 4, 5)
    numbers = lambda low=-3, high=3, dims=shape: random.uniform(low, high, dims)
    whole = lambda dims=shape: random.integers(-2, 3, dims).astype(np.float64)

    for data_type in ("float", "half", "bfloat16"):
        case = Case(f"pointwise_one_operand_{data_type}")
        # Some whole numbers and zeros among them, away from the poles of tan.
        values = numbers(-1.5, 1.5)
        values[0, 0] = [-1, 0, 1, 0.5, -0.5]
        uid, x = case.input(values, data_type)
        positive_uid, positive = case.input(numbers(0.125, 4), data_type)
        for mode, function in ANY.items():
            put(case, mode, [uid], function(x), data_type)
        for mode, function in POSITIVE.items():
            put(case, mode, [positive_uid], function(positive), data_type)
        yield case

    case = Case("pointwise_numbers")
    (uid, x), (dy_uid, dy) = case.input(numbers()), case.input(numbers())
    for mode, attributes, function in NUMBERS:
        put(case, mode, [uid], function(x), **attributes)
    for mode, attributes, function in BACKWARD_NUMBERS:
        put(case, mode, [dy_uid, uid], function(dy, x), **attributes)
    yield case

    for name, dims in [("same", shape), ("broadcast", (4, 1))]:
        case = Case(f"pointwise_two_operands_{name}")
        (x_uid, x), (y_uid, y) = case.input(numbers()), case.input(numbers(0.5, 3, dims))
        (a_uid, a), (b_uid, b) = case.input(whole()), case.input(whole(dims), "int32")
        for mode, function in TWO.items():
            small = mode.startswith(("cmp", "logical"))
            operands, expected = ([a_uid, b_uid], function(a, b)) if small else ([x_uid, y_uid], function(x, y))
            put(case, mode, operands, expected, "boolean" if small else "float")
        for mode, function in BACKWARD.items():
            put(case, mode, [x_uid, y_uid], function(x, y))
        yield case

    case = Case("pointwise_select_and_index")
    (x_uid, x), (y_uid, y) = case.input(numbers()), case.input(numbers(dims=(5,)))
    mask_uid, mask = case.input(random.integers(0, 2, shape), "boolean")
    put(case, "binary_select", [x_uid, y_uid, mask_uid], np.where(mask != 0, x, y))
    for axis in range(3):
        put(case, "gen_index", [x_uid], np.indices(shape)[axis], "int32", axis=axis)
    yield case

    case = Case("pointwise_double", "double")
    (x_uid, x), (y_uid, y) = case.input(numbers(), "double"), case.input(numbers(0.5, 3), "double")
    for mode in ("div", "add_square"):
        put(case, mode, [x_uid, y_uid], TWO[mode](x, y), "double")
    for mode in ("gelu_bwd", "swish_bwd"):
        put(case, mode, [x_uid, y_uid], BACKWARD[mode](x, y), "double")
    yield case
