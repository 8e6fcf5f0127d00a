"""Writes the linker script that puts the functions of a process's first plan side by side.

A page fault maps 64 KiB of a library, so functions that are spread over all of it cost a fault each. valgrind tells which functions
`entry_points` calls until its first plan; compiler hashes in their names become wildcards, so that the script serves later versions, too.

    cargo build --release -p hipdnn-cpu-plugin && cargo bench --bench entry_points --no-run
    export HIPDNN_PLUGIN_DIR=target/release/libhipdnn_cpu_plugin.so
    program=target/release/deps/entry_points-HASH
    python3 benches/startup_order.py $program libhipdnn_backend.so > plugins/startup/hipdnn-backend.ld
    python3 benches/startup_order.py $program libhipdnn_cpu_plugin.so > plugins/startup/hipdnn-cpu-plugin.ld
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = """\
/* The functions that a process calls until its first plan, side by side: a page fault maps 64 KiB. Written by benches/startup_order.py. */
SECTIONS
{
  .text : ALIGN(64)
  {
"""

TAIL = """\
  }
}
INSERT BEFORE .init;
"""


def pattern(symbol: str) -> str:
    """The section of a function, without what changes from build to build."""
    if symbol.startswith("_R"):
        return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", symbol)
    return re.sub(r"17h[0-9a-f]{16}E", "17h*", symbol)


def called(program: str, library: str) -> list[str]:
    """The functions of a library that a program calls, in the order of their first call."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        options = ["--demangle=no", "--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={out}"]
        environment = os.environ | {"HIPDNN_BENCH_FIRST_PLAN": "1"}
        subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", *options, program], check=True, env=environment, stdout=sys.stderr
        )
        names: dict[str, None] = {}
        place = ""
        for line in out.read_text().splitlines():
            if line.startswith("ob="):
                place = line[3:]
            elif line.startswith("fn=") and place.endswith(library):
                names[line[3:]] = None
    # C's functions and those without a name stay where they are.
    return [name for name in names if name.startswith(("_R", "_ZN", "hipdnn"))]


def main() -> None:
    program, library = sys.argv[1:]
    patterns = sorted({pattern(symbol) for symbol in called(program, library)})
    sys.stdout.write(HEAD)
    for one in patterns:
        # Some begin with .text.unlikely.
        sys.stdout.write(f"    *(.text*.{one})\n")
    sys.stdout.write(TAIL)


if __name__ == "__main__":
    main()
