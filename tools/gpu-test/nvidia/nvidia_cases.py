"""The cases of nvidia_bench.py: graphs for the engines, and the same computations by PyTorch."""

import itertools

import torch
import torch.nn.functional as F
from hipdnn_plans import DATA_TYPES, Graph, Sets
from torch.nn.attention import SDPBackend, sdpa_kernel

# How NVRTC_ENGINE plans rows that are few and long.
LONG = ("", "rows apart")
HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}
NVRTC, CUDNN, CUBLASLT = "NVRTC_ENGINE", "CUDNN_ENGINE", "CUBLASLT_ENGINE"


def random(*shape, data_type):
    """Random numbers of the normal distribution, of this shape, on the GPU."""
    return torch.randn(*shape, device="cuda", dtype=data_type)


def matmuls(bench):
    """Products of bf16 and f16, [1, m, k] by [1, k, n], alone, of few rows, and with a bias [1, 1, n] and GELU (tanh)."""
    shapes = ((1024, 1024), (2048, 2048), (4096, 4096), (8192, 8192), (1, 8192), (4, 8192), (16, 8192))
    for (name, data_type), (m, n) in itertools.product(HALVES.items(), shapes):
        a, b = (random(1, *shape, data_type=data_type) for shape in ((m, n), (n, n)))
        want, what, flops = a @ b, f"matmul {name} {m}x{n}x{n}", 2 * m * n**2
        sets = Sets(a=a, b=b, c=torch.empty_like(want))
        for engine in (CUBLASLT, CUDNN, NVRTC):
            g = Graph(sets)
            g.node("MatmulAttributes", g.bind("a b"), g.bind("c"))
            bench.ours(what, engine, g, {"c": want}, flops=flops)
        bench.torch(what, sets, lambda s: torch.matmul(s.a, s.b, out=s.c), flops=flops)
    for m, n, k in ((4096, 4096, 1024), (8192, 16384, 4096)):
        a, b, bias = (random(*shape, data_type=torch.bfloat16) for shape in ((1, m, k), (1, k, n), (1, 1, n)))
        what, flops = f"matmul+bias+gelu bf16 {m}x{n}x{k}", 2 * m * n * k
        want = F.gelu(a @ b + bias, approximate="tanh")
        sets = Sets(a=a, b=b, bias=bias, c=torch.empty_like(want))
        for engine in (CUBLASLT, CUDNN, NVRTC):
            g = Graph(sets)
            product, total = g.virtual(want), g.virtual(want)
            g.node("MatmulAttributes", g.bind("a b"), {"c": product})
            g.pointwise("add", [product, g.tensor("bias")], total)
            g.pointwise("gelu_approx_tanh_fwd", [total], g.tensor("c"))
            bench.ours(what, engine, g, {"c": want}, flops=flops)
        fused = lambda s: torch._addmm_activation(s.bias[0, 0], s.a[0], s.b[0], use_gelu=True)
        apart = lambda s: F.gelu(torch.addmm(s.bias[0, 0], s.a[0], s.b[0]), approximate="tanh")
        bench.torch(what, sets, fused, "_addmm_activation", flops=flops)
        bench.torch(what, sets, apart, "addmm gelu", flops=flops)


