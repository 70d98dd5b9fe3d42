"""The probe calls the agent as a telephone does."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtc_agent.client.sip_probe import SipProbeOrder, probe
from rtc_agent.errors import CallRefused, ServerUnreachable
from rtc_agent.telephony.config import DialRule
from tests.telephony.bench import phone_bench
from tests.telephony.test_real_scripts import echoed

pytestmark = [pytest.mark.telephony, pytest.mark.timeout(90)]


@pytest.mark.parametrize("codec", ["PCMU", "G722"])
async def test_a_probe_over_the_telephone_hears_its_echo(tmp_path: Path, codec: str) -> None:
    async with phone_bench(tmp_path) as bench:
        report = await probe(SipProbeOrder(bench.uri, seconds=5, codec=codec))
        await bench.free_again()
        record = await bench.record()
    fields = report.as_dict()
    assert report.ok, fields
    assert echoed(report.measured), fields
    assert (record["codec"], record["ended_by"], record["sip_code"]) == (codec, "phone", 200)


async def test_a_refused_probe_says_why(tmp_path: Path) -> None:
    async with phone_bench(tmp_path, dial_plan=[DialRule(number="nobody")]) as bench:
        with pytest.raises(CallRefused, match="404 Not Found"):
            await probe(SipProbeOrder(bench.uri, seconds=2))
        await bench.free_again()


async def test_nobody_at_the_address_is_said() -> None:
    from rtc_agent.client.sip_phone import SipPhone

    async with SipPhone("sip:agent@127.0.0.1:9") as phone:
        with pytest.raises(ServerUnreachable, match="did not answer"):
            await phone.connect(timeout_s=1)
