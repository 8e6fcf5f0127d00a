"""The examples of the README and of the docstrings."""

from __future__ import annotations

import ast
import doctest
import json
import re
import runpy
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import hipdnn
import numpy as np
import pytest

PACKAGE = Path(__file__).parent.parent
EXAMPLES = PACKAGE.parent.parent / "examples_python"
BLOCKS = [
    (f"{name} {number}", block)
    for name, file in (
        ("package", PACKAGE / "README.md"),
        ("project", EXAMPLES.parent / "README.md"),
        ("start", EXAMPLES.parent / "docs/start.md"),
    )
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL))
]
assert {name.split()[0] for name, _ in BLOCKS} == {"package", "project", "start"}


@pytest.mark.smoke
@pytest.mark.parametrize("name, block", BLOCKS, ids=[name for name, _ in BLOCKS])
def test_the_readmes(name, block):
    if "import torch" in block:
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    exec(compile(block, name, "exec"), {})


@pytest.mark.parametrize("module", [hipdnn, sys.modules["hipdnn.graph"]])
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
    # A box for each input and operation, a line for each operand, and a background.
    assert len(of("rect")) == 1 + 4 and len(of("line")) == 4
    texts = [text.text for text in of("text")]
    assert "<x>" in texts and "last" in texts and "2 x 3" in texts
    inside = [(float(r.get("x", 0)), float(r.get("width").rstrip("%"))) for r in of("rect")[1:]]
    assert all(x + width <= float(picture.get("width")) for x, width in inside)
    assert xml.fromstring(hipdnn.Graph()._repr_svg_()) is not None


@pytest.mark.parametrize("name, words", [("convolution", "(1, 8, 32, 32)"), ("matmul", "[[2.0, 3.0], [8.0, 9.0]]")])
def test_ten_lines(name, words, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert f"{words} by CPU_ENGINE" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, kinds, calls",
    [
        (
            ["train_gpt.py", "--layers", "2", "--size", "32"],
            ["norms", "products", "attention"],
            [4 * 10, 4 * 18, 4 * 4],
        ),
        (["train_resnet.py", "--width", "4"], ["convolutions", "norms", "products"], [4 * 40, 4 * 40, 4 * 2]),
        (
            ["train_resnet.py", "--width", "4", "--dtype", "float64", "--rate", "0.02"],
            ["convolutions", "norms", "products"],
            [4 * 40, 4 * 40, 4 * 2],
        ),
    ],
    ids=["gpt", "resnet", "double"],
)
def test_training_is_compared(arguments, kinds, calls, monkeypatch, capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr("sys.argv", [*arguments, "--steps", "4", "--check", "--rounding"])
    runpy.run_path(str(EXAMPLES / arguments[0]), run_name="__main__")
    said = capsys.readouterr().out
    ours, rounding = (float(share) for share in re.findall(r"at most (\S+) % apart", said))
    assert ours < (1e-6 if "float64" in arguments else 1) and rounding < 1
    # The short GPT's losses stay the same, to all digits, with weights that are one ulp away.
    assert rounding > 0 or arguments[0] == "train_gpt.py"
    assert f"hipDNN computed {', '.join(f'100 % of {kind}' for kind in kinds)}\n" in said
    # As many as the network has, in both directions; products with biases are left to PyTorch.
    rows = [line.split() for line in said.splitlines() if "CPU_ENGINE" in line]
    compare = sys.modules["compare"]
    of_kind = [[int(row[1]) for row in rows if any(word in row[0] for word in compare.KINDS[kind])] for kind in kinds]
    assert [sum(counts) for counts in of_kind] == calls


def test_products_of_eight_bits_train_as_bfloat16_does(monkeypatch, capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr("sys.argv", ["fp8_gpt.py", "--steps", "12", "--width", "32"])
    runpy.run_path(str(EXAMPLES / "fp8_gpt.py"), run_name="__main__")
    wide, small, ratio = (float(number) for number in re.findall(r"\d+\.\d+", capsys.readouterr().out)[:3])
    # The first losses are 4.5 and more.
    assert wide < 4.2 and small < 4.2 and 0.98 < ratio < 1.02
