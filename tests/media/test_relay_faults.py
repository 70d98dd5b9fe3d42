"""Each way in which a relay fails has its own words."""

from __future__ import annotations

import pytest
from aioice import stun

from rtc_agent.media.relay_faults import relay_fault


def refusal(code: int, words: str) -> stun.TransactionFailed:
    response = stun.Message(message_method=stun.Method.ALLOCATE, message_class=stun.Class.ERROR)
    response.attributes["ERROR-CODE"] = (code, words)
    return stun.TransactionFailed(response)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refusal(401, "Unauthorized"), "refused the credentials (401)"),
        (refusal(486, "Allocation Quota Reached"), "refused to relay (486 Allocation Quota"),
        (TimeoutError(), "did not answer within 3 s"),
        (stun.TransactionTimeout(), "did not answer within 3 s"),
        (ConnectionRefusedError(111, "Connection refused"), "reached: Connection refused"),
        (ValueError("odd"), "cannot be used: ValueError('odd')"),
    ],
)
def test_words(error: Exception, words: str) -> None:
    assert words in relay_fault(error, 3.0)
