"""Eight threads run several sessions at once, one with changing shapes, for the given number of minutes: checks results and memory."""

import sys
import threading
import time

import networks
import provider
from session_tests import convolution, images, resident

THREADS = 8
# Memory may grow while the first runs of every shape make their plans.
SETTLED = 0.4
MOST = {"cpu": 1e-3, "gpu": 5e-3}


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


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    cases = sessions()
    begun = time.monotonic()
    end = begun + 60 * minutes
    runs, wrong = [0] * THREADS, []

    def work(seed):
        while time.monotonic() < end and not wrong:
            turn = runs[seed] + seed
            name, own, feeds = cases[turn % len(cases)]
            at = turn // len(cases) % len(feeds)
            gap = provider.difference(own.run(None, feeds[at][0])[0], feeds[at][1])
            runs[seed] += 1
            if not gap < MOST[provider.DEVICE]:
                wrong.append((name, at, gap))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(60 * minutes * SETTLED)
    settled = resident()
    for thread in threads:
        thread.join()
    grown = resident() - settled
    print(
        f"{sum(runs)} runs of {len(cases)} sessions on {THREADS} threads in {time.monotonic() - begun:.0f} s, {len(wrong)} wrong,"
        f" {settled >> 20} MiB when settled and {grown / 2**20:+.1f} MiB later"
    )
    return int(bool(wrong) or min(runs) == 0 or grown > 64 << 20)


if __name__ == "__main__":
    sys.exit(main())
