#!/usr/bin/env python3
"""Times plans of the engines for NVIDIA GPUs against PyTorch, on the machine's first GPU, and checks their results.

Writes a CSV file with a row for each case and each who computes it (an engine, or a way through PyTorch), and prints
each row as it is made. The columns:

  what     the case: operation, type of the data, shape
  who      the engine, or "torch" and which of its ways
  ms       device time of one execution in milliseconds, or REFUSED (the library behind the engine does not take the
           graph) or FAILED
  TFLOPS   10^12 operations a second, 0 where memory is the bound
  GB/s     10^9 bytes a second, counting a tensor that is read or written once; 0 where arithmetic is the bound
  host us  microseconds of the host for one call, waiting for a full queue included
  queued   executions between the two events that were timed
  error    the largest difference from PyTorch's result, over the largest magnitude of that; empty for PyTorch itself
  note     milliseconds to make the plan and bytes of its workspace; or why there are no figures

A figure is the median of three runs. In each, as many executions as fill a given time are queued on one stream between
two events. All executions use the same buffers, so a case that fits into the L2 cache reads from there, on both sides.

The exit status is 1 when a result is wrong, an engine fails or NVRTC_ENGINE refuses a case, 2 without PyTorch or a GPU.
"""

import argparse
import csv
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from hipdnn_plans import DATA_TYPES, Graph, Library

    MISSING = "no GPU"
except ImportError as error:
    torch, MISSING = None, error

NVRTC, CUDNN, CUBLASLT = "NVRTC_ENGINE", "CUDNN_ENGINE", "CUBLASLT_ENGINE"
COLUMNS = ["what", "who", "ms", "TFLOPS", "GB/s", "host us", "queued", "error", "note"]
# The errors that are allowed: two steps of the type at the largest magnitude; of floats, what long sums may make.
TOLERANCES = {"bfloat16": 2**-6, "half": 2**-9, "float": 1e-5}


class Bench:
    """Times cases and writes the rows."""

    def __init__(self, library, file, seconds):
        self.library, self.file, self.seconds, self.bad = library, file, seconds, 0
        self.write(COLUMNS)

    def write(self, cells):
        for file in (self.file, sys.stdout):
            csv.writer(file, lineterminator="\n").writerow(cells)
            file.flush()

    def without(self, what, who, word, why):
        """Writes a row that has no figures."""
        self.write([what, who, word, *[""] * 5, " ".join(str(why).split())[:260]])

    def time(self, run):
        """Milliseconds of the device and microseconds of the host for one call, and how many calls were queued."""
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(5):
            run()
        torch.cuda.synchronize()
        queued = max(5, min(2000, int(self.seconds * 5 / (time.perf_counter() - began))))
        figures = []
        for _ in range(3):
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            began = time.perf_counter()
            first.record()
            for _ in range(queued):
                run()
            last.record()
            host = time.perf_counter() - began
            torch.cuda.synchronize()
            figures.append((first.elapsed_time(last) / queued, host / queued * 1e6))
        return (*sorted(figures)[1], queued)

    def figures(self, run, work):
        """The columns from ms to queued. The work is `flops` or `bytes` of one execution."""
        ms, host, queued = self.time(run)
        rates = work.get("flops", 0) / ms / 1e9, work.get("bytes", 0) / ms / 1e6
        return [f"{ms:.4f}", *(f"{rate:.1f}" for rate in rates), f"{host:.1f}", queued]

    def torch(self, what, run, way="", **work):
        """A row of PyTorch's."""
        who = f"torch {way}".strip()
        try:
            self.write([what, who, *self.figures(run, work), "", ""])
        except Exception as error:  # PyTorch may not have this way; the case goes on.
            self.without(what, who, "FAILED", error)

    def ours(self, what, engine, graph, results, **work):
        """A row of an engine's. The results are pairs of a tensor that the graph writes and what is expected in it."""
        try:
            execute, seconds, workspace = self.library.plan(graph, engine)
            for got, _ in results:
                got.fill_(float("nan"))
            figures = self.figures(execute, work)
        except RuntimeError as error:
            reason = self.library.refusal(graph, engine)
            self.bad += reason is None or engine == NVRTC
            return self.without(what, engine, "REFUSED" if reason else "FAILED", reason or error)
        note = f"plan {seconds * 1e3:.0f} ms; workspace {workspace}"
        allowed = TOLERANCES[DATA_TYPES[str(results[0][0].dtype)]]
        errors = [relative_error(got, want) for got, want in results]
        if not all(error <= allowed for error in errors):  # NaN is wrong, too.
            self.bad += 1
            note += f"; WRONG: errors {errors}, expected at most {allowed:.1e}"
        return self.write([what, engine, *figures, f"{max(errors):.1e}", note])


