"""hipDNN's own Python interface, by its names: programs that ``import hipdnn_frontend as hipdnn`` run on the package ``hipdnn``.

>>> import hipdnn_frontend as hipdnn, numpy as np
>>> graph = hipdnn.Graph().set_io_data_type(hipdnn.DataType.FLOAT).set_compute_data_type(hipdnn.DataType.FLOAT)
>>> a, b = hipdnn.Tensor.create([2, 3], hipdnn.DataType.FLOAT), hipdnn.Tensor.create([3, 4], hipdnn.DataType.FLOAT)
>>> c = graph.matmul(a, b, hipdnn.MatmulAttributes()).set_output(True)
>>> handle = hipdnn.create_handle()
>>> steps = graph.validate(), graph.build_operation_graph(handle), graph.create_execution_plans(), graph.build_plans()
>>> all(step.is_good() for step in steps)
True

Memory is given by address, as a `DeviceBuffer`, or as an array; without a GPU, memory is the host's.
"""

from hipdnn import __version__

from .attributes import *  # noqa: F403
from .attributes import __all__ as _attributes
from .buffer import DeviceBuffer, get_dtype_size
from .error import Error, ErrorCode
from .graph import Graph
from .handle import *  # noqa: F403
from .handle import __all__ as _handle
from .hip import *  # noqa: F403
from .hip import __all__ as _hip
from .knobs import *  # noqa: F403
from .knobs import __all__ as _knobs
from .tensor import Tensor, TensorAttributes
from .tuning import *  # noqa: F403
from .tuning import __all__ as _tuning
from .types import *  # noqa: F403
from .types import __all__ as _types

__all__ = [  # noqa: PLE0604
    "DeviceBuffer",
    "Error",
    "ErrorCode",
    "Graph",
    "Tensor",
    "TensorAttributes",
    "__version__",
    "get_dtype_size",
    *_attributes,
    *_handle,
    *_hip,
    *_knobs,
    *_tuning,
    *_types,
]
