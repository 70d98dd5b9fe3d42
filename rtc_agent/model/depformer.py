"""The depformer: within one frame, the agent's eight codes one after another."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.layers import attend, gated_ffn, rms_norm
from rtc_agent.model.quantised import linear
from rtc_agent.model.spec import DEPFORMER_STEPS, LmSpec
from rtc_agent.model.weights import LmWeights

Pick = Callable[[int, Tensor], Tensor]
"""Codebook and its logits [rows, card] to the codes chosen [rows]."""


class Depformer:
    """The depformer over given weights, for a fixed number of rows.

    It carries nothing from frame to frame: every step's keys and values are written before they are
    read.
    """

    def __init__(self, spec: LmSpec, weights: LmWeights, rows: int) -> None:
        self.spec = spec
        self.weights = weights
        shape = (
            spec.depformer_num_layers,
            rows,
            spec.depformer_num_heads,
            DEPFORMER_STEPS,
            spec.depformer_head_dim,
        )
        self._keys = torch.zeros(shape, device=weights.device, dtype=weights.dtype)
        self._values = torch.zeros_like(self._keys)

    def run(
        self, context: Tensor, text: Tensor, pick: Pick, steps: int = DEPFORMER_STEPS
    ) -> Tensor:
        """Choose the codes of one frame.

        Args:
            context: [rows, dim], the temporal transformer's output.
            text: [rows], the text just sampled from it.
            pick: chooses each code from its logits.
            steps: how many of the codes are wanted, from the first.

        Returns:
            [rows, steps]
        """
        w, spec = self.weights, self.spec
        rows, d = context.shape[0], spec.depformer_dim
        heads, head_dim = spec.depformer_num_heads, spec.depformer_head_dim
        inputs = linear(context, w.dep_in.flatten(0, 1)).view(rows, DEPFORMER_STEPS, d)
        token = F.embedding(text, w.dep_text_emb)
        codes = []
        for k in range(steps):
            x = inputs[:, k] + token
            oldest = max(0, k + 1 - spec.depformer_window)
            for i, layer in enumerate(w.dep_layers):
                qkv = linear(rms_norm(x, layer.norm1), layer.in_proj[k])
                q, key, value = qkv.view(rows, 3, heads, head_dim).unbind(1)
                keys, values = self._keys[i], self._values[i]
                keys[:, :, k] = key
                values[:, :, k] = value
                seen = slice(oldest, k + 1)
                out = attend(q[:, :, None], keys[:, :, seen], values[:, :, seen], None)
                x = x + linear(out[:, 0], layer.out_proj[k])
                x = x + gated_ffn(rms_norm(x, layer.norm2), layer.linear_in[k], layer.linear_out[k])
            code = pick(k, linear(x, w.dep_heads[k]))
            codes.append(code)
            if k + 1 < steps:
                token = F.embedding(code, w.dep_audio_emb[k])
        return torch.stack(codes, dim=1)
