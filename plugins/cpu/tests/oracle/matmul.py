"""Products of matrices, where neighbours along batch dimensions may share a factor."""

import numpy as np

from graph import Case, packed


def cases(random):
    for name, a_dims, b_dims, data_type, out_type in [
        ("plain", (7, 11), (11, 5), "float", "float"),
        ("batches", (2, 3, 4, 6), (2, 3, 6, 5), "half", "float"),
        ("shared", (2, 6, 4, 8), (1, 2, 8, 3), "bfloat16", "bfloat16"),
        ("shared_double", (1, 3, 5), (4, 5, 2), "double", "double"),
    ]:
        case = Case(f"matmul_{name}", "double" if out_type == "double" else "float")
        rank = len(a_dims)
        transposed = packed(b_dims, [*range(rank - 2), rank - 1, rank - 2])
        (a_uid, a), (b_uid, b) = (
            case.input(random.uniform(-1, 1, a_dims), data_type),
            case.input(random.uniform(-1, 1, b_dims), data_type, transposed),
        )
        # Each matrix is repeated so often that its neighbours in the product follow one another.
        for axis in range(rank - 2):
            most = max(a.shape[axis], b.shape[axis])
            a, b = np.repeat(a, most // a.shape[axis], axis), np.repeat(b, most // b.shape[axis], axis)
        case.node("MatmulAttributes", inputs={"a": a_uid, "b": b_uid}, outputs={"c": case.output(a @ b, out_type)})
        yield case