def relative_error(got, want):
    """The largest difference over the largest magnitude that is expected."""
    got, want = got.float(), want.float()
    return (got - want).abs().max().item() / max(want.abs().max().item(), 1e-9)


def random(*shape, data_type):
    """Random numbers of the normal distribution, of this shape, on the GPU."""
    return torch.randn(*shape, device="cuda", dtype=data_type)


def matmuls(bench):
    """Products of bf16, [1, m, k] by [1, k, n], alone and with a bias [1, 1, n] and GELU (tanh)."""
    for n in (4096, 8192):
        a, b = (random(1, n, n, data_type=torch.bfloat16) for _ in "ab")
        want, what, flops = a @ b, f"matmul bf16 {n}", 2 * n**3
        for engine in (CUBLASLT, CUDNN):
            c, g = torch.empty_like(want), Graph()
            g.node("MatmulAttributes", g.bind(a=a, b=b), g.bind(c=c))
            bench.ours(what, engine, g, [(c, want)], flops=flops)
        bench.torch(what, lambda: torch.matmul(a, b, out=want), flops=flops)
    for m, n, k in ((4096, 4096, 1024), (8192, 16384, 4096)):
        a, b, bias = (random(*shape, data_type=torch.bfloat16) for shape in ((1, m, k), (1, k, n), (1, 1, n)))
        what, flops = f"matmul+bias+gelu bf16 {m}x{n}x{k}", 2 * m * n * k
        want = F.gelu(a @ b + bias, approximate="tanh")
        for engine in (CUBLASLT, CUDNN):
            c, g = torch.empty_like(want), Graph()
            product, total = g.virtual(c), g.virtual(c)
            g.node("MatmulAttributes", g.bind(a=a, b=b), {"c": product})
            g.pointwise("add", [product, g.tensor(bias)], total)
            g.pointwise("gelu_approx_tanh_fwd", [total], g.tensor(c))
            bench.ours(what, engine, g, [(c, want)], flops=flops)
        fused = lambda: torch._addmm_activation(bias[0, 0], a[0], b[0], use_gelu=True)
        apart = lambda: F.gelu(torch.addmm(bias[0, 0], a[0], b[0]), approximate="tanh")
        bench.torch(what, fused, "_addmm_activation", flops=flops)
        bench.torch(what, apart, "addmm gelu", flops=flops)


def attention(bench):
    """Causal attention of bf16, forward and backward: 2 batches, 16 heads, s queries and keys of 128 numbers. Half of
    the scores count: 2 products of 2 * s * s / 2 * 128 operations a head forward, 5 backward."""
    backends = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)
    for s in (2048, 8192):
        q, k, v, do = (random(2, 16, s, 128, data_type=torch.bfloat16) for _ in range(4))
        o, dq, dk, dv = (torch.empty_like(q) for _ in range(4))
        stats = torch.empty(2, 16, s, 1, device="cuda")
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        options = {"attn_scale_value": 128**-0.5, "right_bound": 0, "diagonal_alignment": "TOP_LEFT"}
        what, flops = f"sdpa causal bf16 2x16x{s}x128", 4 * 2 * 16 * s * s * 128 // 2

        def forward(backend, inputs):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*inputs, is_causal=True)

        def backward(backend):
            y = forward(backend, leaves)
            return lambda: torch.autograd.grad(y, leaves, do, retain_graph=True)

        g = Graph()
        inputs, outputs = g.bind(q=q, k=k, v=v), g.bind(o=o, stats=stats)
        g.node("SdpaAttributes", inputs, outputs, attributes={"generate_stats": True, **options})
        want = forward(SDPBackend.FLASH_ATTENTION, (q, k, v))
        bench.ours(f"{what} forward", CUDNN, g, [(o, want)], flops=flops)
        for backend in backends:
            with sdpa_kernel(backend):
                run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
                bench.torch(f"{what} forward", run, backend.name, flops=flops)
        g = Graph()
        inputs, outputs = g.bind(q=q, k=k, v=v, o=o, do=do, stats=stats), g.bind(dq=dq, dk=dk, dv=dv)
        g.node("SdpaBackwardAttributes", inputs, outputs, parameters=options)
        wanted = backward(SDPBackend.FLASH_ATTENTION)()
        bench.ours(f"{what} backward", CUDNN, g, list(zip((dq, dk, dv), wanted)), flops=2.5 * flops)
        for backend in backends:
            bench.torch(f"{what} backward", backward(backend), backend.name, flops=2.5 * flops)


