"""What the page measures of a call, what it makes of it, and when text is shown."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
from playwright.async_api import Page, expect

from tests.web.fake_server import FakeServer
from tests.web.page_driver import go_live, open_page
from tests.web.states import STATS

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FIGURES = "#quality-figures"


def figure(page: Page, label: str) -> Any:
    return page.locator(f"{FIGURES} > div").filter(has_text=label)


async def test_each_figure_is_shown_and_plotted(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await page.click("#quality summary")
    for step in range(3):
        server.send("stats", frame=25 * step, **STATS)
        await asyncio.sleep(1)
    for label, words in {
        "Mouth to ear": r"\d+ ms",
        "Round trip": r"\d+ ms",
        "Lost": r"0.0 %",
        "Jitter": r"\d+ ms",
        "Filled in": r"[\d.]+ %",
        "Browser buffer": r"\d+ ms",
        "Server buffers": r"79 ms",
    }.items():
        row = figure(page, label)
        await expect(row.locator("dd")).to_have_text(re.compile(f"^{words}$"))
        points = await row.locator("polyline").get_attribute("points")
        assert points and len(points.split()) > 1, label


async def test_lost_packets_are_told_with_what_to_do(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await expect(page.locator("#advice")).to_be_hidden()
    for step in range(8):
        sent = {"packets_received": 100 * step, "packets_lost": 10 * step}
        server.send("stats", frame=25 * step, **(STATS | sent))
        await asyncio.sleep(0.8)
    advice = page.locator("#advice")
    await expect(advice).to_contain_text("9 % of your sound gets lost on its way to the agent.")
    await expect(advice).to_contain_text("Wi-Fi")
    await expect(page.locator("#quality-sum")).to_have_text("needs attention")
    for step in range(8, 16):
        sent = {"packets_received": 100 * step, "packets_lost": 70}
        server.send("stats", frame=25 * step, **(STATS | sent))
        await asyncio.sleep(0.8)
    await expect(advice).not_to_contain_text("your sound gets lost")


async def in_page(
    page: Page, server: FakeServer, module: str, body: str, argument: Any = None
) -> Any:
    """Run code of the page's modules on the page."""
    await open_page(page, server.url)
    return await page.evaluate(
        f"async (given) => {{ const part = await import('/js/{module}'); {body} }}", argument
    )


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("lossDown", {"lossDownPercent": 8, "lossPercent": 8}),
        ("concealed", {"concealedPercent": 9}),
        ("far", {"rttMs": 400}),
        ("jitter", {"jitterMs": 60}),
        ("browser", {"browserMs": 300}),
        ("server", {"droppedMs": 80}),
        (None, {}),
    ],
)
async def test_each_fault_has_its_own_words(
    page: Page, server: FakeServer, code: str | None, change: dict[str, float]
) -> None:
    fine = {
        "rttMs": 30,
        "lossUpPercent": 0,
        "lossDownPercent": 0,
        "lossPercent": 0,
        "jitterMs": 5,
        "concealedPercent": 0,
        "browserMs": 60,
        "serverMs": 80,
        "mouthToEarMs": 300,
        "droppedMs": 0,
        "underruns": 0,
    }
    body = """const advice = new part.Advice();
      const once = advice.take(given);
      for (let count = 0; count < 4; count += 1) advice.take(given);
      return [once, advice.take(given)];"""
    once, found = await in_page(page, server, "advice.js", body, fine | change)
    assert once == []
    assert [each["code"] for each in found] == ([code] if code else [])


async def test_fewer_calls_are_asked_for_only_where_there_are_others(
    page: Page, server: FakeServer
) -> None:
    await go_live(page, server.url)
    expected = {3: "too slow for this agent", 2: "Fewer calls at a time would help"}
    step = itertools.count()
    for free, words in expected.items():
        server.info["slots"] = {"total": 4, "free": free}
        async with asyncio.timeout(60):
            while words not in (await page.locator("#advice").text_content() or ""):
                at = next(step)
                server.send("stats", frame=25 * at, **(STATS | {"dropped_ms": 80.0 * at}))
                await asyncio.sleep(0.5)


