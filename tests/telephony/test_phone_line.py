"""The line: registering, who gets which call, what is lost and comes back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rtc_agent.errors import (
    GatewayRefused,
    GatewayUnreachable,
    InvalidRequest,
    NumberNotAllowed,
    ServerFull,
    UnknownCall,
)
from rtc_agent.telephony.config import DialRule
from tests.telephony.fakes import SipPlugin, fake_bench


async def test_it_registers_once_and_lets_helpers_take_the_same_account(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, proxy="sip:10.0.0.1:5060", auth_user="u") as bench:
        first, *helpers = [r["body"] for r in bench.all("register")]
    assert first == {
        "request": "register",
        "username": "sip:agent@127.0.0.1",
        "secret": "secret",
        "authuser": "u",
        "proxy": "sip:10.0.0.1:5060",
        "register_ttl": 600,
    }
    assert len(helpers) == len(bench.handles) - 1
    assert {(h["type"], h["master_id"]) for h in helpers} == {("helper", 77)}


async def test_a_guest_has_no_password(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, registration="guest", password=None) as bench:
        body = bench.all("register")[0]["body"]
    assert body == {"request": "register", "username": "sip:agent@127.0.0.1", "type": "guest"}


async def test_a_refused_registration_is_told_and_tried_again(tmp_path: Path) -> None:
    plugin = SipPlugin(register="registration_failed")
    async with fake_bench(tmp_path, ready=False, plugin=plugin) as bench:
        await bench.asked("register", 3)
        status = bench.line.status()
        assert not status.ready
        assert "403 Forbidden; check account and password" in status.detail
        assert "secret" not in status.detail
        plugin.register = "registered"
        await bench.fake.wait_for(lambda: bench.line.status().ready)


async def test_a_registration_that_is_lost_later_is_made_again(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        before, handles = len(bench.all("register")), len(bench.handles)
        await bench.fake.sip(bench.handles[0], "registration_failed", code=408, reason="Timeout")
        await bench.asked("register", before + 1)
        await bench.fake.wait_for(lambda: bench.line.status().ready)
        assert len(bench.handles) == handles


async def test_the_dial_plan_chooses_and_an_unknown_number_is_nobody(tmp_path: Path) -> None:
    plan = [DialRule(number="+4930*", persona="Berlin"), DialRule(number="sales")]
    async with fake_bench(tmp_path, dial_plan=plan) as bench:
        await bench.incoming(called="+4930123")
        await bench.asked("accept")
        assert bench.agents.legs[0].rule.persona == "Berlin"
        await bench.incoming(1, "c2", called="nobody")
        assert (await bench.asked("decline"))["body"]["code"] == 404
    assert bench.agents.checked == plan


@pytest.mark.parametrize("code", [486, 503])
async def test_a_caller_too_many_gets_the_answer_of_the_settings(tmp_path: Path, code: int) -> None:
    async with fake_bench(tmp_path, full_code=code) as bench:
        for index in range(2):
            await bench.incoming(index, f"c{index}")
            await bench.asked("accept", index + 1)
        await bench.incoming(2, "c2")
        body = (await bench.asked("decline"))["body"]
        assert body["code"] == code
        assert ("Retry-After" in body.get("headers", {})) is (code == 503)
        assert len(bench.agents.legs) == 2


async def test_a_rule_can_have_fewer_calls_than_there_are_lines(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, dial_plan=[DialRule(max_calls=1)]) as bench:
        await bench.incoming(0, "c0")
        await bench.asked("accept")
        await bench.incoming(1, "c1")
        assert (await bench.asked("decline"))["body"]["code"] == 486


async def test_the_handle_is_reset_once_the_gateway_is_done_with_the_call(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await bench.incoming()
        await bench.asked("accept")
        await bench.fake.sip(handle, "hangup", "c1", code=200, reason="Session Terminated")
        assert (await bench.asked("reset"))["handle_id"] == handle
        assert bench.line.busy == 0
        await bench.incoming(0, "c2")
        await bench.asked("accept", 2)


async def test_a_lost_connection_costs_no_call_where_the_gateway_keeps_it(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        handle = await bench.incoming()
        await bench.asked("accept")
        registrations = len(bench.all("register"))
        await bench.fake.drop()
        await bench.asked("decline", len(bench.handles) - 1)
        assert bench.line.status().ready and bench.line.busy == 1
        assert any(r["janus"] == "claim" for r in bench.fake.requests)
        assert len(bench.all("register")) == registrations
        declined = {r["handle_id"] for r in bench.all("decline")}
        assert declined == set(bench.handles) - {handle}
        await bench.fake.sip(handle, "hangup", "c1", code=200, reason="")
        await bench.fake.wait_for(lambda: bench.line.busy == 0)


async def test_a_restarted_gateway_ends_its_calls_and_gets_the_line_back(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        await bench.incoming()
        await bench.asked("accept")
        registrations = len(bench.all("register"))
        await bench.fake.drop(forget=True)
        await bench.fake.wait_for(lambda: bench.line.busy == 0)
        await bench.asked("register", registrations + 4)
        await bench.fake.wait_for(lambda: bench.line.status().ready)
        await bench.incoming(0, "c2")
        await bench.asked("accept", 2)
    records = [json.loads(line) for line in (tmp_path / "cdr.jsonl").read_text().splitlines()]
    assert records[0]["reason"] == "gateway_lost" and records[0]["ended_by"] == "gateway"


async def test_a_handle_that_the_gateway_takes_away_starts_the_line_anew(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        old = bench.handles
        await bench.fake.say(janus="detached", session_id=1, sender=old[2])
        await bench.fake.wait_for(
            lambda: bench.line.status().ready and not set(old) & set(bench.handles)
        )


async def test_without_a_gateway_the_line_says_so(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, ready=False, janus="ws://127.0.0.1:9/") as bench:
        await asyncio.sleep(0.1)
        status = bench.line.status()
        assert not status.ready and "does not answer" in status.detail
        with pytest.raises(NumberNotAllowed):
            await bench.line.dial("sip:bob@example.org")


async def test_calling_out_is_for_the_addresses_of_the_settings(tmp_path: Path) -> None:
    async with fake_bench(tmp_path, outgoing=["sip:+49*@trunk", "sip:*@10.0.0.*"]) as bench:
        for uri in ("sip:+1@trunk", "sip:x@evil", "sip:x@10.0.0.9?Route=y"):
            with pytest.raises((NumberNotAllowed, InvalidRequest)):
                await bench.line.dial(uri)
        call = await bench.line.dial("sip:+4930@TRUNK")
        body = (await bench.asked("call"))["body"]
        assert body["uri"] == "sip:+4930@TRUNK"
        assert bench.line.get(call.id) is call
        await bench.line.dial("sip:x@10.0.0.9")
        with pytest.raises(ServerFull):
            await bench.line.dial("sip:y@10.0.0.9")
        call.hang_up()
        with pytest.raises(UnknownCall):
            bench.line.get(call.id)


async def test_a_call_that_the_gateway_refuses_is_an_error_and_holds_nothing(
    tmp_path: Path,
) -> None:
    plugin = SipPlugin(refusals={"call": "Invalid user address sip:bob@example.org\n"})
    async with fake_bench(tmp_path, outgoing=["*"], plugin=plugin) as bench:
        with pytest.raises(GatewayRefused, match=r"Invalid user address that address\.$"):
            await bench.line.dial("sip:bob@example.org")
        assert bench.line.busy == 0
        assert bench.agents.legs[0].reason is not None


async def test_numbers_are_in_no_log_line_of_the_default_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="rtc_agent"):
        async with fake_bench(tmp_path) as bench:
            handle = await bench.incoming()
            await bench.asked("accept")
            await bench.fake.sip(handle, "hangup", "c1", code=200, reason="")
            await bench.asked("reset")
    assert "telephone call" in caplog.text
    assert "bob" not in caplog.text and "example" not in caplog.text
    record = json.loads((tmp_path / "cdr.jsonl").read_text())
    assert record["caller"] == "sip:bob@example.org"


async def test_stopping_hangs_up_and_gives_the_session_back(tmp_path: Path) -> None:
    async with fake_bench(tmp_path) as bench:
        await bench.incoming()
        await bench.asked("accept")
        await bench.line.aclose()
        assert bench.all("hangup")
        assert bench.fake.requests[-1]["janus"] == "destroy"
        with pytest.raises((GatewayUnreachable, NumberNotAllowed)):
            await bench.line.dial("sip:bob@example.org")
