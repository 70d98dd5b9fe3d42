"""Replaying recorded runs of a reference implementation, to trust a build or a card.

A folder holds a config, small weights and a replay: of a language model (`replays.safetensors` with
tokens), of a codec (with decoded audio), or of both from sound to sound (`replay.safetensors`).
Everything runs in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rtc_agent.engine.stepper import FRAME_SAMPLES, SamplingSpec
from rtc_agent.errors import CheckpointError
from rtc_agent.model.backend import Backend, backend_for
from rtc_agent.model.catalog import CONFIG_FILE, LM_FILE
from rtc_agent.model.checkpoint import load_lm, load_mimi
from rtc_agent.model.folder import read_config
from rtc_agent.model.memory_plan import free_memory, require_memory
from rtc_agent.model.opening import Opening, encode_clip, finish, run_plan
from rtc_agent.model.precision import use_exact_float32
from rtc_agent.model.prompts import (
    EncodedVoice,
    VoiceBundle,
    VoiceClip,
    VoiceCodes,
    plan_prompt,
)
from rtc_agent.model.spec import CODEBOOKS, COLUMN_ROWS, ZERO_TOKEN, ModelSpec
from rtc_agent.model.temporal import TemporalTransformer
from rtc_agent.replay import Replay

AUDIO_TOLERANCE = 1e-5
"""Largest difference of a decoded sample that counts as equal."""
_CODEC_FILE = "mimi.safetensors"
_CHUNK = 16
_TOKENS = 1 + CODEBOOKS
_PERSONA = "persona_tokens"
_USER = "user_codes"
_LOGITS = "text_logits_f64"
_GREEDY = SamplingSpec(greedy=True)


@dataclass(frozen=True, slots=True)
class VerifyCase:
    """One comparison."""

    name: str
    frames: int
    """Frames compared."""
    first_mismatch: int | None
    """The first frame of the recording that differs; None if none does."""
    max_audio_error: float | None = None
    """Largest difference of a sample, where audio was compared."""
    max_logit_error: float | None = None
    """Largest difference of a text logit, where the recording has them; not part of the verdict."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `rtc-agent verify` prints."""

    ok: bool
    cases: tuple[VerifyCase, ...]

    def as_json(self) -> dict[str, Any]:
        """The report with what was not compared left out."""
        cases = [
            {k: v for k, v in asdict(case).items() if v is not None or k == "first_mismatch"}
            for case in self.cases
        ]
        return {"ok": self.ok, "cases": cases}


def verify(
    folder: Path, device: torch.device | str = "cpu", backend: Backend | None = None
) -> VerifyReport:
    """Replay a folder and compare: tokens and codes exactly, audio to `AUDIO_TOLERANCE`.

    Args:
        backend: who computes; None is who would serve calls on that device.

    Raises:
        CheckpointError: the folder holds no replay of a known layout, or its weights do not fit.
        NotEnoughMemory: the model that its config describes has no room here.
    """
    use_exact_float32()
    device = torch.device(device)
    if not folder.is_dir():
        raise CheckpointError(f"There is no folder {folder}.")
    config = folder / CONFIG_FILE
    if not config.is_file():
        raise CheckpointError(f"{folder} has no {CONFIG_FILE}.")
    spec = ModelSpec.from_config(read_config(config))
    replay = Replay(folder)
    backend = backend or backend_for(device)
    with torch.inference_mode():
        if "agent_pcm" in replay:
            cases = _verify_call(folder, spec, replay, device, backend)
        elif "decoded_f32" in replay:
            cases = _verify_codec(folder, spec, replay, device, backend)
        elif any(key.endswith("tokens") for key in replay if key != _PERSONA):
            cases = _verify_lm(folder, spec, replay, device, backend)
        else:
            raise CheckpointError(f"{replay.path} has an unknown layout.")
    return VerifyReport(all(case.first_mismatch is None for case in cases), tuple(cases))


@dataclass(frozen=True, slots=True)
class _Recording:
    """A language model's recorded run: one row of the batch it is replayed in."""

    name: str
    user_codes: Tensor
    tokens: Tensor
    logits: Tensor | None
    prompt: tuple[EncodedVoice, list[int]] | None