async def test_a_line_keeps_the_whole_call_in_a_bounded_number_of_points(
    page: Page, server: FakeServer
) -> None:
    body = """const history = new part.History();
      for (let at = 0; at < 7200; at += 1) history.add(at === 1234 ? 99 : 1);
      return [history.points.length, Math.max(...history.points)];"""
    count, peak = await in_page(page, server, "quality_panel.js", body)
    assert 120 <= count <= 240
    assert peak == 99


async def test_the_agents_sound_is_found_in_the_microphone(page: Page, server: FakeServer) -> None:
    rng = np.random.default_rng(3)
    talk = np.repeat(rng.random(60) > 0.5, 10) * rng.random(600) * 0.1
    noise = rng.random(600) * 0.002
    echo = np.roll(talk, 18) * 0.08 + noise
    other = np.repeat(rng.random(60) > 0.5, 10) * rng.random(600) * 0.1 + noise
    body = "return given.map(([agent, mic]) => part.findEcho(agent, mic));"
    heard, alone, quiet, silent = await in_page(
        page,
        server,
        "echo.js",
        body,
        [
            [talk.tolist(), echo.tolist()],
            [talk.tolist(), other.tolist()],
            [talk.tolist(), [0.0] * 600],
            [[0.0] * 600, other.tolist()],
        ],
    )
    assert heard["likeness"] > 0.8 and heard["lagMs"] == 180
    assert alone["likeness"] < 0.4
    assert quiet["likeness"] == 0
    assert silent is None


async def test_an_echo_is_told_only_after_it_was_found_again_and_again(
    page: Page, server: FakeServer
) -> None:
    rng = np.random.default_rng(4)
    talk = np.repeat(rng.random(120) > 0.5, 10) * rng.random(1200) * 0.1
    body = """const watch = new part.EchoWatch();
      const told = [];
      given.forEach((agent, at) => {
        watch.add((given[at - 15] ?? 0) * 0.1, agent);
        told.push(watch.advice().length);
      });
      return [told.indexOf(1), watch.lagMs];"""
    first, lag_ms = await in_page(page, server, "echo.js", body, talk.tolist())
    assert first == 799
    assert lag_ms == 150


