"""The examples of the README and of the docstrings."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import hipdnn
import hipdnn.graph

README = Path(__file__).parent.parent / "README.md"


def test_the_readme():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        if "torch" in block:
            pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
        exec(compile(block, str(README), "exec"), {})


@pytest.mark.parametrize("module", [hipdnn, hipdnn.graph])
def test_docstrings(module):
    result = doctest.testmod(module, extraglobs={"np": np})
    assert result.attempted and not result.failed
