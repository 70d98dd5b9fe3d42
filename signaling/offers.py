"""`POST` and `PATCH /api/offer`: descriptions and candidates as SmallWebRTC exchanges them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import AliasChoices, BaseModel, Field, model_validator

from rtc_agent.call.call import Call
from rtc_agent.call.transport import (
    RenegotiatingTransport,
    Transport,
    TransportEvents,
    TrickleTransport,
)
from rtc_agent.engine.stepper import SamplingSpec, SessionSpec
from rtc_agent.errors import CallConflict, UnknownCall
from signaling.bodies import read_json
from signaling.parts import PARTS


class RequestData(BaseModel):
    """What a caller chooses for the call."""

    voice: Annotated[str, Field(max_length=200)] | None = None
    persona: Annotated[str, Field(max_length=100_000)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    greedy: bool = False
    recording_consent: bool = False
    """The caller agrees to a recording of the call. Without it there is none."""

    def spec(self) -> SessionSpec:
        return SessionSpec(
            voice=self.voice or None,
            persona=self.persona or None,
            sampling=SamplingSpec(greedy=self.greedy, seed=self.seed),
        )


def choices_only_in(field: str) -> Any:
    """A validator for a body whose choices belong into one of its fields. Others beside that are
    let pass, as clients have some of their own; a choice that would be ignored is not."""

    def check(body: Any) -> Any:
        if isinstance(body, dict) and (beside := sorted(body.keys() & RequestData.model_fields)):
            names = " and ".join(beside)
            raise ValueError(f"{names} beside {field} would be ignored; put it into that")
        return body

    return model_validator(mode="before")(check)


class Offer(BaseModel):
    """The body of `POST /api/offer`."""

    sdp: str
    type: Literal["offer"]
    pc_id: str | None = None
    restart_pc: bool = False
    request_data: RequestData | None = Field(
        None, validation_alias=AliasChoices("request_data", "requestData")
    )

    _choices = choices_only_in("request_data")


class Candidate(BaseModel):
    """One ICE candidate; an empty or absent `candidate` ends them."""

    candidate: str | None = None
    sdp_mid: str | None = Field(None, validation_alias=AliasChoices("sdp_mid", "sdpMid"))
    sdp_mline_index: int | None = Field(
        None, validation_alias=AliasChoices("sdp_mline_index", "sdpMLineIndex")
    )


class Candidates(BaseModel):
    """The body of `PATCH /api/offer`."""

    pc_id: str
    candidates: Annotated[list[Candidate], Field(max_length=200)]


async def post_offer(request: web.Request) -> web.Response:
    """Answer an offer: of a new call, or of one that is moved or offered anew."""
    _, response = await answer_offer(request, await read_json(request, Offer, OFFER_EXAMPLE))
    return response


async def answer_offer(request: web.Request, offer: Offer) -> tuple[Call, web.Response]:
    """The call, and the answer with the id under which the caller comes back to it.

    Raises:
        CallConflict: the call cannot be moved, or not be offered anew in this way.
        InvalidOffer, UnsupportedOffer, ServerFull and what else `CallRegistry.place` raises.
    """
    parts = request.app[PARTS]

    async def connect(events: TransportEvents) -> tuple[Transport, str]:
        return await parts.answer(offer.sdp, events)

    call = find_call(request, offer.pc_id)
    if call is None:
        data = offer.request_data or RequestData()
        call, answer = await parts.registry.place(data.spec(), connect, may_return=True)
        if offer.pc_id is not None:
            call.tell(
                "new_conversation",
                "Your earlier call is over and could not be continued. The agent starts anew, and "
                "remembers nothing of it.",
            )
        if data.recording_consent and parts.recordings is not None:
            agent = parts.registry.engine.info.agent
            call.record(parts.recordings.begin(call.ids.public, agent=agent, voice=data.voice))
    elif offer.restart_pc:
        call, answer = await parts.registry.reconnect(call.ids.session, connect)
    else:
        answer = await _renegotiate(call, offer.sdp)
    body = {"sdp": answer, "type": "answer", "pc_id": call.ids.session}
    return call, web.json_response(body)


async def _renegotiate(call: Call, sdp: str) -> str:
    if not isinstance(call.transport, RenegotiatingTransport):
        raise CallConflict("This call's connection cannot be offered anew.")
    return await call.transport.renegotiate(sdp)


async def patch_offer(request: web.Request) -> web.Response:
    """Add candidates that the caller found after its offer."""
    patch = await read_json(request, Candidates, CANDIDATES_EXAMPLE)
    transport = request.app[PARTS].registry.get(patch.pc_id).transport
    if not isinstance(transport, TrickleTransport):
        raise CallConflict("This call takes no candidates.")
    for item in patch.candidates:
        await transport.add_candidate(item.candidate, item.sdp_mid, item.sdp_mline_index)
    return web.json_response({"status": "success"})


def find_call(request: web.Request, pc_id: str | None) -> Call | None:
    """The call of that id, if it is in progress."""
    if pc_id is None:
        return None
    try:
        return request.app[PARTS].registry.get(pc_id)
    except UnknownCall:
        return None


OFFER_EXAMPLE = '{"sdp": "v=0…", "type": "offer"}'
CANDIDATES_EXAMPLE = '{"pc_id": "…", "candidates": [{"candidate": "…", "sdp_mid": "0"}]}'
