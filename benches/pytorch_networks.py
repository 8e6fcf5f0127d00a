"""Compares training steps of common networks with hipDNN's kernels and with PyTorch's own, in turns in one process.

    python benches/pytorch_networks.py --csv benches/results/pytorch_networks.csv

Needs torchvision and transformers. Each network makes steps (forward, backward, SGD) in `float32` on a CPU, or under autocast with
`--device cuda`: first steps in which hipDNN decides which side computes each operation, then pairs of steps in alternating order. The
table has the first step of each, the medians of the pairs, and the median of their ratios (above 1: hipDNN is faster).

    python benches/pytorch_networks.py --device cuda --first

makes the first step of each network in a new process, with PyTorch alone and with hipDNN: the time includes the imports of `hipdnn.torch`.
With `--compile`, networks are compiled: by inductor, and with the backend `hipdnn`. `--inference` makes forward passes alone.

    torchrun --nproc-per-node 2 benches/pytorch_networks.py --device cuda --parallel ddp

trains on several GPUs, with `DistributedDataParallel` or, by `--parallel shard`, `fully_shard`; the first process prints.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import torch


def _vision(name: str, images: int, size: int) -> Callable[[int], tuple[torch.nn.Module, Callable[..., Any]]]:
    def make(times: int) -> tuple[torch.nn.Module, Callable[..., Any]]:
        import torchvision

        x, target = torch.randn(times * images, 3, size, size), torch.randint(1000, (times * images,))
        loss = torch.nn.functional.cross_entropy
        return getattr(torchvision.models, name)(), lambda model, to: loss(model(to(x)), to(target))

    return make


def _bert(batch: int, length: int) -> Callable[[int], tuple[torch.nn.Module, Callable[..., Any]]]:
    def make(times: int) -> tuple[torch.nn.Module, Callable[..., Any]]:
        import transformers

        config = transformers.BertConfig(num_hidden_layers=4)
        ids = torch.randint(1000, 20000, (times * batch, length))
        mask = torch.ones_like(ids)
        mask[0, length // 2 :] = 0
        model = transformers.BertForSequenceClassification(config)
        labels = torch.randint(2, (times * batch,))
        return model, lambda model, to: model(to(ids), attention_mask=to(mask), labels=to(labels)).loss

    return make


def _gpt2(batch: int, length: int) -> Callable[[int], tuple[torch.nn.Module, Callable[..., Any]]]:
    def make(times: int) -> tuple[torch.nn.Module, Callable[..., Any]]:
        import transformers

        ids = torch.randint(1000, 20000, (times * batch, length))
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4))
        return model, lambda model, to: model(to(ids), labels=to(ids)).loss

    return make


def _llama(batch: int, length: int) -> Callable[[int], tuple[torch.nn.Module, Callable[..., Any]]]:
    def make(times: int) -> tuple[torch.nn.Module, Callable[..., Any]]:
        import transformers

        config = transformers.LlamaConfig(
            hidden_size=1024,
            intermediate_size=2816,
            num_hidden_layers=4,
            num_attention_heads=16,
            num_key_value_heads=4,
            use_cache=False,
        )
        ids = torch.randint(1000, 20000, (times * batch, length))
        model = transformers.LlamaForCausalLM(config)
        return model, lambda model, to: model(to(ids), labels=to(ids)).loss

    return make


def _t5(batch: int, length: int) -> Callable[[int], tuple[torch.nn.Module, Callable[..., Any]]]:
    def make(times: int) -> tuple[torch.nn.Module, Callable[..., Any]]:
        import transformers

        ids = torch.randint(1000, 20000, (times * batch, length))
        config = transformers.T5Config(num_layers=4, use_cache=False, decoder_start_token_id=0)
        model = transformers.T5ForConditionalGeneration(config)
        return model, lambda model, to: model(input_ids=to(ids), labels=to(ids)).loss

    return make


def _whisper(batch: int, length: int) -> Callable[[int], tuple[torch.nn.Module, Callable[..., Any]]]:
    def make(times: int) -> tuple[torch.nn.Module, Callable[..., Any]]:
        import transformers

        # Whisper tiny: 30 seconds of sound.
        config = transformers.WhisperConfig(use_cache=False)
        sound = torch.randn(times * batch, config.num_mel_bins, 2 * config.max_source_positions)
        ids = torch.randint(1000, 20000, (times * batch, length))
        model = transformers.WhisperForConditionalGeneration(config)
        return model, lambda model, to: model(input_features=to(sound), labels=to(ids)).loss

    return make


class Residual(torch.nn.Module):
    """Two convolutions behind group norms, beside what they are added to."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.GroupNorm(32, channels), torch.nn.GroupNorm(32, width)])
        self.convolutions = torch.nn.ModuleList(
            [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.Conv2d(width, width, 3, padding=1)]
        )
        self.skip = torch.nn.Conv2d(channels, width, 1) if channels != width else torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for norm, convolution in zip(self.norms, self.convolutions):
            y = convolution(torch.nn.functional.silu(norm(y)))
        return y + self.skip(x)


