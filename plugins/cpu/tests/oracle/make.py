"""Writes the cases of the oracle: graphs with inputs and what they have to give.

    python3 -m venv /some/folder && /some/folder/bin/pip install numpy
    /some/folder/bin/python plugins/cpu/tests/oracle/make.py

Run by hand, when a case is added or changed; what it writes is committed. The numbers come from closed forms in NumPy, in
double precision, written down without a look at the engines. Inputs are rounded to the type of their tensor first, so that
the engines begin with the same numbers. The seed of each kind of operation is its name, so that the cases of one do not
change with those of another.

`cases/MODULE.safetensors` has the cases of one module: in its metadata, which are text, the graph of each case as JSON, and
beside it an array `CASE/UID` for each tensor that is bound, inputs and expected outputs alike, with the dims of the tensor in
row-major order. To add a case, yield another `Case` from the module of its operation; for a new operation add a module with
`cases(random)` and its name below. `plugins/cpu/tests/oracle.rs` finds the files by itself.
"""

import importlib
import pathlib
import shutil
import zlib

import numpy as np

from graph import save

MODULES = ["batchnorm", "block_scale", "convolution", "matmul", "normalization", "pointwise", "reduction", "resample"]


def main():
    folder = pathlib.Path(__file__).parent / "cases"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in MODULES:
        random = np.random.default_rng(zlib.crc32(name.encode()))
        save(folder / f"{name}.safetensors", list(importlib.import_module(name).cases(random)))


if __name__ == "__main__":
    main()
