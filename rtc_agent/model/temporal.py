"""The temporal transformer: one position a tick for every row, or many at once for a prompt.

Keys are rotated when they are written, so attention need not know their order: a row's ring is just
its last `window` positions. The ring row that the next position will overwrite is never attended to
before that, so a row that sits out a tick may be written there without harm.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.layers import Rope, attend, gated_ffn, rms_norm, rotate
from rtc_agent.model.quantised import linear
from rtc_agent.model.spec import TEXT_ROW, LmSpec
from rtc_agent.model.weights import LmWeights


@dataclass(frozen=True, slots=True)
class TemporalState:
    """What the rows of a batch carry from tick to tick."""

    keys: Tensor
    """[layers, rows, heads, window, head_dim], rotated; position p is at p mod window."""
    values: Tensor
    """As `keys`."""
    position: Tensor
    """[rows] int64: the position to run next, which is how many have been run."""
    scales: tuple[Tensor, Tensor] | None = None
    """[layers, rows, heads, window] float32 of keys and of values, where these are int8."""

    @classmethod
    def empty(
        cls, spec: LmSpec, rows: int, device: torch.device, dtype: torch.dtype
    ) -> TemporalState:
        """
        Args:
            dtype: of keys and values; int8 is for the device's kernels alone.
        """
        shape = (spec.num_layers, rows, spec.num_heads, spec.window, spec.head_dim)
        scales = None
        if dtype == torch.int8:
            scales = (
                torch.zeros(shape[:-1], device=device, dtype=torch.float32),
                torch.zeros(shape[:-1], device=device, dtype=torch.float32),
            )
        return cls(
            keys=torch.zeros(shape, device=device, dtype=dtype),
            values=torch.zeros(shape, device=device, dtype=dtype),
            position=torch.zeros(rows, device=device, dtype=torch.int64),
            scales=scales,
        )

    def reset(self, row: int) -> None:
        """Make a row as new. Zeroed, since a masked key that is not finite would still spread."""
        for piece in (self.keys, self.values, *(self.scales or ())):
            piece[:, row].zero_()
        self.position[row] = 0


@dataclass(frozen=True, slots=True)
class Prefix:
    """Positions already run, ready to be copied into a row."""

    keys: Tensor
    """[layers, heads, min(length, window), head_dim] in ring order."""
    values: Tensor
    """As `keys`."""
    length: int
    """Positions run."""
    last: Tensor
    """[dim] `out_norm` output of the last of them."""

    @property
    def nbytes(self) -> int:
        return int(2 * self.keys.nbytes + self.last.nbytes)

    def copy_to(self, state: TemporalState, row: int) -> None:
        """Give a reset row these positions."""
        held = self.keys.shape[2]
        if state.scales is None:
            state.keys[:, row, :, :held] = self.keys
            state.values[:, row, :, :held] = self.values
        else:
            whole = ((state.keys, self.keys), (state.values, self.values))
            for (ring, given), scales in zip(whole, state.scales, strict=True):
                ring[:, row, :, :held], scales[:, row, :, :held] = quantise(given)
        state.position[row] = self.length


def quantise(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """[..., d] to int8 of the same shape and the float32 scales [...] that give it back."""
    wide = vectors.float()
    scale = wide.abs().amax(-1).clamp(min=1e-12) / 127.0
    steps = torch.floor(wide / scale[..., None] + 0.5)
    return steps.clamp(-127, 127).to(torch.int8), scale


class TemporalTransformer:
    """The temporal transformer over given weights."""

    def __init__(self, spec: LmSpec, weights: LmWeights) -> None:
        self.spec = spec
        self.weights = weights
        self.rope = Rope(spec.head_dim, spec.max_period, weights.device)
        self._ring = torch.arange(spec.window, device=weights.device)

    def prefill(self, length: int) -> Prefill:
        """A run of the `length` positions of a prompt, none run yet."""
        return Prefill(self)

    def prefix_nbytes(self, length: int) -> int:
        """Of a prompt's `Prefix`."""
        spec = self.spec
        size: int = self.weights.dtype.itemsize
        return size * (2 * spec.num_layers * min(length, spec.window) + 1) * spec.dim

    def embed(self, columns: Tensor) -> Tensor:
        """Token columns [n, 17] to inputs [n, dim].

        Summed one after another, audio rows first and text last: in bfloat16 the order shows.
        """
        w = self.weights
        text = columns[:, TEXT_ROW]
        audio = columns[:, TEXT_ROW + 1 :]
        # Each table's last row is the zero vector, which is where index −1 belongs.
        audio = torch.where(audio < 0, w.audio_emb.shape[1] - 1, audio)
        text = torch.where(text < 0, w.text_emb.shape[0] - 1, text)
        x = F.embedding(audio[:, 0], w.audio_emb[0])
        for k in range(1, audio.shape[1]):
            x = x + F.embedding(audio[:, k], w.audio_emb[k])
        return x + F.embedding(text, w.text_emb)

    def step(self, x: Tensor, state: TemporalState) -> Tensor:
        """Run every row's next position. The caller advances `state.position` of live rows.

        Args:
            x: [rows, dim] inputs.

        Returns:
            [rows, dim] `out_norm` outputs.
        """
        if state.scales is not None:
            raise ValueError("int8 keys and values are for the device's kernels")
        spec = self.spec
        rows = x.shape[0]
        cos, sin = (a[:, None, None] for a in self.rope.angles(state.position))
        write = (state.position % spec.window).view(rows, 1, 1, 1)
        write = write.expand(rows, spec.num_heads, 1, spec.head_dim)
        seen = (self._ring <= state.position[:, None])[:, None, None]
        for layer, keys, values in zip(
            self.weights.layers, state.keys.unbind(), state.values.unbind(), strict=True
        ):
            qkv = linear(rms_norm(x, layer.norm1), layer.in_proj)
            qkv = qkv.view(rows, 3, spec.num_heads, 1, spec.head_dim)
            q, k = rotate(qkv[:, :2, :, 0], cos, sin).unsqueeze(3).unbind(1)
            keys.scatter_(2, write, k)
            values.scatter_(2, write, qkv[:, 2])
            heads = attend(q, keys, values, seen)
            x = x + linear(heads[:, 0], layer.out_proj)
            x = x + gated_ffn(rms_norm(x, layer.norm2), layer.linear_in, layer.linear_out)
        return rms_norm(x, self.weights.out_norm)


