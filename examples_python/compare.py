"""Shared by the training examples: two models from the same seed, one in PyTorch alone and one with hipDNN, trained alternately."""

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable

import hipdnn.torch
import torch
import torch.nn.functional as F

#: The first steps include planning.
PLANNED = 3

#: Where networks spend their time, by words in function names.
KINDS = {
    "convolutions": ("conv",),
    "norms": ("norm",),
    "products": ("mm",),
    "attention": ("attention",),
}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for a GPU")
    parser.add_argument(
        "--dtype",
        choices=["float64", "float32", "float16", "bfloat16"],
        default="float32",
        help="16 bits by autocast; in float64 rounding hardly shows",
    )
    parser.add_argument(
        "--graph",
        action="store_true",
        help="a step captured in a CUDA graph, of each",
    )
    parser.add_argument(
        "--rounding",
        action="store_true",
        help="a third time, in PyTorch with weights moved by one ulp: what rounding alone does",
    )
    parser.add_argument("--rate", type=float, help="the learning rate, in place of the example's")
    parser.add_argument(
        "--check",
        action="store_true",
        help="fail where a loss differs by more than 1 percent",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help='by torch.compile(backend="hipdnn"), which is inductor with the kernels of hipDNN',
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="the losses as a picture; needs matplotlib",
    )
    return parser


class Run:
    """A model trained in one of the ways, with its losses and step times."""

    def __init__(
        self,
        model: Callable[[], tuple[torch.nn.Module, torch.optim.Optimizer]],
        ours: bool,
        arguments: argparse.Namespace,
    ) -> None:
        torch.manual_seed(0)
        made, self.optimizer = model()
        for group in self.optimizer.param_groups:
            group["lr"] = arguments.rate or group["lr"]
        if arguments.dtype == "float64":
            made.double()
        compiled = ours and arguments.compile
        self.call = torch.compile(made, backend=hipdnn.torch.backend) if compiled else made
        self.routed = ours and not compiled
        self.device, self.dtype = arguments.device, getattr(torch, arguments.dtype)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.losses: list[float] = []
        self.times: list[float] = []

    def round_weights(self) -> None:
        """Moves each weight away from 0 by one ulp; zeros, at which activations change, stay."""
        with torch.no_grad():
            for group in self.optimizer.param_groups:
                for weight in group["params"]:
                    weight.copy_(weight.nextafter(2 * weight))

    def work(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """A step, without waiting for its loss."""
        kind = self.device.partition(":")[0]
        narrow = self.dtype.itemsize < 4
        with hipdnn.torch.enable(timed=False) if self.routed else contextlib.nullcontext():
            with torch.autocast(kind, self.dtype) if narrow else contextlib.nullcontext():
                result = self.call(x)
                loss = F.cross_entropy(result.flatten(0, -2), y.flatten())
            self.optimizer.zero_grad()
            loss.backward()
        self.optimizer.step()
        return loss

    def capture(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Captures a step in a graph, which reads its input in place."""
        self.x, self.y = x.clone(), y.clone()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.work(self.x, self.y)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        started = time.perf_counter()
        if self.graph is not None:
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            loss = self.loss
        else:
            loss = self.work(x, y)
        self.losses.append(loss.item())
        self.times.append(1000 * (time.perf_counter() - started))


def train(
    name: str,
    model: Callable[[], tuple[torch.nn.Module, torch.optim.Optimizer]],
    batch: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    arguments: argparse.Namespace,
) -> None:
    """Trains both, alternating steps, and prints how far apart they are and how long they took."""
    on_gpu = arguments.device != "cpu"
    if arguments.graph and not on_gpu:
        raise SystemExit("--graph captures steps on a GPU: expected --device cuda")
    if on_gpu:
        torch.backends.cudnn.benchmark = True
    hipdnn.torch.reset()
    plain, routed = runs = [Run(model, ours, arguments) for ours in (False, True)]
    if arguments.rounding:
        runs.append(Run(model, False, arguments))
        runs[-1].round_weights()
    # Steps before a capture run on an ordinary stream, neither the default one nor another with special rules.
    side = torch.cuda.Stream() if arguments.graph else None
    with torch.cuda.stream(side) if side else contextlib.nullcontext():
        for at in range(arguments.steps):
            x, y = (t.to(arguments.device) for t in batch())
            if arguments.dtype == "float64" and x.is_floating_point():
                x = x.double()
            if side and at == PLANNED:
                torch.cuda.synchronize()
                for run in runs:
                    run.capture(x, y)
            for run in runs:
                run.step(x, y)
    apart, *rounding = (max(abs(a / b - 1) for a, b in zip(run.losses, plain.losses)) for run in runs[1:])
    print(
        f"loss {plain.losses[0]:.3f} -> {plain.losses[-1]:.3f} in PyTorch, {routed.losses[-1]:.3f} with hipDNN; at most {100 * apart:.3g} % apart"
    )
    for of in rounding:
        print(f"PyTorch with weights moved by one ulp: at most {100 * of:.3g} % apart")
    their_time, our_time = (statistics.median(run.times[PLANNED + on_gpu :] or run.times) for run in (plain, routed))
    where = torch.cuda.get_device_name(arguments.device) if on_gpu else "the CPU"
    print(
        f"a step takes {their_time:.2f} ms in PyTorch, {our_time:.2f} ms with hipDNN: {their_time / our_time:.2f} x"
        f" ({where}, {arguments.dtype}{', captured' if arguments.graph else ''})"
    )
    rows = hipdnn.torch.report()
    shares = computed_here(rows)
    told = (f"{100 * share:.4g} % of {kind}" for kind, share in shares.items())
    print(f"hipDNN computed {', '.join(told)}")
    print(f"  {'function':<30} {'calls':>6}  {'engine':<20}  call")
    for row in sorted(rows, key=lambda row: -row.routed):
        engines = ", ".join(dict.fromkeys(ran.engine for ran in row.ran))
        why = f", in PyTorch {row.passed_on}: {'; '.join(row.reasons)}" if row.passed_on else ""
        print(f"  {row.function:<30} {row.routed:>6}  {engines:<20}  {row.call}{why}")
    if arguments.plot:
        draw(name, plain.losses, routed.losses, arguments.plot)
    left = not any(row.routed for row in rows)
    if arguments.check and (apart > 0.01 or left):
        raise SystemExit("the losses are more than 1 % apart, or nothing was computed by hipDNN")


def computed_here(rows: hipdnn.torch.Report) -> dict[str, float]:
    """The share of calls of each kind that hipDNN computed."""
    shares = {}
    for kind, words in KINDS.items():
        of = [row for row in rows if any(word in row.function for word in words)]
        routed = sum(row.routed for row in of)
        if calls := routed + sum(row.passed_on for row in of):
            shares[kind] = routed / calls
    return shares


def draw(name: str, theirs: list[float], ours: list[float], path: str) -> None:
    """Both losses as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    # The same losses give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "hipdnn", "font.size": 11})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.2, 3.2), layout="constrained")
    axes.plot(theirs, color="0.65", linewidth=4, label="PyTorch")
    axes.plot(ours, color="tab:red", linewidth=1.2, label="hipDNN")
    axes.set(title=name, xlabel="step", ylabel="loss")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
