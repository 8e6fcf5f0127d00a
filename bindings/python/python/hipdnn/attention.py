"""Scaled dot product attention and its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import GraphError, UnsupportedError
from .node import Operations, describe_results
from .tensor import Tensor
from .types import DataTypeLike, attention_implementation, data_type, diagonal_alignment

Compute = DataTypeLike


@dataclass(frozen=True)
class Settings:
    """The arguments that both directions share besides q, k and v, as in `Attention.sdpa`."""

    attn_scale: Tensor | float | None
    bias: Tensor | None
    use_alibi_mask: bool
    use_padding_mask: bool
    seq_len_q: Tensor | None
    seq_len_kv: Tensor | None
    use_causal_mask: bool
    use_causal_mask_bottom_right: bool
    sliding_window_length: int | None
    diagonal_alignment: diagonal_alignment
    diagonal_band_left_bound: int | None
    diagonal_band_right_bound: int | None
    dropout: tuple[Any, ...] | None


class Attention(Operations):
    """Scaled dot product attention and its gradients."""

    #: Whether plans use only deterministic kernels.
    _is_deterministic = False
    #: Errors that cuDNN raises at validation.
    _refusals: tuple[UnsupportedError, ...] = ()

    def _attention(self, node: str, q: Tensor, of: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both directions share: the tensors besides q, k and v, and the settings."""
        inputs: dict[str, Tensor | None] = {}
        settings: dict[str, Any] = {
            "alibi_mask": bool(of.use_alibi_mask),
            "padding_mask": bool(of.use_padding_mask),
            "causal_mask": bool(of.use_causal_mask),
            "causal_mask_bottom_right": bool(of.use_causal_mask_bottom_right),
            "attn_scale_value": None,
            "dropout_probability": None,
            "left_bound": of.diagonal_band_left_bound,
            "right_bound": of.diagonal_band_right_bound,
            "diagonal_alignment": of.diagonal_alignment.value,
        }
        if of.use_causal_mask and of.use_causal_mask_bottom_right:
            raise GraphError(
                node, "use_causal_mask", "is set beside use_causal_mask_bottom_right, expected one of them"
            )
        if of.sliding_window_length is not None:
            if settings["left_bound"] is not None:
                raise GraphError(
                    node, "sliding_window_length", "is given beside diagonal_band_left_bound, expected one of them"
                )
            settings["left_bound"] = int(of.sliding_window_length)
        if settings["left_bound"] is not None:
            # cuDNN counts the query's own key, hipDNN only those before it.
            settings["left_bound"] = int(settings["left_bound"]) - 1
            if settings["left_bound"] < 0:
                argument = "diagonal_band_left_bound" if of.sliding_window_length is None else "sliding_window_length"
                raise GraphError(
                    node,
                    argument,
                    f"is {settings['left_bound'] + 1}, expected at least 1: the key of the query itself counts",
                )
        scale = of.attn_scale
        inputs["scale"] = None
        if isinstance(scale, Tensor):
            inputs["scale"] = self._operand(node, "attn_scale", scale)
        elif scale is not None and q.data_type is data_type.DOUBLE:
            # The setting is in single precision.
            one = (1, 1, 1, 1)
            inputs["scale"] = self._new_tensor(dim=one, stride=one, data_type=data_type.DOUBLE, value=float(scale))
        elif scale is not None:
            settings["attn_scale_value"] = float(scale)
        optional = {
            "attn_mask": ("bias", of.bias),
            "seq_len_q": ("seq_len_q", of.seq_len_q),
            "seq_len_kv": ("seq_len_kv", of.seq_len_kv),
        }
        for key, (argument, tensor) in optional.items():
            inputs[key] = None if tensor is None else self._operand(node, argument, tensor)
        for key in ("seq_len_q", "seq_len_kv"):
            lengths = inputs[key]
            if lengths is not None and lengths.data_type is data_type.INT64:
                # Engines take 32-bit lengths.
                inputs[key] = self._as_int32(lengths, f"{node}_{key}")
        if of.use_padding_mask and (of.seq_len_q is None or of.seq_len_kv is None):
            raise GraphError(node, "use_padding_mask", "expected together with seq_len_q and seq_len_kv")
        inputs.update(dict.fromkeys(("seed", "offset", "dropout_mask", "dropout_scale")))
        dropout = of.dropout
        if dropout is not None:
            if len(dropout) == 3 and not isinstance(dropout[0], Tensor):
                settings["dropout_probability"] = float(dropout[0])
                inputs["seed"] = self._operand(node, "dropout", dropout[1])
                inputs["offset"] = self._operand(node, "dropout", dropout[2])
            elif len(dropout) in (2, 3):
                names = ("dropout_mask", "dropout_scale", "dropout_scale_inv")
                inputs.update({key: self._operand(node, "dropout", tensor) for key, tensor in zip(names, dropout)})
            else:
                raise GraphError(node, "dropout", "expected (probability, seed, offset) or (mask, scale)")
        return inputs, settings

    def _refuse_as_cudnn(self, node: str, of: Settings, q: Tensor, keys: int) -> None:
        """Notes what cuDNN's validation refuses because the result would be undefined."""
        right = 0 if of.use_causal_mask or of.use_causal_mask_bottom_right else of.diagonal_band_right_bound
        left = (
            of.sliding_window_length if of.sliding_window_length is not None else of.diagonal_band_left_bound
        ) is not None
        refused = []
        if of.use_alibi_mask and right != 0:
            words = "is set where a query sees later keys, expected diagonal_band_right_bound=0 or use_causal_mask"
            refused.append(UnsupportedError(node, "use_alibi_mask", words))
        if left and not of.use_padding_mask and (q.dim or (0, 0, 0))[2] > keys:
            words = (
                "is given for more queries than keys, of which the last see none: expected at most as many, or lengths"
            )
            refused.append(UnsupportedError(node, "diagonal_band_left_bound", words))
        at_end = of.use_causal_mask_bottom_right or of.diagonal_alignment is diagonal_alignment.BOTTOM_RIGHT
        if at_end and right is not None and not of.use_padding_mask and (q.dim or (0, 0, 0))[2] > keys:
            words = "is at the end of more queries than keys, of which the first see none: expected at most as many, or lengths"
            refused.append(UnsupportedError(node, "diagonal_alignment", words))
        if self._as_cudnn:
            self._refusals = (*self._refusals, *refused)

    def _as_int32(self, tensor: Tensor, name: str) -> Tensor:
        """Converts an integer tensor to int32."""
        raise NotImplementedError

    def _sink_gradient(
        self, node: str, sink: Any, gradient: Any, tensors: dict[str, Tensor], lengths: Tensor | None, compute: Any
    ) -> None:
        """Writes the gradient of a score that all rows share."""
        raise NotImplementedError

    def _unpacked(self, node: str, table: Tensor) -> Tensor:
        """A page table in the layout that engines take."""
        raise NotImplementedError

    def _by_scores(
        self, node: str, q: Tensor, k: Tensor, v: Tensor, scale: Any, score_mod: Any, compute: Any, stats: bool
    ) -> list[Tensor | None]:
        """Attention with a function applied to the scores."""
        raise NotImplementedError

    def _heads(self, node: str, q: Tensor, k: Tensor, v: Tensor) -> tuple[Any, Any, Any]:
        shapes = [self._dims(node, key, tensor, 4) for key, tensor in (("q", q), ("k", k), ("v", v))]
        if shapes[0][3] != shapes[1][3]:
            raise GraphError(node, "k", f"has {shapes[1][3]} elements a head, expected {shapes[0][3]} as q")
        return shapes[0], shapes[1], shapes[2]

    def sdpa(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        is_inference: bool | None = None,
        attn_scale: Tensor | float | None = None,
        bias: Tensor | None = None,
        block_mask: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window_length: int | None = None,
        diagonal_alignment: diagonal_alignment = diagonal_alignment.TOP_LEFT,
        diagonal_band_left_bound: int | None = None,
        diagonal_band_right_bound: int | None = None,
        dropout: tuple[Any, ...] | None = None,
        rng_dump: Tensor | None = None,
        paged_attention_k_table: Tensor | None = None,
        paged_attention_v_table: Tensor | None = None,
        paged_attention_max_seq_len_kv: int | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
        compute_data_type: Compute | None = None,
        name: str = "",
        score_mod: Any = None,
        generate_stats: bool | None = None,
        implementation: attention_implementation = attention_implementation.AUTO,
        score_max: Tensor | None = None,
        score_sum_exp: Tensor | None = None,
        sink_token: Tensor | None = None,
        unfuse_fma: bool = False,
    ) -> list[Tensor | None]:
        """softmax(q · kᵀ · attn_scale + bias) · v, with q [B, H, Sq, D], k [B, Hk, Skv, D] and v [B, Hk, Skv, Dv].

        Returns O [B, H, Sq, Dv] and, with ``generate_stats=True`` or ``is_inference=False``, the statistics that the
        gradients need, [B, H, Sq, 1], of type double if q was given as double, else float (otherwise None).
        ``dropout`` is (probability, seed, offset) or (mask, scale). Types are floats. Sequence lengths are int32 or int64 [B, 1, 1, 1].
        ``score_mod`` is a function of the graph and the scores [B, H, Sq, Skv] that returns new scores; q, k and v then have equal heads.
        ``score_max`` and ``score_sum_exp`` are tensors to write, [B, H, Sq, 1]; ``sink_token`` [1, H, 1, 1] adds one score to each row.
        ``implementation``, ``unfuse_fma``, ``max_total_seq_len_q`` and ``max_total_seq_len_kv`` exist for porting: engines choose
        the algorithm, and shape and strides bound ragged tensors.
        """
        node = self._name("sdpa", name)
        q, k, v = (self._operand(node, key, tensor) for key, tensor in (("q", q), ("k", k), ("v", v)))
        shape, _, values = self._heads(node, q, k, v)
        stats = generate_stats if generate_stats is not None else is_inference is False
        of = Settings(
            attn_scale, bias, use_alibi_mask, use_padding_mask, seq_len_q, seq_len_kv, use_causal_mask,
            use_causal_mask_bottom_right, sliding_window_length, diagonal_alignment, diagonal_band_left_bound,
            diagonal_band_right_bound, dropout,
        )  # fmt: skip
        if score_mod is not None:
            others = (bias, block_mask, seq_len_q, seq_len_kv, dropout, rng_dump, sink_token, score_max, score_sum_exp, sliding_window_length,
                      paged_attention_k_table, diagonal_band_left_bound, diagonal_band_right_bound)  # fmt: skip
            if (
                any(other is not None for other in others)
                or use_alibi_mask
                or use_causal_mask
                or use_causal_mask_bottom_right
            ):
                raise UnsupportedError(
                    node, "score_mod", "is given beside masks, a bias, dropout or pages, expected these in the function"
                )
            return self._by_scores(node, q, k, v, attn_scale, score_mod, compute_data_type, stats)
        beside, settings = self._attention(node, q, of)
        self._refuse_as_cudnn(node, of, q, paged_attention_max_seq_len_kv or (k.dim or (0, 0, 0))[2])
        tables = {
            "block_mask": block_mask, "page_table_k": paged_attention_k_table, "page_table_v": paged_attention_v_table
        }  # fmt: skip
        if sink_token is not None:
            tables["sink_token"] = sink_token
        for key, tensor in tables.items():
            beside[key] = None if tensor is None else self._operand(node, key, tensor)
            if beside[key] is not None and key.startswith("page_table"):
                beside[key] = self._unpacked(node, beside[key])
        outputs = {"o": self._output(node, "O", (*shape[:3], values[3]), q)}
        if stats:
            kind = data_type.DOUBLE if q.data_type is data_type.DOUBLE else data_type.FLOAT
            outputs["stats"] = self._output(node, "Stats", (*shape[:3], 1), None, kind)
        given = {
            "rng_dump": ("rng_dump", rng_dump),
            "max": ("score_max", score_max),
            "sum_exp": ("score_sum_exp", score_sum_exp),
        }
        for key, (argument, tensor) in given.items():
            if tensor is not None:
                outputs[key] = self._operand(node, argument, tensor)
                outputs[key].producer = node
        settings["generate_stats"] = bool(stats)
        settings["max_seq_len_kv"] = paged_attention_max_seq_len_kv
        inputs = {"q": q, "k": k, "v": v, **beside}
        self._add("SdpaAttributes", node, inputs, outputs, compute_data_type=compute_data_type, attributes=settings)
        return [outputs["o"], outputs.get("stats")]

    def sdpa_backward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        dO: Tensor,
        stats: Tensor,
        attn_scale: Tensor | float | None = None,
        bias: Tensor | None = None,
        dBias: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window_length: int | None = None,
        diagonal_alignment: diagonal_alignment = diagonal_alignment.TOP_LEFT,
        diagonal_band_left_bound: int | None = None,
        diagonal_band_right_bound: int | None = None,
        dropout: tuple[Any, ...] | None = None,
        rng_dump: Tensor | None = None,
        use_deterministic_algorithm: bool = False,
        compute_data_type: Compute | None = None,
        name: str = "",
        score_mod: Any = None,
        score_mod_bprop: Any = None,
        sink_token: Tensor | None = None,
        dSink_token: Tensor | None = None,
    ) -> list[Tensor]:
        """The gradients of q, k and v of ``sdpa``, from its result, the result's gradient and the statistics; also writes ``dBias``.

        Each has the shape and strides of its tensor, q [B, H, Sq, D], k [B, Hk, Skv, D] and v [B, Hk, Skv, Dv]; types are floats.

        The statistics already include a ``sink_token``; its gradient is written to ``dSink_token``, [1, H, 1, 1]. With
        ``use_deterministic_algorithm``, plans set the knob ``deterministic`` of engines that have it. ``max_total_seq_len_q`` and
        ``max_total_seq_len_kv`` exist for porting. Score functions are not supported.
        """
        node = self._name("sdpa_backward", name)
        if rng_dump is not None:
            raise UnsupportedError(node, "rng_dump", "is given, expected None: only sdpa writes it")
        for key, value in {"score_mod": score_mod, "score_mod_bprop": score_mod_bprop}.items():
            if value is not None:
                raise UnsupportedError(
                    node, key, "is given, expected None: the gradients' operation has no such tensor"
                )
        self._is_deterministic = self._is_deterministic or bool(use_deterministic_algorithm)
        tensors = {"q": q, "k": k, "v": v, "o": o, "do": dO, "stats": stats}
        inputs: dict[str, Any] = {key: self._operand(node, key, tensor) for key, tensor in tensors.items()}
        self._heads(node, inputs["q"], inputs["k"], inputs["v"])
        of = Settings(
            attn_scale, bias, use_alibi_mask, use_padding_mask, seq_len_q, seq_len_kv, use_causal_mask,
            use_causal_mask_bottom_right, sliding_window_length, diagonal_alignment, diagonal_band_left_bound,
            diagonal_band_right_bound, dropout,
        )  # fmt: skip
        beside, settings = self._attention(node, inputs["q"], of)
        self._refuse_as_cudnn(node, of, inputs["q"], inputs["k"].dim[2])
        outputs = {
            f"d{key}": self._output(node, f"d{key.upper()}", inputs[key].dim, inputs[key]) for key in ("q", "k", "v")
        }
        gradients = list(outputs.values())
        if dBias is not None:
            outputs["dbias"] = self._operand(node, "dBias", dBias)
            dBias.producer = node
        forward = dict(inputs)
        inputs.update(beside)
        self._add(
            "SdpaBackwardAttributes", node, inputs, outputs, compute_data_type=compute_data_type, parameters=settings
        )
        if dSink_token is not None:
            lengths = beside["seq_len_q"] if use_padding_mask else None
            self._sink_gradient(node, sink_token, dSink_token, forward, lengths, compute_data_type)
        return gradients


describe_results(Attention)
