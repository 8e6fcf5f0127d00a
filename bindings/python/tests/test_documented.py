"""Everything public is documented, and the stubs match the extension module."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import hipdnn
import pytest
from hipdnn import _native, saved
from hipdnn.attention import Attention
from hipdnn.node import _RESULTS, Operations
from hipdnn.norm import Norms
from hipdnn.operations import Windows
from hipdnn.pointwise import Pointwise

PUBLIC = {name: getattr(hipdnn, name) for name in hipdnn.__all__ if name != "__version__"}
CLASSES = [of for of in (*PUBLIC.values(), saved.SavedGraph) if inspect.isclass(of)]
FUNCTIONS = [of for of in PUBLIC.values() if inspect.isfunction(of)]


def members(of):
    """The public methods and properties of a class, except Python's own."""
    found = {name: inspect.getattr_static(of, name) for name in dir(of) if not name.startswith("_")}
    parents = {name for parent in of.__mro__ if parent.__module__ in ("builtins", "enum") for name in vars(parent)}
    return {name: getattr(of, name) for name in found if name not in parents}


def described(of):
    text = inspect.getdoc(of)
    return bool(text and text.strip())


@pytest.mark.parametrize("of", CLASSES, ids=lambda of: of.__name__)
def test_classes_and_their_methods_are_described(of):
    assert described(of)
    wanted = {name: member for name, member in members(of).items() if callable(member) or isinstance(member, property)}
    assert not [name for name, member in wanted.items() if not described(member)]


def test_functions_are_described():
    assert FUNCTIONS and not [of.__name__ for of in FUNCTIONS if not described(of)]


OPERATIONS = {
    name: getattr(of, name)
    for of in (Windows, Pointwise, Norms, Attention)
    for name in dir(of)
    if not name.startswith("_") and name not in dir(Operations)
}


@pytest.mark.parametrize("name", [*OPERATIONS, "tensor", "tensor_like"])
def test_operations_say_shapes_and_types(name):
    method = getattr(hipdnn.Graph, name)
    # Without what holds for all results; pointwise operations share one text about operands.
    text = inspect.cleandoc(getattr(method, "__own_doc__", method.__doc__))
    assert text.strip()
    if name in vars(Pointwise):
        text = inspect.getdoc(method).removeprefix(text).removesuffix(inspect.cleandoc(_RESULTS))
    assert "[" in text or "shape" in text
    assert "type" in text.lower()


@pytest.mark.smoke
def test_what_takes_part_in_pytorch_is_described():
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    import hipdnn.torch

    public = {name: getattr(hipdnn.torch, name) for name in hipdnn.torch.__all__}
    assert not [name for name, of in public.items() if callable(of) and not described(of)]


# The stubs.

STUBS = ast.parse((Path(hipdnn.__file__).parent / "_native.pyi").read_text())
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


def arguments(function, skip_first):
    of = function.args
    names = [arg.arg for arg in (*of.posonlyargs, *of.args)][skip_first:]
    return names + ([f"*{of.vararg.arg}"] if of.vararg else []) + [arg.arg for arg in of.kwonlyargs]


def native_arguments(function, skip_first):
    found = []
    for argument in list(inspect.signature(function).parameters.values())[skip_first:]:
        found.append(f"*{argument.name}" if argument.kind is argument.VAR_POSITIONAL else argument.name)
    return found


def test_the_stubs_name_what_the_module_has():
    stubs = {node.name: node for node in STUBS.body if isinstance(node, DEFINITIONS)}
    public = {name for name in dir(_native) if not name.startswith("_")}
    assert set(stubs) == public
    for name, stub in stubs.items():
        of = getattr(_native, name)
        if isinstance(stub, ast.FunctionDef):
            assert arguments(stub, 0) == native_arguments(of, 0), name


@pytest.mark.parametrize(
    "stub", [node for node in STUBS.body if isinstance(node, ast.ClassDef)], ids=lambda node: node.name
)
def test_the_stubs_name_what_its_classes_have(stub):
    of = getattr(_native, stub.name)
    if issubclass(of, Exception):
        return
    methods = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in vars(of) if not name.startswith("__")} == {
        name for name in methods if not name.startswith("__")
    }
    for name, method in methods.items():
        assert hasattr(of, name), name
        is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in method.decorator_list)
        assert is_property != callable(getattr(of, name)), name
        if not is_property and not name.startswith("__"):
            assert arguments(method, 1) == native_arguments(getattr(of, name), 1), name
