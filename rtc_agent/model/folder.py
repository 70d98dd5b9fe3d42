"""A folder of model files: which file is what, and the sizes they have to have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtc_agent.errors import CheckpointError, MissingDependency
from rtc_agent.model.catalog import CODEC_FILE, CONFIG_FILE, LM_FILE, TEXT_FILE
from rtc_agent.model.config_values import table, whole
from rtc_agent.model.spec import Family, ModelSpec

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

_NAMES: Mapping[str, tuple[str, ...]] = {
    "lm": (LM_FILE,),
    "codec": (CODEC_FILE, "mimi.safetensors"),
    "tokenizer": (TEXT_FILE, "tokenizer.model"),
}
"""The names a file may have where `files` of the config gives none."""


_MOST_EXAMPLES = 8
_LONGEST_EXAMPLE = 80
_MOST_NAMES = 100
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Domain:
    """What a model of a closed domain can be asked."""

    kinds: int
    """Kinds of questions that it knows."""
    examples: tuple[str, ...]
    names: tuple[str, ...] = ()
    """By one of which a persona may call it, the first hundred; it follows nothing else of one."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a folder holds, checked to be there but not read yet."""

    path: Path
    spec: ModelSpec
    lm: Path
    codec: Path
    tokenizer: Path | None
    """None where the model has no text to show."""
    domain: Domain | None = None
    """None where the config tells of none."""

    @classmethod
    def open(cls, path: Path, family: Family | None = None) -> ModelFolder:
        """Read the folder's config and find its files.

        Args:
            family: whose model it is when the config does not say.

        Raises:
            CheckpointError: a file is missing or half-written, or the config cannot be used.
        """
        if not path.is_dir():
            raise CheckpointError(
                f"There is no folder {path}; `rtc-agent download` fetches models."
            )
        config = read_config(path / CONFIG_FILE)
        return cls(
            path=path,
            spec=ModelSpec.from_config(config, family=family),
            lm=_find(path, config, "lm"),
            codec=_find(path, config, "codec"),
            tokenizer=_find_optional(path, config, "tokenizer"),
            domain=_domain(config),
        )

    def text_model(self) -> SentencePieceProcessor:
        """The tokenizer: persona to ids, ids to pieces.

        Raises:
            CheckpointError: missing or damaged.
            MissingDependency: sentencepiece is not installed.
        """
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError as error:
            raise MissingDependency(
                "sentencepiece is missing; pip install 'rtc-agent[model]'."
            ) from error
        if self.tokenizer is None:
            raise _missing(self.path, _NAMES["tokenizer"])
        try:
            return SentencePieceProcessor(model_file=str(self.tokenizer))
        except (OSError, RuntimeError) as error:
            raise CheckpointError(f"{self.tokenizer} is damaged; fetch it again.") from error


def read_config(path: Path) -> dict[str, Any]:
    """A `config.json`; empty where there is none, as Moshi's first releases have it.

    Raises:
        CheckpointError: it is damaged.
    """
    if not path.exists():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged; fetch it again.") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} is damaged; fetch it again.")
    return config


def _domain(config: Mapping[str, Any]) -> Domain | None:
    given = table(config, "domain")
    if not given:
        return None
    shown = (e[:_LONGEST_EXAMPLE] for e in _texts(given, "examples")[:_MOST_EXAMPLES])
    names = _texts(given, "names")
    if not all(name.strip() and len(name) <= _LONGEST_NAME for name in names):
        raise CheckpointError(
            f"config.json gives the domain a name that is blank or longer than {_LONGEST_NAME} "
            "characters."
        )
    return Domain(whole("kinds", given.get("kinds")), tuple(shown), tuple(names[:_MOST_NAMES]))


def _texts(given: Mapping[str, Any], name: str) -> list[str]:
    texts = given.get(name, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise CheckpointError(f"config.json gives the domain's {name} as no list of texts.")
    return texts


def _find(folder: Path, config: Mapping[str, Any], kind: str) -> Path:
    found = _find_optional(folder, config, kind)
    if found is None:
        raise _missing(folder, _NAMES[kind])
    return found


def _find_optional(folder: Path, config: Mapping[str, Any], kind: str) -> Path | None:
    given = table(config, "files").get(kind)
    names = _NAMES[kind] if given is None else (str(given),)
    if given is not None and (Path(names[0]).name != names[0] or not (folder / names[0]).is_file()):
        if (folder / f"{names[0]}.part").exists():
            raise _missing(folder, names)
        raise CheckpointError(f"{folder} has no {names[0]}, which its {CONFIG_FILE} names.")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _missing(folder: Path, names: tuple[str, ...]) -> CheckpointError:
    for name in names:
        if (folder / f"{name}.part").exists():
            return CheckpointError(
                f"{folder / name} is half-written; run `rtc-agent download` again to go on."
            )
    return CheckpointError(
        f"{folder} has no {' or '.join(names)}; `rtc-agent download` fetches models."
    )
