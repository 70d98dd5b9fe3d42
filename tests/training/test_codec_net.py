"""The codec over whole waveforms says what the streaming one does."""

from __future__ import annotations

import torch

from rtc_agent.model.mimi import MimiDecoder, MimiEncoder
from rtc_agent.model.random_weights import random_mimi
from rtc_agent.training.codec_net import OfflineCodec, latents
from tests.lockstep_model import SPEC as TINY

SPEC = TINY.mimi
FRAMES = 14
"""More than fill the transformers' windows, which this spec has at eight positions."""
LIVE = torch.tensor([True, True])


def _pcm() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn((2, FRAMES * 1920), generator=generator) / 5


def test_encoding_at_once_is_encoding_frame_by_frame() -> None:
    weights, pcm = random_mimi(SPEC, 1), _pcm()
    encoder = MimiEncoder(SPEC, weights, 2)
    with torch.no_grad():
        streamed = [encoder.encode(frame, LIVE)[0] for frame in pcm.view(2, -1, 1920).unbind(1)]
    assert torch.equal(OfflineCodec(SPEC, weights, rows=1).encode(pcm), torch.stack(streamed, 1))


def test_latents_are_the_streaming_encoders() -> None:
    weights, pcm = random_mimi(SPEC, 1), _pcm()
    encoder, seen = MimiEncoder(SPEC, weights, 2), []
    downsample = encoder._downsample

    def watched(x: torch.Tensor) -> torch.Tensor:
        seen.append(downsample(x))
        return seen[-1]

    encoder._downsample = watched  # type: ignore[assignment]
    with torch.no_grad():
        for frame in pcm.view(2, -1, 1920).unbind(1):
            encoder.encode(frame, LIVE)
        whole = latents(SPEC, weights, pcm)
    torch.testing.assert_close(whole, torch.cat(seen, 2).transpose(1, 2), atol=1e-4, rtol=0)
    assert whole.std() > 0.1


def test_decoding_at_once_is_decoding_frame_by_frame() -> None:
    weights = random_mimi(SPEC, 2)
    codes = torch.randint(0, SPEC.bins, (2, FRAMES, 8), generator=torch.Generator().manual_seed(4))
    decoder = MimiDecoder(SPEC, weights, 2)
    with torch.no_grad():
        streamed = torch.cat([decoder.decode(frame, LIVE) for frame in codes.unbind(1)], 1)
    whole = OfflineCodec(SPEC, weights, rows=1).decode(codes)
    torch.testing.assert_close(whole, streamed, atol=1e-4, rtol=0)
    assert whole.std() > 1e-3
