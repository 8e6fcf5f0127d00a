"""The examples of the README and of the docstrings."""

from __future__ import annotations

import ast
import doctest
import json
import re
import runpy
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np
import pytest

import hipdnn
import hipdnn.graph

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples_python"


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


def test_the_notebook():
    cells = json.loads((EXAMPLES / "graphs.ipynb").read_text(encoding="utf-8"))["cells"]
    names, shown = {}, []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop()
        exec(compile(tree, cell["id"], "exec"), names)
        assert isinstance(last, ast.Expr), "a cell ends with what it shows"
        shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), names))
    assert isinstance(shown[0], hipdnn.Graph) and isinstance(shown[-1], str)


def test_a_graph_as_a_picture():
    graph = hipdnn.Graph()
    x = graph.tensor([2, 3], name="<x>")
    y = graph.exp(x)
    graph.add(graph.mul(y, 2.0), x, name="last")
    picture = xml.fromstring(graph._repr_svg_())
    of = lambda kind: [*picture.iter(f"{{http://www.w3.org/2000/svg}}{kind}")]
    # A box for what is handed in and for each operation, a line for each operand, on a background.
    assert len(of("rect")) == 1 + 4 and len(of("line")) == 4
    texts = [text.text for text in of("text")]
    assert "<x>" in texts and "last" in texts and "2 x 3" in texts
    inside = [(float(r.get("x", 0)), float(r.get("width").rstrip("%"))) for r in of("rect")[1:]]
    assert all(x + width <= float(picture.get("width")) for x, width in inside)
    assert xml.fromstring(hipdnn.Graph()._repr_svg_()) is not None


def test_a_convolution_in_ten_lines(capsys):
    runpy.run_path(str(EXAMPLES / "convolution.py"))
    assert "(1, 8, 32, 32) by CPU_ENGINE" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["train_gpt.py", "--layers", "2", "--size", "32"], ["train_resnet.py", "--width", "4"]]
)
def test_training_is_compared(arguments, monkeypatch, capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr("sys.argv", [*arguments, "--steps", "4", "--check"])
    runpy.run_path(str(EXAMPLES / arguments[0]), run_name="__main__")
    assert "% apart" in capsys.readouterr().out
