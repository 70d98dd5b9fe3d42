"""Calls to the server as a newcomer starts it: asked by browser, command line and telephone, the
packaged demo agent gives the right answer, as text and as sound."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest
import pytest_asyncio
import torch
from playwright.async_api import Page, async_playwright, expect
from scipy.signal import resample_poly

from rtc_agent import server
from rtc_agent.client.sip_phone import SipPhone
from rtc_agent.client.sources import EncodedSource
from rtc_agent.config import Settings, load
from rtc_agent.engine.agents import Choice, Report, create_stepper
from rtc_agent.engine.lockstep import LockstepStepper
from rtc_agent.engine.stepper import SAMPLE_RATE, Pcm
from rtc_agent.media.codecs import encoder_for
from rtc_agent.telephony.config import TelephonySettings
from tests.client.audio import load_wav, save_wav
from tests.demo.overheard import Conversation, Overheard
from tests.demo.questions import Question, questions, sentences_in
from tests.e2e.test_calls import call
from tests.lockstep_model import run_alone
from tests.telephony.gateway import MISSING, RealJanus, media_host, require_parts
from tests.telephony.registrar import Registrar
from tests.web.conftest import chromium_path
from tests.web.page_driver import HANG_UP, START, lines, open_page, reach
from tests.web.speech import browser_arguments

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKINGS = 4
"""A small model may err now and then, where a question falls between two frames."""
LISTENED_S = 1.2
"""After the answer's last word was shown, for its sound."""

_RECORD = """() => {
  window.recorder = new MediaRecorder(document.getElementById("remote").srcObject);
  window.recorder.start();
}"""
_RECORDED = """async () => {
  const { recorder } = window;
  const blob = await new Promise((resolve) => {
    recorder.ondataavailable = ({ data }) => resolve(data);
    recorder.stop();
  });
  const bytes = new Uint8Array(await blob.arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}"""


@dataclass
class Site:
    """The running server."""

    url: str
    overheard: Overheard
    phone: str | None
    """Where a telephone calls it, if there is a gateway."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The server with no agent named, and a telephone line where there is a gateway."""
    overheard: list[Overheard] = []

    def create(settings: Settings, report: Report) -> Choice:
        choice = create_stepper(settings, report)
        overheard.append(Overheard(choice.stepper))
        return Choice(overheard[0], choice.notice)

    stop = asyncio.Event()
    told: asyncio.Queue[str] = asyncio.Queue()
    async with contextlib.AsyncExitStack() as parts:
        patch = parts.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(server, "create_stepper", create)
        hosts, line, registrar = ["127.0.0.1"], TelephonySettings(), Registrar()
        if (host := media_host()) and not MISSING:
            await registrar.start()
            parts.callback(registrar.close)
            janus = RealJanus(tmp_path_factory.mktemp("janus"))
            await janus.start()
            parts.push_async_callback(janus.kill)
            line = TelephonySettings(janus=janus.url, proxy=registrar.uri, password="")
            hosts.append(host)
        settings = load(None, port=0, ice_hosts=hosts, telephony=line, device="cpu")
        task = asyncio.create_task(server.run(settings, told.put_nowait, stop))
        try:
            async with asyncio.timeout(60):
                url = (await told.get()).rstrip("/")
                phone = await registrar.registered(30) if line.enabled else None
            yield Site(url, overheard[0], phone)
        finally:
            stop.set()
            await asyncio.wait([task], timeout=15)
        task.result()


@pytest.fixture(scope="module")
def question() -> Question:
    return questions()[0]


@pytest.fixture(scope="module")
def track(question: Question) -> Pcm:
    """The caller's side: silence while the agent greets, the question, silence for the answer."""
    return question.asked().reshape(-1)


def expect_the_same_offline(held: Conversation) -> None:
    """Of the frames that a call brought, the model alone makes the same, to the bit."""
    torch.set_num_threads(1)
    reference = create_stepper(Settings(agent="demo", device="cpu", sessions=1)).stepper
    assert isinstance(reference, LockstepStepper)
    assert run_alone(reference, 0, held.spec, held.frames) == held.said


@pytest.mark.browser
async def test_the_page_is_answered_in_words_and_sound(
    site: Site, question: Question, track: Pcm, tmp_path: Path
) -> None:
    # The file begins again when it ends, so the question is asked until it was answered.
    microphone = save_wav(tmp_path / "microphone.wav", resample_poly(track, 2, 1), 48_000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium_path(), args=browser_arguments(microphone)
        )
        page = await browser.new_page()
        await open_page(page, site.url)
        await expect(page.locator("#headline")).to_have_text("Demo")
        await expect(page.locator("#lede")).to_contain_text("kinds of questions")
        await expect(page.locator("#lede")).to_contain_text("rtc-agent download personaplex")
        await page.click(START)
        await reach(page, "live", 20)
        await page.evaluate(_RECORD)
        async with asyncio.timeout((ASKINGS + 1) * len(track) / SAMPLE_RATE):
            while not question.answered_by(await shown(page)):
                await asyncio.sleep(0.2)
        await asyncio.sleep(LISTENED_S)
        recorded = base64.b64decode(await page.evaluate(_RECORDED))
        await page.click(HANG_UP)
        await reach(page, "ended")
        await browser.close()
    heard = decoded(recorded)
    assert question.answered_in(heard), sentences_in(heard)


async def test_the_command_line_is_answered_in_words_and_sound(
    site: Site, question: Question, track: Pcm, tmp_path: Path
) -> None:
    source, output = save_wav(tmp_path / "question.wav", track), tmp_path / "answer.wav"
    for _ in range(ASKINGS):
        report = await call(site.url, source, output)
        assert report["exit"] == 0, report
        if question.answered_by(report["text"]):
            break
    assert question.answered_by(report["text"]), report
    held = site.overheard.conversations[-1]
    assert held.text.strip() == report["text"].strip()
    heard = load_wav(output)
    assert question.answered_in(heard), sentences_in(heard)
    expect_the_same_offline(held)


@pytest.mark.telephony
async def test_a_telephone_is_answered_in_sound(site: Site, question: Question, track: Pcm) -> None:
    require_parts()
    assert site.phone is not None
    for _ in range(ASKINGS):
        async with SipPhone(site.phone, codec="PCMU") as phone:
            await phone.connect()
            begun_s = phone.play(EncodedSource([track], encoder_for("PCMU")))
            assert await phone.wait_said()
            assert await phone.wait_until(begun_s + len(track) / SAMPLE_RATE + LISTENED_S)
        held = site.overheard.conversations[-1]
        if question.answered_by(held.text):
            break
    assert question.answered_by(held.text), held.text
    samples = len(track) + round(LISTENED_S * SAMPLE_RATE)
    heard = await asyncio.to_thread(phone.recording(begun_s, samples).read)
    assert question.answered_in(heard), sentences_in(heard)
    expect_the_same_offline(held)


async def shown(page: Page) -> str:
    """The agent's words on the page."""
    return "".join(what for _, who, what in await lines(page) if who == "Demo")


def decoded(recorded: bytes) -> Pcm:
    """A browser's recording at 24 kHz."""
    with av.open(io.BytesIO(recorded)) as container:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
        frames = [
            out.to_ndarray()[0]
            for frame in container.decode(audio=0)
            for out in resampler.resample(frame)
        ]
    return np.concatenate(frames)
