"""The language model over whole conversations at once, for training.

It works on the very groups of tensors that `rtc_agent.model.lm` runs position by position, and
gives the same logits for the same columns.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from rtc_agent.model.layers import Rope, attend, rms_norm, rotate
from rtc_agent.model.spec import AGENT_ROWS, COLUMN_ROWS, DEPFORMER_STEPS, TEXT_ROW, LmSpec
from rtc_agent.model.weights import LmWeights


def delayed_columns(spec: LmSpec, frames: Tensor) -> Tensor:
    """Tokens by frame to columns by position.

    Args:
        frames: [rows, 17, n] int64.

    Returns:
        [rows, n + 1, 17]: the column at position p has each row's token of frame p − its delay.
        Start-of-stream stands at position 0, and in delayed rows at position 1, as it does in a
        call. The last column has delayed rows alone; its others are start-of-stream too.
    """
    sos, late = _layout(spec, frames.device)
    tokens = frames.transpose(1, 2)
    begin = sos.expand(len(frames), 1, COLUMN_ROWS)
    columns = torch.where(late, torch.cat((begin, tokens), 1), torch.cat((tokens, begin), 1))
    columns[:, :2] = torch.where(late | _first(frames.device), sos, columns[:, :2])
    return columns


@cache
def _layout(spec: LmSpec, device: torch.device) -> tuple[Tensor, Tensor]:
    """[17] start-of-stream, and [17] bool whether the row lags: by a frame, if at all."""
    late = torch.tensor(spec.delays, device=device) > 0
    return torch.tensor(spec.sos_column, device=device), late


@cache
def _first(device: torch.device) -> Tensor:
    """[2, 1] bool: of positions 0 and 1 the former."""
    return torch.tensor([[True], [False]], device=device)


def contexts(
    spec: LmSpec, weights: LmWeights, columns: Tensor, tap: int | None = None
) -> tuple[Tensor, Tensor]:
    """What the temporal transformer makes of every position.

    Args:
        columns: [rows, positions, 17], no more positions than the window.
        tap: the layer whose output is wanted beside the last's; None is the last.

    Returns:
        [rows, positions, dim] `out_norm` outputs, and the tapped layer's.
    """
    rows, n, _ = columns.shape
    if n > spec.window:
        raise ValueError(f"{n} positions do not fit the window of {spec.window}")
    x = _embedded(weights, columns.flatten(0, 1)).view(rows, n, spec.dim)
    rope = Rope(spec.head_dim, spec.max_period, x.device)
    cos, sin = rope.angles(torch.arange(n, device=x.device))
    tapped = x
    for i, layer in enumerate(weights.layers):
        qkv = F.linear(rms_norm(x, layer.norm1), layer.in_proj)
        q, k, v = qkv.view(rows, n, 3, spec.num_heads, spec.head_dim).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(
            rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True
        )
        x = x + F.linear(heads.transpose(1, 2).flatten(2), layer.out_proj)
        a, b = F.linear(rms_norm(x, layer.norm2), layer.linear_in).chunk(2, dim=-1)
        x = x + F.linear(F.silu(a) * b, layer.linear_out)
        if tap is None or i == tap:
            tapped = x
    return rms_norm(x, weights.out_norm), tapped


def code_logits(spec: LmSpec, weights: LmWeights, context: Tensor, coming: Tensor) -> Tensor:
    """The depformer's eight steps at once, each told the true codes before it.

    Each step sees no further back than the run-time's window, and so not all the steps before it.

    Args:
        context: [n, dim] of the temporal transformer.
        coming: [n, 17] the columns at the positions after.

    Returns:
        [8, n, card]
    """
    n, d = len(context), spec.depformer_dim
    heads, head_dim = spec.depformer_num_heads, spec.depformer_head_dim
    codes = coming[:, AGENT_ROWS]
    text = F.embedding(coming[:, TEXT_ROW], weights.dep_text_emb)
    before = F.embedding(
        _in_one_table(codes[:, :-1], weights.dep_audio_emb), weights.dep_audio_emb.flatten(0, 1)
    )
    tokens = torch.cat((text[None], before.transpose(0, 1)))
    inputs = F.linear(context, weights.dep_in.flatten(0, 1)).view(n, DEPFORMER_STEPS, d)
    x = inputs.transpose(0, 1) + tokens
    step = torch.arange(DEPFORMER_STEPS, device=context.device)
    age = step[:, None] - step
    seen = (age >= 0) & (age < spec.depformer_window)
    for layer in weights.dep_layers:
        qkv = _by_step(rms_norm(x, layer.norm1), layer.in_proj)
        q, k, v = qkv.view(DEPFORMER_STEPS, n, 3, heads, head_dim).permute(2, 1, 3, 0, 4)
        x = x + _by_step(attend(q, k, v, seen).transpose(0, 1), layer.out_proj)
        a, b = _by_step(rms_norm(x, layer.norm2), layer.linear_in).chunk(2, dim=-1)
        x = x + _by_step(F.silu(a) * b, layer.linear_out)
    return _by_step(x, weights.dep_heads)


def _embedded(weights: LmWeights, columns: Tensor) -> Tensor:
    """As `TemporalTransformer.embed`: one look-up instead of sixteen, and so one of gradients."""
    text, audio = columns[:, TEXT_ROW], columns[:, TEXT_ROW + 1 :]
    audio = torch.where(audio < 0, weights.audio_emb.shape[1] - 1, audio)
    text = torch.where(text < 0, weights.text_emb.shape[0] - 1, text)
    tables = weights.audio_emb
    x = F.embedding_bag(_in_one_table(audio, tables), tables.flatten(0, 1), mode="sum")
    return x + F.embedding(text, weights.text_emb)


def _in_one_table(ids: Tensor, tables: Tensor) -> Tensor:
    """Row numbers [n, tables] in tables [tables, rows, …] that are put one under the other."""
    return ids + torch.arange(len(tables), device=ids.device) * tables.shape[1]


def _by_step(x: Tensor, weight: Tensor) -> Tensor:
    """[steps, n, in] through each step's own [steps, out, in]."""
    return torch.bmm(x, weight.transpose(1, 2))
