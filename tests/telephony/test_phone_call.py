"""One telephone call, event by event: whatever comes first ends it, once, on both sides."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rtc_agent.call.state import EndReason
from rtc_agent.errors import (
    CallConflict,
    EngineFailed,
    InvalidRequest,
    RtcAgentError,
    ServerFull,
    UnsupportedOffer,
)
from tests.telephony.fakes import ANSWER, FakeBench, SipPlugin, fake_bench


async def talking(bench: FakeBench) -> int:
    handle = await bench.incoming()
    await bench.asked("accept")
    await bench.fake.wait_for(lambda: bench.agents.legs[0].started)
    return handle


def record(folder: Path) -> dict[str, Any]:
    (line,) = (folder / "cdr.jsonl").read_text().splitlines()
    loaded: dict[str, Any] = json.loads(line)
    return loaded


async def test_an_answered_call_is_accepted_with_the_legs_answer(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)
        request = await bench.asked("accept")
        assert request["handle_id"] == handle
        assert request["jsep"] == {"type": "answer", "sdp": ANSWER, "trickle": False}
        assert request["body"]["autoaccept_reinvites"] is False
        await bench.fake.sip(handle, "hangup", "c1", code=200, reason="to BYE")
        await bench.asked("reset")
        assert bench.agents.legs[0].reason is EndReason.PEER_CLOSED
        assert not bench.all("hangup") and not bench.all("decline")
    kept = record(tmp_path)
    assert (kept["ended_by"], kept["sip_code"], kept["reason"]) == ("phone", 200, "hangup")
    assert kept["codec"] == "PCMU" and kept["answered"] and kept["talk_s"] >= 0


async def test_it_rings_until_the_agent_is_ready(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        bench.agents.ready = False
        await bench.incoming()
        await bench.fake.wait_for(lambda: bool(bench.agents.legs))
        await asyncio.sleep(0.1)
        assert not bench.all("accept")
        bench.agents.legs[0].ready.set()
        await bench.asked("accept")


async def test_an_agent_that_is_never_ready_is_unavailable(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, agent_limit_s=0.1) as bench:
        bench.agents.ready = False
        await bench.incoming()
        assert (await bench.asked("decline"))["body"]["code"] == 480
        assert bench.agents.legs[0].ended


async def test_no_answer_comes_before_the_gateway_can_take_it(tmp_path: Path) -> None:
    """It tells of a call before its own SIP handle is set, and loses what comes at once."""
    async with fake_bench(tmp_path) as bench:
        for count, refuse in enumerate((None, ServerFull("full")), 1):
            bench.agents.refuse = refuse
            before_s = asyncio.get_running_loop().time()
            await bench.incoming(count - 1, f"c{count}")
            await bench.asked("decline" if refuse else "accept")
            assert asyncio.get_running_loop().time() - before_s >= 0.09


async def test_a_cancelled_call_is_not_accepted_and_holds_nothing(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        bench.agents.ready = False
        handle = await bench.incoming()
        await bench.fake.wait_for(lambda: bool(bench.agents.legs))
        await bench.fake.sip(handle, "hangup", "c1", code=487, reason="Request Cancelled")
        await bench.asked("reset")
        await asyncio.sleep(0.05)
        assert bench.agents.legs[0].ended
        assert not bench.all("accept") and not bench.all("decline")
    assert record(tmp_path)["reason"] == "cancelled"


async def test_a_call_given_up_while_it_is_accepted_is_hung_up_not_declined(
    tmp_path: Path,
) -> None:
    async with fake_bench(tmp_path) as bench:
        bench.plugin.silent.add("accept")
        await bench.incoming()
        await bench.asked("accept")
        bench.agents.legs[0].end(EndReason.AGENT_FAILED)
        await bench.asked("hangup")
        assert not bench.all("decline")


async def test_a_call_cancelled_before_its_leg_is_there_ends_the_leg(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await bench.incoming()
        await bench.fake.sip(handle, "hangup", "c1", code=487, reason="")
        await bench.fake.wait_for(lambda: bool(bench.agents.legs) and bench.agents.legs[0].ended)
        assert bench.line.busy == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ServerFull("full"), 486),
        (EngineFailed("broken"), 503),
        (UnsupportedOffer("no codec"), 488),
    ],
)
async def test_each_refusal_has_its_own_sip_answer(
    tmp_path: Path, error: RtcAgentError, code: int
) -> None:
    async with fake_bench(tmp_path) as bench:
        bench.agents.refuse = error
        await bench.incoming()
        assert (await bench.asked("decline"))["body"]["code"] == code
    assert record(tmp_path)["sip_code"] == code


@pytest.mark.parametrize(
    ("reason", "code"),
    [(EndReason.AGENT_FAILED, 500), (EndReason.SERVER_STOPPING, 503), (EndReason.IDLE, 480)],
)
async def test_an_agent_that_fails_while_it_rings_declines(
    tmp_path: Path, reason: EndReason, code: int
) -> None:
    async with fake_bench(tmp_path) as bench:
        bench.agents.ready = False
        await bench.incoming()
        await bench.fake.wait_for(lambda: bool(bench.agents.legs))
        bench.agents.legs[0].end(reason)
        assert (await bench.asked("decline"))["body"]["code"] == code


async def test_the_agents_end_hangs_up_with_its_reason(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        await talking(bench)
        bench.agents.legs[0].end(EndReason.CALL_LIMIT)
        await bench.asked("hangup")
    kept = record(tmp_path)
    assert (kept["ended_by"], kept["reason"], kept["sip_code"]) == ("agent", "call_limit", 200)


async def test_keys_by_info_and_within_audio_count_once(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)
        leg = bench.agents.legs[0]
        leg.owner.on_key("5")
        for key in ("5", "7"):
            await bench.fake.sip(
                handle,
                "info",
                "c1",
                type="application/dtmf-relay",
                content=f"Signal={key}\r\nDuration=160",
            )
        await bench.fake.sip(handle, "dtmf", "c1", signal="7", duration=160)
        await bench.fake.sip(handle, "dtmf", "c1", signal="nonsense")
        await bench.fake.wait_for(lambda: len(leg.keys) >= 2)
        await asyncio.sleep(0.05)
        assert leg.keys == ["5", "7"]


async def test_hold_and_resume_are_answered_and_told(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)
        for count, (direction, answer) in enumerate(
            [("sendonly", "recvonly"), ("sendonly", "recvonly"), ("sendrecv", "sendrecv")], 1
        ):
            offer = {"type": "offer", "sdp": ANSWER.replace("sendrecv", direction)}
            await bench.fake.sip(handle, "updatingcall", "c1", jsep=offer)
            jsep = (await bench.asked("update", count))["jsep"]
            assert jsep["type"] == "answer" and f"a={answer}" in jsep["sdp"]
            assert f"o=- 1 {1 + count} " in jsep["sdp"]
        await bench.fake.wait_for(lambda: len(bench.agents.legs[0].holds) == 2)
        assert bench.agents.legs[0].holds == [True, False]


async def test_a_reinvite_without_an_offer_gets_one(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)
        await bench.fake.sip(handle, "updatingcall", "c1", jsep=None)
        assert (await bench.asked("update"))["jsep"]["type"] == "offer"
        answer = {"type": "answer", "sdp": ANSWER.replace("sendrecv", "sendonly")}
        await bench.fake.sip(handle, "accepted", "c1", jsep=answer)


async def test_a_reinvite_without_our_codec_ends_the_call(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)
        offer = {"type": "offer", "sdp": ANSWER.replace("SAVPF 0", "SAVPF 8")}
        await bench.fake.sip(handle, "updatingcall", "c1", jsep=offer)
        await bench.asked("hangup")
    assert record(tmp_path)["reason"] == "unsupported_update"


async def test_an_invite_without_an_offer_gets_one_and_starts_with_the_answer(
    tmp_path: Path,
) -> None:
    async with fake_bench(tmp_path) as bench:
        bench.plugin.silent.add("accept")
        handle = await bench.incoming(jsep=None)
        request = await bench.asked("accept")
        assert request["jsep"]["type"] == "offer"
        await bench.fake._event(
            handle, request["transaction"], {"result": {"event": "accepting"}}, None
        )
        await asyncio.sleep(0.05)
        leg = bench.agents.legs[0]
        assert not leg.started
        await bench.fake.sip(handle, "accepted", "c1", jsep={"type": "answer", "sdp": "v=0 answer"})
        await bench.fake.wait_for(lambda: leg.started)
        assert leg.accepted == ["v=0 answer"]


async def test_an_outgoing_call_starts_the_agent_only_when_somebody_answers(
    tmp_path: Path,
) -> None:
    async with fake_bench(tmp_path, outgoing=["*"]) as bench:
        call = await bench.line.dial("sip:bob@example.org")
        request = await bench.asked("call")
        handle, call_id = request["handle_id"], request["body"]["call_id"]
        early = {"type": "answer", "sdp": "v=0 early"}
        await bench.fake.sip(handle, "ringing", call_id)
        await bench.fake.sip(handle, "progress", call_id, jsep=early)
        leg = bench.agents.legs[0]
        await bench.fake.wait_for(lambda: leg.accepted == ["v=0 early"])
        assert not leg.started and call.state == "ringing"
        await bench.fake.sip(handle, "accepted", call_id)
        await bench.fake.wait_for(lambda: leg.started)
        assert call.state == "talking"


@pytest.mark.parametrize(
    ("code", "reason"), [(404, "unknown_number"), (480, "unavailable"), (486, "busy")]
)
async def test_nobody_answers_an_outgoing_call(tmp_path: Path, code: int, reason: str) -> None:
    async with fake_bench(tmp_path, outgoing=["*"]) as bench:
        await bench.line.dial("sip:bob@example.org")
        request = await bench.asked("call")
        await bench.fake.sip(
            request["handle_id"], "hangup", request["body"]["call_id"], code=code, reason="x"
        )
        await bench.asked("reset")
        assert bench.agents.legs[0].ended
    kept = record(tmp_path)
    assert (kept["sip_code"], kept["reason"], kept["answered"]) == (code, reason, None)


async def test_ringing_ends_after_its_limit(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, outgoing=["*"], ring_limit_s=0.1) as bench:
        await bench.line.dial("sip:bob@example.org")
        await bench.asked("hangup")
    assert record(tmp_path)["reason"] == "not_answered"


async def test_an_outgoing_call_given_up_before_it_is_made_never_rings(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, outgoing=["*"]) as bench:
        dialling = asyncio.ensure_future(bench.line.dial("sip:bob@example.org"))
        await asyncio.sleep(0)
        (call,) = bench.line
        call.hang_up()
        with pytest.raises(CallConflict):
            await dialling
        await asyncio.sleep(0.05)
        assert not bench.all("call")
        assert bench.agents.legs[0].ended and bench.line.busy == 0


async def test_an_outgoing_call_without_an_agent_never_rings(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, outgoing=["*"]) as bench:
        bench.agents.refuse = ServerFull("full")
        with pytest.raises(ServerFull):
            await bench.line.dial("sip:bob@example.org")
        await asyncio.sleep(0.05)
        assert not bench.all("call") and not bench.all("hangup")


async def test_a_connection_that_fails_is_the_gateways_ending(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        await talking(bench)
        bench.agents.legs[0].end(EndReason.CONNECTION_FAILED)
        await bench.asked("hangup")
    assert record(tmp_path)["ended_by"] == "gateway"


async def test_events_of_another_call_are_not_ours(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)
        await bench.fake.sip(handle, "hangup", "another", code=200, reason="")
        await asyncio.sleep(0.05)
        assert bench.line.busy == 1


async def test_a_transfer_ends_the_call_once_the_other_side_has_answered(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)
        (call,) = bench.line
        await call.transfer("sip:human@example.org")
        assert (await bench.asked("transfer"))["body"]["uri"] == "sip:human@example.org"
        for content in ("SIP/2.0 100 Trying", "SIP/2.0 200 OK"):
            assert not bench.all("hangup")
            fields = {"content-type": "message/sipfrag", "content": content}
            await bench.fake.sip(handle, "notify", "c1", **fields)
        await bench.asked("hangup")
    assert record(tmp_path)["reason"] == "transferred"


async def test_a_telephone_cannot_send_the_agent_elsewhere(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)
        await bench.fake.sip(handle, "transfer", "c1", refer_id=9, refer_to="sip:x@y")
        body = (await bench.asked("decline"))["body"]
        assert body == {"request": "decline", "refer_id": 9, "code": 603}
        assert bench.line.busy == 1


async def test_candidates_that_come_before_the_call_wait_for_it(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = bench.handles[0]
        trickle = {"janus": "trickle", "sender": handle}
        await bench.fake.say(**trickle, candidate={"candidate": "one", "sdpMid": "0"})
        await bench.incoming()
        await bench.fake.say(**trickle, candidate={"candidate": "two", "sdpMid": "0"})
        await bench.fake.wait_for(
            lambda: bool(bench.agents.legs) and len(bench.agents.legs[0].candidates) == 2
        )
        assert bench.agents.legs[0].candidates == ["one", "two"]


async def test_our_own_hold_and_keys_are_requests(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        await talking(bench)
        (call,) = bench.line
        await call.hold()
        await call.resume()
        await call.send_key("#")
        assert (await bench.asked("dtmf_info"))["body"]["digit"] == "#"
        assert bench.agents.legs[0].holds == [True, False]
        with pytest.raises(ValueError):
            await call.send_key("12")


async def test_a_call_that_rings_cannot_be_held(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, outgoing=["*"]) as bench:
        call = await bench.line.dial("sip:bob@example.org")
        for work in (call.hold(), call.resume(), call.send_key("1"), call.transfer("sip:x@y")):
            with pytest.raises(CallConflict, match="ringing"):
                await work


async def test_a_candidate_of_no_use_ends_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await talking(bench)

        async def refuse(*_: object) -> None:
            raise InvalidRequest("no candidate")

        monkeypatch.setattr(bench.agents.legs[0], "add_candidate", refuse)
        await bench.fake.say(janus="trickle", sender=handle, candidate={"candidate": "x"})
        await asyncio.sleep(0.05)
        assert bench.line.busy == 1


async def test_a_gateway_that_does_not_accept_ends_the_call(tmp_path: Path) -> None:
    plugin = SipPlugin(refusals={"accept": "Wrong state"})
    async with fake_bench(tmp_path, plugin=plugin) as bench:
        await bench.incoming()
        await bench.asked("decline")
        assert bench.agents.legs[0].ended
