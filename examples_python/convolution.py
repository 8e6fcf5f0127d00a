"""A convolution with its activation, in ten lines: python examples_python/convolution.py"""

import hipdnn
import numpy as np

x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)
w = np.ones((8, 3, 3, 3), np.float32)
with hipdnn.Graph("conv_relu") as graph:
    graph.relu(graph.conv_fprop(graph.tensor_like(x), graph.tensor_like(w), padding=[1, 1]))
y = graph(x, w)

# The expected value in the middle of the image.
assert np.allclose(y[0, 0, 5, 7], max(x[0, :, 4:7, 6:9].sum(), 0), atol=1e-4)
print(f"{y.shape} by {graph.engine}")
for verdict in graph.explain():
    print(f"  {verdict.engine}: {'applies' if verdict.rank else verdict.reason[:90]}")
