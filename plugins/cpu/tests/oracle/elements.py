"""What each pointwise mode computes, in NumPy, under the mode's name in JSON. The Python package's tests read these tables as well.

A new mode gets a line here: in ANY or POSITIVE if it reads one operand, in TWO or BACKWARD if it reads two. Derivatives are
written out, not taken from the forward form.
"""

import math

import numpy as np

erf = np.vectorize(math.erf)
sigmoid = lambda x: 1 / (1 + np.exp(-x))
ROOT = math.sqrt(2 / math.pi)


def tanh_of_gelu(x):
    return np.tanh(ROOT * (x + 0.044715 * x**3))


def swish_slope(x, beta):
    s = sigmoid(beta * x)
    return s + beta * x * s * (1 - s)


def gelu_tanh_slope(x):
    t = tanh_of_gelu(x)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * 0.044715 * x * x)


ANY = {  # modes of one operand, for any number
    "abs": np.abs,
    "neg": np.negative,
    "identity": lambda x: x,
    "ceil": np.ceil,
    "floor": np.floor,
    "erf": erf,
    "exp": np.exp,
    "sin": np.sin,
    "tan": np.tan,
    "logical_not": lambda x: x == 0,
    "relu_fwd": lambda x: np.maximum(x, 0),
    "sigmoid_fwd": sigmoid,
    "tanh_fwd": np.tanh,
    "elu_fwd": lambda x: np.where(x > 0, x, np.expm1(x)),
    "softplus_fwd": lambda x: np.log1p(np.exp(x)),
    "gelu_fwd": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_approx_tanh_fwd": lambda x: 0.5 * x * (1 + tanh_of_gelu(x)),
    "swish_fwd": lambda x: x * sigmoid(x),
}
POSITIVE = {"sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "log": np.log, "reciprocal": lambda x: 1 / x}
TWO = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "add_square": lambda x, y: x + y * y,
    "max_op": np.maximum,
    "min_op": np.minimum,
    "cmp_eq": np.equal,
    "cmp_neq": np.not_equal,
    "cmp_ge": np.greater_equal,
    "cmp_gt": np.greater,
    "cmp_le": np.less_equal,
    "cmp_lt": np.less,
    "logical_and": lambda x, y: (x != 0) & (y != 0),
    "logical_or": lambda x, y: (x != 0) | (y != 0),
}
BACKWARD = {  # in_0 is dy, in_1 is x
    "relu_bwd": lambda dy, x: dy * (x > 0),
    "sigmoid_bwd": lambda dy, x: dy * sigmoid(x) * (1 - sigmoid(x)),
    "tanh_bwd": lambda dy, x: dy / np.cosh(x) ** 2,
    "elu_bwd": lambda dy, x: dy * np.where(x > 0, 1, np.exp(x)),
    "softplus_bwd": lambda dy, x: dy * sigmoid(x),
    "swish_bwd": lambda dy, x: dy * swish_slope(x, 1),
    "gelu_bwd": lambda dy, x: (
        dy * (0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
    ),
    "gelu_approx_tanh_bwd": lambda dy, x: dy * gelu_tanh_slope(x),
}
