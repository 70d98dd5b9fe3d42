"""The set-up that is shipped for a trial: gateway, registrar, agent, and a softphone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.telephony.bench import phone_bench, until
from tests.telephony.gateway import TrialRegistrar
from tests.telephony.softphone import Softphone
from tests.telephony.test_real_scripts import chirps, echoed, live

pytestmark = [pytest.mark.telephony, pytest.mark.timeout(60)]


async def test_a_softphone_calls_the_agent_by_name_at_the_registrar(tmp_path: Path) -> None:
    registrar = TrialRegistrar(tmp_path)
    await registrar.start()
    try:
        async with phone_bench(
            tmp_path, wait_ready=False, proxy=f"sip:{registrar.address}"
        ) as bench:
            await until(lambda: bench.line.status().ready, 20)
            await asyncio.sleep(0.5)
            phone = Softphone(("G722", "PCMU"))
            try:
                refused = await phone.call(f"sip:nobody@{registrar.address}")
                assert refused.status == 404
                phone.request("ACK")
                assert (await phone.call(f"sip:agent@{registrar.address}")).status == 200
                await live(bench)
                assert echoed(await chirps(phone))
                assert (await phone.bye()).status == 200
            finally:
                phone.close()
            await bench.free_again()
    finally:
        await registrar.close()
