"""The provider on a GPU compared with CPUExecutionProvider: networks, in half precision, too, changing shapes, threads. Without a GPU: the error
names it."""

import sys

import bench
import more_networks
import networks
import numpy as np
import provider

# Convolutions and products may round their operands to TF32, which has 10 fraction bits.
MOST = 5e-3
# The result of a network of half precision beside that of single precision.
MOST_HALF = 5e-2


def check(name, make):
    for batch in (1, 3):
        model, shapes = make(batch)
        feeds = networks.inputs(shapes, batch)
        own, nodes = provider.reported(model, {"device": "gpu"})
        want = provider.plain(model).run(None, feeds)
        taken = [node for node in nodes if node["subgraph"] is not None]
        gaps = []
        # Nothing is left over from earlier runs, of which the second one is captured.
        for _ in range(3):
            gaps += [provider.difference(have, of) for have, of in zip(own.run(None, feeds), want)]
        subgraphs = len({node["subgraph"] for node in taken})
        print(
            f"{name} batch {batch}: {len(taken)} of {len(nodes)} nodes in {subgraphs} subgraphs, {max(gaps):.1e} apart",
            flush=True,
        )
        for node in nodes:
            if node["subgraph"] is None:
                print(f"    {node['operator']} {node['name']}: {node['reason'][:200]}")
        assert taken and max(gaps) < MOST, (name, batch, gaps)
    return own, feeds, want


def check_half(name, make):
    """A network of half precision on the GPU beside the same one of single precision on the CPU."""
    for batch in (1, 3):
        model, shapes = make(batch)
        feeds = networks.inputs(shapes, batch)
        want = provider.plain(model).run(None, feeds)
        model, feeds = bench.in_half(model, feeds)
        have = provider.session(model, {"device": "gpu"}).run(None, feeds)
        gaps = [provider.difference(np.float32(a), b) for a, b in zip(have, want)]
        print(f"{name} batch {batch} in half precision: {max(gaps):.1e} apart", flush=True)
        assert max(gaps) < MOST_HALF, (name, batch, gaps)


def threads(own, feeds, want):
    """Several threads run one session."""
    wrong = []

    def run(_):
        for _ in range(20):
            wrong.extend(gap for gap in map(provider.difference, own.run(None, feeds), want) if not gap < MOST)

    provider.in_threads(run, 4)
    assert not wrong, wrong


def main():
    model, _ = networks.NETWORKS["resnet50"](1)
    try:
        provider.session(model, {"device": "gpu"})
    except Exception as error:
        assert "option device" in str(error) and "looked for" in str(error), error
        print("left out: no GPU")
        return 0
    failed, count = [], 0
    for name, make in {**networks.NETWORKS, **more_networks.NETWORKS}.items():
        if len(sys.argv) > 1 and not any(word in name for word in sys.argv[1:]):
            continue
        count += 1
        try:
            threads(*check(name, make))
            check_half(name, make)
        except Exception as error:
            failed.append(name)
            print(f"FAILED {name}: {str(error)[:600]}", flush=True)
    print(f"{len(failed)} of {count} networks failed", *failed)
    return len(failed)


if __name__ == "__main__":
    np.random.seed(0)
    sys.exit(main())
