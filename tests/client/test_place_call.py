from __future__ import annotations

import json
import ssl
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web

from rtc_agent.client.place_call import CallOrder, place_call
from rtc_agent.errors import BadAudioFile, CallFailed, CallRefused, ServerUnreachable
from rtc_agent.media.ice import IceSettings
from rtc_agent.tls import make_self_signed
from tests.client.audio import best_match, load_wav, save_wav
from tests.client.audio import speech as spoken
from tests.client.reflector import LOOPBACK, Reflector, serving


def order(url: str, speech: Path, **changes: object) -> CallOrder:
    made = CallOrder(url=url, input=speech, output=speech.with_name("out.wav"), ice=LOOPBACK)
    return replace(made, **changes)  # type: ignore[arg-type]


async def test_the_recording_is_the_speech_at_one_steady_delay(speech_wav: Path) -> None:
    reflector = Reflector()
    async with serving(reflector) as url:
        report = await place_call(order(url, speech_wav))
    sent, heard = load_wav(speech_wav), load_wav(speech_wav.with_name("out.wav"))
    assert len(heard) == len(sent)
    match, delay = best_match(sent, heard)
    assert match >= 0.9
    half = len(sent) // 2
    early, late = best_match(sent[:half], heard[:half])[1], best_match(sent[half:], heard[half:])[1]
    assert abs(early - delay) <= 24 and abs(late - delay) <= 24
    # A packet, both codecs' delays, and whatever this machine's scheduling adds.
    assert 0.015 <= delay / 24_000 <= 0.4
    assert report.longest_gap_ms < 20
    assert (report.lost_packets, report.frames_back, report.ended) == (0, 0, "hangup")
    assert report.duration_s == pytest.approx(1.8)
    assert report.frames == round(1.8 / 0.08)
    assert 0 < report.connect_ms <= report.ready_ms
    assert report.reply_cut
    assert reflector.received[-1] == json.dumps({"type": "hangup"})


async def test_trailing_time_catches_the_end(speech_wav: Path) -> None:
    async with serving(Reflector()) as url:
        report = await place_call(order(url, speech_wav, trailing_s=1.0))
    sent, heard = load_wav(speech_wav), load_wav(speech_wav.with_name("out.wav"))
    assert len(heard) == len(sent) + 24_000
    _, delay = best_match(sent, heard)
    tail = heard[delay + len(sent) - 2_400 : delay + len(sent)]
    assert best_match(sent[-2_400:], tail)[0] > 0.9
    assert report.duration_s == pytest.approx(2.8)
    assert not report.reply_cut


async def test_leading_time_is_left_to_the_greeting(speech_wav: Path) -> None:
    async with serving(Reflector()) as url:
        report = await place_call(order(url, speech_wav, leading_s=0.5))
    sent, heard = load_wav(speech_wav), load_wav(speech_wav.with_name("out.wav"))
    assert len(heard) == len(sent) + 12_000 and report.duration_s == pytest.approx(2.3)
    # What is heard ends with the recording, and so before the file's own end.
    match, delay = best_match(sent[:24_000], heard)
    assert match >= 0.9 and 0.5 <= delay / 24_000 <= 0.9


async def test_the_file_starts_when_the_agent_is_ready_and_not_before(speech_wav: Path) -> None:
    async with serving(Reflector(ready_after_s=0.4)) as url:
        report = await place_call(order(url, speech_wav))
    sent, heard = load_wav(speech_wav), load_wav(speech_wav.with_name("out.wav"))
    assert report.ready_ms >= 400
    assert best_match(sent, heard)[0] >= 0.9


async def test_lost_packets_are_counted_and_leave_time_alone(speech_wav: Path) -> None:
    lost = {40, 60, 61, 80}
    reflector = Reflector()
    async with serving(reflector) as url:
        # The mirror's sender numbers packets anew, so that what it leaves out shows as pauses.
        reflector.keep = lambda count: count not in lost
        report = await place_call(order(url, speech_wav))
    sent, heard = load_wav(speech_wav), load_wav(speech_wav.with_name("out.wav"))
    half = len(sent) // 2
    early, late = best_match(sent[:half], heard[:half])[1], best_match(sent[half:], heard[half:])[1]
    assert abs(early - late) <= 24
    assert report.longest_gap_ms == pytest.approx(40, abs=1)


