"""The folder that training takes its data from, made on one machine and carried to another.

lib/            synthesisers that are spoken with where training runs
book.flac/json  the agent's sentences
callers/        utterances of the synthesisers that do not travel
evaluation/     held-out callers
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from rtc_agent.errors import ConfigError
from rtc_agent.model.persona import wrap_persona
from rtc_agent.training.data.batch import CallerPool, ConversationSource, EvalSet, Tokenizer
from rtc_agent.training.data.book import VOICE, Book, render_book
from rtc_agent.training.data.conversations import Conversations
from rtc_agent.training.data.evaluation_sets import load_sets, speak_sets
from rtc_agent.training.data.pool import Callers, Recordings, speak_neural, speak_stock
from rtc_agent.training.data.synthesis.callers import ESPEAK_LIBRARY
from rtc_agent.training.data.synthesis.flite import MEAN_PITCH, Flite, library_files
from rtc_agent.training.data.synthesis.gnuspeech import speak_gnuspeech
from rtc_agent.training.data.texts import names, out_of_domain
from rtc_agent.training.data.texts.intents import STILL_THERE, demo_domain
from rtc_agent.training.demo_spec import DEMO_SPEC
from rtc_agent.training.tokenizer import TOKENIZER, train_tokenizer

_LIBRARIES, _CALLERS, _EVALUATION = "lib", "callers", "evaluation"
_GNUSPEECH, _KOKORO = "gnuspeech", "kokoro"
_SHARES = {_GNUSPEECH: 0.06, _KOKORO: 0.28}
"""Of recorded callers among all utterances."""
_STOCK, _STOCK_SEED = 12_000, 12
_TEXTS_SEED, _OUTSIDE_TEXTS = 3, 6_000
_EXAMPLES = (
    *("What is two plus three?", "How do you spell apple?", "What is the capital of France?"),
    *("Tell me a joke.", "What is your name?", "What is PersonaPlex?", "What can you do?"),
    *("What is the opposite of hot?", "How do I use the real model?", "Count to five."),
)

Report = Callable[[str], None]


class DemoData:
    """`batch.TrainingData` of a folder that `prepare` made.

    Args:
        workers: processes that speak the stock of callers.
        stock: utterances of it; with none, each caller is spoken when it is drawn.

    Raises:
        ConfigError: something is missing in the folder.
    """

    def __init__(self, folder: Path, workers: int | None = None, stock: int = _STOCK) -> None:
        self._folder = folder
        self._workers = workers or max(1, (os.cpu_count() or 2) - 1)
        self._stock_size = stock
        self.book = Book.load(folder)
        if not (folder / _LIBRARIES).is_dir():
            raise ConfigError(f"{folder} has no {_LIBRARIES}; make it with `prepare`")

    @property
    def texts(self) -> Sequence[str]:
        """Lines to train the tokenizer on, repeated by how often they are said; personas too."""
        return training_texts()

    @property
    def tokenizer(self) -> Path | None:
        """Made with the folder."""
        path = self._folder / TOKENIZER
        return path if path.exists() else None

    @property
    def kinds(self) -> int:
        """Kinds of questions the agent can be asked."""
        return len(demo_domain().families)

    examples: Sequence[str] = _EXAMPLES
    """What a newcomer may ask."""
    persona_names: Sequence[str] = names.NAMES
    """By which a persona may call it."""
    greeting: str = names.greeting(names.DEFAULT_NAME)
    """What the agent opens a call without a persona with."""
    still_there: str = STILL_THERE
    """What it says once after a long silence."""

    def pool(self) -> CallerPool:
        """Callers without end; the first call speaks a stock of them, which takes seconds."""
        return self._callers

    def source(self, tokenizer: Tokenizer, pool: CallerPool) -> ConversationSource:
        """Conversations between the pool's callers and the agent."""
        return Conversations(self.book, pool, tokenizer)

    def evaluation(self) -> Sequence[EvalSet]:
        """Held-out callers by condition."""
        return load_sets(self._folder / _EVALUATION)

    @cached_property
    def _callers(self) -> Callers:
        libraries = self._folder / _LIBRARIES
        kept = {self._folder / _CALLERS / name: share for name, share in _SHARES.items()}
        return Callers(
            libraries,
            [
                (Recordings.load(path), share)
                for path, share in kept.items()
                if path.with_suffix(".json").exists()
            ],
            speak_stock(libraries, self._stock_size, _STOCK_SEED, self._workers)
            if self._stock_size
            else None,
        )


