"""A whole evaluation: sets of callers, silences, intelligibility; as figures and as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rtc_agent.engine.stepper import FRAME_SAMPLES
from rtc_agent.training.data.batch import EvalCase, EvalSet, TrainingData
from rtc_agent.training.data.texts.intent import kind_of
from rtc_agent.training.evaluation.calls import REPLY_FRAMES, Model, hold, lay_out
from rtc_agent.training.evaluation.recognition import SentenceChooser, plain_words
from rtc_agent.training.evaluation.scoring import Score, Tally, percentile, score

_ROOMS = (("digital silence", -200.0), ("a quiet room, −65 dBFS", -65.0), ("−50 dBFS", -50.0))
_MISTAKES = 40


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What to measure and how much at once."""

    model: Model
    data: TrainingData
    rows: int = 64
    """Calls held at once."""
    most: int | None = None
    """Cases of a set, at most."""
    chooser: SentenceChooser | None = None
    reply_frames: int = REPLY_FRAMES
    silence_frames: int = 750
    """How long the agent is left alone: a minute."""
    report: Callable[[str], None] = lambda _: None

    def run(self, sets: Sequence[EvalSet]) -> dict[str, Any]:
        """All sets, and the silences; the figures as JSON has them."""
        return {
            "sets": [self._set(wanted) for wanted in sets],
            "silence": self._silences(),
        }

    def _set(self, wanted: EvalSet) -> dict[str, Any]:
        wanted = replace(wanted, cases=wanted.cases[: self.most])
        greeting = self._greeting_samples()
        calls = lay_out(wanted, greeting, self.reply_frames)
        tally, heard, understood = Tally(), 0, 0
        greetings = self._greetings(wanted.persona)
        progress = self.report
        for held in hold(
            self.model,
            calls,
            wanted.persona,
            self.rows,
            lambda done: progress(f"{wanted.name}: {done} of {len(calls)} calls"),
        ):
            judged = score(held, wanted.cut_in, greetings, self.data.still_there)
            tally.scores.append(judged)
            if self.chooser is not None and judged.right and judged.sound is not None:
                first, last = judged.sound
                words = plain_words(_alone(judged.answer, self.data.still_there))
                if words in self.chooser.known:
                    heard += 1
                    understood += self.chooser.choose(held.pcm[first:last]) == words
        return _figures(wanted, tally, heard, understood)

    def _greeting_samples(self) -> int:
        said = {s.text: len(s.samples) for s in self.data.book.sentences}
        return said.get(self.data.greeting, 0)

    def _greetings(self, persona: str | None) -> tuple[str, ...]:
        """What a call may be opened with: with a persona, the greeting in which its name is, or any
        of a book whose greetings have none of its words."""
        if not self.data.greeting:
            return ()
        if persona is None:
            return (self.data.greeting,)
        said = self.data.book.sentences
        kind = {kind_of(s.reply) for s in said if s.text == self.data.greeting}
        mine = tuple(s.text for s in said if kind_of(s.reply) in kind)
        usual, told = _words(self.data.greeting), _words(persona)
        return tuple(text for text in mine if (_words(text) - usual) & told) or mine

    def _silences(self) -> list[dict[str, Any]]:
        out = []
        for name, dbfs in _ROOMS:
            quiet = EvalCase(np.zeros(0, np.float32), name, frozenset(), "sound")
            wanted = EvalSet(name, (quiet,), noise_dbfs=dbfs)
            call = lay_out(wanted, self._greeting_samples())[0]
            samples = self.silence_frames * FRAME_SAMPLES
            noise = np.random.default_rng(5).normal(size=samples) * 10 ** (dbfs / 20)
            call = replace(call, pcm=noise.astype(np.float32))
            text = "".join(next(iter(hold(self.model, [call]))).text).strip()
            rest = text.removeprefix(self.data.greeting).strip()
            asked = rest.count(self.data.still_there) if self.data.still_there else 0
            other = rest.replace(self.data.still_there, "").strip()
            out.append({"room": name, "asked_still_there": asked, "other": other})
            self.report(f"{name}: asked {asked} times; other: {other!r}")
        return out


def _words(text: str) -> set[str]:
    return set(plain_words(text).split())


def _alone(answer: str, still_there: str) -> str:
    """An answer without the question that came after it, which may be cut short."""
    for length in range(len(still_there), 0, -1):
        rest = answer.removesuffix(still_there[:length])
        if rest != answer and rest.endswith(" "):
            return rest.strip()
    return answer


def _figures(wanted: EvalSet, tally: Tally, heard: int, understood: int) -> dict[str, Any]:
    right, asked = tally.share("in-domain")
    refused, outside = tally.share("out-of-domain")
    quiet, sounds = tally.share("sound")
    delays, silences = tally.delays(), tally.silences()
    return {
        "name": wanted.name,
        "calls": len(tally.scores),
        "right": [right, asked],
        "refused": [refused, outside],
        "ignored": [quiet, sounds],
        "false_starts": tally.false_starts,
        "greetings": tally.greetings,
        "delay_s": {"p50": percentile(delays, 50), "p90": percentile(delays, 90)},
        "silent_after_cut_in_s": {"p50": percentile(silences, 50), "p90": percentile(silences, 90)},
        "understood": [understood, heard],
        "mistakes": [_mistake(s) for s in tally.scores if not s.right][:_MISTAKES],
    }


def _mistake(judged: Score) -> dict[str, str]:
    return {"kind": judged.kind, "said": judged.said, "answer": judged.answer}


def table(figures: dict[str, Any]) -> str:
    """The figures as a Markdown table."""
    lines = [
        "| callers | in-domain right | refused | ignored | false starts | greeting "
        "| answer begins after (p50 / p90) | silent after a cut-in (p90) | understood by ASR |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in figures["sets"]:
        delay, silent = row["delay_s"], row["silent_after_cut_in_s"]
        lines.append(
            f"| {row['name']} | {_share(row['right'])} | {_share(row['refused'])} "
            f"| {_share(row['ignored'])} | {_share([row['false_starts'], row['calls']])} "
            f"| {_share([row['greetings'], row['calls']])} "
            f"| {_seconds(delay['p50'])} / {_seconds(delay['p90'])} "
            f"| {_seconds(silent['p90'])} | {_share(row['understood'])} |"
        )
    for row in figures["silence"]:
        other = f", and “{row['other']}”" if row["other"] else ""
        lines.append(
            f"\nAlone with {row['room']}: asked {row['asked_still_there']} × whether anybody is "
            f"there{other}."
        )
    return "\n".join(lines)


def _share(counts: Sequence[int]) -> str:
    part, whole = counts
    return f"{part}/{whole} = {100 * part / whole:.1f} %" if whole else "–"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"
