"""A Llama-like language model with random weights, as made by onnxruntime-genai's builder: in single precision, or with 4-bit
weights."""

import dataclasses
import json
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32
EPSILON = 1e-5
# A model's file has less than 2 GiB: larger weights lie in a file beside it, from this size on and at multiples of it.
WEIGHTS = "weights.bin"
PAGE = 4096


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int = 6
    hidden: int = 1024
    wide: int = 2816
    vocabulary: int = 8192
    heads: int = 16
    kv_heads: int = 4
    head: int = 64
    context: int = 1024

    def parameters(self):
        of_layer = self.hidden * self.head * 2 * (self.heads + self.kv_heads) + 3 * self.hidden * self.wide
        return self.layers * of_layer + 2 * self.hidden * self.vocabulary


USUAL = Size()


class Maker:
    def __init__(self, bits, size, beside=None):
        self.bits, self.size, self.random = bits, size, np.random.default_rng(7)
        self.nodes, self.weights, self.count, self.beside = [], [], 0, beside

    def weight(self, array):
        name, array = f"w{len(self.weights)}", np.ascontiguousarray(array)
        outside = self.beside is not None and array.nbytes >= PAGE
        self.weights.append(self.outside(array, name) if outside else numpy_helper.from_array(array, name))
        return name

    def outside(self, array, name):
        """A weight whose elements are in the file beside the model."""
        begin = -(-self.beside.tell() // PAGE) * PAGE
        self.beside.seek(begin)
        self.beside.write(array.data)
        tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        for key, value in (("location", WEIGHTS), ("offset", begin), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def node(self, operator, *inputs, outputs=1, domain="", **attributes):
        names = [f"v{self.count + at}" for at in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(operator, list(inputs), names, names[0], domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def linear(self, x, size_in, size_out, gain=1.0):
        scale = np.float32(gain / np.sqrt(size_in))
        if self.bits == 32:
            w = self.random.standard_normal((size_in, size_out), np.float32) * scale
            return self.node("MatMul", x, self.weight(w))
        blocks = size_in // BLOCK
        # Numbers from -7 to 7, with mean 0 and standard deviation 4.3.
        low, high = self.random.integers(1, 16, (2, size_out, blocks, BLOCK // 2)).astype(np.uint8)
        b = low | high << 4
        scales = self.random.uniform(0.8, 1.2, (size_out, blocks)).astype(np.float32) * scale / np.float32(4.3)
        numbers = {"K": size_in, "N": size_out, "bits": 4, "block_size": BLOCK}
        return self.node("MatMulNBits", x, self.weight(b), self.weight(scales), domain="com.microsoft", **numbers)

    def norm(self):
        return self.weight(self.random.uniform(0.8, 1.2, self.size.hidden).astype(np.float32))


def model(bits, size=USUAL, beside=None):
    """The bytes of the model, whose matrices have 32 or 4 bits per element. Large weights are written to the file `beside`."""
    m = Maker(bits, size, beside)
    hidden, heads, kv_heads, head = size.hidden, size.heads, size.kv_heads, size.head
    table = m.weight(m.random.standard_normal((size.vocabulary, hidden), np.float32))
    x = m.node("Gather", table, "input_ids")
    one = m.weight(np.array([1], np.int64))
    lengths = m.node("Sub", m.node("ReduceSum", "attention_mask", one, keepdims=0), one)
    lengths = m.node("Cast", lengths, to=TensorProto.INT32)
    total = m.node("Gather", m.node("Shape", "attention_mask"), m.weight(np.array(1, np.int64)), axis=0)
    total = m.node("Cast", total, to=TensorProto.INT32)
    angles = np.arange(size.context)[:, None] / 10000.0 ** (np.arange(head // 2) / (head // 2))
    cos, sin = (m.weight(of(angles).astype(np.float32)) for of in (np.cos, np.sin))
    cache = ["batch", kv_heads, "past", head]
    inputs = [
        ("input_ids", TensorProto.INT64, ["batch", "length"]),
        ("attention_mask", TensorProto.INT64, ["batch", "total"]),
    ]
    outputs = [("logits", TensorProto.FLOAT, ["batch", "length", size.vocabulary])]
    y = m.node("SimplifiedLayerNormalization", x, m.norm(), axis=-1, epsilon=EPSILON, stash_type=1)
    for layer in range(size.layers):
        q = m.linear(y, hidden, heads * head)
        k, v = (m.linear(y, hidden, kv_heads * head) for _ in range(2))
        past = [f"past_key_values.{layer}.{of}" for of in ("key", "value")]
        present = [f"present.{layer}.{of}" for of in ("key", "value")]
        m.nodes.append(
            helper.make_node(
                "GroupQueryAttention", [q, k, v, *past, lengths, total, cos, sin], [f"a{layer}", *present], f"a{layer}",
                domain="com.microsoft", num_heads=heads, kv_num_heads=kv_heads, do_rotary=1, scale=head**-0.5,
            )
        )  # fmt: skip
        inputs += [(name, TensorProto.FLOAT, cache) for name in past]
        outputs += [(name, TensorProto.FLOAT, cache) for name in present]
        x, y = skip(m, x, m.linear(f"a{layer}", heads * head, hidden))
        gate, up = (m.linear(y, hidden, size.wide) for _ in range(2))
        y = m.node("Mul", m.node("Mul", gate, m.node("Sigmoid", gate)), up)
        x, y = skip(m, x, m.linear(y, size.wide, hidden))
    m.nodes.append(helper.make_node("Identity", [m.linear(y, hidden, size.vocabulary, 3.0)], ["logits"], "logits"))
    values = (
        [helper.make_tensor_value_info(*of) for of in inputs],
        [helper.make_tensor_value_info(*of) for of in outputs],
    )
    graph = helper.make_graph(m.nodes, "llama", *values, m.weights)
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10).SerializeToString()


def skip(m, x, y):
    """The sum of both, and the normalized sum."""
    y, _, _, total = m.node(
        "SkipSimplifiedLayerNormalization", x, y, m.norm(), outputs=4, domain="com.microsoft", epsilon=EPSILON
    )
    # The outputs between have no reader.
    m.nodes[-1].output[1] = m.nodes[-1].output[2] = ""
    return total, y


def save(folder, bits, size=USUAL):
    """Writes the model into a folder, its large weights into a file of their own. Returns the model's path."""
    path = os.path.join(folder, "model.onnx")
    with open(os.path.join(folder, WEIGHTS), "wb") as beside, open(path, "wb") as file:
        file.write(model(bits, size, beside))
    return path


def write(folder, data, threads, provider_options, size=USUAL):
    """A folder that onnxruntime-genai loads."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(data)
    names = {f"past_{of}_names": f"past_key_values.%d.{of}" for of in ("key", "value")}
    decoder = {
        "session_options": {"intra_op_num_threads": threads, "provider_options": provider_options},
        "filename": "model.onnx",
        "head_size": size.head,
        "hidden_size": size.hidden,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **names},
        "outputs": {"logits": "logits", **{f"present_{of}_names": f"present.%d.{of}" for of in ("key", "value")}},
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
        "num_key_value_heads": size.kv_heads,
    }
    config = {
        "model": {
            "type": "llama",
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 0,
            "vocab_size": size.vocabulary,
            "context_length": size.context,
            "decoder": decoder,
        },
        "search": {"do_sample": False, "max_length": size.context, "past_present_share_buffer": True},
    }
    with open(os.path.join(folder, "genai_config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
