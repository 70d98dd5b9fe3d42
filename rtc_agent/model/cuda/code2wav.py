"""`Code2WavModel` on a CUDA device: codes in, sound out, one captured graph."""

from __future__ import annotations

import numpy as np
import torch

from rtc_agent.engine.stepper import Mask
from rtc_agent.model.code2wav import Code2WavModel, HostSound, decoded_silence
from rtc_agent.model.cuda.codec import CudaDecoder
from rtc_agent.model.cuda.decoder import DecoderGraph
from rtc_agent.model.cuda.launch import Launch, next_power_of_two
from rtc_agent.model.cuda.limits import check_rows
from rtc_agent.model.cuda.packed import Fields, Packed
from rtc_agent.model.cuda.tick import CapturedTick
from rtc_agent.model.kernels.tokens import finish_kernel
from rtc_agent.model.mimi_weights import MimiWeights
from rtc_agent.model.spec import CODEBOOKS, ModelSpec
from rtc_agent.model.talker import Codes

INBOX: Fields = {"codes": (CODEBOOKS, torch.int64), "speaking": (1, torch.bool)}
"""What a frame is made from, a row."""


def outbox_fields(samples: int) -> Fields:
    """What a frame is, a row."""
    return {"said": (samples, torch.float32), "finite": (1, torch.bool)}


class Code2WavGraph:
    """Every launch of a frame. Same arithmetic as `Code2WavModel.decode`."""

    def __init__(self, spec: ModelSpec, mimi: MimiWeights, rows: int) -> None:
        device = mimi.device
        self.rows = rows
        self.how = Launch.on(device)
        samples = spec.mimi.frame_samples
        self.inbox = Packed(INBOX, rows, device)
        self.outbox = Packed(outbox_fields(samples), rows, device)
        self.codes = self.inbox["codes"]
        """[rows, 8] int64"""
        self.speaking = self.inbox["speaking"][:, 0]
        """[rows]: who has a frame."""
        self.said = self.outbox["said"]
        """[rows, 1920]: zeros in rows that do not speak."""
        self.finite = self.outbox["finite"][:, 0]
        """[rows]: every sample is a number."""
        self.decoder = DecoderGraph(spec.mimi, mimi, rows, self.codes)
        # Nothing else is there to be checked with the sound.
        self._fine = torch.ones(rows, dtype=torch.int32, device=device)

    def launch(self) -> None:
        self.decoder.launch(self.speaking, self.how)
        samples = self.said.shape[1]
        finish_kernel[(self.rows,)](
            self.decoder.pcm,
            self.speaking,
            self._fine,
            self._fine,
            self.said,
            self.finite,
            samples,
            BLOCK=next_power_of_two(samples),
            **self.how.options(4),
        )


class CudaCode2WavModel(Code2WavModel):
    """As `Code2WavModel`, by our kernels.

    Raises:
        CaptureFailed: the frame could not be captured.
    """

    def __init__(self, spec: ModelSpec, mimi: MimiWeights, rows: int) -> None:
        check_rows(rows)
        self.rows = rows
        self._device = mimi.device
        self.frame = Code2WavGraph(spec, mimi, rows)
        self.speaking = self.frame.decoder.state
        self._tick = CapturedTick(self.frame, self._device)
        self._codes = self._tick.given("codes")
        self._speaking = self._tick.given("speaking")[:, 0]
        self._said = self._tick.made["said"].numpy()
        with torch.cuda.device(self._device):
            decoder = CudaDecoder.of(self.frame.decoder, self.frame.codes, self.frame.how)
            self._after_silence = decoded_silence(
                spec, decoder.decode, self.speaking, rows, self._device
            )

    def decode(self, codes: Codes, speaking: Mask) -> HostSound:
        """As `Code2WavModel.decode`; what it returns holds until the next."""
        np.copyto(self._codes, codes)
        np.copyto(self._speaking, speaking)
        self._tick.run()
        return HostSound(self._said, self._tick.made["finite"][:, 0].tolist())