def convolutions(bench):
    """Convolutions of ResNet-50 of fp16, channels last: x [64, c, size, size], w [k, c, f, f], a stride, padding f / 2.
    The first has 8 channels in place of 3. Gradients, and bias + ReLU, of two of them."""
    sizes = ((8, 64, 224, 7, 2), (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (256, 64, 56, 1, 1), (128, 128, 28, 3, 1))
    for c, k, size, f, stride in (*sizes, (256, 256, 14, 3, 1), (512, 512, 7, 3, 1), (256, 512, 56, 1, 2)):
        pad = f // 2
        x = random(64, c, size, size, data_type=torch.float16).to(memory_format=torch.channels_last)
        w = (random(k, c, f, f, data_type=torch.float16) * (c * f * f) ** -0.5).to(memory_format=torch.channels_last)
        forward = lambda bias=None: F.conv2d(x, w, bias, stride=stride, padding=pad)
        want = forward()
        y, flops = torch.empty_like(want), want.numel() * 2 * c * f * f
        numbers = {"pre_padding": [pad] * 2, "post_padding": [pad] * 2, "stride": [stride] * 2, "dilation": [1, 1],
                   "conv_mode": "CROSS_CORRELATION"}
        what = f"conv fp16 NHWC 64x{c}x{size}x{size} {k}x{f}x{f}/{stride}"

        def compare(part, kind, inputs, name, output, want, peer):
            g = Graph()
            g.node(kind, g.bind(**inputs), {name: g.tensor(output)}, parameters=numbers)
            bench.ours(f"{what} {part}", CUDNN, g, [(output, want)], flops=flops)
            bench.torch(f"{what} {part}", peer, flops=flops)

        compare("forward", "ConvolutionFwdAttributes", {"x": x, "w": w}, "y", y, want, forward)
        if f != 3 or c not in (64, 256):
            continue
        dy, dx, dw = torch.randn_like(want), torch.empty_like(x), torch.empty_like(w)

        def gradients(*wanted):
            options = ([stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, [*wanted, False])
            return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, *options)

        data, weights = gradients(True, False), gradients(False, True)
        compare("data", "ConvolutionBwdAttributes", {"dy": dy, "w": w}, "dx", dx, data()[0], data)
        compare("filter", "ConvolutionWrwAttributes", {"x": x, "dy": dy}, "dw", dw, weights()[1], weights)
        bias, g = random(1, k, 1, 1, data_type=torch.float16), Graph()
        product, total = g.virtual(want), g.virtual(want)
        g.node("ConvolutionFwdAttributes", g.bind(x=x, w=w), {"y": product}, parameters=numbers)
        g.pointwise("add", [product, g.tensor(bias)], total)
        g.pointwise("relu_fwd", [total], g.tensor(y))
        bench.ours(f"{what} +bias+relu", CUDNN, g, [(y, F.relu(want + bias))], flops=flops)
        bench.torch(f"{what} +bias+relu", lambda: F.relu(forward(bias.flatten())), flops=flops)


def memory(bench):
    """What memory bounds: x [rows, columns] is read and y of the same shape written. A copy is the measure."""
    for data_type in (torch.float32, torch.bfloat16):
        name = DATA_TYPES[str(data_type)]
        x = random(8192, 8192, data_type=data_type)
        scale, bias = (random(1, 8192, data_type=data_type) for _ in "sb")
        y, moved = torch.empty_like(x), 2 * x.numel() * x.element_size()
        bench.torch(f"copy {name} 8192x8192", lambda: y.copy_(x), bytes=moved)
        what, chain = f"scale+bias+relu {name} 8192x8192", lambda: F.relu(x * scale + bias)
        want = chain()
        for engine in (NVRTC, CUDNN):
            g = Graph()
            scaled, total = g.virtual(x), g.virtual(x)
            g.pointwise("mul", [g.tensor(x), g.tensor(scale)], scaled)
            g.pointwise("add", [scaled, g.tensor(bias)], total)
            g.pointwise("relu_fwd", [total], g.tensor(y))
            bench.ours(what, engine, g, [(y, want)], bytes=moved)
        bench.torch(what, chain, bytes=moved)
        for rows, columns in ((8192, 8192), (16384, 1024)):
            layernorm_and_softmax(bench, name, random(rows, columns, data_type=data_type))


def layernorm_and_softmax(bench, name, x):
    """Of the rows of x [rows, columns]. The softmax is a chain of five operations, two of them reductions."""
    rows, columns = x.shape
    y, moved, shape = torch.empty_like(x), 2 * x.numel() * x.element_size(), f"{name} {rows}x{columns}"
    scale, bias = (random(1, columns, data_type=x.dtype) for _ in "sb")
    layernorm = lambda: F.layer_norm(x, [columns], scale[0], bias[0])
    want = layernorm()
    for engine in (NVRTC, CUDNN):
        g = Graph()
        inputs = {**g.bind(x=x, scale=scale, bias=bias), "epsilon": g.number(1e-5)}
        g.node("LayernormAttributes", inputs, g.bind(y=y), normalized_dim_count=1, forward_phase=1)
        bench.ours(f"layernorm {shape}", engine, g, [(y, want)], bytes=moved)
    bench.torch(f"layernorm {shape}", layernorm, bytes=moved)
    want = torch.softmax(x.float(), -1)
    for engine in (NVRTC, CUDNN):
        g = Graph()
        source, largest, total = g.tensor(x), g.virtual_column(rows), g.virtual_column(rows)
        below, powers = g.virtual(x), g.virtual(x)
        g.reduction("max", source, largest)
        g.pointwise("sub", [source, largest], below)
        g.pointwise("exp", [below], powers)
        g.reduction("add", powers, total)
        g.pointwise("div", [powers, total], g.tensor(y))
        bench.ours(f"softmax {shape}", engine, g, [(y, want)], bytes=moved)
    bench.torch(f"softmax {shape}", lambda: torch.softmax(x, -1), bytes=moved)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    groups = {"matmuls": matmuls, "attention": attention, "convolutions": convolutions, "memory": memory}
    parser.add_argument("library", help="path of libhipdnn_backend.so, its plugins beside it")
    parser.add_argument("csv", help="path of the file to write")
    parser.add_argument("--groups", nargs="+", choices=groups, default=list(groups), help="groups of cases, all unless told")
    parser.add_argument("--seconds", type=float, default=0.15, help="device time of each of the three runs (0.15)")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print(f"nvidia_bench: needs PyTorch and a GPU that it finds: {MISSING}", file=sys.stderr)
        return 2
    torch.backends.cudnn.benchmark = True
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    library = Library(options.library)
    library.set_stream(stream.cuda_stream)
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
    with open(options.csv, "w", encoding="utf-8") as file:
        bench = Bench(library, file, options.seconds)
        for name in options.groups:
            try:
                groups[name](bench)
                torch.cuda.synchronize()
            except Exception as error:  # The other groups go on.
                bench.bad += 1
                print(f"nvidia_bench: {name} failed: {error!r}", file=sys.stderr)
            torch.cuda.empty_cache()
    print(f"nvidia_bench: {bench.bad} wrong or missing", file=sys.stderr)
    return 1 if bench.bad else 0


if __name__ == "__main__":
    sys.exit(main())
