"""Cases of attention and mixtures of experts, computed by NumPy in double precision from the formulas of docs/numerics.md.

    python3 make_attention.py > attention.txt

A case is a line `case NAME OPERATION`, then lines `set FIELD NUMBER`, `in FIELD TYPE DIMS : NUMBERS` and
`out FIELD TYPE DIMS : NUMBERS`.
"""

import math

import numpy as np

MASK32 = 0xFFFFFFFF


def philox(counter, key):
    """Philox 4x32 with 10 rounds, in integers without bounds."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK32, (a >> 32) ^ c[3] ^ k[1], a & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
    0xD16CFE09,
    0x94FDCCEB,
    0x5001E420,
    0x24126EA1,
]


def words(number):
    number &= (1 << 64) - 1
    return [number & MASK32, number >> 32]


def uniform(seed, offset, shape):
    counters = range((math.prod(shape) + 3) // 4)
    numbers = [w for i in counters for w in philox(words(i) + words(offset), words(seed))]
    return np.array(numbers[: math.prod(shape)], np.float64).reshape(shape) / 2.0**32


def slopes(heads):
    power = 2 ** int(math.log2(heads))
    first = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    twice = [2.0 ** (-8.0 * (i + 1) / (2 * power)) for i in range(2 * power)]
    return np.array(first + twice[0::2][: heads - power])


def scores(o):
    """The scores [B, H, Sq, Skv] with everything that is added or hidden, and what dropout multiplies by."""
    q, k = o["q"], o["k"]
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    k = np.repeat(k, heads // k.shape[1], axis=1)
    s = np.einsum("bhqd,bhkd->bhqk", q, k) * o.get("scale", o.get("attn_scale_value", 1.0))
    s = s * o.get("descale_q", 1.0) * o.get("descale_k", 1.0)
    if "attn_mask" in o:
        s = s + o["attn_mask"]
    lengths_q = o.get("seq_len_q", np.full(batch, queries)).reshape(-1, 1, 1, 1)
    lengths_k = o.get("seq_len_kv", np.full(batch, keys)).reshape(-1, 1, 1, 1)
    i, j = np.arange(queries).reshape(-1, 1), np.arange(keys)
    off = lengths_k - lengths_q if o.get("diagonal_alignment", 0) or o.get("causal_mask_bottom_right") else 0
    right = 0 if o.get("causal_mask") or o.get("causal_mask_bottom_right") else o.get("right_bound", -1)
    left = o.get("left_bound", -1)
    if o.get("alibi_mask"):
        s = s - slopes(heads).reshape(1, -1, 1, 1) * np.abs(i + off - j)
    seen = (i < lengths_q) & (j < lengths_k) & np.ones_like(s, bool)
    if right >= 0:
        seen &= j <= i + off + right
    if left >= 0:
        seen &= j >= i + off - left
    kept = np.ones_like(s)
    if "dropout_probability" in o:
        p = float(np.float32(o["dropout_probability"]))
        kept = (uniform(int(o["seed"].item()), int(o["offset"].item()), s.shape) >= p) / (1.0 - p)
    if "dropout_mask" in o:
        kept = np.broadcast_to(o["dropout_mask"] * o["dropout_scale"], s.shape)
    return np.where(seen, s, -np.inf), kept


def shared(o, values):
    return np.repeat(values, o["q"].shape[1] // values.shape[1], axis=1)


def attention(o):
    s, kept = scores(o)
    v = shared(o, o["v"])
    sink = np.broadcast_to(o.get("sink_token", np.array(-np.inf)), s[..., :1].shape)
    m = np.maximum(s.max(-1, keepdims=True), sink)
    safe = np.where(np.isneginf(m), 0.0, m)
    e = np.exp(s - safe)
    total = e.sum(-1, keepdims=True) + np.exp(sink - safe)
    p = e / np.where(total == 0.0, 1.0, total)
    with np.errstate(divide="ignore"):
        stats = safe + np.log(total)
    result = np.einsum("bhqk,bhkd->bhqd", p * kept, v) * o.get("descale_v", 1.0)
    return {"o": result * o.get("scale_o", 1.0), "stats": stats, "max": m, "sum_exp": total}


def gradients(o, forward):
    s, kept = scores(o)
    stats = forward["stats"]
    p = np.where(np.isneginf(stats), 0.0, np.exp(s - np.where(np.isneginf(stats), 0.0, stats)))
    delta = (o["do"] * forward["o"]).sum(-1, keepdims=True)
    ds = p * (kept * np.einsum("bhqd,bhkd->bhqk", o["do"], shared(o, o["v"])) - delta)
    scale = o.get("scale", o.get("attn_scale_value", 1.0))

    def gathered(values, heads):
        batch, all_heads, rows, width = values.shape
        return values.reshape(batch, heads, all_heads // heads, rows, width).sum(2)

    result = {
        "dq": scale * np.einsum("bhqk,bhkd->bhqd", ds, shared(o, o["k"])),
        "dk": scale * gathered(np.einsum("bhqk,bhqd->bhkd", ds, o["q"]), o["k"].shape[1]),
        "dv": gathered(np.einsum("bhqk,bhqd->bhkd", p * kept, o["do"]), o["v"].shape[1]),
    }
    if "attn_mask" in o:
        dims = o["attn_mask"].shape
        axes = tuple(axis for axis, dim in enumerate(dims) if dim == 1)
        result["dbias"] = ds.sum(axes, keepdims=True)
    return result


def mixture(o):
    """The rows of each group times its expert's matrix; mode 0 none, 1 gather, 2 scatter."""
    token, weight, mode = o["token"][0], o["weight"], o["mode"]
    rows = o["token_index"].size if mode == 1 else len(token)
    ends = np.append(o["first_token_offset"].ravel()[1:], rows)
    output = np.zeros((rows, weight.shape[2]))
    for group, (begin, end) in enumerate(zip(o["first_token_offset"].ravel(), ends)):
        at = np.arange(begin, end)
        source = o["token_index"].ravel()[at] if mode == 1 else at
        target = o["token_index"].ravel()[at] * o["top_k"] + o["token_ks"].ravel()[at] if mode == 2 else at
        output[target] = token[source] @ weight[group % len(weight)]
    return output[np.newaxis]


