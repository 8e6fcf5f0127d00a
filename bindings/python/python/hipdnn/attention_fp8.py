"""Attention on 8-bit elements with scales."""

from __future__ import annotations

from typing import Any

from .attention import Attention, Settings
from .errors import UnsupportedError
from .gradients_fp8 import Band, Fp8Gradients, expect_equal_heads
from .node import describe_results
from .tensor import Tensor
from .types import DataTypeLike, data_type, diagonal_alignment

Compute = DataTypeLike
_NO_GRADIENTS = "is an operation that engines lack, expected sdpa_backward of tensors of 16 or 32 bits"


class Fp8Attention(Attention):
    """Attention on 8-bit elements."""

    def sdpa_fp8(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        descale_q: Tensor,
        descale_k: Tensor,
        descale_v: Tensor,
        descale_s: Tensor,
        scale_s: Tensor,
        scale_o: Tensor,
        is_inference: bool | None = None,
        attn_scale: Tensor | float | None = None,
        bias: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window: int | None = None,
        diagonal_alignment: diagonal_alignment = diagonal_alignment.TOP_LEFT,
        left_bound: int | None = None,
        right_bound: int | None = None,
        dropout: tuple[Any, ...] | None = None,
        rng_dump: Tensor | None = None,
        paged_attention_k_table: Tensor | None = None,
        paged_attention_v_table: Tensor | None = None,
        paged_attention_max_seq_len_kv: int | None = None,
        compute_data_type: Compute | None = None,
        name: str = "",
        fn: Any = None,
        generate_stats: bool | None = None,
        score_max: Tensor | None = None,
        score_sum_exp: Tensor | None = None,
        sink_token: Tensor | None = None,
    ) -> list[Tensor | None]:
        """``sdpa`` on elements of type fp8, each tensor multiplied by its scale, [1, 1, 1, 1] of float.

        Returns O, the statistics or None, and the largest magnitudes of the probabilities and of O, [1, 1, 1, 1].
        """
        node = self._name("sdpa_fp8", name)
        if fn is not None:
            raise UnsupportedError(node, "fn", "is given, expected None: a function changes scores of `sdpa` alone")
        beside = {
            "descale_q": descale_q, "descale_k": descale_k, "descale_v": descale_v, "descale_s": descale_s,
            "scale_s": scale_s, "scale_o": scale_o,
        }  # fmt: skip
        scales = {key: self._operand(node, key, tensor) for key, tensor in beside.items()}
        o, stats = Attention.sdpa(
            self, q, k, v, is_inference=is_inference, attn_scale=attn_scale, bias=bias, use_alibi_mask=use_alibi_mask,
            use_padding_mask=use_padding_mask, seq_len_q=seq_len_q, seq_len_kv=seq_len_kv, use_causal_mask=use_causal_mask,
            use_causal_mask_bottom_right=use_causal_mask_bottom_right, sliding_window_length=sliding_window,
            diagonal_alignment=diagonal_alignment, diagonal_band_left_bound=left_bound, diagonal_band_right_bound=right_bound,
            dropout=dropout, rng_dump=rng_dump, paged_attention_k_table=paged_attention_k_table,
            paged_attention_v_table=paged_attention_v_table, paged_attention_max_seq_len_kv=paged_attention_max_seq_len_kv,
            compute_data_type=compute_data_type, name=node, score_mod=fn, generate_stats=generate_stats, score_max=score_max,
            score_sum_exp=score_sum_exp, sink_token=sink_token,
        )  # fmt: skip
        one = (1, 1, 1, 1)
        amax = {key: self._output(node, key.capitalize(), one, None, data_type.FLOAT) for key in ("amax_s", "amax_o")}
        made = self._nodes[-1]
        made.inputs.update(scales)
        made.outputs.update(amax)
        made.optional = made.optional.union(amax)
        return [o, stats, amax["amax_s"], amax["amax_o"]]

    def sdpa_mxfp8(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        descale_q: Tensor,
        descale_k: Tensor,
        descale_v: Tensor,
        attn_scale: Tensor | float | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        diagonal_alignment: diagonal_alignment = diagonal_alignment.TOP_LEFT,
        diagonal_band_left_bound: int | None = None,
        diagonal_band_right_bound: int | None = None,
        compute_data_type: Compute | None = None,
        name: str = "",
        generate_stats: bool | None = None,
        sink_token: Tensor | None = None,
        unfuse_fma: bool = False,
    ) -> list[Tensor | None]:
        """Raises cudnnGraphNotSupportedError for any shape and type: attention here takes one scale per tensor."""
        words = (
            "has a scale for each block, expected one for a tensor: dequantize with block_scale_dequantize before sdpa"
        )
        raise UnsupportedError(self._name("sdpa_mxfp8", name), "descale_q", words)

    def sdpa_fp8_backward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        dO: Tensor,
        stats: Tensor,
        descale_q: Tensor,
        descale_k: Tensor,
        descale_v: Tensor,
        descale_o: Tensor,
        descale_dO: Tensor,
        descale_s: Tensor,
        descale_dP: Tensor,
        scale_s: Tensor,
        scale_dQ: Tensor,
        scale_dK: Tensor,
        scale_dV: Tensor,
        scale_dP: Tensor,
        attn_scale: Tensor | float | None = None,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        diagonal_alignment: diagonal_alignment = diagonal_alignment.TOP_LEFT,
        left_bound: int | None = None,
        right_bound: int | None = None,
        use_deterministic_algorithm: bool = False,
        dropout: tuple[Any, ...] | None = None,
        compute_data_type: Compute | None = None,
        name: str = "",
        sink_token: Tensor | None = None,
        dSink_token: Tensor | None = None,
    ) -> list[Tensor]:
        """The gradients of ``sdpa_fp8`` times their scales, and the largest magnitudes of dQ, dK, dV and dO · Vᵀ, [1, 1, 1, 1].

        Elements are of type fp8, q and k have equal heads, and each tensor has a scale, [1, 1, 1, 1] of float. The statistics already
        include a ``sink_token``; its gradient is written to ``dSink_token``. ``use_deterministic_algorithm`` exists for porting.
        """
        node = self._name("sdpa_fp8_backward", name)
        given = {
            "use_padding_mask": use_padding_mask,
            "seq_len_q": seq_len_q,
            "seq_len_kv": seq_len_kv,
            "dropout": dropout,
        }
        for key, value in given.items():
            if value:
                raise UnsupportedError(node, key, "is given, expected sequences of one length without dropout")
        tensors = {"q": q, "k": k, "v": v, "o": o, "dO": dO, "stats": stats}
        tensors = {key: self._operand(node, key, tensor) for key, tensor in tensors.items()}
        expect_equal_heads(node, tensors)
        scales = {
            "descale_q": descale_q, "descale_k": descale_k, "descale_v": descale_v, "descale_o": descale_o, "descale_dO": descale_dO,
            "descale_s": descale_s, "descale_dP": descale_dP, "scale_s": scale_s, "scale_dQ": scale_dQ, "scale_dK": scale_dK,
            "scale_dV": scale_dV, "scale_dP": scale_dP,
        }  # fmt: skip
        # Checked like the arguments of an operation that has them.
        of = Settings(
            attn_scale, None, False, False, None, None, use_causal_mask, use_causal_mask_bottom_right, None, diagonal_alignment,
            left_bound, right_bound, None,
        )  # fmt: skip
        self._attention(node, tensors["q"], of)
        queries, keys = (tensors[key].get_dim()[2] for key in ("q", "k"))
        self._refuse_as_cudnn(node, of, tensors["q"], keys)
        at_end = use_causal_mask_bottom_right or (diagonal_alignment.name == "BOTTOM_RIGHT" and not use_causal_mask)
        shift = keys - queries if at_end else 0
        behind = 0 if use_causal_mask or use_causal_mask_bottom_right else right_bound
        parts = Fp8Gradients(
            self, node, compute_data_type, tensors, scales, attn_scale, Band(left_bound, behind, shift)
        )
        scaled, largest = parts.results()
        if dSink_token is not None:
            plain = {"o": parts.plain("o"), "do": parts.plain("dO"), "stats": tensors["stats"]}
            self._sink_gradient(node, sink_token, dSink_token, plain, None, compute_data_type)
        return [*scaled, *largest]

    def sdpa_mxfp8_backward(self, *args: Any, name: str = "", **named: Any) -> list[Tensor]:
        """Raises cudnnGraphNotSupportedError for any shape and type: engines do not compute 8-bit gradients."""
        raise UnsupportedError(self._name("sdpa_mxfp8_backward", name), "q", _NO_GRADIENTS)


describe_results(Fp8Attention)
