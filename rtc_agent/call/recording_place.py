"""Where recordings are kept: a folder here, or any store that fsspec knows, such as S3."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import tempfile
from pathlib import Path
from typing import Any, Protocol

from rtc_agent.errors import ConfigError, MissingDependency

SUFFIX = ".part"
"""Of files that are not whole yet."""


class Place(Protocol):
    """A place with a folder for each day. Every method blocks and may raise OSError."""

    def folder(self, name: str) -> Path:
        """A local folder in which the files of that recording (`DAY/CALL`) can be written."""
        ...

    def keep(self, name: str, files: list[Path]) -> None:
        """These files, each named with `.part` so far, are whole."""
        ...

    def days(self) -> list[str]: ...

    def delete(self, day: str) -> None: ...


class LocalPlace:
    """A folder on this machine; only its owner can read what is in it."""

    def __init__(self, root: Path) -> None:
        """
        Raises:
            ConfigError: the folder cannot be made.
        """
        self._root = root
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"Recordings cannot be kept in {root}: {error.strerror}.") from error

    def folder(self, name: str) -> Path:
        path = self._root / name.split("/", maxsplit=1)[0]
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def keep(self, name: str, files: list[Path]) -> None:
        for file in files:
            file.rename(file.with_name(file.name.removesuffix(SUFFIX)))

    def days(self) -> list[str]:
        return sorted(path.name for path in self._root.iterdir() if path.is_dir())

    def delete(self, day: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # another process of this server was first
            shutil.rmtree(self._root / day)


class RemotePlace:
    """An fsspec file system. Files are written here first, and put there once they are whole."""

    def __init__(self, url: str) -> None:
        """
        Raises:
            MissingDependency: fsspec, or its driver for this kind of store, is not installed.
        """
        try:
            fsspec = importlib.import_module("fsspec")
            self._fs: Any
            self._fs, root = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise MissingDependency(
                f"Recordings at {url.split(':', 1)[0]}: need a package that is not installed "
                f"({error}): pip install 'rtc-agent[storage]'."
            ) from error
        self._root = str(root).rstrip("/")
        self._spool = tempfile.TemporaryDirectory(prefix="rtc-agent-recordings-")

    def folder(self, name: str) -> Path:
        return Path(self._spool.name)

    def keep(self, name: str, files: list[Path]) -> None:
        day = name.split("/", maxsplit=1)[0]
        self._fs.makedirs(f"{self._root}/{day}", exist_ok=True)
        for file in files:
            self._fs.put_file(str(file), f"{self._root}/{day}/{file.name.removesuffix(SUFFIX)}")
            file.unlink()

    def days(self) -> list[str]:
        if not self._fs.exists(self._root):
            return []
        return sorted(
            str(path).rstrip("/").rsplit("/", 1)[-1]
            for path in self._fs.ls(self._root, detail=False)
        )

    def delete(self, day: str) -> None:
        self._fs.rm(f"{self._root}/{day}", recursive=True)


def place_at(address: str) -> Place:
    """The place of that address: a folder, or a URL that fsspec takes."""
    return RemotePlace(address) if "://" in address else LocalPlace(Path(address))
