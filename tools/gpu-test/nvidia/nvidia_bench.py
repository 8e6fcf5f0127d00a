#!/usr/bin/env python3
"""Times plans of the engines for NVIDIA GPUs against PyTorch, on the machine's first GPU, and checks their results.

Writes a CSV file with a row for each case and each who computes it (an engine, or a way through PyTorch), and prints
each row as it is made. The columns:

  what     the case: operation, type of the data, shape
  who      the engine, or "torch" and which of its ways; "torch compile" is torch.compile
  ms       device time of one execution in milliseconds, or REFUSED (the library behind the engine does not take the
           graph) or FAILED
  TFLOPS   10^12 operations a second, 0 where memory is the bound
  GB/s     10^9 bytes a second, counting once what is read or written; 0 where arithmetic is the bound
  host us  microseconds of the host for one call, waiting for a full queue included
  queued   executions between the two events that were timed
  error    the largest difference from PyTorch's result, over the largest magnitude of that; empty for PyTorch itself
  note     milliseconds to make the plan and bytes of its workspace; or why there are no figures

A figure is the median of three runs. In each, as many executions as fill a given time are queued on one stream between
two events. On both sides they alternate between equal sets of tensors that together exceed three times the L2 cache;
PyTorch's results are kept until the set's next turn, so that they are also written to memory.

The exit status is 1 if a result is wrong or an engine fails, 2 without PyTorch or a GPU.
"""

import argparse
import csv
import sys
import time

try:
    import nvidia_cases
    import torch
    from hipdnn_plans import DATA_TYPES, Library
    from nvidia_report import write_picture

    MISSING = "no GPU"
except ImportError as error:
    torch, MISSING = None, error

COLUMNS = ["what", "who", "ms", "TFLOPS", "GB/s", "host us", "queued", "error", "note"]
# The tolerances: two steps of the type at the largest magnitude; for floats, the error of long sums.
TOLERANCES = {"bfloat16": 2**-6, "half": 2**-9, "float": 1e-5}

# The knobs of further plans: the fastest one when the plan is made, and workgroups that share no rows.
WAYS = {"": {}, "timed": {"global.benchmarking": 1}, "rows apart": {"rtc.share_rows": 0}}


class Bench:
    """Times cases and writes the rows."""

    def __init__(self, library, file, options):
        self.library, self.file, self.seconds, self.bad = library, file, options.seconds, 0
        self.rows, self.compile_seconds = [], options.compile_seconds
        self.only, self.who = options.only, options.who
        self.write(COLUMNS)

    def wants(self, what, who=""):
        """Whether to run a case, or to make a row of it."""
        return any(word in what for word in self.only) and (not who or any(word in who for word in self.who))

    def write(self, cells):
        self.rows.append([str(cell) for cell in cells])
        for file in (self.file, sys.stdout):
            csv.writer(file, lineterminator="\n").writerow(cells)
            file.flush()

    def without(self, what, who, word, why):
        """Writes a row without figures."""
        self.write([what, who, word, *[""] * 5, " ".join(str(why).split())[:260]])

    def time(self, run):
        """Milliseconds of the device and microseconds of the host for one call, and how many calls were queued."""
        for turn in range(3):
            run(turn)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for turn in range(5):
            run(turn)
        torch.cuda.synchronize()
        queued = max(5, min(2000, int(self.seconds * 5 / (time.perf_counter() - began))))
        figures = []
        for _ in range(3):
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            began = time.perf_counter()
            first.record()
            for turn in range(queued):
                run(turn)
            last.record()
            host = time.perf_counter() - began
            torch.cuda.synchronize()
            figures.append((first.elapsed_time(last) / queued, host / queued * 1e6))
        return (*sorted(figures)[1], queued)

    def figures(self, run, work):
        """The columns from ms to queued. The work is `flops` or `bytes` of one execution."""
        ms, host, queued = self.time(run)
        rates = work.get("flops", 0) / ms / 1e9, work.get("bytes", 0) / ms / 1e6
        return [f"{ms:.4f}", *(f"{rate:.1f}" for rate in rates), f"{host:.1f}", queued]

    def torch(self, what, sets, function, way="", note="", **work):
        """A row of PyTorch: a function of the current set of tensors."""
        who, made = f"torch {way}".strip(), [None] * len(sets)
        if not self.wants(what, who):
            return

        def run(turn):
            turn %= len(made)
            made[turn] = function(sets.all[turn])

        try:
            self.write([what, who, *self.figures(run, work), "", note])
        except Exception as error:  # PyTorch may not have this way; the case goes on.
            self.without(what, who, "FAILED", error)

    def compiled(self, what, sets, function, **work):
        """A row of the same function, compiled, as long as there is time for that."""
        if not self.wants(what, "torch compile"):
            return None
        if self.compile_seconds <= 0:
            return self.without(
                what, "torch compile", "LEFT OUT", "the time for compiling is over, or it failed before"
            )
        began = time.perf_counter()
        try:
            torch._dynamo.reset()
            compiled = torch.compile(function, dynamic=False)
            compiled(sets.first)
            torch.cuda.synchronize()
        except Exception as error:  # Without a C compiler, for instance.
            self.compile_seconds = 0
            return self.without(what, "torch compile", "FAILED", error)
        seconds = time.perf_counter() - began
        self.compile_seconds -= seconds
        return self.torch(what, sets, compiled, "compile", f"compiled in {seconds:.1f} s", **work)

    def ours(self, what, engine, graph, results, way="", **work):
        """A row of an engine's, with its default plan or one of WAYS. The results are what is expected, by the names of tensors that the
        graph writes."""
        who = f"{engine} {way}".strip()
        if not self.wants(what, who):
            return None
        ends = (graph.sets.first, graph.sets.last)
        try:
            execute, seconds, workspace = self.library.plan(graph, engine, WAYS[way])
            for tensors in ends:
                for name in results:
                    getattr(tensors, name).fill_(float("nan"))
            figures = self.figures(execute, work)
        except RuntimeError as error:
            reason = self.library.refusal(graph, engine)
            self.bad += reason is None
            return self.without(what, who, "REFUSED" if reason else "FAILED", reason or error)
        note = f"plan {seconds * 1e3:.0f} ms; workspace {workspace}; {len(graph.sets)} sets"
        errors = {
            name: max(relative_error(getattr(tensors, name), want) for tensors in ends)
            for name, want in results.items()
        }
        allowed = {name: TOLERANCES[DATA_TYPES[str(want.dtype)]] for name, want in results.items()}
        if not all(error <= allowed[name] for name, error in errors.items()):  # NaN is wrong, too.
            self.bad += 1
            note += f"; WRONG: errors {errors}, expected at most {allowed}"
        return self.write([what, who, *figures, f"{max(errors.values()):.1e}", note])


