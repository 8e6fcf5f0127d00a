"""What the training examples share: two models from the same seed, one in PyTorch alone and one by hipDNN, trained in turns."""

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import hipdnn.torch

#: The first steps plan their graphs.
PLANNED = 3


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--check",
        action="store_true",
        help="fail where a loss differs by more than 1 percent",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help='by torch.compile(backend="hipdnn"), which makes one graph of several operations',
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="the losses as a picture; needs matplotlib",
    )
    return parser


def train(
    name: str,
    model: Callable[[], tuple[torch.nn.Module, torch.optim.Optimizer]],
    batch: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    arguments: argparse.Namespace,
) -> None:
    """Trains both, a step of each in turns, and prints how far apart they are and how long they took."""
    runs = []
    for ours in (False, True):
        torch.manual_seed(0)
        made, optimizer = model()
        compiled = ours and arguments.compile
        call = torch.compile(made, backend=hipdnn.torch.backend) if compiled else made
        runs.append((call, optimizer, ours and not compiled, [], []))
    for _ in range(arguments.steps):
        x, y = batch()
        for call, optimizer, routed, losses, times in runs:
            started = time.perf_counter()
            with hipdnn.torch.enable() if routed else contextlib.nullcontext():
                result = call(x)
                loss = F.cross_entropy(result.flatten(0, -2), y.flatten())
                optimizer.zero_grad()
                loss.backward()
            optimizer.step()
            losses.append(loss.item())
            times.append(1000 * (time.perf_counter() - started))
    (theirs, their_times), (ours, our_times) = ((run[3], run[4]) for run in runs)
    apart = max(abs(a / b - 1) for a, b in zip(ours, theirs))
    print(
        f"loss {theirs[0]:.3f} -> {theirs[-1]:.3f} in PyTorch, {ours[-1]:.3f} with hipDNN; at most {100 * apart:.3f} % apart"
    )
    their_time, our_time = (
        statistics.median(times[PLANNED:] or times)
        for times in (their_times, our_times)
    )
    print(
        f"a step takes {their_time:.1f} ms in PyTorch, {our_time:.1f} ms with hipDNN: {their_time / our_time:.2f} x"
    )
    rows = hipdnn.torch.report()
    for row in sorted(rows, key=lambda row: -row.routed):
        why = (
            f", in PyTorch {row.passed_on}: {'; '.join(row.reasons)}"
            if row.passed_on
            else ""
        )
        print(f"  {row.function:<30} {row.routed:>6} here{why}  ({row.place})")
    if arguments.plot:
        draw(name, theirs, ours, arguments.plot)
    if arguments.check and (apart > 0.01 or any(row.passed_on for row in rows)):
        raise SystemExit(
            "the losses are more than 1 % apart, or something was not computed by hipDNN"
        )


def draw(name: str, theirs: list[float], ours: list[float], path: str) -> None:
    """Both losses as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    # The same file for the same losses.
    matplotlib.rcParams.update({"svg.hashsalt": "hipdnn", "font.size": 11})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.2, 3.2), layout="constrained")
    axes.plot(theirs, color="0.65", linewidth=4, label="PyTorch")
    axes.plot(ours, color="tab:red", linewidth=1.2, label="hipDNN")
    axes.set(title=name, xlabel="step", ylabel="loss")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
