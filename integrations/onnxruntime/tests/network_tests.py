"""Networks with fixed and dynamic batch: results match CPUExecutionProvider's, and how much of each is computed here."""

import argparse
import sys

import networks
import provider

#: A network's rounding error, relative to the largest value.
TOLERANCE = 2e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    failures = []
    for name, make in networks.NETWORKS.items():
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        for batch in (1, "N"):
            model, shapes = make(batch)
            own, nodes = provider.reported(model)
            plain = provider.plain(model)
            left = [node for node in nodes if node["subgraph"] is None]
            parts = len({node["subgraph"] for node in nodes} - {None})
            worst = 0.0
            for size in (1,) if batch == 1 else (1, 3, 1):
                feeds = networks.inputs(shapes, size)
                for have, want in zip(own.run(None, feeds), plain.run(None, feeds)):
                    worst = max(worst, provider.difference(have, want))
            print(
                f"{name} batch {batch}: {parts} subgraphs, {len(nodes) - len(left)} of {len(nodes)} nodes, difference {worst:.1e}",
                flush=True,
            )
            for reason in sorted({f"{node['operator']}: {node['reason']}" for node in left}):
                print(f"    left {reason}")
            if not worst < TOLERANCE:
                failures.append(f"{name} batch {batch}: results differ by {worst}")
            if parts == 0 or (parts > 3 and "x" in shapes):
                failures.append(f"{name} batch {batch}: {parts} subgraphs")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