def _recordings(replay: Replay, spec: ModelSpec) -> list[_Recording]:
    lm = spec.lm
    if "tokens" in replay:
        tokens = replay.take("tokens", "frames", "rows", _TOKENS)
        frames, rows = tokens.shape[:2]
        user = replay.take_ids(_USER, frames, rows, CODEBOOKS, least=ZERO_TOKEN, most=lm.card)
        logits: list[Tensor | None] = [None] * rows
        if _LOGITS in replay:
            logits = [*replay.take(_LOGITS, frames, rows, lm.text_card).unbind(1)]
        return [
            _Recording(f"row_{i}", user[:, i], tokens[:, i], logits[i], None) for i in range(rows)
        ]
    found = []
    for name in (key.removesuffix(".tokens") for key in replay if key.endswith(".tokens")):
        tokens = replay.take(f"{name}.tokens", "frames", COLUMN_ROWS)
        frames = len(tokens)
        own = f"{_USER}_{name.rsplit('_', 1)[-1]}"
        user = replay.take_ids(
            own if own in replay else _USER, frames, CODEBOOKS, least=ZERO_TOKEN, most=lm.card
        )
        own_logits = None
        if f"{name}.{_LOGITS}" in replay:
            own_logits = replay.take(f"{name}.{_LOGITS}", frames, lm.text_card)
        prompt = None
        if name.startswith("prompt"):
            prompt = _voice(replay, spec, name), _persona(replay, spec)
        found.append(_Recording(name, user, tokens, own_logits, prompt))
    return found


def _voice(replay: Replay, spec: ModelSpec, name: str) -> EncodedVoice:
    if name.startswith("prompt_bundle"):
        embeddings = replay.take("voice_bundle.embeddings", "frames", 1, 1, spec.lm.dim)
        limit = max(spec.lm.text_card, spec.lm.card)
        cache = replay.take_ids(
            "voice_bundle.cache", 1, COLUMN_ROWS, "columns", least=ZERO_TOKEN, most=limit
        )
        return VoiceBundle.from_saved(embeddings, cache)
    return VoiceCodes(replay.take_ids("voice_codes", "frames", CODEBOOKS, most=spec.mimi.bins - 1))


def _persona(replay: Replay, spec: ModelSpec) -> list[int]:
    most = spec.lm.text_card - 1
    ids: list[int] = replay.take_ids(_PERSONA, "ids", most=most, empty=True).tolist()
    return ids


def _open(
    transformer: TemporalTransformer, spec: ModelSpec, voice: EncodedVoice, persona: list[int]
) -> Opening:
    return finish(run_plan(transformer, plan_prompt(spec, voice, persona), _CHUNK))


def _verify_lm(
    folder: Path,
    spec: ModelSpec,
    replay: Replay,
    device: torch.device,
    backend: Backend,
) -> list[VerifyCase]:
    recordings = _recordings(replay, spec)
    _require_room(spec, len(recordings), device)
    weights = load_lm(folder / LM_FILE, spec.lm, device=device)
    model = backend.language_model(spec.lm, weights, len(recordings))
    opening_logits: list[Tensor | None] = []
    for row, recording in enumerate(recordings):
        model.reset(row)
        model.state.sampling.set(row, _GREEDY, 0)
        if recording.prompt is None:
            opening_logits.append(None)
            continue
        opening = _open(model.temporal, spec, *recording.prompt)
        opening_logits.append(model.open(row, opening.prefix, opening.column)[0])
    live = torch.ones(len(recordings), dtype=torch.bool, device=device)
    users = pad_sequence([r.user_codes for r in recordings]).to(device)
    tokens, logits = [], []
    for user in users:
        started = model.state.position > 0
        frame = model.tick(user, live)
        emitted = torch.cat((frame.text[:, None], frame.codes), dim=1)
        tokens.append(torch.where(started[:, None], emitted, -1).cpu())
        logits.append(frame.text_logits.cpu())
    return [
        _compare_tokens(
            recording,
            _as_recorded(spec, recording, [step[row] for step in tokens]),
            [step[row] for step in logits],
            opening_logits[row],
            spec.family.reference_lag,
        )
        for row, recording in enumerate(recordings)
    ]


def _as_recorded(spec: ModelSpec, recording: _Recording, tokens: Sequence[Tensor]) -> Tensor:
    """Emitted frames [frames, 9] in the reference's numbering of calls."""
    lag = spec.family.reference_lag
    first = torch.full((lag, _TOKENS), -1)
    if recording.prompt is not None:
        first[:] = torch.tensor((spec.lm.text_pad, *spec.silence_codes))
    return torch.cat((first, torch.stack(list(tokens))))[: len(tokens)]


def _compare_tokens(
    recording: _Recording,
    tokens: Tensor,
    logits: Sequence[Tensor],
    opening_logits: Tensor | None,
    lag: int,
) -> VerifyCase:
    wanted = recording.tokens[:, :_TOKENS].long()
    tokens = tokens[: len(wanted)]
    error = None
    if recording.logits is not None:
        first = [opening_logits if opening_logits is not None else logits[0]] * lag
        computed = torch.stack([x.cpu() for x in first] + list(logits))[: len(wanted)]
        # The recording has no number where the reference returned nothing.
        error = (computed - recording.logits).abs().nan_to_num(0.0).max().item()
    return VerifyCase(
        recording.name, len(wanted), _first_frame(wanted != tokens), max_logit_error=error
    )


