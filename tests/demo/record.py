"""Record a call as the README has it: `python -m tests.demo.record docs/demo-call.ogg`.

A voice that training never hears asks the packaged demo agent, and cuts in on it once; caller left,
agent right. It fails if an answer is wrong: another voice or other questions may do better. Needs
Debian's festival and festvox-us-slt-hts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import soundfile
import torch

from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.training.data.synthesis.festival import speak_festival
from tests.demo.questions import GREEDY, Question
from tests.lockstep_model import Said, open_slot, step_one

CALL = (
    ("what is two plus three", "sum:2+3"),
    ("what is the capital of france", "capital:france"),
    ("count to ten", "count:10"),
    ("what is personaplex", "personaplex"),
    ("goodbye", "bye"),
)
CUT_IN_ON, CUT_IN_AFTER_S = 2, 2.0
"""Which answer is not waited for, and how long it is listened to."""
PAUSE_S = 0.8
"""Of the agent, after which the caller speaks."""
LONGEST_S = 12.0
"""That is listened to an answer."""
LEVEL = 0.6
_QUIET = 10 ** (-45 / 20)
_COMPRESSION = 0.94
"""Of libsndfile's Opus: about 20 kbit/s a channel."""


class Call:
    """The call so far; time goes on with every frame that the caller hands over."""

    def __init__(self, stepper: LockstepStepper) -> None:
        self._stepper = stepper
        self._said = Said()
        self._asked: list[Pcm] = []
        open_slot(stepper, 0, GREEDY)

    @property
    def text(self) -> str:
        return "".join(self._said.text)

    @property
    def sound(self) -> Pcm:
        """[samples, 2]: caller and agent."""
        return np.stack([np.concatenate(self._asked), np.concatenate(self._said.pcm)], axis=1)

    def say(self, samples: Pcm) -> None:
        padded = np.zeros(-(-len(samples) // FRAME_SAMPLES) * FRAME_SAMPLES, np.float32)
        padded[: len(samples)] = samples
        for frame in padded.reshape(-1, FRAME_SAMPLES):
            step_one(self._stepper, 0, frame, self._said)
            self._asked.append(frame)

    def listen(self, seconds: float) -> None:
        self.say(np.zeros(round(seconds * SAMPLE_RATE), np.float32))

    def hear_out(self) -> None:
        """Until the agent has spoken and is quiet again."""
        spoke, quiet_s = False, 0.0
        for _ in range(round(LONGEST_S / FRAME_S)):
            self.listen(FRAME_S)
            loud = float(np.sqrt(np.mean(np.square(self._said.pcm[-1])))) > _QUIET
            spoke, quiet_s = spoke or loud, 0.0 if loud else quiet_s + FRAME_S
            if spoke and quiet_s >= PAUSE_S:
                return


def main(path: Path, voice: str = "slt-hts") -> None:
    torch.set_num_threads(1)
    stepper = create_stepper(Settings(agent="demo", device="cpu", sessions=1)).stepper
    assert isinstance(stepper, LockstepStepper)
    call, wrong = Call(stepper), []
    call.hear_out()
    for number, (text, intent) in enumerate(CALL):
        question = Question(speak_festival(text, voice) * np.float32(LEVEL), text, intent)
        before = len(call.text)
        call.say(question.samples)
        if number == CUT_IN_ON:
            call.listen(CUT_IN_AFTER_S)
        else:
            call.hear_out()
        answer = call.text[before:].strip()
        sys.stdout.write(f"{text}: {answer}\n")
        right = question.answered_by(answer) or number == CUT_IN_ON
        if not right:
            wrong.append(text)
    if wrong:
        raise SystemExit(f"not answered rightly: {', '.join(wrong)}")
    soundfile.write(
        *(path, call.sound, SAMPLE_RATE),
        format="OGG",
        subtype="OPUS",
        compression_level=_COMPRESSION,
    )
    sys.stdout.write(f"{len(call.sound) / SAMPLE_RATE:.1f} s, {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
