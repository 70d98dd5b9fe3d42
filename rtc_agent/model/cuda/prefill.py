"""A prompt's positions on a device, with few enough launches that the host keeps up with it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.cuda.launch import Launch
from rtc_agent.model.cuda.linear import launch_add_norm
from rtc_agent.model.kernels.prefill import spread_kernel
from rtc_agent.model.quantised import linear
from rtc_agent.model.spec import LmSpec
from rtc_agent.model.temporal import Prefill, Prefix, TemporalTransformer
from rtc_agent.model.weights import LmWeights


class CudaTemporalTransformer(TemporalTransformer):
    """As `TemporalTransformer`, with prompts by our kernels."""

    def __init__(self, spec: LmSpec, weights: LmWeights) -> None:
        super().__init__(spec, weights)
        # Outside a graph a dependent launch gains nothing.
        self.how = Launch(pdl=False, precision=Launch.on(weights.device).precision)

    def prefill(self, length: int) -> Prefill:
        return CudaPrefill(self, length)


class CudaPrefill(Prefill):
    """As `Prefill`, for a prompt of `length` positions."""

    def __init__(self, transformer: CudaTemporalTransformer, length: int) -> None:
        self._model = transformer
        self._how = transformer.how
        self._length = 0
        self._last: Tensor | None = None
        spec, weights = transformer.spec, transformer.weights
        shape = (spec.num_layers, spec.num_heads, length, spec.head_dim)
        self._keys = torch.empty(shape, dtype=weights.dtype, device=weights.device)
        self._values = torch.empty_like(self._keys)

    def run(self, x: Tensor) -> None:
        with torch.cuda.device(x.device):
            self._run(x)

    def _run(self, x: Tensor) -> None:
        spec, weights, how = self._model.spec, self._model.weights, self._how
        n, dim = x.shape
        first, last = self._length, self._length + n
        positions = torch.arange(first, last, device=x.device)
        cos, sin = self._model.rope.angles(positions)
        age = positions[:, None] - torch.arange(last, device=x.device)
        seen = (age >= 0) & (age < spec.window)
        h, normed = x.clone(), torch.empty_like(x)
        q = torch.empty((spec.num_heads, n, spec.head_dim), dtype=x.dtype, device=x.device)
        norms = [layer.norm1 for layer in weights.layers[1:]] + [weights.out_norm]
        launch_add_norm(None, h, normed, weights.layers[0].norm1, how)
        for layer, keys, values, after in zip(
            weights.layers, self._keys, self._values, norms, strict=True
        ):
            qkv = linear(normed, layer.in_proj)
            spread_kernel[(n, spec.num_heads)](
                qkv,
                cos,
                sin,
                q,
                keys,
                values,
                first,
                n,
                keys.shape[1],
                H=spec.num_heads,
                D=spec.head_dim,
                num_warps=1,
            )
            heads = F.scaled_dot_product_attention(
                q[None], keys[None, :, :last], values[None, :, :last], attn_mask=seen
            )
            merged = linear(heads[0].transpose(0, 1).reshape(n, dim), layer.out_proj)
            launch_add_norm(merged[None], h, normed, layer.norm2, how)
            a, b = linear(normed, layer.linear_in).chunk(2, dim=-1)
            narrowed = linear(F.silu(a) * b, layer.linear_out)
            launch_add_norm(narrowed[None], h, normed, after, how)
        self._length = last
        self._last = normed[-1].clone()

    def finish(self) -> Prefix:
        if self._last is None or self._length != self._keys.shape[2]:
            raise ValueError(f"{self._length} of {self._keys.shape[2]} positions were run")
        window = self._model.spec.window
        keys, values = self._keys, self._values
        if self._length > window:
            turn = self._length % window
            keys, values = (ring[:, :, -window:].roll(turn, dims=2) for ring in (keys, values))
        return Prefix(keys, values, self._length, self._last)
