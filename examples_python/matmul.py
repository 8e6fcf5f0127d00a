"""Matmul with no package but hipdnn: python examples_python/matmul.py"""

from array import array

import hipdnn


def matrix(numbers, rows, columns):
    return memoryview(array("f", numbers)).cast("B").cast("f", (rows, columns))


a, b = matrix(range(6), 2, 3), matrix([1, 0, 0, 1, 1, 1], 3, 2)
c = matrix([0] * 4, 2, 2)
graph = hipdnn.Graph()
x, y = graph.tensor_like(a), graph.tensor_like(b)
graph.execute({x: a, y: b, graph.matmul(x, y).set_output(True): c})
assert c.tolist() == [[2, 3], [8, 9]], c.tolist()
print(f"{c.tolist()} by {graph.engine}")