def relative_error(got, want):
    """The largest difference over the largest expected magnitude."""
    got, want = got.float(), want.float()
    return (got - want).abs().max().item() / max(want.abs().max().item(), 1e-9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    groups = {} if torch is None else nvidia_cases.GROUPS
    parser.add_argument("library", help="path of libhipdnn_backend.so, its plugins beside it")
    parser.add_argument("csv", help="path of the file to write")
    parser.add_argument(
        "--groups", nargs="+", choices=groups, default=list(groups), help="groups of cases, all unless told"
    )
    parser.add_argument("--seconds", type=float, default=0.1, help="device time of each of the three runs (0.1)")
    parser.add_argument(
        "--compile-seconds", type=float, default=60, help="time for torch.compile (60); 0 leaves it out"
    )
    words = {"type": lambda text: text.split(","), "default": [""], "metavar": "WORD,WORD"}
    parser.add_argument("--only", help="run the cases whose names contain one of these words", **words)
    parser.add_argument(
        "--who", help="make the rows of those whose names contain one of these words, as NVRTC,torch", **words
    )
    parser.add_argument("--picture", help="path of a picture to write, SVG")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print(f"nvidia_bench: needs PyTorch and a GPU that it finds: {MISSING}", file=sys.stderr)
        return 2
    torch.backends.cudnn.benchmark = True
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    library = Library(options.library)
    library.set_stream(stream.cuda_stream)
    name, cudnn = torch.cuda.get_device_name(), torch.backends.cudnn.version()
    machine = f"{name}, PyTorch {torch.__version__}, cuDNN {cudnn}"
    print(machine)
    with open(options.csv, "w", encoding="utf-8") as file:
        bench = Bench(library, file, options)
        for name in options.groups:
            try:
                groups[name](bench)
                torch.cuda.synchronize()
            except Exception as error:  # The other groups go on.
                bench.bad += 1
                print(f"nvidia_bench: {name} failed: {error!r}", file=sys.stderr)
            torch.cuda.empty_cache()
    if options.picture:
        write_picture(options.picture, bench.rows, machine)
    print(f"nvidia_bench: {bench.bad} wrong or missing", file=sys.stderr)
    return 1 if bench.bad else 0


if __name__ == "__main__":
    sys.exit(main())