def mixture_gradient(o, experts):
    token, d_output = o["token"][0], o["doutput"][0]
    ends = np.append(o["first_token_offset"].ravel()[1:], len(token))
    result = np.zeros((experts, token.shape[1], d_output.shape[1]))
    for group, (begin, end) in enumerate(zip(o["first_token_offset"].ravel(), ends)):
        result[group % experts] += token[begin:end].T @ d_output[begin:end]
    return result


def write(name, operation, inputs, outputs):
    print(f"case {name} {operation}")
    for field, value in inputs.items():
        if isinstance(value, np.ndarray):
            tensor("in", field, value)
        else:
            print(f"set {field} {value}")
    for field, value in outputs.items():
        tensor("out", field, value)


def tensor(kind, field, value):
    if value.dtype.kind == "i":
        data_type, text = ("int32" if value.dtype.itemsize == 4 else "int64"), str
    else:
        data_type, text = "double", lambda number: repr(float(number))
    dims, numbers = "x".join(map(str, value.shape)), " ".join(map(text, value.ravel()))
    print(f"{kind} {field} {data_type} {dims} : {numbers}")


def attentions(random):
    def numbers(*dims):
        return np.round(random.uniform(-2.0, 2.0, dims), 3)

    def ints(*values, dims=None, of=np.int32):
        return np.array(values, of).reshape(dims or (len(values),))

    def setup(heads=(2, 2, 2), queries=3, keys=4):
        return {
            "q": numbers(2, heads[0], queries, 2),
            "k": numbers(2, heads[1], keys, 2),
            "v": numbers(2, heads[2], keys, 3),
        }

    padding = {
        "padding_mask": 1,
        "seq_len_q": ints(2, 3, dims=(2, 1, 1, 1)),
        "seq_len_kv": ints(4, 1, dims=(2, 1, 1, 1)),
    }
    dropout = {
        "dropout_probability": 0.3,
        "seed": ints(-123456789012345, dims=(1, 1, 1, 1), of=np.int64),
        "offset": ints(4294967301, dims=(1, 1, 1, 1), of=np.int64),
    }
    masked = {"dropout_mask": np.round(random.uniform(0, 1, (2, 1, 3, 4))), "dropout_scale": np.array([1.5])}
    both = {
        "plain": setup(),
        "scale": setup() | {"attn_scale_value": 0.5, "scale": np.array([1.25])},
        "shared_heads": setup(heads=(6, 2, 3)),
        "mask": setup() | {"attn_mask": numbers(1, 2, 3, 4)},
        "mask_of_keys": setup() | {"attn_mask": numbers(2, 1, 1, 4)},
        "causal": setup() | {"causal_mask": 1},
        "causal_bottom_right": setup(queries=5) | {"causal_mask_bottom_right": 1},
        "window": setup(queries=4) | {"left_bound": 1, "right_bound": 0, "diagonal_alignment": 1},
        "alibi": setup(heads=(3, 3, 3)) | {"alibi_mask": 1, "right_bound": 0},
        "alibi_padding": setup() | padding | {"alibi_mask": 1, "diagonal_alignment": 1, "right_bound": 1},
        "dropout": setup() | dropout | {"attn_mask": numbers(1, 1, 1, 4)},
        "dropout_padding_shared": setup(heads=(4, 2, 1)) | dropout | padding,
        "dropout_mask": setup() | masked,
    }
    forward = {
        "sink": setup() | {"sink_token": numbers(1, 2, 1, 1)},
        "sink_of_empty_rows": setup(queries=5) | {"causal_mask_bottom_right": 1, "sink_token": numbers(1, 2, 1, 1)},
        "factors": setup()
        | {"descale_q": np.array([1.5]), "descale_k": numbers(2, 2, 1, 1), "descale_v": np.array([0.5])}
        | {"scale_o": np.array([3.0])},
    }
    for name, inputs in (both | forward).items():
        write(name, "Sdpa", inputs, attention(inputs))
    for name, inputs in both.items():
        result = attention(inputs)
        inputs = inputs | {"o": result["o"], "do": numbers(*result["o"].shape), "stats": result["stats"]}
        write(name, "SdpaBackward", inputs, gradients(inputs, result))


