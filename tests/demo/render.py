"""Speak the questions of the tests: `python -m tests.demo.render [INTENT=TEXT …]`.

Every question is spoken by eSpeak NG in voices that training never hears, until the packaged model
answers it rightly wherever it falls between two frames, also more softly and with a little noise,
so that the recording's coding does not matter; the first one also as a telephone brings it. Needs
Debian's libespeak-ng1 and espeak-ng-data.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE, Pcm
from rtc_agent.training.data.batch import Utterance
from rtc_agent.training.data.evaluation_sets import telephone
from rtc_agent.training.data.pool import Recordings
from rtc_agent.training.data.synthesis.callers import CallerVoices
from tests.demo.questions import BEGINS_S, GREEDY, RECORDED, Question
from tests.lockstep_model import run_alone

WANTED = (
    *("sum:2+3=what is two plus three", "capital:france=what is the capital of france"),
    *("opposite:hot=what is the opposite of hot", "capital:italy=what is the capital of italy"),
    *("colour:grass=what color is grass", "number-after:6=what comes after six"),
    *("animal-sound:cow=what does the cow say", "animal-sound:dog=what does a dog say"),
)
TRIES = 20
LEVEL = 0.6
"""Of the peak that utterances are made with: speech at about −20 dBFS."""
_SEED = 7
_HISS = 10 ** (-55 / 20)
_OFFSETS_S = tuple(part * FRAME_SAMPLES / SAMPLE_RATE for part in (0.0, 1 / 3, 2 / 3))


def main(wanted: list[str]) -> None:
    torch.set_num_threads(1)
    stepper = create_stepper(Settings(agent="demo", sessions=1)).stepper
    assert isinstance(stepper, LockstepStepper)
    voices = CallerVoices(held_out=True)
    made = []
    for number, item in enumerate(wanted):
        intent, _, text = item.partition("=")
        made.append(_speak(stepper, voices, text, intent, number))
        sys.stdout.write(f"{text}: {made[-1].speaker}\n")
    Recordings(made).save(RECORDED)


def _speak(
    stepper: LockstepStepper, voices: CallerVoices, text: str, intent: str, number: int
) -> Utterance:
    for attempt in range(TRIES):
        rng = np.random.default_rng((_SEED, number, attempt))
        speaker = voices.draw_speaker(rng)
        samples = voices.say(text, speaker, rng) * np.float32(LEVEL)
        if _understood(stepper, samples, text, intent, in_calls=number == 0):
            return Utterance(samples, text, intent, speaker)
    raise SystemExit(f"no voice of {TRIES} makes itself understood with {text!r}")


def _understood(
    stepper: LockstepStepper, samples: Pcm, text: str, intent: str, in_calls: bool
) -> bool:
    noise = np.random.default_rng(_SEED).normal(size=len(samples)).astype(np.float32)
    heard = [samples, 0.7 * samples, samples + _HISS * noise]
    if in_calls:
        heard.append(telephone(samples))
    for one in (Question(pcm.astype(np.float32), text, intent) for pcm in heard):
        for offset in _OFFSETS_S:
            said = run_alone(stepper, 0, GREEDY, one.asked(BEGINS_S + offset))
            if not one.answered_by("".join(said.text)):
                sys.stdout.write(f"  {text}: {''.join(said.text)!r}\n")
                return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:] or list(WANTED))
