"""What a caller sets up: persona, voice, text and keys, and a link that carries them."""

from __future__ import annotations

import io
import re
import wave

import numpy as np
import pytest
from playwright.async_api import Page, expect

from tests.web.fake_server import FakeServer
from tests.web.page_driver import HANG_UP, MUTE, START, STATE, go_live, open_page, reach
from tests.web.states import PERSONA_AGENT

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

COUNT = "#persona-count"


async def test_an_example_fills_the_persona_and_is_counted(page: Page, server: FakeServer) -> None:
    server.info |= PERSONA_AGENT
    await open_page(page, server.url)
    example = page.get_by_role("button", name="Teacher")
    await example.click()
    persona = await page.get_by_role("textbox", name="Persona").input_value()
    assert persona.startswith("You are a patient teacher.")
    await expect(page.locator(COUNT)).to_have_text(
        f"{600 - len(persona)} of about 600 characters left"
    )
    await expect(example).to_have_attribute("aria-pressed", "true")
    await page.get_by_role("textbox", name="Persona").press("End")
    await page.keyboard.type("!")
    await expect(example).to_have_attribute("aria-pressed", "false")


def tone(seconds: float) -> bytes:
    """A WAV file of it."""
    wav = io.BytesIO()
    with wave.open(wav, "wb") as target:
        target.setparams((1, 2, 24_000, 0, "NONE", ""))
        at = np.arange(round(seconds * 24_000))
        target.writeframes((8_000 * np.sin(at / 20)).astype("<i2").tobytes())
    return wav.getvalue()


async def test_a_voice_can_be_listened_to_before_the_call(page: Page, server: FakeServer) -> None:
    server.info |= PERSONA_AGENT | {"voice_samples": ["NATM0", "NATF1"]}
    server.sample = tone(0.4)
    await open_page(page, server.url)
    listen, voice = page.locator("#listen"), page.get_by_label("Voice", exact=True)
    await expect(listen).to_have_accessible_name("Listen to NATM0")
    await listen.focus()
    await page.keyboard.press("Enter")
    await expect(listen).to_have_attribute("aria-pressed", "false")
    await expect(page.locator("#listen-result")).to_be_empty()

    server.sample = tone(30)
    await listen.click()
    await expect(listen).to_have_text("Stop")
    await voice.select_option("NATF0")
    await expect(listen).to_be_hidden()
    await voice.select_option("NATF1")
    await expect(listen).to_have_attribute("aria-pressed", "false")
    await listen.click()
    await expect(listen).to_have_attribute("aria-pressed", "true")
    await page.click(START)
    await reach(page, "live")
    await expect(listen).to_have_attribute("aria-pressed", "false")
    await expect(listen).to_be_disabled()
    await page.click(HANG_UP)
    server.info["voice_samples"] = []
    await listen.click()
    await expect(page.locator("#listen-result")).to_have_text("The sample could not be played.")


