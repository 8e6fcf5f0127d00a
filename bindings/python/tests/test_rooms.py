"""The layers of this package: each file uses only those below it, without cycles; none is long."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
PYTHON = PACKAGE / "python" / "hipdnn"
RUST = PACKAGE / "src"

#: From bottom to top.
MODULES = """
_native errors properties node_errors infer types device tensor node empty address operands memory views attention gradients_fp8 attention_fp8 norm operations pointwise
compositions handle plans library device_array ahead picture tune definition planning overridden adapt execution phases restored graph saved compat ops
quantization losses __init__
__main__
""".split()


def imports(file: Path, level: int = 1) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == level:
            found.update([node.module.partition(".")[0]] if node.module else [name.name for name in node.names])
    return found


def test_modules_import_what_is_below_them():
    files = {file.stem: file for file in PYTHON.glob("*.py")}
    assert set(files) | {"_native", "quantization"} == set(MODULES)
    for file in (PYTHON / "quantization").glob("*.py"):
        for other in imports(file, 2):
            assert MODULES.index(other) < MODULES.index("quantization"), (
                f"{file.name} imports {other}, which is above it"
            )
    for name, file in files.items():
        for other in imports(file):
            # Names of the package itself, used by its entry point.
            other = other if other in MODULES else "__init__"
            assert MODULES.index(other) < MODULES.index(name), f"{name} imports {other}, which is above it"


def test_rust_modules_use_what_is_below_them():
    text = (RUST / "lib.rs").read_text(encoding="utf-8")
    header = "".join(line.removeprefix("//!") for line in text.splitlines(True) if line.startswith("//!"))
    order = re.findall(r"`(\w+)`", header[header.index("Each module uses only those before it") :])
    files = [file for file in RUST.rglob("*.rs") if file.name != "lib.rs"]
    assert {file.relative_to(RUST).parts[0].removesuffix(".rs") for file in files} == set(order)
    for file in files:
        name = file.relative_to(RUST).parts[0].removesuffix(".rs")
        used = re.findall(r"\bcrate::(\w+)", file.read_text(encoding="utf-8"))
        for group in re.findall(r"\buse crate::\{([^;]*)\};", file.read_text(encoding="utf-8")):
            used += re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"\{[^}]*\}", "", group))
        for other in used:
            assert other in order, f"{file.name} uses crate::{other}, which is not a module"
            assert order.index(other) <= order.index(name), f"{file.name} uses {other}, which is above {name}"


def test_protocols_use_what_is_below_them():
    order = ["kind", "capsule", "exchange", "buffer", "interface", "mod"]
    for file in (RUST / "protocols").glob("*.rs"):
        for other in re.findall(r"\bsuper::(\w+)::?", file.read_text(encoding="utf-8")):
            assert order.index(other) < order.index(file.stem), f"{file.name} uses {other}"


def test_no_file_is_long():
    for file in [*RUST.rglob("*.rs"), *PYTHON.glob("*.py")]:
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 500, file
