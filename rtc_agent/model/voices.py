"""The voices that a model folder has, by name.

A name is looked up among the files that are there; it never becomes part of a path. The released
archive is read where it is and never unpacked, so no member of it can land anywhere.
"""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rtc_agent.engine.stepper import Pcm
from rtc_agent.errors import CheckpointError, InvalidRequest, UnknownVoice
from rtc_agent.model.catalog import VOICES_FILE, VOICES_FOLDER
from rtc_agent.model.prompts import Voice, VoiceClip, VoiceCodes
from rtc_agent.model.spec import ModelSpec
from rtc_agent.model.voice_clip import read_clip, read_recording
from rtc_agent.model.voice_file import Embed, bundle_from_codes, load_voice, save_voice
from rtc_agent.model.voice_sample import SUFFIX, cut_sample, write_sample

Encode = Callable[[VoiceClip], VoiceCodes]
"""What a codec that starts fresh makes of a clip."""

PREFERRED = "NATF2"
"""The released voice taken when none is asked for."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MEMBER = re.compile(rf"(?:\./)?(?:voices/)?({_NAME.pattern})\.pt")
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a voice is: a file, or a member of an archive."""

    path: Path
    member: str | None = None

    @property
    def label(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    def read(self) -> bytes:
        if self.member is None:
            return self.path.read_bytes()
        with tarfile.open(self.path, "r:gz") as archive:
            file = archive.extractfile(self.member)
            if file is None:
                raise CheckpointError(f"{self.label} is not a file.")
            return file.read(_MAX_BYTES)


class VoiceLibrary:
    """Voices of a model folder: `voices/NAME.pt`, `voices/NAME.wav`, and those of `voices.tgz`.

    Of two with one name the file comes before the archive, and a `.pt` before a `.wav`. A short
    listen to a voice may lie beside it as `voices/NAME.sample.wav`.

    Raises:
        CheckpointError: the archive is damaged.
    """

    def __init__(self, folder: Path, spec: ModelSpec) -> None:
        self._folder = folder / VOICES_FOLDER
        self._spec = spec
        self._sources = (
            _archived(folder / VOICES_FILE)
            | _files(self._folder, ".wav")
            | _files(self._folder, ".pt")
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._sources))

    @property
    def default(self) -> str | None:
        """The voice of a call that asks for none; None when there are no voices."""
        return PREFERRED if PREFERRED in self._sources else next(iter(self.names), None)

    @property
    def samples(self) -> Mapping[str, str]:
        """Name → the WAV file of a short listen, of voices that have one."""
        found = {name: self._folder / f"{name}{SUFFIX}" for name in self.names}
        return {name: str(path) for name, path in found.items() if path.is_file()}

    def recording(self, name: str) -> Pcm | None:
        """The recording that the voice is taken from at every start, if it is one.

        Raises:
            UnknownVoice, BadAudioFile: as `load`.
        """
        path = self._find(name).path
        return read_recording(path) if path.suffix == ".wav" else None

    def keep_sample(self, name: str, pcm: Pcm) -> Path:
        """Keep the first seconds of what is heard in `pcm` as the voice's short listen.

        Raises:
            UnknownVoice: no such voice.
            BadAudioFile: there is nothing to hear in it, or it cannot be written.
        """
        self._find(name)
        path = self._folder / f"{name}{SUFFIX}"
        write_sample(cut_sample(pcm), path)
        return path

    def _find(self, name: str) -> _Source:
        source = self._sources.get(name)
        if source is None:
            known = f"there are {', '.join(self.names)}" if self._sources else "there is none"
            raise UnknownVoice(f"There is no voice {name[:64]!r}; {known}.")
        return source

    def load(self, name: str) -> Voice:
        """A voice for a prompt; a recording is still to be encoded.

        Raises:
            UnknownVoice: no such voice; the message lists those that there are.
            CheckpointError, BadAudioFile: its file is damaged, or for another model.
        """
        source = self._find(name)
        if source.path.suffix == ".wav":
            return read_clip(source.path)
        try:
            content = source.read()
        except (OSError, KeyError, EOFError, zlib.error, tarfile.TarError) as error:
            raise CheckpointError(f"{source.label} cannot be read: {error}.") from error
        return load_voice(content, source.label, self._spec)

    def add(
        self, name: str, clip: Path, encode: Encode, embed: Embed, *, replace: bool = False
    ) -> Path:
        """Make a voice of a recording and keep it as a `.pt` that the reference can load too, with
        a short listen beside it.

        Raises:
            InvalidRequest: not a name for a voice, or one that is taken.
            BadAudioFile: no voice can be taken from the recording.
        """
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{name[:64]!r} cannot name a voice; take letters, digits, - and _, 64 at most."
            )
        if name in self._sources and not replace:
            raise InvalidRequest(f"There is a voice {name} already; --replace overwrites it.")
        voice = encode(read_clip(clip))
        path = self._folder / f"{name}.pt"
        save_voice(voice, bundle_from_codes(self._spec, voice.codes, embed), path)
        self._sources[name] = _Source(path)
        self.keep_sample(name, read_recording(clip))
        return path


def _files(folder: Path, suffix: str) -> dict[str, _Source]:
    if not folder.is_dir():
        return {}
    return {
        path.stem: _Source(path)
        for path in folder.iterdir()
        if path.suffix == suffix and path.is_file() and _NAME.fullmatch(path.stem)
    }


def _archived(path: Path) -> dict[str, _Source]:
    if not path.is_file():
        return {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            members = [m for m in archive.getmembers() if m.isreg() and m.size <= _MAX_BYTES]
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise CheckpointError(f"{path} is damaged: {error}; fetch it again.") from error
    return {
        match[1]: _Source(path, member.name)
        for member in members
        if (match := _MEMBER.fullmatch(member.name))
    }
