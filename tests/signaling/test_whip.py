"""The WHIP and WHEP routes, by the letter of RFC 9725 where it has one."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from rtc_agent.call.state import CallState
from rtc_agent.engine.stepper import SessionSpec
from rtc_agent.protocol.sdp import Flow
from rtc_agent.protocol.whip import parse_fragment
from signaling.parts import Access
from tests.engine.fakes import FakeStepper
from tests.signaling.site import ANSWER, LISTEN_TOKEN, OFFER, Site, StartClient, serving

SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}
TRICKLE = (
    "a=ice-ufrag:EsAw\r\na=ice-pwd:p\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\n"
    "a=candidate:1 1 udp 1 192.0.2.1 9 typ host\r\na=candidate:garbage\r\na=end-of-candidates\r\n"
)
BEARER = {"Authorization": f"Bearer {LISTEN_TOKEN}"}


async def publish(it: Site, path: str = "/whip") -> aiohttp.ClientResponse:
    response = await it.client.post(path, data=OFFER, headers=SDP)
    assert response.status == 201
    return response


async def test_a_post_makes_a_call_and_says_all_that_the_rfc_wants(
    aiohttp_client: StartClient,
) -> None:
    stepper = FakeStepper()
    async with serving(aiohttp_client, stepper=stepper) as it:
        response = await publish(it, "/whip?voice=NATF2&persona=Be%20kind.")
        assert response.content_type == "application/sdp"
        assert await response.text() == ANSWER
        assert response.headers["Location"].startswith("/whip/")
        assert len(response.headers["Location"]) > 20
        assert response.headers["ETag"].startswith('"')
        assert response.headers["Link"] == (
            '<turn:turn.example?transport=udp>; rel="ice-server"; username="u"; credential="c"; '
            'credential-type="password"'
        )
        assert it.transports[0].flow is Flow.CALL_OR_INGEST
        await it.bench.run(0.1)
        assert stepper.specs == [SessionSpec(voice="NATF2", persona="Be kind.")]


async def test_the_strict_switch_takes_sound_and_gives_none(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, access=Access(whip_strict=True)) as it:
        await publish(it)
        assert it.transports[0].flow is Flow.INGEST


async def test_candidates_trickle_under_the_sessions_tag(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        made = await publish(it)
        url, tag = made.headers["Location"], made.headers["ETag"]

        async def patch(body: str, headers: dict[str, str]) -> int:
            return (await it.client.patch(url, data=body, headers=FRAGMENT | headers)).status

        assert await patch(TRICKLE, {}) == 428
        assert await patch(TRICKLE, {"If-Match": '"another"'}) == 412
        assert it.transports[0].candidates == []
        response = await it.client.patch(url, data=TRICKLE, headers=FRAGMENT | {"If-Match": tag})
        assert response.status == 204
        assert "ETag" not in response.headers and not await response.read()
        assert it.transports[0].candidates == [
            ("1 1 udp 1 192.0.2.1 9 typ host", "0"),
            (None, None),
        ]
        assert (await it.client.patch(url, data=TRICKLE, headers=SDP)).status == 415
        assert await patch("hello", {"If-Match": tag}) == 400
        assert (await it.client.get(url)).status == 204, "the session goes on"


async def test_new_credentials_restart_the_session_under_a_new_tag(
    aiohttp_client: StartClient,
) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        made = await publish(it)
        await it.go_live()
        url, tag = made.headers["Location"], made.headers["ETag"]

        async def patch(ufrag: str, if_match: str | None, pwd: str = "q" * 24) -> Any:
            body = TRICKLE.replace("EsAw", ufrag).replace("ice-pwd:p", f"ice-pwd:{pwd}")
            headers = FRAGMENT | ({} if if_match is None else {"If-Match": if_match})
            return await it.client.patch(url, data=body, headers=headers)

        assert (await patch("Else", None)).status == 428
        assert (await patch("Else", '"another"')).status == 412
        assert (await patch("Else", "*", pwd="short")).status == 400
        assert (await patch("stays", "*")).status == 422, "the session goes on as it was"
        assert (await patch("EsAw", tag)).status == 204
        assert it.transports[0].restarts == []

        await it.bench.run(17, *it.transports)
        it.transports[0].hear()
        await it.bench.run(9.5)
        restarted = await patch("Else", "*")
        assert restarted.status == 200
        assert restarted.content_type == FRAGMENT["Content-Type"]
        assert restarted.headers["ETag"] not in (tag, None)
        fragment = parse_fragment(await restarted.text())
        assert (fragment.ufrag, fragment.password) == ("ours1", "p" * 22)
        assert [(c.text, c.mid) for c in fragment.candidates] == [("1 1 udp 1 ::1 9 typ host", "0")]
        assert it.transports[0].restarts == [("Else", "q" * 24)]
        assert it.transports[0].candidates[-2] == ("1 1 udp 1 192.0.2.1 9 typ host", "0")
        await it.bench.run(5)
        assert it.free == 0, "the caller is waited for anew"
        assert (await patch("Else", tag)).status == 412, "of the session before"
        assert (await patch("Else", restarted.headers["ETag"])).status == 204
        it.transports[0].connected = True  # type: ignore[attr-defined]
        await it.bench.run(20, *it.transports)
        [call] = it.bench.registry
        assert call.state is CallState.LIVE


async def test_delete_ends_the_call_whatever_the_tag(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        url = (await publish(it)).headers["Location"]
        response = await it.client.delete(url, headers={"If-Match": '"wrong"'})
        assert response.status == 200
        await it.bench.run(0.2)
        assert it.free == 4
        for method in ("GET", "PATCH", "DELETE"):
            again = await it.client.request(method, url, headers=FRAGMENT)
            assert again.status == 404
            assert again.content_type == "application/problem+json"


async def test_the_endpoint_answers_who_only_looks(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        assert (await it.client.get("/whip")).status == 204
        response = await it.client.options("/whip")
        assert response.status == 200
        assert response.headers["Accept-Post"] == "application/sdp"
        assert "ice-server" in response.headers["Link"]


@pytest.mark.parametrize(
    ("path", "data", "headers", "status"),
    [
        ("/whip", OFFER, {"Content-Type": "text/plain"}, 415),
        ("/whip", OFFER, {"Content-Type": "application/json"}, 415),
        ("/whip", "", SDP, 400),
        ("/whip", "hello", SDP, 400),
        ("/whip", b"\xff", SDP, 400),
        ("/whip", "v=0 unsupported", SDP, 422),
        ("/whip?persona=" + "x" * 5_000, OFFER, SDP, 400),
    ],
)
async def test_offers_that_cannot_be_are_problems(
    aiohttp_client: StartClient, path: str, data: Any, headers: dict[str, str], status: int
) -> None:
    async with serving(aiohttp_client) as it:
        response = await it.client.post(path, data=data, headers=headers)
        assert response.status == status
        assert response.content_type == "application/problem+json"
        problem = await response.json()
        assert problem["status"] == status and problem["detail"]
        await it.bench.run(0.2)
        assert it.free == 4


async def test_overload_is_503_with_a_time(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        await publish(it)
        response = await it.client.post("/whip", data=OFFER, headers=SDP)
        assert response.status == 503 and int(response.headers["Retry-After"]) > 0


async def test_sessions_of_calls_that_are_over_are_not_kept(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, slots=1) as it:
        from signaling.whip import RESOURCES

        for _ in range(3):
            await publish(it)
            it.transports[-1].events.on_closed("peer_closed")
            await it.bench.run(0.2)
        assert len(it.client.app[RESOURCES]) == 1


async def live_call(it: Site) -> str:
    """A call that has sound; its public id."""
    await publish(it)
    await it.go_live()
    (call,) = it.bench.registry
    return call.ids.public


async def test_a_supervisor_hears_both_sides_until_one_goes(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        call_id = await live_call(it)
        response = await it.client.post(f"/whep/{call_id}", data=OFFER, headers=SDP | BEARER)
        assert response.status == 201
        listener = it.transports[1]
        assert listener.flow is Flow.LISTEN
        await it.bench.run(0.5, it.transports[0])
        assert len(listener.played) >= 5
        url = response.headers["Location"]
        headers = FRAGMENT | BEARER | {"If-Match": response.headers["ETag"]}
        assert (await it.client.patch(url, data=TRICKLE, headers=headers)).status == 204
        del headers["If-Match"]
        assert (await it.client.patch(url, data=TRICKLE, headers=headers)).status == 204
        wrong = headers | {"If-Match": '"another"'}
        assert (await it.client.patch(url, data=TRICKLE, headers=wrong)).status == 412
        assert (await it.client.delete(url)).status == 401
        assert (await it.client.delete(url, headers=BEARER)).status == 200
        assert listener.closed == 1
        count = len(listener.played)
        await it.bench.run(0.5, it.transports[0])
        assert len(listener.played) == count
        assert len(it.bench.registry) == 1, "the call goes on"


async def test_a_listener_is_let_go_when_the_call_ends(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        call_id = await live_call(it)
        made = await it.client.post(f"/whep/{call_id}", data=OFFER, headers=SDP | BEARER)
        it.transports[0].events.on_closed("peer_closed")
        await it.bench.run(0.2)
        assert it.transports[1].closed == 1
        assert (await it.client.delete(made.headers["Location"], headers=BEARER)).status == 404


async def test_listening_in_needs_the_token_and_a_live_call(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client) as it:
        await publish(it)
        (call,) = it.bench.registry
        path = f"/whep/{call.ids.public}"
        refused = await it.client.post(path, data=OFFER, headers=SDP)
        assert refused.status == 401 and refused.headers["WWW-Authenticate"] == "Bearer"
        wrong = SDP | {"Authorization": "Bearer wrong"}
        assert (await it.client.post(path, data=OFFER, headers=wrong)).status == 401
        early = await it.client.post(path, data=OFFER, headers=SDP | BEARER)
        assert early.status == 409 and early.headers["Retry-After"]
        unknown = await it.client.post("/whep/call-0", data=OFFER, headers=SDP | BEARER)
        assert unknown.status == 404
        secret = await it.client.post(f"/whep/{call.ids.session}", data=OFFER, headers=SDP | BEARER)
        assert secret.status == 404


async def test_without_a_token_nobody_listens_in(aiohttp_client: StartClient) -> None:
    async with serving(aiohttp_client, access=Access()) as it:
        call_id = await live_call(it)
        for token in ("", LISTEN_TOKEN):
            headers = SDP | {"Authorization": f"Bearer {token}"}
            response = await it.client.post(f"/whep/{call_id}", data=OFFER, headers=headers)
            assert response.status == 404
