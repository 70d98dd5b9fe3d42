"""What crosses the socket between the engine and a media process, there and back."""

from __future__ import annotations

import json

from rtc_agent.engine.remote.wire import pack_info, pack_spec, unpack_info, unpack_spec
from rtc_agent.engine.stepper import SamplingSpec, SessionSpec, StepperInfo


def test_an_agent_and_a_session_are_the_same_on_the_other_side() -> None:
    info = StepperInfo(
        agent="personaplex",
        description="Listens while it speaks.",
        voices=("Ana", "Ben"),
        default_voice="Ben",
        voice_samples={"Ana": "/models/voices/Ana.sample.wav"},
        takes_persona=True,
        persona_max_chars=119,
        persona_names=("Ada", "Max"),
        notice="Slow.",
        latency_frames=1,
    )
    assert unpack_info(json.loads(json.dumps(pack_info(info)))) == info
    spec = SessionSpec(voice="Ana", persona="Be kind.", sampling=SamplingSpec(seed=2**62))
    assert unpack_spec(json.loads(json.dumps(pack_spec(spec)))) == spec