def attention(bench):
    """Causal attention of bf16 and f16, forward and backward: 2 batches, 16 heads, s queries and keys of d numbers. Half of
    the scores count: 2 products of 2 * s * s / 2 * d operations a head forward, 5 backward."""
    backends = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)
    shapes = ((128, 1024), (128, 2048), (128, 8192), (128, 16384), (64, 1024), (64, 2048), (64, 8192))
    for (kind, data_type), (d, s) in itertools.product(HALVES.items(), shapes):
        tensors = {name: random(2, 16, s, d, data_type=data_type) for name in ("q", "k", "v", "do")}
        tensors.update({name: torch.empty_like(tensors["q"]) for name in ("o", "dq", "dk", "dv")})
        sets = Sets(**tensors, stats=torch.empty(2, 16, s, 1, device="cuda"))
        options = {"attn_scale_value": d**-0.5, "right_bound": 0, "diagonal_alignment": "TOP_LEFT"}
        what, flops = f"sdpa causal {kind} 2x16x{s}x{d}", 4 * 2 * 16 * s * s * d // 2

        def forward(backend, q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        def backward(backend):
            made = {}
            for tensors in sets.all:
                leaves = [x.detach().requires_grad_() for x in (tensors.q, tensors.k, tensors.v)]
                made[id(tensors)] = forward(backend, *leaves), leaves
            return lambda s: torch.autograd.grad(*made[id(s)], s.do, retain_graph=True)

        first, flash = sets.first, SDPBackend.FLASH_ATTENTION
        g = Graph(sets)
        outputs = g.bind("q k v"), g.bind("o stats")
        g.node("SdpaAttributes", *outputs, attributes={"generate_stats": True, **options})
        want = forward(flash, first.q, first.k, first.v)
        for engine in (NVRTC, CUDNN):
            bench.ours(f"{what} forward", engine, g, {"o": want}, flops=flops)
        for backend in backends:
            with sdpa_kernel(backend):
                run = lambda s: F.scaled_dot_product_attention(s.q, s.k, s.v, is_causal=True)
                bench.torch(f"{what} forward", sets, run, backend.name, flops=flops)
        # The inputs of the gradients, in every set, independent of what was measured before.
        o, stats = torch.ops.aten._scaled_dot_product_flash_attention(first.q, first.k, first.v, 0.0, True)[:2]
        for tensors in sets.all:
            tensors.o.copy_(o)
            tensors.stats.copy_(stats.unsqueeze(-1))
        g = Graph(sets)
        g.node("SdpaBackwardAttributes", g.bind("q k v o do stats"), g.bind("dq dk dv"), parameters=options)
        wanted = dict(zip(("dq", "dk", "dv"), backward(flash)(first)))
        for engine in (NVRTC, CUDNN):
            bench.ours(f"{what} backward", engine, g, wanted, flops=2.5 * flops)
        for backend in backends:
            bench.torch(f"{what} backward", sets, backward(backend), backend.name, flops=2.5 * flops)
        torch.cuda.empty_cache()


def decoding(bench):
    """Attention of few queries of bf16 with long caches: 32 heads of queries, h of s keys and values, of 128 numbers.
    Each key and value counts once."""
    shapes = ((1, 32, 1, 4096), (1, 8, 1, 32768), (8, 8, 1, 8192), (64, 8, 1, 4096), (1, 32, 16, 8192))
    for batch, h, queries, s in shapes:
        q = random(batch, 32, queries, 128, data_type=torch.bfloat16)
        k, v = (random(batch, h, s, 128, data_type=torch.bfloat16) for _ in "kv")
        run = lambda s: F.scaled_dot_product_attention(s.q, s.k, s.v, enable_gqa=s.k.shape[1] < 32)
        sets = Sets(q=q, k=k, v=v, o=torch.empty_like(q))
        what, moved = f"decoding bf16 {batch}x32/{h}x{queries} of {s}", 4 * (k.numel() + q.numel())
        g = Graph(sets)
        g.node("SdpaAttributes", g.bind("q k v"), g.bind("o"), attributes={"attn_scale_value": 128**-0.5})
        want = run(sets.first)
        for engine in (NVRTC, CUDNN):
            bench.ours(what, engine, g, {"o": want}, bytes=moved)
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            with sdpa_kernel(backend):
                bench.torch(what, sets, run, backend.name, bytes=moved)
        torch.cuda.empty_cache()


def convolutions(bench):
    """Convolutions of ResNet-50 of fp16, channels last: x [64, c, size, size], w [k, c, f, f], a stride, padding f / 2.
    The first has 8 channels in place of 3. Gradients, and bias + ReLU, of two of them."""
    sizes = ((8, 64, 224, 7, 2), (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (256, 64, 56, 1, 1), (128, 128, 28, 3, 1))
    for c, k, size, f, stride in (*sizes, (256, 256, 14, 3, 1), (512, 512, 7, 3, 1), (256, 512, 56, 1, 2)):
        pad, half = f // 2, torch.float16
        x = random(64, c, size, size, data_type=half).to(memory_format=torch.channels_last)
        w = (random(k, c, f, f, data_type=half) * (c * f * f) ** -0.5).to(memory_format=torch.channels_last)
        forward = lambda s: F.conv2d(s.x, s.w, stride=stride, padding=pad)
        want = F.conv2d(x, w, stride=stride, padding=pad)
        tensors = {"x": x, "w": w, "dy": torch.randn_like(want), "bias": random(1, k, 1, 1, data_type=half)}
        makes = {name: torch.empty_like(like) for name, like in (("y", want), ("dx", x), ("dw", w))}
        flops = want.numel() * 2 * c * f * f
        numbers = {
            "pre_padding": [pad] * 2,
            "post_padding": [pad] * 2,
            "stride": [stride] * 2,
            "dilation": [1, 1],
            "conv_mode": "CROSS_CORRELATION",
        }
        what = f"conv fp16 NHWC 64x{c}x{size}x{size} {k}x{f}x{f}/{stride}"

        def compare(part, kind, inputs, output, want, peer):
            names = (*inputs.split(), output)
            sets = Sets(**{name: {**tensors, **makes}[name] for name in names})
            g = Graph(sets)
            g.node(kind, g.bind(inputs), g.bind(output), parameters=numbers)
            for engine, way in ((CUDNN, ""), (CUDNN, "timed"), (NVRTC, "")):
                bench.ours(f"{what} {part}", engine, g, {output: want}, way, flops=flops)
            bench.torch(f"{what} {part}", sets, peer, flops=flops)

        compare("forward", "ConvolutionFwdAttributes", "x w", "y", want, forward)
        if f != 3 or c not in (64, 256):
            continue

        def gradient(dy, x, w, *wanted):
            options = ([stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, [*wanted, False])
            return torch.ops.aten.convolution_backward(dy, x, w, None, *options)

        dy, like_x, like_w = tensors["dy"], makes["dx"], makes["dw"]
        dx, dw = gradient(dy, x, w, True, False)[0], gradient(dy, x, w, False, True)[1]
        compare(
            "data", "ConvolutionBwdAttributes", "dy w", "dx", dx, lambda s: gradient(s.dy, like_x, s.w, True, False)[0]
        )
        compare(
            "filter",
            "ConvolutionWrwAttributes",
            "x dy",
            "dw",
            dw,
            lambda s: gradient(s.dy, s.x, like_w, False, True)[1],
        )
        sets = Sets(x=x, w=w, bias=tensors["bias"], y=makes["y"])
        g = Graph(sets)
        product, total = g.virtual(want), g.virtual(want)
        g.node("ConvolutionFwdAttributes", g.bind("x w"), {"y": product}, parameters=numbers)
        g.pointwise("add", [product, g.tensor("bias")], total)
        g.pointwise("relu_fwd", [total], g.tensor("y"))
        for way in ("", "timed"):
            bench.ours(f"{what} +bias+relu", CUDNN, g, {"y": F.relu(want + tensors["bias"])}, way, flops=flops)
        fused = lambda s: torch.cudnn_convolution_relu(s.x, s.w, s.bias.flatten(), [stride] * 2, [pad] * 2, [1, 1], 1)
        apart = lambda s: F.relu(F.conv2d(s.x, s.w, s.bias.flatten(), stride=stride, padding=pad))
        bench.torch(f"{what} +bias+relu", sets, fused, "cudnn_convolution_relu", flops=flops)
        bench.torch(f"{what} +bias+relu", sets, apart, flops=flops)


def memory(bench):
    """What memory bounds, of x [rows, columns]. A copy of the same run is the measure."""
    for data_type in (torch.float32, torch.bfloat16):
        name = DATA_TYPES[str(data_type)]
        x, residual = (random(8192, 8192, data_type=data_type) for _ in "xr")
        scale, bias = (random(1, 8192, data_type=data_type) for _ in "sb")
        size = x.numel() * x.element_size()
        sets = Sets(x=x, residual=residual, scale=scale, bias=bias, y=torch.empty_like(x))
        bench.torch(f"copy {name} 8192x8192", sets, lambda s: s.y.copy_(s.x), bytes=2 * size)

        def gelu(g):
            g.pointwise("gelu_approx_tanh_fwd", [g.tensor("x")], g.tensor("y"))

        def chain(g):
            scaled, total, positive = (g.virtual(x) for _ in range(3))  # noqa: F821
            g.pointwise("mul", [g.tensor("x"), g.tensor("scale")], scaled)
            g.pointwise("add", [scaled, g.tensor("bias")], total)
            g.pointwise("relu_fwd", [total], positive)
            g.pointwise("add", [positive, g.tensor("residual")], g.tensor("y"))

        beside(bench, f"gelu {name} 8192x8192", sets, gelu, lambda s: F.gelu(s.x, approximate="tanh"), bytes=2 * size)
        what = f"scale+bias+relu+residual {name} 8192x8192"
        beside(bench, what, sets, chain, lambda s: F.relu(s.x * s.scale + s.bias) + s.residual, bytes=3 * size)
        for rows, columns in ((8192, 8192), (16384, 1024)):
            normalizations(bench, name, random(rows, columns, data_type=data_type))
        del sets, x, residual
        torch.cuda.empty_cache()
        images = random(64, 64, 56, 56, data_type=data_type).to(memory_format=torch.channels_last)
        batchnorm(bench, name, images)


def beside(bench, what, sets, build, function, results=("y",), ways=("",), **work):
    """A case of both engines, PyTorch and PyTorch compiled. The function answers the results in their order; NVRTC_ENGINE plans in
    each of the ways."""
    if not bench.wants(what):
        return
    wide = torch.float32 if next(iter(vars(sets.first).values())).dtype != torch.float32 else torch.float64
    tensors = type(sets.first)(**{name: x.to(wide) for name, x in vars(sets.first).items()})
    wanted = function(tensors)
    wanted = dict(zip(results, wanted if isinstance(wanted, tuple) else (wanted,)))
    wanted = {name: want.to(getattr(sets.first, name).dtype) for name, want in wanted.items()}
    del tensors
    for engine, way in (*((NVRTC, way) for way in ways), (CUDNN, "")):
        g = Graph(sets)
        build(g)
        bench.ours(what, engine, g, wanted, way, **work)
    bench.torch(what, sets, function, **work)
    bench.compiled(what, sets, function, **work)


def long_rows(bench):
    """Rows so few that workgroups share them, and the same with a workgroup for each row. A copy of the same run is the measure."""
    for data_type in (torch.float32, torch.bfloat16):
        name = DATA_TYPES[str(data_type)]
        x = random(8192, 8192, data_type=data_type)
        sets = Sets(x=x, y=torch.empty_like(x))
        bench.torch(
            f"copy {name} 8192x8192 again", sets, lambda s: s.y.copy_(s.x), bytes=2 * x.numel() * x.element_size()
        )
        del sets, x
        for rows, columns in ((1, 1 << 22), (4, 1 << 20), (16, 1 << 18)):
            x = random(rows, columns, data_type=data_type)
            normalizations(bench, name, x, LONG)
            sums(bench, name, x.abs())
        torch.cuda.empty_cache()


def sums(bench, name, x):
    """Sums of the rows of x [rows, columns]. It is read, and next to nothing is written."""
    sets = Sets(x=x, y=torch.empty(x.shape[0], 1, device="cuda", dtype=x.dtype))

    def build(g):
        g.reduction("add", g.tensor("x"), g.tensor("y"))

    what = f"sum {name} {'x'.join(map(str, x.shape))}"
    beside(bench, what, sets, build, lambda s: s.x.sum(1, keepdim=True), ways=LONG, bytes=x.numel() * x.element_size())


def normalizations(bench, name, x, ways=("",)):
    """Of the rows of x [rows, columns]. The softmax is a chain of five operations, two of them reductions."""
    rows, columns = x.shape
    size, shape = x.numel() * x.element_size(), f"{name} {rows}x{columns}"
    scale, bias = (random(1, columns, data_type=x.dtype) for _ in "sb")
    sets = Sets(x=x, scale=scale, bias=bias, y=torch.empty_like(x))
    # Every subject has the same kernel start and end overhead as a copy of as many elements.
    bench.torch(f"copy of {shape}", sets, lambda s: s.y.copy_(s.x), bytes=2 * size)

    def layernorm(g):
        inputs = {**g.bind("x scale bias"), "epsilon": g.number(1e-5)}
        g.node("LayernormAttributes", inputs, g.bind("y"), normalized_dim_count=1, forward_phase=1)

    def softmax(g):
        source, largest, total = g.tensor("x"), g.virtual_column(rows), g.virtual_column(rows)
        below, powers = g.virtual(x), g.virtual(x)
        g.reduction("max", source, largest)
        g.pointwise("sub", [source, largest], below)
        g.pointwise("exp", [below], powers)
        g.reduction("add", powers, total)
        g.pointwise("div", [powers, total], g.tensor("y"))

    peer = lambda s: F.layer_norm(s.x, [columns], s.scale[0], s.bias[0])
    beside(bench, f"layernorm {shape}", sets, layernorm, peer, ways=ways, bytes=2 * size)
    beside(bench, f"softmax {shape}", sets, softmax, lambda s: torch.softmax(s.x, -1), ways=ways, bytes=2 * size)
    sets = Sets(x=x, residual=torch.randn_like(x), scale=scale, sum=torch.empty_like(x), y=torch.empty_like(x))

    def rms(g):
        g.pointwise("add", [g.tensor("x"), g.tensor("residual")], g.tensor("sum"))
        inputs = {"x": g.tensor("sum"), "scale": g.tensor("scale"), "epsilon": g.number(1e-5)}
        g.node("RMSNormAttributes", inputs, g.bind("y"), forward_phase="INFERENCE")

    def peer(s):
        total = s.x + s.residual
        return F.rms_norm(total, [columns], s.scale[0], 1e-5), total

    beside(bench, f"residual+RMSNorm {shape}", sets, rms, peer, ("y", "sum"), ways, bytes=4 * size)


def batchnorm(bench, name, x):
    """Batch normalization of images in training and ReLU; x is read twice, which counts once."""
    channels, size = x.shape[1], x.numel() * x.element_size()
    scale, bias = (random(1, channels, 1, 1, data_type=torch.float32) for _ in "sb")
    mean, inv_variance = (torch.empty(1, channels, 1, 1, device="cuda") for _ in "mi")
    sets = Sets(x=x, scale=scale, bias=bias, mean=mean, inv_variance=inv_variance, y=torch.empty_like(x))

    def build(g):
        normalized = g.virtual(x)
        inputs = {**g.bind("x scale bias"), "epsilon": g.number(1e-5)}
        g.node("BatchnormAttributes", inputs, {"y": normalized, **g.bind("mean inv_variance")})
        g.pointwise("relu_fwd", [normalized], g.tensor("y"))

    peer = lambda s: F.relu(F.batch_norm(s.x, None, None, s.scale.flatten(), s.bias.flatten(), training=True))
    what = f"batchnorm training+relu {name} NHWC {'x'.join(map(str, x.shape))}"
    beside(bench, what, sets, build, peer, bytes=2 * size)


GROUPS = {
    "matmuls": matmuls,
    "attention": attention,
    "decoding": decoding,
    "convolutions": convolutions,
    "memory": memory,
    "rows": long_rows,
}