class Prefill:
    """Positions 0, 1, … of one prompt, run in chunks, each chunk in parallel."""

    def __init__(self, transformer: TemporalTransformer) -> None:
        self._model = transformer
        spec, weights = transformer.spec, transformer.weights
        none = torch.zeros(
            (1, spec.num_heads, 0, spec.head_dim), device=weights.device, dtype=weights.dtype
        )
        self._past = [(none, none)] * spec.num_layers
        self._length = 0
        self._last: Tensor | None = None

    def run(self, x: Tensor) -> None:
        """Run the next positions, inputs [n, dim]."""
        spec, weights = self._model.spec, self._model.weights
        n = x.shape[0]
        positions = torch.arange(self._length, self._length + n, device=x.device)
        cos, sin = self._model.rope.angles(positions)
        held = self._past[0][0].shape[2]
        age = positions[:, None] - torch.arange(
            self._length - held, self._length + n, device=x.device
        )
        seen = (age >= 0) & (age < spec.window)
        for i, layer in enumerate(weights.layers):
            qkv = linear(rms_norm(x, layer.norm1), layer.in_proj)
            q, k, v = qkv.view(n, 3, spec.num_heads, spec.head_dim).permute(1, 2, 0, 3)[:, None]
            keys = torch.cat((self._past[i][0], rotate(k, cos, sin)), dim=2)
            values = torch.cat((self._past[i][1], v), dim=2)
            heads = attend(rotate(q, cos, sin), keys, values, seen)
            self._past[i] = (keys[:, :, -spec.window :], values[:, :, -spec.window :])
            x = x + linear(heads[0], layer.out_proj)
            x = x + gated_ffn(rms_norm(x, layer.norm2), layer.linear_in, layer.linear_out)
        self._length += n
        self._last = rms_norm(x[-1], weights.out_norm)

    def finish(self) -> Prefix:
        """What was run, in ring order.

        Raises:
            ValueError: nothing was run.
        """
        if self._last is None:
            raise ValueError("a prefix needs at least one position")
        window = self._model.spec.window
        turn = self._length % window if self._length > window else 0
        return Prefix(
            keys=torch.cat([k for k, _ in self._past]).roll(turn, dims=2),
            values=torch.cat([v for _, v in self._past]).roll(turn, dims=2),
            length=self._length,
            last=self._last,
        )
