"""The notebook of the examples, and the output of a notebook while engines are measured."""

from __future__ import annotations

import json
from pathlib import Path

import hipdnn
import numpy as np
import pytest
from hipdnn.tune import Progress

NOTEBOOK = Path(__file__).parent.parent.parent.parent / "examples_python/graphs.ipynb"


def tune():
    graph = hipdnn.Graph()
    x = graph.tensor([4, 4])
    y = graph.exp(x).set_output(True)
    times = graph.autotune({t: np.ones((4, 4), np.float32) for t in (x, y)}, seconds=0.001)
    return list(times)


def test_progress_is_text_and_html():
    assert repr(Progress(1, 2, "A")) == f"[{'#' * 12}{'.' * 12}] A"
    assert Progress(1, 2, "<A>")._repr_html_() == '<progress value="1" max="2"></progress> <code>&lt;A&gt;</code>'
    assert repr(Progress(0, 0, ""))


def test_a_terminal_has_a_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    engines = tune()
    written = capsys.readouterr().err
    assert all(engine in written for engine in engines) and written.endswith("\r")


@pytest.fixture
def shown(monkeypatch):
    """A cell's output of a measurement: a stand-in for a kernel's shell and its channel to a browser."""
    IPython = pytest.importorskip("IPython", reason="IPython is not installed: pip install ipython")
    shown = []

    class Cell:
        def update(self, progress):
            shown.append(("update", progress))

    def display(progress, display_id):
        shown.append(("display", progress))
        return Cell()

    monkeypatch.setattr(IPython, "get_ipython", lambda: type("Shell", (), {"kernel": object()})())
    monkeypatch.setattr("IPython.display.display", display)
    return shown


def test_a_cell_has_a_bar_that_moves(shown, capsys):
    engines = tune()
    # Each engine alone, then the search among them.
    assert shown[0][0] == "display" and {what for what, _ in shown[1:]} == {"update"} and len(shown) > len(engines)
    done, bars = [of.done for _, of in shown], [of for _, of in shown]
    assert done == sorted(done) and done[-1] == 100 and {of.total for of in bars} == {100}
    assert all(any(engine in of.what for of in bars) for engine in engines)
    assert shown[-1][1].what.endswith(" ms") and capsys.readouterr().err == ""


def test_the_notebook_runs_in_a_shell(shown):
    """IPython's own shell runs each cell, and shows its last value; one has a bar."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    formatted = []
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            ran = shell.run_cell("".join(cell["source"]))
            assert ran.success, ran.error_in_exec
            formatted.append(shell.display_formatter.format(ran.result)[0])
    assert "<svg" in formatted[0]["image/svg+xml"]
    assert all(of["text/plain"] for of in formatted)
    bars = [progress._repr_html_() for _, progress in shown]
    assert len(bars) > 1 and all(bar.startswith("<progress ") for bar in bars) and "_ENGINE, " in bars[-1]
