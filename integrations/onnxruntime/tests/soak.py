"""Threads run sessions at once for some minutes: checks results and memory. By default several sessions, one of them with changing
shapes; with --lengths one session whose length changes in each run, while other sessions are made and dropped.

Ten minutes of 16 threads on one session: soak.py 10 --threads 16 --lengths"""

import argparse
import sys
import threading
import time

import lengths
import networks
import numpy as np
import provider
from session_tests import convolution, images, resident

# Memory may grow while the first runs of every shape make their plans.
SETTLED = 0.4
MOST = {"cpu": 1e-3, "gpu": 5e-3}
# More than the plans that a session keeps.
LENGTHS = range(3, 90, 3)


def sessions():
    """For each session, its inputs and CPUExecutionProvider's results."""
    made = []
    for name in ("resnet50", "mobilenet_v3", "vit_small", "unet"):
        model, shapes = networks.NETWORKS[name](1)
        feeds = [networks.inputs(shapes, 1, seed) for seed in range(3)]
        made.append((name, provider.session(model, None, 1), provider.plain(model), feeds))
    data = convolution()
    feeds = [images(1 + at % 3, 8, 4 + at % 7, 5 + at) for at in range(12)]
    own = provider.session(data, {"take": "all", "plans": "4"}, 1)
    made.append(("convolution", own, provider.plain(data), feeds))
    return [(name, own, [(feed, plain.run(None, feed)[0]) for feed in feeds]) for name, own, plain, feeds in made]


def of_lengths():
    """The same for one encoder, whose inputs have many lengths."""
    data = lengths.bert(2, 128)
    own, plain = provider.session(data, None, 1), provider.plain(data)
    feeds = [lengths.tokens(length, None) for length in np.random.default_rng(1).permutation(LENGTHS)]
    return [("lengths", own, [(feed, plain.run(None, feed)[0]) for feed in feeds])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--lengths", action="store_true", help="one session, whose length changes in each run")
    arguments = parser.parse_args()
    minutes, count = arguments.minutes, arguments.threads
    cases = of_lengths() if arguments.lengths else sessions()
    begun = time.monotonic()
    end = begun + 60 * minutes
    runs, wrong, dropped = [0] * count, [], 0

    def check(name, own, feed, want):
        gap = provider.difference(own.run(None, feed)[0], want)
        if not gap < MOST[provider.DEVICE]:
            wrong.append((name, gap))

    def work(seed):
        while time.monotonic() < end and not wrong:
            turn = runs[seed] + seed
            name, own, feeds = cases[turn % len(cases)]
            check(name, own, *feeds[turn // len(cases) % len(feeds)])
            runs[seed] += 1

    def drop():
        nonlocal dropped
        data, feed = convolution(), images(1, 8, 6, 7)
        want = provider.plain(data).run(None, feed)[0]
        while time.monotonic() < end and not wrong:
            check("a session that is dropped", provider.session(data, {"take": "all"}, 1), feed, want)
            dropped += 1

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(count)]
    threads += [threading.Thread(target=drop)] if arguments.lengths else []
    for thread in threads:
        thread.start()
    time.sleep(60 * minutes * SETTLED)
    settled = resident()
    for thread in threads:
        thread.join()
    grown = resident() - settled
    print(
        f"{sum(runs)} runs of {len(cases)} sessions on {count} threads in {time.monotonic() - begun:.0f} s, {dropped} sessions dropped,"
        f" {len(wrong)} wrong, {settled >> 20} MiB when settled and {grown / 2**20:+.1f} MiB later"
    )
    return int(bool(wrong) or min(runs) == 0 or grown > 64 << 20)


if __name__ == "__main__":
    sys.exit(main())
