"""What telephones and networks do to a bridge, played through the real gateway."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rtc_agent.client.chirps import ProbeSignal
from rtc_agent.client.figures import percentiles
from rtc_agent.client.measurement import Measurement, measure, payloads
from rtc_agent.client.sources import PayloadSource
from rtc_agent.engine.stepper import SAMPLE_RATE
from rtc_agent.media.codecs import encoder_for
from rtc_agent.telephony.config import DialRule
from tests.telephony.bench import Bench, phone_bench, until
from tests.telephony.softphone import SipMessage, Softphone

pytestmark = [pytest.mark.telephony, pytest.mark.timeout(90)]


@contextlib.contextmanager
def softphone(*codecs: str) -> Iterator[Softphone]:
    phone = Softphone(codecs or ("PCMU",))
    try:
        yield phone
    finally:
        phone.close()


async def chirps(phone: Softphone, seconds: float = 4.0) -> Measurement:
    """Say chirps and find them in what comes back. The work of it is kept off the event loop, which
    the server under test shares."""
    signal = ProbeSignal(SAMPLE_RATE)
    said = await asyncio.to_thread(payloads, signal, seconds, encoder_for(phone.codec))
    origin_s = phone.play(PayloadSource(said))
    async with asyncio.timeout(seconds + 5):
        await phone.said.wait()
    await asyncio.sleep(1.0)
    return await asyncio.to_thread(
        measure,
        phone,  # type: ignore[arg-type]
        signal,
        origin_s,
        seconds,
        trailing_s=1.0,
    )


def echoed(measured: Measurement) -> bool:
    """Whether audio goes both ways. A stalled machine costs chirps, and none is found by chance: a
    third of them is proof. How well it goes is the soak tests' matter."""
    return len(measured.delays_ms) >= len(measured.chirps) / 3


async def live(bench: Bench) -> None:
    await until(lambda: any(call.state == "live" for call in bench.registry))


@pytest.mark.parametrize("codec", ["PCMU", "PCMA", "G722", "opus"])
async def test_each_codec_carries_the_echo(tmp_path: Path, codec: str) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone(codec) as phone:
            assert (await phone.call(bench.uri)).status == 200
            await live(bench)
            measured = await chirps(phone)
            assert echoed(measured), percentiles(measured.delays_ms)
            assert (await phone.bye()).status == 200
        assert (await bench.record())["codec"] == codec
        await bench.free_again()


