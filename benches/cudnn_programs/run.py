"""Runs cudnn-frontend's notebooks, tests and C++ samples with hipDNN in cuDNN's place: run.py CLONE --out FOLDER [--device cpu|cuda].

CLONE is a clone of cudnn-frontend, which this project does not contain. Every program is a process with a time limit; FOLDER gets a line of
JSON for each cell and case, and summary.json. On the host, the programs' device is changed to "cpu" (pretend.py has further stand-ins).
cpp/build.sh makes the samples; --samples names the program of them.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
# Files with thousands of cases: only one in so many is run.
SAMPLES = {"test_mhas.py": 300, "test_mhas_v2.py": 20, "test_matmul_fuzzer.py": 30, "test_conv_fuzzer.py": 15}
# CUDA kernels of cuDNN's own in Python, or kernels for other devices.
ELSEWHERE = ("test_sm100", "test_sm90")


@dataclass
class Program:
    name: str
    command: list
    folder: Path
    log: Path
    lines: Path
    case: str = "1:0"

    def run(self, seconds: int):
        """Its exit status, or "time" after a timeout, and a line for each case."""
        variables = {"CASE_LOG": str(self.lines), "CASE_SAMPLE": self.case}
        path = f"{HERE}:{os.environ.get('PYTHONPATH', '')}"
        with open(self.log, "w") as out:
            process = subprocess.Popen(
                list(map(str, self.command)),
                env={**os.environ, **variables, "PYTHONPATH": path},
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = "time"
        text = self.lines.read_text(errors="replace") if self.lines.exists() else ""
        return status, [json.loads(line) for line in text.splitlines() if line.startswith('{"case"')]


def notebooks(clone: Path, out: Path):
    for path in sorted((clone / "samples/python").glob("*.ipynb")):
        log = out / f"{path.stem}.log"
        yield Program(path.name, [sys.executable, HERE / "notebook.py", path], out, log, log)


def tests(clone: Path, out: Path, parts: int):
    import pretend

    folder = out / "tests"
    shutil.copytree(clone / "test/python", folder, dirs_exist_ok=True)
    for path in folder.rglob("*.py"):
        path.write_text(pretend.on_device(path.read_text()))
    for path in sorted(folder.glob("test_*.py")):
        if path.name.startswith(ELSEWHERE):
            continue
        for part in range(parts if path.name in SAMPLES else 1):
            lines = out / f"{path.stem}.{part}.jsonl"
            lines.unlink(missing_ok=True)
            command = [sys.executable, "-m", "pytest", "-q", "-p", "cases", "-p", "no:cacheprovider", path.name]
            case = f"{SAMPLES.get(path.name, 1)}:{part}"
            yield Program(path.name, command, folder, lines.with_suffix(".log"), lines, case)


def samples(program: Path | None, out: Path, jobs: int):
    for part in range(jobs if program else 0):
        log = out / f"samples.{part}.log"
        yield Program("C++ samples", [program, "", os.environ.get("CASE_LIMIT", "60"), part, jobs], out, log, log)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", default="", help="words of a program's name")
    parser.add_argument("--limit", type=int, default=600, help="seconds for a program")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once")
    parser.add_argument("--parts", type=int, default=1, help="parts of the files of which few cases are taken")
    parser.add_argument("--samples", type=Path, help="the program of C++ samples")
    given = parser.parse_args()
    os.environ["PROGRAMS_DEVICE"] = given.device
    clone, out = given.clone.resolve(), given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    program = given.samples.resolve() if given.samples else None
    chosen = [*tests(clone, out, given.parts), *notebooks(clone, out), *samples(program, out, given.jobs)]
    summary: dict = {}
    with ThreadPoolExecutor(given.jobs) as pool:
        running = {pool.submit(one.run, given.limit): one for one in chosen if given.only in one.name}
        for done in as_completed(running):
            status, lines = done.result()
            name = running[done].name
            counts = collections.Counter(line["outcome"] for line in lines)
            print(time.strftime("%H:%M:%S"), name, status, dict(counts), flush=True)
            entry = summary.setdefault(name, {"status": [], "counts": {}, "reasons": []})
            entry["status"].append(status)
            entry["counts"] = dict(counts + collections.Counter(entry["counts"]))
            entry["reasons"] += [line for line in lines if line["outcome"] != "passed"]
            (out / "summary.json").write_text(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