def _verify_codec(
    folder: Path,
    spec: ModelSpec,
    replay: Replay,
    device: torch.device,
    backend: Backend,
) -> list[VerifyCase]:
    wanted = replay.take_ids("codes", "rows", CODEBOOKS, "frames", most=spec.mimi.bins - 1)
    rows, samples = len(wanted), wanted.shape[2] * FRAME_SAMPLES
    pcm = replay.take("pcm_i16", rows, 1, samples)[:, 0].float() / 32768
    decoded = replay.take("decoded_f32", rows, 1, samples)[:, 0]
    weights = load_mimi(folder / _CODEC_FILE, spec.mimi, device=device)
    live = torch.ones(rows, dtype=torch.bool, device=device)
    encoder = backend.encoder(spec.mimi, weights, rows)
    decoder = backend.decoder(spec.mimi, weights, rows)
    codes = torch.stack(
        [
            encoder.encode(frame.to(device), live)[0].cpu()
            for frame in pcm.split(FRAME_SAMPLES, dim=1)
        ],
        dim=2,
    )
    sound = torch.cat([decoder.decode(c.to(device), live).cpu() for c in wanted.unbind(2)], dim=1)
    frames = wanted.shape[2]
    return [
        VerifyCase("codes", frames, _first_frame((codes != wanted).permute(2, 0, 1))),
        _compare_audio("decoded", sound, decoded),
    ]


def _verify_call(
    folder: Path,
    spec: ModelSpec,
    replay: Replay,
    device: torch.device,
    backend: Backend,
) -> list[VerifyCase]:
    agent_pcm = replay.take("agent_pcm", "samples")
    user_pcm = replay.take("user_pcm", len(agent_pcm))
    padded = VoiceClip.from_pcm(user_pcm).frames
    recorded = replay.take("tokens", len(padded), COLUMN_ROWS)
    user_codes = replay.take(_USER, CODEBOOKS, len(padded))
    clip = VoiceClip.from_pcm(replay.take("voice_pcm_normalized", "samples"))
    voice_codes = replay.take("voice_codes", CODEBOOKS, len(clip.frames))
    persona = _persona(replay, spec)
    _require_room(spec, 1, device)
    lm = load_lm(folder / LM_FILE, spec.lm, device=device)
    mimi = load_mimi(folder / _CODEC_FILE, spec.mimi, device=device)
    model = backend.frame_model(spec, lm, mimi, 1)
    voice = finish(encode_clip(backend.encoder(spec.mimi, mimi, 1), clip))
    opening = _open(model.lm.temporal, spec, voice, persona)
    model.open(0, _GREEDY, 0, opening)
    live = torch.ones(1, dtype=torch.bool, device=device)
    heard, tokens, said = [], [], []
    for pcm in padded:
        frame = model.run(pcm[None].to(device), live)
        heard.append(frame.user_codes[0].cpu())
        tokens.append(torch.cat((frame.text, frame.codes[0])).cpu())
        said.append(frame.pcm[0].cpu())
    # What the recording has first is the prompt's last frame, which is decoded and dropped here.
    lag = spec.family.reference_lag
    sound = torch.cat((agent_pcm[: lag * FRAME_SAMPLES], *said))[: len(agent_pcm)]
    due = recorded[lag:, :_TOKENS].long()
    mismatch = _first_frame(torch.stack(tokens)[: len(due)] != due)
    return [
        VerifyCase(
            "voice_codes",
            len(voice.codes),
            _first_frame(voice.codes != voice_codes.T.long()),
        ),
        VerifyCase(
            "user_codes",
            len(heard),
            _first_frame(torch.stack(heard) != user_codes.T.long()),
        ),
        VerifyCase("tokens", len(due), None if mismatch is None else mismatch + lag),
        _compare_audio("agent_pcm", sound[None], agent_pcm[None]),
    ]


def _require_room(spec: ModelSpec, rows: int, device: torch.device) -> None:
    require_memory(spec, "float32", rows, device=str(device), free=free_memory(device))


def _first_frame(wrong: Tensor) -> int | None:
    """The first frame of [frames, ...] with anything wrong in it."""
    frames = wrong.flatten(1).any(1).nonzero()
    return int(frames[0]) if len(frames) else None


def _compare_audio(name: str, sound: Tensor, wanted: Tensor) -> VerifyCase:
    """Compare [rows, samples]; a number that is not finite is a mismatch."""
    difference = (sound - wanted).abs()
    wrong = ~(difference <= AUDIO_TOLERANCE)
    at = wrong.any(0).nonzero()
    frames = -(-wanted.shape[1] // FRAME_SAMPLES)
    mismatch = int(at[0]) // FRAME_SAMPLES if len(at) else None
    return VerifyCase(name, frames, mismatch, max_audio_error=difference.max().item())