def training_texts() -> Sequence[str]:
    """As `DemoData.texts`, which takes no folder."""
    rng = np.random.default_rng(_TEXTS_SEED)
    domain = demo_domain()
    return [
        *[text for text, _ in domain.replies()] * 30,
        *[wrap_persona(text) for text in names.personas()] * 4,
        *[said for intent in domain.intents.values() for said in intent.says] * 6,
        *(out_of_domain.draw(rng) for _ in range(_OUTSIDE_TEXTS)),
    ]


def open_data(folder: Path) -> DemoData:
    """The data in a folder that `prepare` made.

    Raises:
        ConfigError: something is missing in it.
    """
    return DemoData(folder)


def prepare(
    folder: Path,
    *,
    gnuspeech: Path | None = None,
    recorded: int = 1_800,
    kokoro: Path | None = None,
    neural: int = 3_000,
    evaluated: int = 300,
    report: Report = lambda _: None,
) -> None:
    """Make the folder; what is there already is kept, so that a broken-off making is gone on with.

    Args:
        gnuspeech: folder of its npm package; None leaves those callers out.
        recorded: its utterances.
        kokoro: folder that its packages were installed into; None leaves those callers out, of the
            evaluation too.
        neural: its utterances.
        evaluated: utterances of each synthesiser in the evaluation.

    Raises:
        ConfigError: a library, a voice or a clip is missing; what to install is said.
        RtcAgentError: a synthesiser's program failed.
    """
    libraries = folder / _LIBRARIES
    if not libraries.is_dir():
        report("gathering the synthesisers' libraries")
        gather_libraries(libraries)
    if not (folder / "book.json").exists():
        report("rendering the agent's sentences")
        render_book(Flite((VOICE,), libraries)).save(folder)
    tokenizer = folder / TOKENIZER
    if not tokenizer.exists():
        report("making the tokenizer")
        train_tokenizer(training_texts(), tokenizer, DEMO_SPEC.lm)
    report("speaking the evaluation's callers")
    speak_sets(folder / _EVALUATION, evaluated, libraries, kokoro)
    if gnuspeech is not None and not (folder / _CALLERS / f"{_GNUSPEECH}.json").exists():
        report("speaking Gnuspeech's callers")
        utterances = list(speak_gnuspeech(gnuspeech, recorded, seed=5))
        Recordings(utterances).save(folder / _CALLERS / _GNUSPEECH, kbit_s=22)
    if kokoro is not None and not (folder / _CALLERS / f"{_KOKORO}.json").exists():
        report("speaking Kokoro's callers")
        spoken = speak_neural(kokoro, libraries, neural, seed=7, workers=os.cpu_count() or 1)
        spoken.save(folder / _CALLERS / _KOKORO, kbit_s=17)


def gather_libraries(out: Path) -> None:
    """Copy what the synthesisers need: Flite's libraries, eSpeak NG and its English data.

    Raises:
        ConfigError: they are not installed; the message says which package has them.
    """
    found = find_spec("espeakng_loader")
    if found is None or found.origin is None:
        raise ConfigError("eSpeak NG for carrying is missing; pip install espeakng-loader")
    espeak = Path(found.origin).parent
    missing = [path for path in library_files(tuple(MEAN_PITCH)) if not path.exists()]
    if missing:
        raise ConfigError(f"{missing[0]} is missing; Debian has libflite1 and libasound2")
    making = out.with_name(out.name + ".making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    for path in library_files(tuple(MEAN_PITCH)):
        shutil.copyfile(path.resolve(), making / path.name)
    shutil.copyfile((espeak / ESPEAK_LIBRARY).resolve(), making / ESPEAK_LIBRARY)
    data = espeak / "espeak-ng-data"
    for path in (*data.glob("phon*"), data / "intonations", data / "en_dict"):
        _copy(path, data, making / data.name)
    for path in (*data.glob("lang/gmw/en*"), *data.glob("voices/!v/*")):
        _copy(path, data, making / data.name)
    making.rename(out)


def _copy(path: Path, root: Path, out: Path) -> None:
    target = out / path.relative_to(root)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