async def test_a_call_is_recorded_by_who_agreed_and_is_told(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await expect(page.locator("#consent-field")).to_be_hidden()
    server.info |= {"capabilities": {"recording": True}, "recording_days": 30}
    await open_page(page, server.url)
    consent = page.get_by_label("The server may record this call")
    await expect(consent).not_to_be_checked()
    await expect(consent).to_have_accessible_description(re.compile("deleted after 30 days"))
    await page.click(START)
    await reach(page, "live")
    await expect(consent).to_be_disabled()
    await expect(page.locator("#recorded")).to_be_hidden()
    await page.click(HANG_UP)
    await consent.check()
    await page.click(START)
    await reach(page, "live")
    server.send("notice", code="recording", message="This call is recorded, as you agreed.")
    await expect(page.locator("#recorded")).to_be_visible()
    await expect(page.locator("#announcement")).to_contain_text("recorded")
    await page.click(HANG_UP)
    await expect(page.locator("#recorded")).to_be_hidden()
    asked = [offer["request_data"] for offer in server.offers]
    assert asked == [{}, {}, {"recording_consent": True}]


async def test_only_examples_that_fit_are_offered(page: Page, server: FakeServer) -> None:
    server.info |= PERSONA_AGENT | {"persona_max_chars": 110}
    await open_page(page, server.url)
    await expect(page.locator("#personas button")).to_have_text(["Teacher"])


async def test_an_agent_that_knows_names_alone_is_offered_those(
    page: Page, server: FakeServer
) -> None:
    server.info |= PERSONA_AGENT | {"persona_names": ["Nova", "Ruby", "Max"]}
    await open_page(page, server.url)
    await expect(page.locator("#personas button")).to_have_text(["Nova", "Ruby", "Max"])
    await expect(page.locator("#persona-names")).to_contain_text("It goes by Nova, Ruby, Max.")
    persona = page.get_by_role("textbox", name="Persona")
    await expect(persona).to_have_attribute("placeholder", "Your name is Nova.")
    await page.get_by_role("button", name="Ruby").click()
    await page.click(START)
    await reach(page, "live")
    asked = [offer["request_data"] for offer in server.offers]
    assert asked[0]["persona"] == "Your name is Ruby."
    server.info["persona_names"] = []
    await open_page(page, server.url)
    await expect(page.locator("#persona-names")).to_be_hidden()


async def test_no_persona_is_offered_for_an_agent_that_follows_none(
    page: Page, server: FakeServer
) -> None:
    server.info |= PERSONA_AGENT | {"follows_persona": False}
    await go_live(page, server.url)
    await expect(page.locator("#voice-field")).to_be_visible()
    await expect(page.locator("#persona-field")).to_be_hidden()


async def test_too_long_a_persona_is_told_before_the_call(page: Page, server: FakeServer) -> None:
    server.info |= PERSONA_AGENT | {"persona_max_chars": 10}
    await open_page(page, server.url)
    await page.get_by_role("textbox", name="Persona").fill("x" * 12)
    await expect(page.locator(COUNT)).to_have_text("2 characters too many; about 10 fit")
    await expect(page.locator("#persona")).to_have_attribute("aria-invalid", "true")


async def test_voice_and_persona_are_locked_in_the_call_alone(
    page: Page, server: FakeServer
) -> None:
    server.info |= PERSONA_AGENT
    await go_live(page, server.url)
    await expect(page.get_by_label("Voice")).to_be_disabled()
    await expect(page.get_by_role("textbox", name="Persona")).to_be_disabled()
    await expect(page.locator("#setup-locked")).to_be_visible()
    await page.click(HANG_UP)
    await reach(page, "ended")
    await expect(page.get_by_label("Voice")).to_be_enabled()
    await expect(page.get_by_role("textbox", name="Persona")).to_be_enabled()


async def test_a_link_carries_the_settings_to_another_page(page: Page, server: FakeServer) -> None:
    server.info |= PERSONA_AGENT
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await open_page(page, f"{server.url}?from=here#key=secret")
    await page.get_by_label("Voice").select_option("NATF1")
    await page.get_by_role("textbox", name="Persona").fill("Zoë & co: 100 % café, 1+1=2\n#tag")
    await page.get_by_label("Show text as it is heard").uncheck()
    await page.click("#share")
    await expect(page.locator("#share-result")).to_contain_text("Copied")
    link = await page.evaluate("() => navigator.clipboard.readText()")
    assert "secret" not in link and "+" not in link and link.startswith(server.url)

    other = await page.context.new_page()
    await open_page(other, link)
    await expect(other.get_by_label("Voice")).to_have_value("NATF1")
    await expect(other.locator("#persona")).to_have_value("Zoë & co: 100 % café, 1+1=2\n#tag")
    await expect(other.get_by_label("Show text as it is heard")).not_to_be_checked()
    await other.close()


async def test_a_link_to_a_voice_that_is_gone_gets_the_default(
    page: Page, server: FakeServer
) -> None:
    server.info |= PERSONA_AGENT
    await open_page(page, f"{server.url}#voice=GONE&persona={'y' * 700}")
    await expect(page.get_by_label("Voice")).to_have_value("NATM0")
    await expect(page.locator("#persona")).to_have_value("y" * 600)


async def test_holding_mutes_for_as_long_as_it_is_held(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await page.clock.install()
    for press, release in (
        (lambda: page.keyboard.down("m"), lambda: page.keyboard.up("m")),
        (page.mouse.down, page.mouse.up),
    ):
        await page.hover(MUTE)
        await press()
        await expect(page.locator(MUTE)).to_have_attribute("aria-pressed", "true")
        await page.clock.run_for(1_000)
        await expect(page.locator(MUTE)).to_have_attribute("aria-pressed", "true")
        await release()
        await expect(page.locator(MUTE)).to_have_attribute("aria-pressed", "false")
        await expect(page.locator(STATE)).to_have_text("Live")


async def test_the_key_can_be_switched_off(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await page.get_by_label("The key M mutes").uncheck()
    await page.keyboard.press("m")
    await expect(page.locator(MUTE)).to_have_attribute("aria-pressed", "false")
    await page.get_by_label("The key M mutes").check()
    await page.keyboard.press("m")
    await expect(page.locator(MUTE)).to_have_attribute("aria-pressed", "true")


async def test_the_key_is_a_letter_in_a_field(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await page.focus("#microphone")
    await page.keyboard.press("m")
    await expect(page.locator(MUTE)).to_have_attribute("aria-pressed", "false")


async def test_the_loudspeaker_changes_within_the_call(page: Page, server: FakeServer) -> None:
    await go_live(page, server.url)
    await expect(page.get_by_label("Loudspeaker")).to_be_visible()
    count = await page.locator("#speaker option").count()
    await page.select_option("#speaker", index=count - 1)
    chosen = await page.locator("#speaker").input_value()
    await page.wait_for_function(
        "(id) => document.getElementById('remote').sinkId === id", arg=chosen
    )
    await reach(page, "live")
    assert len(server.offers) == 1


async def test_a_microphone_and_a_loudspeaker_of_different_devices_are_pointed_out(
    page: Page, server: FakeServer
) -> None:
    await page.add_init_script(
        """
        const device = (kind, deviceId, groupId, label) => ({ kind, deviceId, groupId, label });
        const list = navigator.mediaDevices.enumerateDevices.bind(navigator.mediaDevices);
        navigator.mediaDevices.enumerateDevices = async () => [
          ...(await list()).filter(({ kind }) => kind === "audioinput")
            .map(({ kind, deviceId, label }) => device(kind, deviceId, "usb", label)),
          device("audiooutput", "default", window.group ?? "laptop", window.label ?? "Speakers"),
          device("audiooutput", "other", window.other ?? "usb", "Speakers of the microphone"),
        ];"""
    )
    await go_live(page, server.url)
    await expect(page.locator("#mixed")).to_contain_text("different devices")
    for change in (
        "window.group = 'usb'",
        "window.group = 'x'; window.label = 'My headset'",
        # A sound system that groups nothing.
        "window.group = 'x'; window.label = 'Speakers'; window.other = 'y'",
    ):
        await page.evaluate(f"() => {{ {change}; }}")
        await page.evaluate(
            "() => document.getElementById('speaker').dispatchEvent(new Event('change'))"
        )
        await expect(page.locator("#mixed")).to_be_empty()