async def test_the_best_codec_of_many_is_taken(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone("PCMU", "PCMA", "opus", "G722") as phone:
            await phone.call(bench.uri)
            assert phone.codec.name == "G722"
            await live(bench)
            assert echoed(await chirps(phone))
            await phone.bye()


async def test_hold_then_resume_brings_audio_back_both_ways(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await live(bench)
            for direction in ("sendonly", "inactive"):
                assert (await phone.reinvite(direction)).status == 200
                await until(lambda: bench.calls[0].state == "held")
                await asyncio.sleep(0.5)
                before = len(phone.arrivals_ns)
                await asyncio.sleep(2)
                assert len(phone.arrivals_ns) == before
                assert (await phone.reinvite("sendrecv")).status == 200
                await until(lambda: bench.calls[0].state == "talking")
                assert echoed(await chirps(phone))
            await phone.bye()
        assert (await bench.record())["holds"] == 2


async def test_an_old_style_hold_and_a_new_address_cost_no_call(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, vanished_s=4) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await live(bench)
            assert (await phone.reinvite("sendrecv", address="0.0.0.0")).status == 200
            await asyncio.sleep(5)
            assert (await phone.reinvite("sendrecv", address="127.0.0.1")).status == 200
            assert echoed(await chirps(phone))
            await phone.bye()


async def test_keys_by_rtp_and_info_are_each_one_event(tmp_path: Path) -> None:
    keys: list[str] = []
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await live(bench)
            (call,) = bench.registry
            press = call.press
            call.press = lambda key: (keys.append(key), press(key))[1]  # type: ignore[method-assign]
            for key in "55*":
                phone.press(key)
                await asyncio.sleep(0.4)
            for key in "0#":
                assert (await phone.press_info(key)).status == 200
            await until(lambda: len(keys) == 5)
            assert echoed(await chirps(phone))
            await bench.calls[0].send_key("7")
            info = await phone.wait(lambda m: m.method == "INFO" and not m.status)
            assert "Signal=7" in info.body
            await phone.bye()
        assert "".join(keys) == "55*0#"
        assert (await bench.record())["keys"] == 5


async def test_an_offerless_invite_is_offered_and_talked_over(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone("PCMU", "G722") as phone:
            assert (await phone.call(bench.uri, sdp=False)).status == 200
            await live(bench)
            assert echoed(await chirps(phone))
            await phone.bye()


async def test_a_retransmitted_invite_is_one_call(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, prepare_s=0.6) as bench:
        with softphone() as phone:
            phone.invite(bench.uri)
            for _ in range(4):
                phone.repeat_invite()
                await asyncio.sleep(0.1)
            phone.establish(await phone.response("INVITE"))
            await live(bench)
            assert len(bench.calls) == len(bench.registry) == 1
            await phone.bye()
        await bench.record()


async def test_a_lost_200_comes_again(tmp_path: Path) -> None:
    lost: list[SipMessage] = []

    def lose(message: SipMessage) -> bool:
        if message.status == 200 and message.method == "INVITE" and len(lost) < 2:
            lost.append(message)
            return True
        return False

    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            phone.lose = lose
            assert (await phone.call(bench.uri)).status == 200
            assert len(lost) == 2
            await live(bench)
            assert echoed(await chirps(phone))
            await phone.bye()


async def test_a_call_cancelled_while_it_rings_leaves_nothing(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, prepare_s=3) as bench:
        for _ in range(3):
            with softphone() as phone:
                phone.invite(bench.uri)
                await phone.wait(lambda m: m.status == 180)
                phone.request("CANCEL")
                assert (await phone.response("INVITE")).status == 487
                phone.request("ACK")
            await bench.free_again()
        assert [r["reason"] for r in bench.records()] == ["cancelled"] * 3


async def test_a_bye_while_it_rings_leaves_nothing(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, prepare_s=3) as bench:
        with softphone() as phone:
            phone.invite(bench.uri)
            ringing = await phone.wait(lambda m: m.status == 180)
            phone.adopt(ringing)
            await phone.bye()
        await bench.free_again()
        with softphone() as phone:
            assert (await phone.call(bench.uri)).status == 200
            await phone.bye()


async def test_refusals_have_their_own_codes(tmp_path: Path) -> None:
    plan = [DialRule(number="agent", max_calls=1)]
    async with phone_bench(tmp_path, dial_plan=plan, lines=2) as bench:
        with softphone() as first, softphone() as second, softphone() as third:
            assert (await first.call(bench.uri, user="nobody")).status == 404
            first.request("ACK")
            assert (await second.call(bench.uri)).status == 200
            assert (await third.call(bench.uri)).status == 486
            await second.bye()


async def test_no_refusal_is_lost_however_soon_it_comes(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, dial_plan=[DialRule(number="nobody")]) as bench:
        for _ in range(12):
            with softphone() as phone:
                assert (await phone.call(bench.uri)).status == 404
                phone.request("ACK")


async def test_full_is_503_where_the_settings_say_so(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, sessions=1, full_code=503) as bench:
        with softphone() as first, softphone() as second:
            assert (await first.call(bench.uri)).status == 200
            refused = await second.call(bench.uri)
            assert refused.status == 503 and refused.header("Retry-After")
            await first.bye()
        await bench.free_again()
        with softphone() as third:
            assert (await third.call(bench.uri)).status == 200
            await third.bye()


async def test_an_agent_that_is_not_ready_in_time_is_unavailable(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, prepare_s=5, agent_limit_s=0.5) as bench:
        with softphone() as phone:
            assert (await phone.call(bench.uri)).status == 480


@pytest.mark.parametrize(
    ("code", "reason"), [(404, "unknown_number"), (480, "unavailable"), (486, "busy")]
)
async def test_a_called_party_that_refuses_is_recorded(
    tmp_path: Path, code: int, reason: str
) -> None:
    async with phone_bench(tmp_path, outgoing=["sip:*"]) as bench:
        with softphone() as phone:
            phone.answer_invites = code
            await bench.line.dial(phone.uri)
            record = await bench.record()
        assert (record["sip_code"], record["reason"]) == (code, reason)
        await bench.free_again()


async def test_a_called_party_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, outgoing=["sip:*"], ring_limit_s=1) as bench:
        with softphone() as phone:
            phone.answer_invites = 180
            call = await bench.line.dial(phone.uri)
            await phone.wait(lambda m: m.method == "CANCEL")
            assert call.record.reason == "not_answered"
        await bench.free_again()


async def test_a_killed_gateway_costs_its_calls_and_comes_back(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await live(bench)
            await bench.janus.kill()
            await until(lambda: not bench.line.status().ready)
            assert "gateway" in bench.line.status().detail
            registrations = bench.registrar.registrations
            await bench.janus.start()
            await until(lambda: bench.registrar.registrations > registrations, 15)
            await bench.ready()
        await bench.free_again()
        assert (await bench.record())["reason"] in ("gateway_lost", "connection_failed")
        with softphone() as phone:
            assert (await phone.call(bench.uri)).status == 200
            await live(bench)
            assert echoed(await chirps(phone))
            await phone.bye()


async def test_a_lost_socket_leaves_the_call_alone(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await live(bench)
            socket = bench.line._session._socket
            assert socket is not None
            saying = asyncio.ensure_future(chirps(phone))
            await asyncio.sleep(1)
            await socket.close()
            assert echoed(await saying)
            await bench.ready()
            assert bench.calls[0].state == "talking"
            await phone.bye()
        assert (await bench.record())["ended_by"] == "phone"


async def test_a_wrong_password_is_said_and_mended_without_a_restart(tmp_path: Path) -> None:
    async with phone_bench(
        tmp_path, registrar_password="right", password="wrong", wait_ready=False
    ) as bench:
        await until(lambda: "password" in bench.line.status().detail, 20)
        assert not bench.line.status().ready
        bench.registrar.password = "wrong"
        await bench.ready()


async def test_a_session_refresh_is_answered_with_the_same_description(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            phone.session_expires = "90;refresher=uac"
            answer = await phone.call(bench.uri)
            await live(bench)
            again = await phone.reinvite()
            assert again.status == 200
            media = [line for line in answer.body.splitlines() if line.startswith(("m=", "c="))]
            assert media == [
                line for line in again.body.splitlines() if line.startswith(("m=", "c="))
            ]
            phone.request("UPDATE")
            assert (await phone.response("UPDATE")).status == 200
            assert echoed(await chirps(phone))
            assert bench.calls[0].state == "talking"
            await phone.bye()


async def test_audio_goes_to_the_telephone_at_once_and_evenly(tmp_path: Path) -> None:
    """Packets of 160 bytes, a timestamp step each, none missing; the pace is the soak test's."""
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await until(lambda: len(phone.log) > 100)
            packets = phone.log.in_order()
            assert {len(p.payload) for p in packets} == {160}
            assert set(np.diff([p.sequence for p in packets])) == {1}
            await phone.bye()


async def test_a_transfer_ends_with_the_answer_of_the_other_side(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await live(bench)
            await bench.calls[0].transfer("sip:human@127.0.0.1:5099")
            refer = await phone.wait(lambda m: m.method == "REFER" and not m.status)
            assert "sip:human@127.0.0.1:5099" in refer.header("Refer-To")
            phone.notify("SIP/2.0 100 Trying")
            await asyncio.sleep(0.5)
            assert bench.calls[0].state == "talking"
            phone.notify("SIP/2.0 200 OK", last=True)
            await phone.wait(lambda m: m.method == "BYE" and not m.status)
        assert (await bench.record())["reason"] == "transferred"
        await bench.free_again()


async def test_a_stopping_server_hangs_up(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await live(bench)
            await bench.registry.aclose(5)
            await phone.wait(lambda m: m.method == "BYE" and not m.status, 3)
            with softphone() as second:
                assert (await second.call(bench.uri)).status == 503
        assert bench.records()[0]["reason"] == "server_stopping"


async def test_a_telephone_that_suppresses_silence_is_not_given_up(tmp_path: Path) -> None:
    async with phone_bench(tmp_path) as bench:
        with softphone() as phone:
            await phone.call(bench.uri)
            await live(bench)
            phone.suppressed = True
            # A caller from whom nothing at all comes is given up after eight seconds.
            await asyncio.sleep(10)
            assert bench.calls[0].state == "talking"
            phone.suppressed = False
            assert echoed(await chirps(phone))
            await phone.bye()
        assert (await bench.record())["ended_by"] == "phone"
