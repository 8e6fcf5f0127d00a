"""With `batch_invariant` a language model with random weights gives a request the same bits alone and in batches of any size, with its
prompt as a whole, in chunks, or token by token. Without arguments a small model, with --size a large one."""

import argparse
import sys
import tempfile
import time

import llama
import numpy as np
import provider

SIZES = {
    "small": llama.Size(layers=2, hidden=160, wide=416, vocabulary=512, heads=5, kv_heads=1, head=32, context=128),
    "200m": llama.Size(layers=12, hidden=1024, wide=4096, vocabulary=16384, heads=16, kv_heads=4),
    "1b": llama.Size(layers=16, hidden=2048, wide=8192, vocabulary=32768, heads=32, kv_heads=8),
}


class Model:
    """A session that continues sequences from their caches."""

    def __init__(self, path, size, settings, threads):
        self.size, self.own = size, provider.session(path, settings, threads)
        self.names = [of.name for of in self.own.get_outputs()]

    def empty(self, count):
        shape = (count, self.size.kv_heads, 0, self.size.head)
        return {name.replace("present", "past_key_values"): np.zeros(shape, np.float32) for name in self.names[1:]}

    def step(self, tokens, lengths, caches):
        """The logits of some tokens of each sequence, which then has such a length, and the caches with them."""
        mask = (np.arange(max(lengths)) < np.asarray(lengths)[:, None]).astype(np.int64)
        logits, *after = self.own.run(None, {"input_ids": tokens, "attention_mask": mask, **caches})
        names = [name.replace("present", "past_key_values") for name in self.names[1:]]
        return logits, dict(zip(names, after))

    def batch(self, requests, prompts):
        """The logits of each token of some requests: their prompts together, then token by token."""
        count, most = len(requests), max(prompts)
        tokens = np.zeros((count, most), np.int64)
        for row, (request, prompt) in enumerate(zip(requests, prompts)):
            tokens[row, :prompt] = request[:prompt]
        logits, caches = self.step(tokens, list(prompts), self.empty(count))
        found = [[logits[row, :prompt]] for row, prompt in enumerate(prompts)]
        for more in range(len(requests[0]) - prompts[0]):
            lengths = [prompt + more + 1 for prompt in prompts]
            tokens = np.array([[request[length - 1]] for request, length in zip(requests, lengths)], np.int64)
            logits, caches = self.step(tokens, lengths, caches)
            for row in range(count):
                found[row].append(logits[row])
        return [np.concatenate(of) for of in found]

    def chunks(self, request, chunk):
        """The logits of a request whose tokens are computed some at once."""
        caches, found = self.empty(1), []
        for begin in range(0, len(request), chunk):
            part = request[None, begin : begin + chunk]
            logits, caches = self.step(part, [begin + part.shape[1]], caches)
            found.append(logits[0])
        return np.concatenate(found)


def differences(model, requests, prompts, batches, chunks):
    """Checks every way to compute the requests. Returns a line for each in which a bit differs, and how many values were compared."""
    alone = [model.batch([request], [prompt])[0] for request, prompt in zip(requests, prompts)]
    lines, compared = [], 0
    print(f"{len(requests)} requests alone", flush=True)

    def compare(way, which, found):
        nonlocal compared
        want = alone[which].view(np.uint32)
        wrong = found.view(np.uint32) != want
        compared += wrong.size
        if wrong.any():
            token, place = np.argwhere(wrong)[0]
            values = f"{found[token, place]!r}, alone {alone[which][token, place]!r}"
            lines.append(
                f"{way}: request {which}, {wrong.sum()} values, first of token {token}, logit {place}: {values}"
            )

    for size in batches:
        begun = time.perf_counter()
        for first in range(0, len(requests), size):
            own = slice(first, first + size)
            for row, found in enumerate(model.batch(requests[own], prompts[own])):
                compare(f"batch {size}", first + row, found)
        print(f"batches of {size}: {time.perf_counter() - begun:.1f} s, {len(lines)} differ so far", flush=True)
    for chunk in chunks:
        begun = time.perf_counter()
        for which, request in enumerate(requests):
            compare(f"chunks of {chunk}", which, model.chunks(request, chunk))
        print(f"chunks of {chunk}: {time.perf_counter() - begun:.1f} s, {len(lines)} differ so far", flush=True)
    return lines, compared


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--bits", type=int, nargs="*", default=[32, 4], help="of the elements of matrices: 32 or 4")
    parser.add_argument("--requests", type=int, default=9)
    parser.add_argument("--prompt", type=int, default=24, help="the longest prompt; others are up to a half shorter")
    parser.add_argument("--tokens", type=int, default=3, help="tokens after the prompt")
    parser.add_argument("--batches", type=int, nargs="*", default=[2, 3, 9])
    parser.add_argument("--chunks", type=int, nargs="*", default=[1, 5, 27])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", action="store_true", help="without the option: shows what it is for")
    arguments = parser.parse_args()
    size, random, failed = SIZES[arguments.size], np.random.default_rng(5), 0
    least = arguments.prompt // 2
    prompts = [arguments.prompt - int(short) for short in random.integers(0, least + 1, arguments.requests)]
    requests = [random.integers(3, size.vocabulary, prompt + arguments.tokens) for prompt in prompts]
    for bits in arguments.bits:
        with tempfile.TemporaryDirectory() as folder:
            # Plans for other shapes give their memory back.
            settings = {"plans": "2", **({"take": "all"} if arguments.without else {"batch_invariant": "1"})}
            model = Model(llama.save(folder, bits, size), size, settings, arguments.threads)
            lines, compared = differences(model, requests, prompts, arguments.batches, arguments.chunks)
        for line in lines[:20]:
            print("FAILED" if not arguments.without else "differs:", line)
        failed += len(lines)
        millions = f"{size.parameters() / 1e6:.1f} million parameters"
        print(f"{bits} bits, {millions}: {compared} logits compared, {len(lines)} sequences differ", flush=True)
    return 1 if failed and not arguments.without else 0


if __name__ == "__main__":
    sys.exit(main())
