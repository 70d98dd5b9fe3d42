from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rtc_agent.model.catalog import MODELS
from rtc_agent.model.hub import Hub
from tests.cli.command import Run, runner
from tests.model.fake_hub import TOKEN, FakeHub

REPO = MODELS["personaplex"].repo
FILES = {name: name.encode() * 100 for name in MODELS["personaplex"].files}


@contextmanager
def serving(hub: FakeHub) -> Iterator[None]:
    """The hub on a thread of its own, since the command has the main one."""
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with hub.serve():
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    fake = FakeHub({REPO: dict(FILES)})
    with serving(fake):
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        yield fake


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    as_set = Hub.from_environment
    monkeypatch.setattr(Hub, "from_environment", lambda r: replace(as_set(r), retry_s=0.001))
    return runner(monkeypatch, capsys)


def test_files_come_into_the_folder_that_other_commands_look_in(
    hub: FakeHub, run: Run, tmp_path: Path
) -> None:
    outcome = run("download", "--json")
    assert outcome.status == 0, outcome
    folder = tmp_path / "rtc-agent" / "models" / "personaplex-7b-v1"
    assert outcome.result["folder"] == str(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert outcome.result["files"] == {name: len(content) for name, content in FILES.items()}
    assert TOKEN not in outcome.out + outcome.err


def test_every_obstacle_has_its_own_sentence_and_code(
    hub: FakeHub, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def attempt(case: str) -> None:
        outcome = run("download", "--output", tmp_path / case, "--json")
        seen[case] = outcome.refusal, outcome.result["error"]["code"]
        assert TOKEN not in outcome.out + outcome.err

    hub.licence_accepted = False
    attempt("licence")
    hub.licence_accepted = True
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    attempt("token")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.sends = b"?" * len(FILES["voices.tgz"])
    attempt("corrupt")
    hub.sends = None
    hub.cut_at = [10] + [0] * 10
    attempt("half-written")
    hub.cut_at = []
    del hub.files[REPO]["voices.tgz"]
    attempt("not found")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    attempt("network")
    sentences, codes = zip(*seen.values(), strict=True)
    assert len(set(sentences)) == len(set(codes)) == len(seen) == 6
    assert f"{hub.endpoint}/{REPO}" in seen["licence"][0]


def test_a_model_that_is_not_published(run: Run) -> None:
    assert "personaplex, moshiko, moshika" in run("download", "gpt").refusal
