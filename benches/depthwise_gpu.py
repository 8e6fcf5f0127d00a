#!/usr/bin/env python3
"""Depthwise convolutions on a GPU: NVRTC_ENGINE and CUDNN_ENGINE beside PyTorch, in turns.

    python3 benches/depthwise_gpu.py [--csv FILE]

Needs PyTorch and the package hipdnn. A line for each shape [images, channels, height and width, window, stride]: microseconds of a
call, medians of the rounds. Around 15 of them are Python's.
"""

import argparse
import csv
import datetime
import statistics

import hipdnn
import torch
import torch.nn.functional as F

SHAPES = [
    (1, 96, 112, 3, 2), (1, 144, 56, 3, 1), (8, 32, 112, 3, 1), (8, 144, 56, 3, 2), (8, 240, 28, 5, 1), (8, 960, 7, 3, 1),
    (8, 96, 56, 7, 1), (8, 192, 28, 7, 1), (8, 384, 14, 7, 1), (8, 768, 7, 7, 1), (64, 144, 56, 3, 1), (64, 576, 14, 5, 1),
    (64, 384, 14, 7, 1),
]  # fmt: skip
ENGINES = ("NVRTC_ENGINE", "CUDNN_ENGINE")
TIMES = 20


def microseconds(f):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(TIMES):
        f()
    end.record()
    torch.cuda.synchronize()
    return 1000 * begin.elapsed_time(end) / TIMES


def contestants(shape, dtype, form):
    """What computes the convolution, by name. Each has computed it once, with the right result."""
    images, channels, size, window, stride = shape
    x = torch.randn(images, channels, size, size, device="cuda").to(dtype).contiguous(memory_format=form)
    w = torch.randn(channels, 1, window, window, device="cuda").to(dtype)
    own = lambda: F.conv2d(x, w, None, stride, window // 2, 1, channels)
    wanted = F.conv2d(x.double(), w.double(), None, stride, window // 2, 1, channels)
    found = {"PyTorch": own}
    for engine in ENGINES:
        with hipdnn.Graph() as graph:
            image, filters = graph.tensor_like(x), graph.tensor_like(w)
            graph.conv_fprop(image, filters, padding=[window // 2] * 2, stride=[stride] * 2)
        graph.build(engine=engine, device="cuda:0")
        found[engine] = lambda graph=graph: graph(x, w)
    for name, f in found.items():
        apart = (f().double() - wanted).abs().max().item()
        assert apart <= 4 * window * torch.finfo(dtype).eps * wanted.abs().max().item(), (name, shape, dtype, apart)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--csv", help="a file that gets the lines")
    arguments = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    machine = f"one {torch.cuda.get_device_name()} (PyTorch {torch.__version__.split('+')[0]})"
    rows, ratios = [], {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for form in (torch.channels_last, torch.contiguous_format):
            for shape in SHAPES:
                found = contestants(shape, dtype, form)
                times = {name: [] for name in found}
                for _ in range(arguments.rounds):
                    for name, f in found.items():
                        times[name].append(microseconds(f))
                medians = {name: statistics.median(of) for name, of in times.items()}
                what = f"{str(dtype)[6:]} {str(form)[6:]} {list(shape)}"
                print(what, *(f"{name} {time:.0f}" for name, time in medians.items()), flush=True)
                best = medians["NVRTC_ENGINE"]
                for peer in ("CUDNN_ENGINE", "PyTorch"):
                    label = f"{what}: NVRTC_ENGINE {best:.0f} us, {peer} {medians[peer]:.0f}"
                    rows.append((label, f"{medians[peer] / best:.2f}"))
                    ratios.setdefault((str(dtype)[6:], str(form)[6:], peer), []).append(medians[peer] / best)
    for (*what, peer), of in ratios.items():
        rows.append((f"{' '.join(what)}, all: NVRTC_ENGINE beside {peer}", f"{statistics.geometric_mean(of):.2f}"))
        print(*rows[-1])
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["date", "machine", "command", "what", "value", "unit", "goal"])
            for what, ratio in rows:
                writer.writerow(
                    [datetime.date.today(), machine, "benches/depthwise_gpu.py", what, ratio, "ratio to the other", ""]
                )


if __name__ == "__main__":
    main()