class UNet(torch.nn.Module):
    """The structure of diffusion models: down, across with attention, and up with skip connections."""

    def __init__(self, channels: int = 4, width: int = 128) -> None:
        super().__init__()
        widths = (width, 2 * width, 4 * width)
        self.first = torch.nn.Conv2d(channels, width, 3, padding=1)
        self.down = torch.nn.ModuleList(Residual(*of) for of in zip((width, *widths), widths))
        self.across = torch.nn.ModuleList([Residual(widths[-1], widths[-1]), Residual(widths[-1], widths[-1])])
        self.norm = torch.nn.GroupNorm(32, widths[-1])
        self.attention = torch.nn.MultiheadAttention(widths[-1], 8, batch_first=True)
        wide = [of + width_of for of, width_of in zip((widths[-1], widths[2], widths[1]), reversed(widths))]
        self.up = torch.nn.ModuleList(Residual(*of) for of in zip(wide, reversed(widths)))
        self.last = torch.nn.Sequential(
            torch.nn.GroupNorm(32, width), torch.nn.SiLU(), torch.nn.Conv2d(width, channels, 3, padding=1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, seen = self.first(x), []
        for block in self.down:
            seen.append(block(x))
            x = torch.nn.functional.avg_pool2d(seen[-1], 2)
        x = self.across[0](x)
        places = self.norm(x).flatten(2).transpose(1, 2)
        x = x + self.attention(places, places, places, need_weights=False)[0].transpose(1, 2).reshape(x.shape)
        x = self.across[1](x)
        for block in self.up:
            x = block(torch.cat([torch.nn.functional.interpolate(x, scale_factor=2.0), seen.pop()], 1))
        return self.last(x)


def _unet(images: int, size: int) -> Callable[[int], tuple[torch.nn.Module, Callable[..., Any]]]:
    def make(times: int) -> tuple[torch.nn.Module, Callable[..., Any]]:
        x, noise = torch.randn(2, times * images, 4, size, size)
        return UNet(), lambda model, to: torch.nn.functional.mse_loss(model(to(x + noise)), to(noise))

    return make


NETWORKS = {
    "mobilenet_v3_small": _vision("mobilenet_v3_small", 8, 224),
    "convnext_tiny": _vision("convnext_tiny", 2, 224),
    "resnet50": _vision("resnet50", 2, 224),
    "efficientnet_b0": _vision("efficientnet_b0", 4, 224),
    "densenet121": _vision("densenet121", 2, 224),
    "vit_b_16": _vision("vit_b_16", 2, 224),
    "bert, 4 layers": _bert(4, 128),
    "gpt2, 4 layers": _gpt2(2, 128),
    "llama, 4 layers of 1024": _llama(1, 256),
    "t5, 4 layers": _t5(2, 128),
    "whisper tiny": _whisper(1, 64),
    "u-net with group norms": _unet(2, 64),
}

COLUMNS = (
    "network",
    "device",
    "pytorch_ms",
    "hipdnn_ms",
    "ratio",
    "first_pytorch_ms",
    "first_hipdnn_ms",
    "largest_loss_difference",
)


def of_several(model: torch.nn.Module, parallel: str) -> torch.nn.Module:
    """A model that several processes train, each on a GPU."""
    if parallel == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    def shard(module: torch.nn.Module) -> None:
        for child in module.children():
            if isinstance(child, torch.nn.ModuleList):
                for block in child:
                    fully_shard(block)
            else:
                shard(child)

    shard(model)
    fully_shard(model)
    return model


def steps(
    name: str,
    device: str,
    times: int,
    compiled: bool,
    parallel: str | None = None,
    inference: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> Callable[[bool], tuple[float, float]]:
    """Returns a function for one step, with or without hipDNN, that returns its milliseconds and the loss."""
    torch.manual_seed(0)
    model, loss = NETWORKS[name](times)
    model.to(device).train(not inference)
    if parallel:
        model = of_several(model, parallel)
    models: dict[bool, Any] = {False: model, True: model}
    if compiled:
        import hipdnn.torch

        models = {False: torch.compile(model), True: torch.compile(model, backend=hipdnn.torch.backend)}
    on_gpu = device != "cpu"
    # The losses of both are those of the same weights.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def step(routed: bool) -> tuple[float, float]:
        torch.manual_seed(1)
        if on_gpu:
            torch.cuda.synchronize()
        start = clock()
        if routed:
            import hipdnn.torch
        cast = torch.autocast(device, torch.bfloat16) if on_gpu else contextlib.nullcontext()
        with hipdnn.torch.enable() if routed and not compiled else contextlib.nullcontext():
            with cast, torch.set_grad_enabled(not inference):
                value = loss(models[routed], lambda tensor: tensor.to(device))
            if not inference:
                value.backward()
                optimizer.step()
                optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
        return (clock() - start) * 1000, value.item()

    return step


def measure(
    step: Callable[[bool], tuple[float, float]], name: str, device: str, pairs: int, warm: int
) -> dict[str, Any]:
    """One row of the table."""
    first = step(False), step(True)
    for at in range(warm):
        step(False)
        step(True)
        if at == 1:
            # Training goes on for longer than it takes to make plans beside it.
            from hipdnn import _native

            _native.torch_wait()
    took: dict[bool, list[float]] = {False: [], True: []}
    ratios, differences = [], []
    for at in range(pairs):
        pair = {}
        for routed in (at % 2 == 0, at % 2 == 1):
            pair[routed] = step(routed)
            took[routed].append(pair[routed][0])
        ratios.append(pair[False][0] / pair[True][0])
        differences.append(abs(pair[False][1] - pair[True][1]) / abs(pair[False][1]))
    return {
        "network": name, "device": torch.cuda.get_device_name() if device != "cpu" else "cpu",
        "pytorch_ms": round(statistics.median(took[False]), 2), "hipdnn_ms": round(statistics.median(took[True]), 2),
        "ratio": round(statistics.median(ratios), 3), "first_pytorch_ms": round(first[0][0], 1),
        "first_hipdnn_ms": round(first[1][0], 1), "largest_loss_difference": f"{max(differences):.1e}",
    }  # fmt: skip


def first(name: str, device: str, times: int, threads: int) -> dict[str, Any]:
    """The first steps of a network in new processes: the shortest of three each, in turns."""
    took: dict[str, list[float]] = {"pytorch": [], "hipdnn": []}
    for at in range(6):
        by = ("pytorch", "hipdnn")[at % 2]
        command = [
            sys.executable,
            __file__,
            name,
            "--device",
            device,
            "--times",
            str(times),
            "--threads",
            str(threads),
            "--alone",
            by,
        ]
        took[by].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]))
    theirs, ours = min(took["pytorch"]), min(took["hipdnn"])
    return {
        "network": name,
        "device": device,
        "first_pytorch_ms": theirs,
        "first_hipdnn_ms": ours,
        "times_pytorchs": round(ours / theirs, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", help=f"some of {', '.join(NETWORKS)}; all by default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--times", type=int, default=1, help="how many times as large the batches are")
    parser.add_argument("--compile", action="store_true", help="compile the networks")
    parser.add_argument("--inference", action="store_true", help="forward passes alone, without gradients")
    parser.add_argument("--processor-time", action="store_true", help="on a CPU with other work: with one thread")
    parser.add_argument("--parallel", choices=("ddp", "shard"), help="train on several GPUs, by torchrun")
    parser.add_argument("--first", action="store_true", help="time first steps in new processes instead")
    parser.add_argument("--alone", choices=("pytorch", "hipdnn"), help="print the milliseconds of one first step")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument(
        "--warm",
        type=int,
        default=18,
        help="steps of each before pairs are timed; plans for GPUs are waited for after two",
    )
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--machine", default="", help="what the table says of the machine")
    parser.add_argument("--report", action="store_true", help="print who computes what")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.alone:
        print(round(steps(given.networks[0], given.device, given.times, False)(given.alone == "hipdnn")[0], 1))
        return
    if given.first:
        for name in given.networks or NETWORKS:
            print(
                *(f"{key}: {value}" for key, value in first(name, given.device, given.times, given.threads).items()),
                sep=", ",
                flush=True,
            )
        return
    import hipdnn.torch

    if given.parallel:
        torch.distributed.init_process_group("nccl")
        torch.cuda.set_device(torch.distributed.get_rank())
        if torch.distributed.get_rank() > 0:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    rows = []
    print(*COLUMNS, sep=", ")
    for name in given.networks or NETWORKS:
        clock = time.process_time if given.processor_time else time.perf_counter
        step = steps(name, given.device, given.times, given.compile, given.parallel, given.inference, clock)
        rows.append(measure(step, name, given.device, given.pairs, given.warm))
        print(*rows[-1].values(), sep=", ", flush=True)
        if given.report:
            print(hipdnn.torch.report())
        hipdnn.torch.reset()
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
    print(f"geometric mean of the ratios: {mean:.3f}")
    if given.csv:
        what = [
            (
                f"{row['network']}: {'a forward pass' if given.inference else 'a training step'}, {row['pytorch_ms']} ms by PyTorch, {row['hipdnn_ms']} by hipDNN",
                row["ratio"],
                ">= 0.9",
            )
            for row in rows
        ]
        what += [
            (
                f"{row['network']}: the first step, {row['first_pytorch_ms']} ms by PyTorch before, {row['first_hipdnn_ms']} by hipDNN",
                round(row["first_pytorch_ms"] / row["first_hipdnn_ms"], 2),
                ">= 0.5",
            )
            for row in rows
        ]
        what.append(("geometric mean of the steps", round(mean, 3), ">= 1.1"))
        with given.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("date", "machine", "command", "what", "value", "unit", "goal"))
            for line, value, goal in what:
                writer.writerow(
                    (
                        datetime.date.today(),
                        given.machine,
                        "benches/pytorch_networks.py",
                        line,
                        value,
                        "ratio to PyTorch",
                        goal,
                    )
                )


if __name__ == "__main__":
    main()