def mixtures(random):
    def numbers(*dims):
        return np.round(random.uniform(-2.0, 2.0, dims), 3)

    def column(*values):
        return np.array(values, np.int32).reshape(1, -1, 1)

    first = np.array([0, 2, 3, 5], np.int32).reshape(-1, 1, 1)
    base = {"weight": numbers(2, 3, 2), "first_token_offset": first, "mode": 0}
    for name, inputs in {
        "none": base | {"token": numbers(1, 6, 3)},
        "rows_of_nobody": base | {"token": numbers(1, 6, 3), "first_token_offset": first + np.int32(1)},
        "gather": base | {"token": numbers(1, 4, 3), "token_index": column(3, 0, 1, 1, 2, 0), "mode": 1},
        "scatter": base
        | {"token": numbers(1, 6, 3), "token_index": column(2, 0, 1, 1, 2, 0), "token_ks": column(0, 1, 1, 0, 1, 0)}
        | {"mode": 2, "top_k": 2},
    }.items():
        write(name, "MoeGroupedMatmul", inputs, {"output": mixture(inputs)})
    inputs = {"token": numbers(1, 6, 3), "doutput": numbers(1, 6, 2), "first_token_offset": first}
    write("gradient", "MoeGroupedMatmulBackward", inputs, {"dweight": mixture_gradient(inputs, 2)})


if __name__ == "__main__":
    generator = np.random.default_rng(20260101)
    attentions(generator)
    mixtures(generator)
