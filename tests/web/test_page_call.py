"""A call on the page, from going live to every way of ending."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Page, expect

from tests.web.fake_server import FakeServer, refusal
from tests.web.page_driver import (
    HANG_UP,
    MUTE,
    START,
    STATE,
    expect_let_go,
    expect_problem,
    go_live,
    lines,
    open_page,
    reach,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


SLOW = "The server is too slow at the moment:"


async def received(server: FakeServer, **wanted: Any) -> None:
    """Wait until the page has sent a message with these fields."""
    await server.until(lambda: any(wanted.items() <= got.items() for got in server.received))


async def test_the_offer_asks_for_what_a_voice_call_needs(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    (offer,) = server.offers
    assert offer["type"] == "offer"
    assert offer["pc_id"] is None
    assert offer["request_data"] == {}
    assert "m=audio" in offer["sdp"] and "a=sendrecv" in offer["sdp"]
    assert "m=video" not in offer["sdp"]
    constraints = await page.evaluate("() => window.constraints")
    assert constraints["audio"]["echoCancellation"] is True
    await expect(page.locator("#fact-path")).to_have_text("direct over UDP")
    await expect(page.locator("#fact-rtt")).to_have_text(re.compile(r"^\d+ ms$"))


async def test_the_agent_is_heard_through_an_element_and_only_tapped_by_analysers(
    page: Page, server: FakeServer
) -> None:
    await go_live(page, server.url)
    await expect(page.locator("#meter-agent")).not_to_have_attribute("aria-valuenow", "-60")
    playing = await page.evaluate(
        """() => {
          const element = document.getElementById("remote");
          const [receiver] = window.peers[0].getReceivers();
          return !element.paused && element.srcObject.getAudioTracks()[0] === receiver.track;
        }"""
    )
    assert playing
    assert await page.evaluate("() => window.contexts.length") == 1


async def test_text_becomes_lines_with_who_and_when(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    server.send("speech", frame=10, who="caller", state="started", duration_ms=0)
    server.send("speech", frame=30, who="caller", state="stopped", duration_ms=1_640)
    server.send("text", frame=32, delta="you spoke for 1.6 s\n")
    server.send("text", frame=34, delta=" Good")
    server.send("text", frame=36, delta=" morning.")
    server.send("text", frame=36 + 16, delta=" After a pause.")
    server.send("speech", frame=53, who="agent", state="stopped", duration_ms=800)
    server.send("text", frame=54, delta=" After silence.")
    server.send("notice", frame=60, code="overload", message="The server is too slow.")
    for frame, left_out in ((62, 1), (64, 2), (300, 13)):
        server.send("notice", frame=frame, code="overload", message="Slow.", frames=left_out)
    server.send("text", frame=500, delta=" Hello,")
    server.send("notice", frame=521, code="overload", message="Slow.", frames=20)
    server.send("text", frame=522, delta=" this is one line.")
    await expect(page.locator("#log")).to_contain_text("one line.")
    assert await lines(page) == [
        ("0:00", "You", "spoke for 1.6 s"),
        ("0:02", "Echo", "you spoke for 1.6 s"),
        ("0:02", "Echo", "Good morning."),
        ("0:04", "Echo", "After a pause."),
        ("0:04", "Echo", "After silence."),
        ("0:04", "Note", "The server is too slow."),
        ("0:04", "Note", f"{SLOW} 240 ms of the call were left out."),
        ("0:24", "Note", f"{SLOW} 1.0 s of the call were left out."),
        ("0:40", "Echo", "Hello, this is one line."),
        ("0:41", "Note", f"{SLOW} 1.6 s of the call were left out."),
    ]


async def test_text_is_shown_as_text(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    server.send("text", frame=1, delta="<img src=x onerror=alert(1)>\n")
    await expect(page.locator("#log .said")).to_have_text("<img src=x onerror=alert(1)>")


async def test_an_old_message_does_not_overwrite_a_new_one(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    server.send("text", frame=1, delta="new\n")
    server.rewind(1)
    server.send("text", frame=2, delta="old\n")
    server.send("text", frame=3, delta="newest\n")
    await expect(page.locator("#log .said").last).to_have_text("newest")
    assert [said for _, _, said in await lines(page)] == ["new", "newest"]


async def test_mute_by_key_and_by_button(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await page.keyboard.press("m")
    await received(server, type="mute", muted=True)
    await expect(page.locator(STATE)).to_have_text("Live, you are muted")
    await expect(page.locator(MUTE)).to_have_attribute("aria-pressed", "true")
    assert await page.evaluate("() => window.tracks.map((track) => track.enabled)") == [False]
    await page.click(MUTE)
    await received(server, type="mute", muted=False)
    await expect(page.locator(STATE)).to_have_text("Live")
    assert await page.evaluate("() => window.tracks.map((track) => track.enabled)") == [True]


async def test_a_caller_muted_before_the_call_stands_stays_muted(
    page: Page, server: FakeServer
) -> None:
    server.ready = False
    await open_page(page, server.url)
    await page.click(START)
    await reach(page, "opening")
    await page.click(MUTE)
    server.received.clear()
    server.send("ready", agent="echo")
    await reach(page, "live")
    await received(server, type="mute", muted=True)
    await expect(page.locator(STATE)).to_have_text("Live, you are muted")


async def test_the_whole_call_by_keyboard(page: Page, server: FakeServer) -> None:
    await open_page(page, server.url)
    await page.keyboard.press("Tab")
    await expect(page.locator(START)).to_be_focused()
    await page.keyboard.press("Enter")
    await reach(page, "live")
    await expect(page.locator(HANG_UP)).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.locator(MUTE)).to_be_focused()
    await page.keyboard.press("Space")
    await received(server, type="mute", muted=True)
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    await reach(page, "ended")
    await expect(page.locator(START)).to_be_focused()


async def test_hanging_up_tells_the_server_and_lets_everything_go(
    page: Page, server: FakeServer
) -> None:
    await go_live(page, server.url)
    await page.click(HANG_UP)
    await reach(page, "ended")
    await received(server, type="hangup")
    await expect(page.locator(STATE)).to_have_text("Call ended. You hung up.")
    await page.wait_for_function("() => window.peers[0].connectionState === 'closed'")
    await expect_let_go(page)
    await expect(page.locator(START)).to_have_text("Call again")
    await page.click(START)
    await reach(page, "live")


async def test_a_call_that_the_server_ends_says_why(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    server.send("ended", reason="server_stopping", message="The server is being stopped.")
    await reach(page, "ended")
    await expect(page.locator(STATE)).to_have_text("Call ended. The server is being stopped.")
    await expect_let_go(page)


async def test_a_connection_closed_without_a_word_ends_the_call(
    page: Page, server: FakeServer
) -> None:
    await go_live(page, server.url)
    assert server.peer is not None
    server.respond = refusal(503, "server_draining", "Stopping.")
    await server.peer.close()
    await reach(page, "ended", 20)
    await expect(page.locator(STATE)).to_contain_text("Call ended. The ")
    await expect_let_go(page)


async def test_a_timer_held_back_in_a_hidden_tab_is_no_interruption(
    page: Page, server: FakeServer
) -> None:
    await page.clock.install()
    await go_live(page, server.url)
    await expect(page.locator("#fact-rtt")).to_contain_text("ms")
    await page.evaluate(
        """() => {
          window.states = [];
          new MutationObserver(() => window.states.push(document.body.dataset.state))
            .observe(document.body, { attributeFilter: ["data-state"] });
        }"""
    )
    await page.clock.fast_forward(60_000)
    pings = sum(message["type"] == "ping" for message in server.received)
    await page.clock.run_for(2_500)
    await server.until(
        lambda: sum(message["type"] == "ping" for message in server.received) > pings
    )
    assert await page.evaluate("() => window.states") == []
    await reach(page, "live")


async def test_an_agent_that_never_gets_ready_is_not_waited_for_without_end(
    page: Page, server: FakeServer
) -> None:
    server.ready = False
    await page.clock.install()
    await open_page(page, server.url)
    await page.click(START)
    await reach(page, "opening")
    await page.clock.run_for(31_000)
    await expect_problem(page, "agent_silent", "did not start in time")
    await expect_let_go(page)


async def test_blocked_sound_is_offered_as_a_button(page: Page, server: FakeServer) -> None:
    await page.add_init_script(
        """
        const play = HTMLMediaElement.prototype.play;
        window.touched = false;
        HTMLMediaElement.prototype.play = function () {
          return window.touched
            ? play.call(this)
            : Promise.reject(new DOMException("a touch is needed", "NotAllowedError"));
        };"""
    )
    await go_live(page, server.url)
    await expect(page.locator("#sound")).to_have_text("Tap for sound")
    await page.evaluate("() => { window.touched = true; }")
    await page.click("#sound")
    await expect(page.locator("#sound")).to_be_hidden()
    assert await page.evaluate("() => !document.getElementById('remote').paused")


async def test_the_microphone_changes_within_the_call(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    options = page.locator("#microphone option")
    labels = await options.all_text_contents()
    assert len(labels) > 1 and all(labels)
    await page.select_option("#microphone", index=len(labels) - 1)
    await page.wait_for_function(
        "() => window.tracks.length === 2 && window.tracks[0].readyState === 'ended'"
    )
    sent = await page.evaluate(
        "() => window.peers[0].getSenders()[0].track.id === window.tracks[1].id"
    )
    assert sent
    assert await page.evaluate("() => window.tracks[1].readyState") == "live"
    assert len(server.offers) == 1
    await reach(page, "live")
    await expect(page.locator("#microphone option:checked")).to_have_text(labels[-1])


async def test_a_microphone_that_does_not_start_leaves_the_old_one_in_use(
    page: Page, server: FakeServer
) -> None:
    await go_live(page, server.url)
    await expect(page.locator("#microphone option")).not_to_have_count(1)
    before = await page.locator("#microphone").input_value()
    await page.evaluate(
        """() => {
          navigator.mediaDevices.getUserMedia = async () => {
            throw new DOMException("in use", "NotReadableError");
          };
        }"""
    )
    last = await page.locator("#microphone option").count() - 1
    await page.select_option("#microphone", index=last)
    await expect_problem(page, "microphone_busy", "Another program")
    await expect(page.locator("#microphone")).to_have_value(before)
    await reach(page, "live")
    assert await page.evaluate("() => window.tracks.map((track) => track.readyState)") == ["live"]


async def test_two_quick_changes_of_microphone_leave_one_on(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await expect(page.locator("#microphone option")).not_to_have_count(1)
    await page.evaluate(
        """() => {
          const select = document.getElementById("microphone");
          for (const index of [1, 2]) {
            select.selectedIndex = index;
            select.dispatchEvent(new Event("change"));
          }
        }"""
    )
    await page.wait_for_function("() => window.tracks.length === 3")
    await page.wait_for_function(
        "() => window.tracks.filter((track) => track.readyState === 'live').length === 1"
    )
    await page.click(HANG_UP)
    await reach(page, "ended")
    await expect_let_go(page)


async def test_an_unplugged_microphone_gives_way_to_the_default(
    page: Page, server: FakeServer
) -> None:
    await go_live(page, server.url)
    await page.evaluate("() => { window.tracks[0].dispatchEvent(new Event('ended')); }")
    await expect(page.locator("#log li")).to_contain_text("The microphone went away")
    await page.wait_for_function("() => window.tracks[1]?.readyState === 'live'")
    await reach(page, "live")


async def test_voice_and_persona_are_sent_and_shown(page: Page, server: FakeServer) -> None:
    server.info |= {
        "agent": "personaplex",
        "voices": ["NATF1", "NATM0"],
        "default_voice": "NATM0",
        "takes_persona": True,
        "persona_max_chars": 40,
    }
    await open_page(page, server.url)
    await expect(page.get_by_role("heading", name="PersonaPlex")).to_be_visible()
    await expect(page.get_by_label("Voice")).to_have_value("NATM0")
    await page.get_by_label("Voice").select_option("NATF1")
    persona = page.get_by_role("textbox", name="Persona")
    await persona.fill("You run a small museum.")
    await expect(page.locator("#persona-count")).to_have_text("17 of about 40 characters left")
    await page.click(START)
    await reach(page, "live")
    assert server.offers[0]["request_data"] == {
        "voice": "NATF1",
        "persona": "You run a small museum.",
    }


async def test_candidates_found_after_the_offer_are_sent_in_batches(
    page: Page, server: FakeServer
) -> None:
    await open_page(page, server.url)
    await page.evaluate(
        """async () => {
          const { CandidateTrickle } = await import("/js/candidates.js");
          const peer = new EventTarget();
          const trickle = new CandidateTrickle(peer);
          const found = (candidate) =>
            peer.dispatchEvent(Object.assign(new Event("icecandidate"), { candidate }));
          const made = (candidate) =>
            new RTCIceCandidate({ candidate, sdpMid: "0", sdpMLineIndex: 0 });
          found(made("candidate:1 1 udp 1 192.0.2.1 1000 typ host"));
          found(made("candidate:2 1 udp 1 192.0.2.1 1001 typ host"));
          trickle.begin("fake");
          await new Promise((resolve) => setTimeout(resolve, 250));
          found(null);
        }"""
    )
    await server.until(lambda: len(server.candidates) == 3)
    assert [candidate["candidate"].split()[:1] for candidate in server.candidates] == [
        ["candidate:1"],
        ["candidate:2"],
        [],
    ]
    assert all(candidate["sdp_mid"] == "0" for candidate in server.candidates)
    assert server.patches == 2


async def test_a_call_that_is_hung_up_before_its_answer_is_ended_on_the_server_too(
    page: Page, server: FakeServer
) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        asked.set()
        await may_answer.wait()
        return await server.answer(request)

    server.respond = late
    await open_page(page, server.url)
    await page.click(START)
    async with asyncio.timeout(20):
        await asked.wait()
    await page.click(HANG_UP)
    await reach(page, "ready")
    may_answer.set()
    await server.until(lambda: server.hung_up == [server.pc_id], timeout_s=20)
    await expect_let_go(page)


async def test_a_call_that_is_hung_up_while_it_connects_is_ended_on_the_server_too(
    page: Page, server: FakeServer
) -> None:
    async def gone(request: web.Request) -> web.StreamResponse:
        response = await server.answer(request)
        assert server.peer is not None
        await server.peer.close()
        return response

    server.respond = gone
    await open_page(page, server.url)
    await page.click(START)
    await page.wait_for_function("() => window.peers.at(-1)?.remoteDescription", timeout=20_000)
    await page.click(HANG_UP)
    await server.until(lambda: server.hung_up == [server.pc_id], timeout_s=20)
    await expect_let_go(page)


async def test_a_page_that_goes_away_ends_its_call(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await page.goto("about:blank")
    await server.until(lambda: server.hung_up == [server.pc_id], timeout_s=20)
