"""What a new length costs: models whose length changes in each run. For each length its first run, which makes plans, beside later ones,
and beside CPUExecutionProvider's; then the memory that all plans take."""

import argparse
import csv
import os
import platform
import statistics
import time

import llama
import networks
import numpy as np
import provider
from onnx import TensorProto
from session_tests import resident


def bert(layers, size):
    """An encoder whose number of tokens is open."""
    m = networks.Maker(4)
    table, places = (m.weight(m.random.standard_normal((rows, size)) * 0.5) for rows in (3000, 512))
    tokens = m.node("Shape", "ids", start=1, end=2)
    place = m.node("Unsqueeze", m.node("Slice", places, m.integers(0), tokens, m.integers(0)), m.integers(0))
    x = m.layer_norm(m.node("Add", m.node("Gather", table, "ids"), place), size)
    mask = m.node("Cast", m.node("Unsqueeze", "mask", m.integers(1, 2)), to=TensorProto.FLOAT)
    mask = m.node("Mul", m.node("Sub", m.weight(1.0), mask), m.weight(-10000.0))
    for _ in range(layers):
        x = m.layer_norm(m.node("Add", x, networks.attention(m, x, size, size // 64, 0, mask)), size)
        y = m.node("Gelu", m.linear(x, size, 4 * size))
        x = m.layer_norm(m.node("Add", x, m.linear(y, 4 * size, size)), size)
    return m.model([(name, TensorProto.INT64, ["batch", "tokens"]) for name in ("ids", "mask")], [x])


def tokens(length, _):
    ids = np.arange(length, dtype=np.int64)[None] * 7 % 3000
    return {"ids": ids, "mask": np.ones_like(ids)}


def prompt(length, of):
    """A prompt of a language model, without a past."""
    feeds = {"input_ids": np.arange(length, dtype=np.int64)[None] * 7 % of.vocabulary}
    feeds["attention_mask"] = np.ones((1, length), np.int64)
    empty = np.zeros((1, of.kv_heads, 0, of.head), np.float32)
    for layer in range(of.layers):
        feeds |= {f"past_key_values.{layer}.{name}": empty for name in ("key", "value")}
    return feeds


MODELS = {
    "bert": (lambda: bert(12, 768), tokens, None),
    "bert-small": (lambda: bert(6, 384), tokens, None),
    "llama": (lambda: llama.model(32), prompt, llama.USUAL),
}


def case(name, threads, lengths, plans):
    """The milliseconds of planning and of a run for each length, CPUExecutionProvider's, and bytes that plans took."""
    make, feeds_of, of = MODELS[name]
    data = make()
    settings = {"plans": str(plans)}
    own, plain = provider.session(data, settings, threads), provider.plain(data, threads)
    before, rows = resident(), []
    # On one thread its time on the processor, which other processes do not change.
    clock = time.process_time if threads == 1 else time.perf_counter
    for length in lengths:
        feeds = feeds_of(length, of)

        def timed(session):
            begun = clock()
            result = session.run(None, feeds)
            return 1000 * (clock() - begun), result[0]

        first, have = timed(own)
        later = min(timed(own)[0] for _ in range(3))
        peer, want = min((timed(plain) for _ in range(2)), key=lambda of: of[0])
        gap = provider.difference(have, want)
        assert gap < 1e-3, (name, length, gap)
        rows.append((length, max(0.0, first - later), later, peer))
    return rows, resident() - before


NAMES = [
    "model", "threads", "lengths", "plan_ms", "run_ms", "plan_part_of_first_run", "plan_part_of_all", "peer_over_first_run", "plans_mib",
]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), help="of " + ", ".join(MODELS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lengths", type=int, default=64)
    parser.add_argument("--plans", type=int, default=64, help="the most plans that a session keeps")
    parser.add_argument("--csv", help="a file that gets a line for each model")
    parser.add_argument("--verbose", action="store_true", help="print each length")
    arguments = parser.parse_args()
    lines = []
    for name in arguments.models:
        # Each length once, not in order.
        lengths = np.random.default_rng(1).permutation(np.arange(1, arguments.lengths + 1) * 4 - 1).tolist()
        rows, grown = case(name, arguments.threads, lengths, arguments.plans)
        for length, plan, run, peer in rows if arguments.verbose else ():
            print(f"  {length:4} tokens: plan {plan:7.2f} ms, run {run:8.2f} ms, CPUExecutionProvider {peer:8.2f} ms")
        # The first ten pack weights.
        later = rows[10:]
        figures = [
            statistics.median(plan for _, plan, _, _ in later),
            statistics.median(run for _, _, run, _ in later),
            statistics.median(plan / (plan + run) for _, plan, run, _ in later),
            sum(plan for _, plan, _, _ in later) / sum(plan + run for _, plan, run, _ in later),
            statistics.median(peer / (plan + run) for _, plan, run, peer in later),
            grown / 2**20,
        ]
        lines.append([name, arguments.threads, len(rows), *(round(figure, 3) for figure in figures)])
        print(", ".join(f"{name} {value}" for name, value in zip(NAMES, lines[-1])), flush=True)
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            where = f"{platform.machine()}, {os.cpu_count()} processors, ONNX Runtime {provider.ort.__version__}"
            writer.writerow(
                [*NAMES, f"{where}, integrations/onnxruntime/tests/lengths.py, {time.strftime('%Y-%m-%d')}"]
            )
            writer.writerows(lines)


if __name__ == "__main__":
    main()
