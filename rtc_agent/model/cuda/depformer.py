"""The depformer on a device: eight steps, each ending in a draw that makes the next one's input."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rtc_agent.model.cuda.launch import Launch
from rtc_agent.model.cuda.linear import launch_add_norm, launch_gemv, product
from rtc_agent.model.kernels.step_attention import step_attention_kernel
from rtc_agent.model.spec import DEPFORMER_STEPS, LmSpec
from rtc_agent.model.weights import LmWeights

FEW_ROWS = 1
"""Rows up to which the plain units are faster than the tensor cores, by measurement at 1 and 4."""

Pick = Callable[[int], None]
"""Draw codebook k from the logits and put the next step's input into place."""


class DepformerGraph:
    """Buffers and launches of one frame's steps. Same arithmetic as `Depformer.run`."""

    def __init__(self, spec: LmSpec, weights: LmWeights, rows: int, context: Tensor) -> None:
        """
        Args:
            context: [rows, dim], read at every launch.
        """
        self._spec, self._weights, self._rows = spec, weights, rows
        self._context = context
        d, device, dtype = spec.depformer_dim, weights.device, weights.dtype

        def empty(*shape: int) -> Tensor:
            return torch.empty((rows, *shape), dtype=dtype, device=device)

        self.inputs = empty(DEPFORMER_STEPS, d)
        """[rows, steps, d]: each step's share of the temporal output."""
        self.h = empty(d)
        """[rows, d]: the step's input; overwritten."""
        self.x = empty(d)
        """[rows, d]: with more than a few rows, `h` as the first layer wants it normalised."""
        self.logits = empty(spec.card)
        """[rows, card] of the step just run."""
        self._qkv, self._heads, self._hidden = empty(3 * d), empty(d), empty(spec.depformer_hidden)
        heads, head_dim = spec.depformer_num_heads, spec.depformer_head_dim
        layers = spec.depformer_num_layers
        self._keys = torch.zeros(
            (layers, rows, DEPFORMER_STEPS, heads, head_dim), dtype=dtype, device=device
        )
        self._values = torch.zeros_like(self._keys)
        self.few = rows <= FEW_ROWS
        """Whether norms and residuals go into the products, which then want no `x`."""
        self._into = weights.dep_in.flatten(0, 1)
        if self.few:
            return
        self._enter = product(self._into, rows)
        self._heads_out = [product(weights.dep_heads[k], rows) for k in range(DEPFORMER_STEPS)]
        self._layers = [
            [
                (
                    product(w.in_proj[k], rows),
                    product(w.out_proj[k], rows, partial=True),
                    product(w.linear_in[k], rows, gate=True),
                    product(w.linear_out[k], rows, partial=True),
                )
                for w in weights.dep_layers
            ]
            for k in range(DEPFORMER_STEPS)
        ]
        parts = max(m.parts for step in self._layers for layer in step for m in layer)
        self._parts = torch.empty((parts, rows, d), dtype=torch.float32, device=device)

    def enter(self, how: Launch) -> None:
        """All steps' shares of the temporal output, in one product."""
        if self.few:
            launch_gemv(self._context, self._into, self.inputs, how)
        else:
            self._enter.launch(self._context, self.inputs, how)

    def launch(self, pick: Pick, how: Launch, steps: int = DEPFORMER_STEPS) -> None:
        """Run the first steps; the first one's input is in `h` (and `x`)."""
        for k in range(steps):
            if self.few:
                self._step_few(k, how)
            else:
                self._step_many(k, how)
            pick(k)

    def _attend(self, layer: int, k: int, how: Launch) -> None:
        spec = self._spec
        heads, head_dim = spec.depformer_num_heads, spec.depformer_head_dim
        block = max(1, heads // 4)
        step_attention_kernel[(self._rows, -(-heads // block))](
            self._qkv,
            self._keys[layer],
            self._values[layer],
            self._heads,
            k,
            max(0, k + 1 - spec.depformer_window),
            head_dim**-0.5,
            STEPS=DEPFORMER_STEPS,
            H=heads,
            HB=1 << (block - 1).bit_length(),
            D=head_dim,
            **how.options(4),
        )

    def _step_few(self, k: int, how: Launch) -> None:
        h = self.h
        for i, w in enumerate(self._weights.dep_layers):
            launch_gemv(h, w.in_proj[k], self._qkv, how, alpha=w.norm1)
            self._attend(i, k, how)
            launch_gemv(self._heads, w.out_proj[k], h, how, residual=h)
            launch_gemv(h, w.linear_in[k], self._hidden, how, alpha=w.norm2, gate=True)
            launch_gemv(self._hidden, w.linear_out[k], h, how, residual=h)
        launch_gemv(h, self._weights.dep_heads[k], self.logits, how)

    def _step_many(self, k: int, how: Launch) -> None:
        h, x, layers = self.h, self.x, self._weights.dep_layers
        for i, (w, (project, merge, widen, narrow)) in enumerate(
            zip(layers, self._layers[k], strict=True)
        ):
            project.launch(x, self._qkv, how)
            self._attend(i, k, how)
            parts = self._parts[: merge.parts]
            merge.launch(self._heads, parts, how)
            launch_add_norm(parts, h, x, w.norm2, how)
            widen.launch(x, self._hidden, how)
            parts = self._parts[: narrow.parts]
            narrow.launch(self._hidden, parts, how)
            # The last layer's norm is of no use: the head reads `h`.
            launch_add_norm(parts, h, x, layers[(i + 1) % len(layers)].norm1, how)
        self._heads_out[k].launch(h, self.logits, how)
