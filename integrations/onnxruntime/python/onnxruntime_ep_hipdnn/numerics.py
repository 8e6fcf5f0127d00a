"""Which nodes of a model lose digits: the report of the tool ``hipdnn`` on each graph that the provider made of a model, with the values that
it read."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
from typing import Any

import numpy as np

TYPES = {
    "float": np.float32, "half": np.float16, "double": np.float64, "int32": np.int32, "int64": np.int64, "int8": np.int8,
    "uint8": np.uint8, "boolean": np.bool_, "bfloat16": np.uint16,
}  # fmt: skip


def _array(tensor: dict[str, Any], path: str) -> np.ndarray | None:
    """The values of a tensor, from the bytes between its first and its last element."""
    kind = TYPES.get(tensor["data_type"])
    if kind is None:
        return None
    memory = np.fromfile(path, kind)
    strides = [stride * memory.itemsize for stride in tensor["strides"]]
    values = np.lib.stride_tricks.as_strided(memory, tensor["dims"], strides, writeable=False)
    if tensor["data_type"] == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(values)


def _inputs(path: str) -> list[str]:
    """The arguments that name the inputs of a recorded graph, whose files become NumPy's."""
    with open(path, encoding="utf-8") as file:
        tensors = {str(tensor["uid"]): tensor for tensor in json.load(file)["tensors"]}
    words = []
    for name in sorted(glob.glob(glob.escape(path.removesuffix("json")) + "*.bin")):
        uid = name.removesuffix(".bin").rpartition(".")[2]
        values = _array(tensors[uid], name)
        if values is not None:
            np.save(name + ".npy", values)
            words += ["--in", f"{uid}={name}.npy"]
    return words


def find_tool(given: str | None) -> str:
    tool = shutil.which(given or "hipdnn")
    if tool is None:
        raise SystemExit(
            f"--numerics: there is no program {given or 'hipdnn'!r}, expected hipDNN's tool; --tool names it"
        )
    return tool


def measure(folder: str, tool: str, engine: str = "CPU_ENGINE") -> list[tuple[str, dict[str, Any] | str]]:
    """The errors of each graph in a folder, as ``hipdnn numerics --json`` writes them, or why there are none."""
    found: list[tuple[str, dict[str, Any] | str]] = []
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.json"))):
        words = [tool, "numerics", path, "--engine", engine, "--json", *_inputs(path)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        name = os.path.basename(path).removesuffix(".json")
        found.append((name, json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()))
    return found


def _short(number: float | str) -> str:
    return number if isinstance(number, str) else f"{number:.2g}"


def print_report(found: list[tuple[str, dict[str, Any] | str]]) -> None:
    print(f"{'LOST':>5} {'SHARE':>6} {'ADDED':>9} {'SO FAR':>9}  NODE")
    worst: tuple[float, str] | None = None
    for name, of in found:
        if isinstance(of, str):
            print(f"{name}: {of}")
            continue
        print(f"{name}:")
        for row in of["rows"]:
            numbers = (
                f"{row['lost']:5.1f} {100 * row['share']:5.0f}% {_short(row['added']):>9} {_short(row['so_far']):>9}"
            )
            label = row["name"] or f"node {row['node']}"
            why = "".join(f": {reason}" for reason in row["reasons"][:1])
            print(f"{numbers}  {label} ({row['operation']}, {row['data_type']}){why}")
            if row["node"] == of["culprit"] and (worst is None or row["lost"] > worst[0]):
                worst = (
                    row["lost"],
                    f"{label} ({row['operation']}) loses {row['lost']:.1f} of {of['digits']:.1f} digits{why}",
                )
    print(worst[1] if worst else "no node loses digits")
