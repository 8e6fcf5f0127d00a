"""A language model with onnxruntime-genai: its tokens and token rate with the provider and with CPUExecutionProvider, alternating."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import llama
import numpy as np
import onnxruntime_genai as genai

NAME = "HipDNNExecutionProvider"


def generate(model, prompt, count):
    """The tokens after a prompt, and the seconds for prompt and tokens."""
    parameters = genai.GeneratorParams(model)
    total = len(prompt) + count
    # The end-of-text token must not come before that.
    parameters.set_search_options(do_sample=False, min_length=total + 1, max_length=total)
    generator = genai.Generator(model, parameters)
    begun = time.perf_counter()
    generator.append_tokens(prompt)
    middle = time.perf_counter()
    while not generator.is_done():
        generator.generate_next_token()
    end = time.perf_counter()
    return np.array(generator.get_sequence(0))[len(prompt) :], middle - begun, end - middle


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 >> 20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--pool", choices=["auto", "session", "engine"], default="auto")
    parser.add_argument("--bits", type=int, nargs="*", default=[32, 4])
    arguments = parser.parse_args()
    genai.register_execution_provider_library("hipdnn", os.environ["HIPDNN_ORT_LIBRARY"])
    failures = []
    prompt = np.random.default_rng(1).integers(3, llama.USUAL.vocabulary, arguments.prompt).astype(np.int32)
    for bits in arguments.bits:
        with tempfile.TemporaryDirectory() as folder:
            data, report = llama.model(bits), os.path.join(folder, "report.json")
            options = {"report": report, "pool": arguments.pool}
            memory, models = [resident()], []
            for which, providers in enumerate(([{NAME: options}], [])):
                path = os.path.join(folder, str(which))
                llama.write(path, data, arguments.threads, providers)
                models.append(genai.Model(path))
                generate(models[-1], prompt, 2)
                memory.append(resident())
            with open(report, encoding="utf-8") as file:
                nodes = json.loads(file.readline())["nodes"]
            turns = []
            for turn in range(arguments.turns):
                spent = [None, None]
                for which in (0, 1) if turn % 2 == 0 else (1, 0):
                    spent[which] = generate(models[which], prompt, arguments.tokens)
                turns.append(spent)
            own, plain = turns[0]
            taken = sum(node["subgraph"] is not None for node in nodes)
            for have, want in turns:
                if not np.array_equal(have[0], want[0]):
                    failures.append(f"{bits} bits: {np.count_nonzero(have[0] != want[0])} tokens differ")
            if len(own[0]) != arguments.tokens or taken == 0:
                failures.append(f"{bits} bits: {len(own[0])} tokens, {taken} nodes were taken")
            ratios = [statistics.median(want[at] / have[at] for have, want in turns) for at in (1, 2)]
            rates = [arguments.tokens / statistics.median(turn[which][2] for turn in turns) for which in (0, 1)]
            print(
                f"{bits} bits: {len(own[0])} tokens, {len(set(own[0].tolist()))} different ones, {taken} of {len(nodes)} nodes, "
                f"prompt ratio {ratios[0]:.2f}, {rates[0]:.1f} and {rates[1]:.1f} tokens/s, ratio {ratios[1]:.2f}, "
                f"{memory[1] - memory[0]} and {memory[2] - memory[1]} MiB",
                flush=True,
            )
            del models, own, plain
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
