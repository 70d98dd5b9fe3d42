from __future__ import annotations

import logging
import random
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rtc_agent.errors import (
    DiskFull,
    DownloadCorrupt,
    DownloadError,
    DownloadIncomplete,
    HubFileNotFound,
    HubTokenMissing,
    HubUnreachable,
    LicenceNotAccepted,
)
from rtc_agent.model.catalog import MODELS, PublishedModel, default_folder
from rtc_agent.model.download import download
from rtc_agent.model.hub import Hub
from tests.model.fake_hub import TOKEN, FakeHub

MODEL = PublishedModel("toy", "owner/toy", ("config.json", "model.safetensors"), ("extra.bin",))
BIG = random.Random(0).randbytes(3_000_000)
FILES = {"config.json": b"{}", "model.safetensors": BIG}


@pytest.fixture
async def fake() -> AsyncIterator[FakeHub]:
    async with FakeHub({MODEL.repo: dict(FILES)}).serve() as hub:
        yield hub


def as_caller(fake: FakeHub, token: str | None = TOKEN, attempts: int = 3) -> Hub:
    return Hub(fake.endpoint, token, attempts=attempts, retry_s=0.001)


def assert_whole(folder: Path) -> None:
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES


def written_at(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


async def test_brings_every_file_and_tells_how_far(fake: FakeHub, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    folder = tmp_path / "not" / "there"
    paths = await download(MODEL, folder, as_caller(fake), lambda *step: told.append(step))
    assert [path.name for path in paths] == list(MODEL.files)
    assert_whole(folder)
    big = [(done, total) for name, done, total in told if name == "model.safetensors"]
    assert big == sorted(big) and len(big) > 2
    assert big[-1] == (len(BIG), len(BIG)) and {total for _, total in big} == {len(BIG)}


async def test_optional_files_come_when_there(fake: FakeHub, tmp_path: Path) -> None:
    fake.files[MODEL.repo]["extra.bin"] = b"extra"
    paths = await download(MODEL, tmp_path, as_caller(fake))
    assert paths[-1].read_bytes() == b"extra"


async def test_token_stays_with_the_hub(
    fake: FakeHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hub = as_caller(fake)
    await download(MODEL, tmp_path, hub)
    assert not fake.leaked
    assert TOKEN not in caplog.text and TOKEN not in repr(hub)


async def test_broken_transfers_go_on_where_they_stopped(fake: FakeHub, tmp_path: Path) -> None:
    fake.cut_at = [2, 1_000_000, 500_000]
    await download(MODEL, tmp_path, as_caller(fake, attempts=2))
    assert_whole(tmp_path)
    starts = [int(wanted[6:-1]) for wanted in fake.seen if wanted]
    assert len(starts) >= 2 and starts == sorted(starts) and 0 < starts[0] < starts[-1] < len(BIG)


async def test_a_stopped_run_is_gone_on_with(fake: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.part").write_bytes(BIG[:1_234_567])
    await download(MODEL, tmp_path, as_caller(fake))
    assert_whole(tmp_path)
    assert "bytes=1234567-" in fake.seen


async def test_a_run_stopped_before_the_rename(fake: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.part").write_bytes(BIG)
    await download(MODEL, tmp_path, as_caller(fake))
    assert_whole(tmp_path)


async def test_a_server_without_ranges_sends_all_again(fake: FakeHub, tmp_path: Path) -> None:
    fake.ranges = False
    (tmp_path / "model.safetensors.part").write_bytes(BIG[:1000])
    await download(MODEL, tmp_path, as_caller(fake))
    assert_whole(tmp_path)


async def test_whole_files_are_left_alone(fake: FakeHub, tmp_path: Path) -> None:
    await download(MODEL, tmp_path, as_caller(fake))
    before = written_at(tmp_path)
    for ranges in (True, False):
        fake.ranges = ranges
        await download(MODEL, tmp_path, as_caller(fake))
        assert written_at(tmp_path) == before


async def test_a_half_copied_file_is_completed(fake: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(BIG[:777])
    await download(MODEL, tmp_path, as_caller(fake))
    assert_whole(tmp_path)


async def test_the_hub_s_bad_moments_pass(fake: FakeHub, tmp_path: Path) -> None:
    fake.statuses = [503, 429]
    await download(MODEL, tmp_path, as_caller(fake))
    assert_whole(tmp_path)


async def refused(fake: FakeHub, folder: Path, token: str | None = TOKEN) -> DownloadError:
    with pytest.raises(DownloadError) as caught:
        await download(MODEL, folder, as_caller(fake, token))
    message = caught.value.message
    assert "\n" not in message and message.endswith(".")
    assert TOKEN not in message and "signature" not in message
    return caught.value


async def test_no_token(fake: FakeHub, tmp_path: Path) -> None:
    error = await refused(fake, tmp_path, token=None)
    assert type(error) is HubTokenMissing and "owner/toy needs a token" in error.message


async def test_wrong_token(fake: FakeHub, tmp_path: Path) -> None:
    error = await refused(fake, tmp_path, token="hf_wrong")
    assert type(error) is HubTokenMissing and "does not know the token" in error.message
    assert "hf_wrong" not in error.message


async def test_licence_not_accepted_names_the_page(fake: FakeHub, tmp_path: Path) -> None:
    fake.licence_accepted = False
    error = await refused(fake, tmp_path)
    assert type(error) is LicenceNotAccepted
    assert f"accept it at {fake.endpoint}/owner/toy " in error.message


async def test_token_that_may_not_read_gated_repositories(fake: FakeHub, tmp_path: Path) -> None:
    fake.licence_accepted = False
    fake.error_message = "Please enable access in your fine-grained token settings."
    error = await refused(fake, tmp_path)
    assert type(error) is HubTokenMissing and "gated repositories" in error.message


async def test_not_found(fake: FakeHub, tmp_path: Path) -> None:
    del fake.files[MODEL.repo]["model.safetensors"]
    error = await refused(fake, tmp_path)
    assert type(error) is HubFileNotFound
    assert "model.safetensors" in error.message and "'main'" in error.message


async def test_no_network(fake: FakeHub, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        fake.endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = await refused(fake, tmp_path)
    assert (
        type(error) is HubUnreachable and "cannot be reached (connection refused)" in error.message
    )


@pytest.mark.parametrize("endpoint", ["not-an-address", "http://[", "ftp://host", "http://a b"])
def test_endpoint_that_is_no_address(endpoint: str) -> None:
    with pytest.raises(HubUnreachable, match="HF_ENDPOINT"):
        Hub(endpoint)


async def test_a_hub_in_trouble(fake: FakeHub, tmp_path: Path) -> None:
    fake.statuses = [500] * 3
    error = await refused(fake, tmp_path)
    assert type(error) is HubUnreachable and "HTTP 500" in error.message


async def test_half_written_file_is_kept(fake: FakeHub, tmp_path: Path) -> None:
    fake.files[MODEL.repo]["config.json"] = b"{}"
    fake.cut_at = [2, 1_000, 0, 0, 0, 0]
    error = await refused(fake, tmp_path)
    assert type(error) is DownloadIncomplete
    assert "model.safetensors is half-written" in error.message
    assert not (tmp_path / "model.safetensors").exists()
    assert (tmp_path / "model.safetensors.part").read_bytes() == BIG[:1_000]


async def test_wrong_content_is_removed(fake: FakeHub, tmp_path: Path) -> None:
    fake.sends = BIG[::-1]
    error = await refused(fake, tmp_path)
    assert type(error) is DownloadCorrupt and "checksum" in error.message
    assert list(written_at(tmp_path)) == ["config.json"]


async def test_a_part_longer_than_the_file_is_removed(fake: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.part").write_bytes(BIG + b"more")
    error = await refused(fake, tmp_path)
    assert type(error) is DownloadCorrupt and f"instead of {len(BIG)}" in error.message
    await download(MODEL, tmp_path, as_caller(fake))
    assert_whole(tmp_path)


async def test_too_little_room_is_seen_beforehand(
    fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    error = await refused(fake, tmp_path)
    assert type(error) is DiskFull and "1000000 bytes free" in error.message


async def test_a_disk_that_fills_up(fake: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.part").symlink_to("/dev/full")
    error = await refused(fake, tmp_path)
    assert type(error) is DiskFull and "filled up" in error.message


async def test_a_folder_that_cannot_be(fake: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = await refused(fake, tmp_path / "file" / "folder")
    assert "cannot be made" in error.message


def test_every_refusal_has_its_own_code() -> None:
    kinds = [*DownloadError.__subclasses__(), DownloadError]
    assert len({kind.code for kind in kinds}) == len(kinds) == 8


def test_hub_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert Hub.from_environment() == Hub("https://huggingface.co", None)
    (tmp_path / "token").write_text("hf_saved\n")
    assert Hub.from_environment().token == "hf_saved"
    monkeypatch.setenv("HF_TOKEN", " hf_set ")
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror/")
    assert Hub.from_environment("v1") == Hub("http://mirror", "hf_set", "v1")
    assert Hub.from_environment().url("a/b", "c d") == "http://mirror/a/b/resolve/main/c%20d"
    monkeypatch.setenv("HF_TOKEN", "hf_two\nlines")
    with pytest.raises(HubTokenMissing) as caught:
        Hub.from_environment()
    assert "hf_two" not in caught.value.message


def test_published_models_have_a_folder_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    folders = {default_folder(model) for model in MODELS.values()}
    assert len(folders) == len(MODELS)
    assert default_folder(MODELS["personaplex"]) == Path("/data/rtc-agent/models/personaplex-7b-v1")