async def test_phone_codec(speech_wav: Path) -> None:
    async with serving(Reflector()) as url:
        await place_call(order(url, speech_wav, codec="PCMU"))
    assert best_match(load_wav(speech_wav), load_wav(speech_wav.with_name("out.wav")))[0] >= 0.9


async def test_any_rate_in(tmp_path: Path) -> None:
    speech = save_wav(tmp_path / "wide.wav", spoken(1.5, 44_100), 44_100)
    async with serving(Reflector()) as url:
        report = await place_call(order(url, speech))
    assert report.duration_s == pytest.approx(1.5, abs=0.001)
    assert best_match(spoken(1.5), load_wav(tmp_path / "out.wav"))[0] >= 0.8


async def test_transcript_holds_every_event_in_order(speech_wav: Path) -> None:
    say: list[dict[str, object]] = [
        {"type": "text", "seq": 1, "frame": 3, "t_ms": 240, "delta": "you spoke "},
        {"type": "text", "seq": 2, "frame": 9, "t_ms": 720, "delta": "for 1.8 s"},
    ]
    path = speech_wav.with_name("t.jsonl")
    async with serving(Reflector(say=say)) as url:
        report = await place_call(order(url, speech_wav, transcript=path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["type"] for line in lines] == ["ready", "text", "text"]
    assert [line["frame"] for line in lines] == [0, 3, 9]
    assert all("arrived_ms" in line for line in lines)
    assert report.text == "you spoke for 1.8 s"
    assert report.call_id == "c1"


async def test_frames_that_go_back_are_counted(speech_wav: Path) -> None:
    say: list[dict[str, object]] = [{"type": "text", "frame": f, "delta": "x"} for f in (5, 4, 6)]
    async with serving(Reflector(say=say)) as url:
        report = await place_call(order(url, speech_wav))
    assert report.frames_back == 1


async def test_a_call_that_the_server_ends_keeps_what_was_heard(speech_wav: Path) -> None:
    async with serving(Reflector(end_after_s=1.0)) as url:
        report = await place_call(order(url, speech_wav))
    assert report.ended == "call_limit" and not report.complete
    heard = load_wav(speech_wav.with_name("out.wav"))
    assert 0.8 < len(heard) / 24_000 < 1.8
    assert np.abs(heard).max() > 0.05


async def test_an_end_after_the_last_word_is_no_break(speech_wav: Path) -> None:
    async with serving(Reflector(end_after_s=2.3)) as url:
        report = await place_call(order(url, speech_wav))
    assert report.ended == "call_limit" and report.complete


async def test_a_server_that_is_gone_before_the_end_is_no_complete_call(speech_wav: Path) -> None:
    async with serving(Reflector(mute_after_s=1.0)) as url:
        report = await place_call(order(url, speech_wav))
    assert report.ended == "no_media" and not report.complete


async def test_a_server_that_falls_silent_is_noticed(
    speech_wav: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtc_agent.client.call_client.NO_MEDIA_S", 0.6)
    async with serving(Reflector(mute_after_s=0.5)) as url:
        report = await place_call(order(url, speech_wav))
    assert report.ended == "no_media"


async def test_a_machine_that_stood_still_is_no_silence(
    speech_wav: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtc_agent.client.call_client.NO_MEDIA_S", 1.0)

    def stand_still(count: int) -> bool:
        if count == 40:
            time.sleep(1.6)
        return True

    async with serving(Reflector(keep=stand_still)) as url:
        report = await place_call(order(url, speech_wav))
    assert report.ended == "hangup"


async def test_voice_and_persona_go_with_the_offer(speech_wav: Path) -> None:
    reflector = Reflector()
    async with serving(reflector) as url:
        await place_call(order(url, speech_wav, voice="NATF2", persona="You are kind."))
    assert reflector.offers[0]["request_data"] == {"voice": "NATF2", "persona": "You are kind."}
    assert reflector.offers[0]["pc_id"] is None


async def test_a_full_server_says_when_to_try_again(speech_wav: Path) -> None:
    body = {"error": {"code": "server_full", "message": "All 4 slots are taken."}}
    refusal = web.json_response(body, status=503, headers={"Retry-After": "7"})
    async with serving(Reflector(refuse=lambda: refusal)) as url:
        with pytest.raises(CallRefused, match=r"503.*All 4 slots are taken\. Try again in 7 s\."):
            await place_call(order(url, speech_wav))
    body["error"]["message"] = "Full. Try again in a few seconds."
    refusal = web.json_response(body, status=503, headers={"Retry-After": "7"})
    async with serving(Reflector(refuse=lambda: refusal)) as url:
        with pytest.raises(CallRefused, match=r": Full\. Try again in a few seconds\.$"):
            await place_call(order(url, speech_wav))


async def test_an_answer_that_is_none(speech_wav: Path) -> None:
    async with serving(Reflector(answer={"sdp": "v=0\r\nnonsense", "type": "answer"})) as url:
        with pytest.raises(CallRefused, match="cannot be used"):
            await place_call(order(url, speech_wav))
    async with serving(Reflector(answer={"type": "answer"})) as url:
        with pytest.raises(CallRefused, match="without a session description"):
            await place_call(order(url, speech_wav))
    async with serving(Reflector(answer="[" * 100_000)) as url:
        with pytest.raises(CallRefused, match="no JSON object"):
            await place_call(order(url, speech_wav))


async def test_no_server_and_no_address(speech_wav: Path) -> None:
    with pytest.raises(ServerUnreachable, match="No server answers"):
        await place_call(order("http://127.0.0.1:9", speech_wav))
    with pytest.raises(ServerUnreachable, match="is not an address"):
        await place_call(order("nowhere", speech_wav))


async def test_a_certificate_that_is_not_trusted_is_named_and_so_is_the_way_out(
    speech_wav: Path, tmp_path: Path
) -> None:
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    for file, content in zip(files, make_self_signed(["agent.example"], 2), strict=True):
        file.write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    async with serving(Reflector(), context) as url:
        with pytest.raises(ServerUnreachable, match="not trusted: self.signed.*SSL_CERT_FILE"):
            await place_call(order(url, speech_wav))
        with pytest.raises(ServerUnreachable, match="say https://"):
            await place_call(order(url.replace("https", "http"), speech_wav))


async def test_input_is_checked_before_the_call(tmp_path: Path) -> None:
    reflector = Reflector()
    (tmp_path / "x.wav").write_bytes(b"this is not audio")
    empty = save_wav(tmp_path / "empty.wav", np.zeros(0, np.float32))
    async with serving(reflector) as url:
        for path in (tmp_path / "none.wav", tmp_path / "x.wav", empty):
            with pytest.raises(BadAudioFile):
                await place_call(order(url, path))
    assert reflector.offers == []


async def test_output_is_checked_before_the_call(speech_wav: Path) -> None:
    reflector = Reflector()
    async with serving(reflector) as url:
        for output in (speech_wav.parent, speech_wav.parent / "none" / "out.wav"):
            with pytest.raises(BadAudioFile, match="cannot be written"):
                await place_call(order(url, speech_wav, output=output))
    assert not reflector.offers


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "", "http://", "ws://127.0.0.1:8080", "http://127.0.0.1:99999"]
)
async def test_what_is_no_address_is_said_to_be_none(url: str, speech_wav: Path) -> None:
    with pytest.raises(ServerUnreachable, match=r"expected http://HOST:PORT"):
        await place_call(order(url, speech_wav))


async def test_the_address_of_the_page_will_do(speech_wav: Path) -> None:
    reflector = Reflector()
    async with serving(reflector) as url:
        await place_call(order(f"{url}/?from=mail#top", speech_wav))


async def test_https_where_http_is_spoken_says_so(speech_wav: Path) -> None:
    async with serving(Reflector()) as url:
        with pytest.raises(ServerUnreachable, match=r"reached by http://"):
            await place_call(order(url.replace("http:", "https:"), speech_wav))


async def test_addresses_of_other_machines_are_named(speech_wav: Path) -> None:
    async with serving(Reflector()) as url:
        with pytest.raises(CallFailed, match=r"192\.0\.2\.7"):
            await place_call(order(url, speech_wav, ice=IceSettings(hosts=("192.0.2.7",))))


async def test_an_agent_that_never_gets_ready(
    speech_wav: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(Reflector(ready_after_s=30)) as url:
        from rtc_agent.client.call_client import CallClient
        from rtc_agent.client.offer import SmallWebRtcSignaling

        async with CallClient(SmallWebRtcSignaling(url), ice=LOOPBACK) as client:
            await client.connect()
            with pytest.raises(CallFailed, match="not ready within"):
                await client.wait_ready(0.3)