async def test_the_chirp_measures_the_way_through_the_call(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await page.click("#quality summary")
    await page.click("#latency-test")
    result = page.locator("#latency-result")
    await expect(result).to_contain_text("three short chirps")
    await expect(result).to_have_text(
        re.compile(r"^\d+ ms, measured: a chirp through the call and back"), timeout=20_000
    )
    measured = int((await result.text_content() or "").split()[0])
    assert 20 <= measured <= 1_800
    sent = await page.evaluate(
        "() => window.peers[0].getSenders()[0].track.id === window.tracks[0].id"
    )
    assert sent, "the microphone is sent again"


async def test_a_muted_caller_is_asked_to_unmute_for_the_chirps(
    page: Page, server: FakeServer
) -> None:
    await go_live(page, server.url)
    await page.keyboard.press("m")
    await page.click("#quality summary")
    await page.click("#latency-test")
    await expect(page.locator("#latency-result")).to_contain_text("Unmute first")


async def test_a_chirp_is_found_where_it_is(page: Page, server: FakeServer) -> None:
    body = """const wanted = part.decimate(part.chirp(48000), 48000);
      const heard = new Float32Array(16000).map(() => (Math.random() - 0.5) * 0.1);
      wanted.forEach((sample, at) => (heard[4000 + at] += sample * 0.3));
      return [part.find(heard, wanted), part.find(heard.subarray(0, 4000), wanted)];"""
    found, missing = await in_page(page, server, "latency_test.js", body)
    assert abs(found["at"] - 4_000) <= 1 and found["likeness"] > 0.8
    assert missing["likeness"] < 0.35


async def test_another_agents_latency_is_estimated_and_called_so(
    page: Page, server: FakeServer
) -> None:
    server.info["agent"] = "personaplex"
    await go_live(page, server.url)
    for step in range(3):
        server.send("stats", frame=25 * step, **STATS)
        await asyncio.sleep(1)
    await page.click("#quality summary")
    await page.click("#latency-test")
    await expect(page.locator("#latency-result")).to_have_text(
        re.compile(r"^About \d+ ms, estimated")
    )


async def test_text_comes_with_the_sound_or_at_once(page: Page, server: FakeServer) -> None:
    body = """const shown = [];
      const captions = new part.Captions((message) => shown.push([message, performance.now()]));
      const begin = performance.now();
      captions.soundLagMs = 300;
      captions.add("late");
      captions.soundLagMs = 0;
      captions.add("in order");
      const early = shown.length;
      await new Promise((resolve) => setTimeout(resolve, 600));
      captions.atOnce = true;
      captions.soundLagMs = 300;
      captions.add("at once");
      return [early, shown.map(([message, at]) => [message, at - begin])];"""
    early, shown = await in_page(page, server, "captions.js", body)
    assert early == 0
    assert [message for message, _ in shown] == ["late", "in order", "at once"]
    assert 290 <= shown[0][1] < 600
    assert shown[2][1] >= 600


async def test_a_long_script_is_kept_in_bounds(page: Page, server: FakeServer) -> None:
    body = """const view = document.createElement("div");
      const [log, empty, earlier] = ["ol", "p", "p"].map((tag) => document.createElement(tag));
      view.append(log);
      const script = new part.Transcript(log, empty, earlier, { shown: 5, kept: 3_000 });
      script.begin("Agent");
      const say = (frame, delta) => script.addText({ delta, frame, t_ms: frame * 80 });
      const look = () => [log.textContent, earlier.hidden ? "" : earlier.textContent,
        script.asText(), script.asJson()];
      for (let line = 0; line < 12; line += 1) say(line, `Line ${line}.\n`);
      const kept = look();
      for (let word = 0; word < 2_000; word += 1) say(50 + word, " and");
      return [kept, look(), log.childElementCount];"""
    kept, long, shown = await in_page(page, server, "transcript.js", body)
    on_page, earlier, text, told = kept
    assert "Line 6." not in on_page and "Line 7." in on_page and "Line 11." in on_page
    assert earlier == "7 earlier lines are in what Save gives."
    assert [line["text"] for line in told["lines"]] == [f"Line {line}." for line in range(12)]
    assert "0:00  Agent: Line 0." in text and told["lines_left_out"] == 0

    _, _, text, told = long
    assert shown == 5
    assert told["lines_left_out"] == 12 + 6
    assert "(18 earlier lines were too many to keep.)" in text
    sizes = [len(line["text"]) for line in told["lines"]]
    assert max(sizes) <= 1_004 and sum(sizes) <= 3_000


async def test_a_script_and_a_recording_can_be_kept(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    server.send("speech", frame=10, who="caller", state="started", duration_ms=0)
    server.send("speech", frame=30, who="caller", state="stopped", duration_ms=1_640)
    server.send("text", frame=34, delta=" Good morning.\n")
    await expect(page.locator("#log li")).to_have_count(2)
    async with page.expect_download() as text:
        await page.click("#save-text")
    saved = await (await text.value).path()
    assert saved.read_text().splitlines()[2:] == [
        "0:00  You: spoke for 1.6 s",
        "0:02  Echo: Good morning.",
    ]
    async with page.expect_download() as script:
        await page.click("#save-json")
    told = json.loads((await (await script.value).path()).read_text())
    assert told["lines"][1] == {
        "t_ms": 2_720,
        "kind": "agent",
        "who": "Echo",
        "text": "Good morning.",
    }

    await page.click("#record")
    await asyncio.sleep(3)
    async with page.expect_download() as sound:
        await page.click("#hangup")
    download = await sound.value
    assert re.fullmatch(r"call-[\d-]+\.webm", download.suggested_filename)
    assert both_sides_are_heard(str(await download.path()))


def both_sides_are_heard(path: str) -> bool:
    """The recording has the caller on the left and the agent on the right."""
    import av

    with av.open(path) as container:
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
    sound = np.concatenate([np.atleast_2d(frame) for frame in frames], axis=1)
    assert sound.shape[0] == 2 and sound.shape[1] > 48_000
    return bool(np.all(np.sqrt(np.mean(sound.astype(float) ** 2, axis=1)) > 1e-3))
