"""`POST` and `PATCH /api/offer`: the SmallWebRTC shape of exchanging descriptions and candidates."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from aiohttp import web
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from rtc_agent.call.transport import TrickleTransport
from rtc_agent.engine.stepper import SamplingSpec, SessionSpec
from rtc_agent.errors import CallConflict, InvalidRequest, UnknownCall
from signaling.parts import PARTS

Model = TypeVar("Model", bound=BaseModel)


class RequestData(BaseModel):
    """What a caller chooses for the call."""

    voice: Annotated[str, Field(max_length=200)] | None = None
    persona: Annotated[str, Field(max_length=100_000)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    greedy: bool = False

    def spec(self) -> SessionSpec:
        return SessionSpec(
            voice=self.voice or None,
            persona=self.persona or None,
            sampling=SamplingSpec(greedy=self.greedy, seed=self.seed),
        )


class Offer(BaseModel):
    """The body of `POST /api/offer`."""

    sdp: str
    type: Literal["offer"]
    pc_id: str | None = None
    restart_pc: bool = False
    request_data: RequestData | None = Field(
        None, validation_alias=AliasChoices("request_data", "requestData")
    )


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


async def read(request: web.Request, model: type[Model]) -> Model:
    """The request's JSON body as that model.

    Raises:
        InvalidRequest: it is not; the message names each fault.
    """
    body = await request.read()
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)[:5]
        )
        raise InvalidRequest(
            f"The request body does not fit: {faults}. Expected JSON such as "
            f"{_EXAMPLES[model.__name__]}."
        ) from error


async def post_offer(request: web.Request) -> web.Response:
    """Answer an offer; the call begins."""
    offer = await read(request, Offer)
    parts = request.app[PARTS]
    if offer.pc_id is not None and _known(request, offer.pc_id):
        raise CallConflict(
            "This call's connection cannot be renegotiated. Change the microphone without a new "
            "offer (replaceTrack), or hang up and offer again without pc_id."
        )
    spec = (offer.request_data or RequestData()).spec()
    call, answer = await parts.registry.place(
        spec, lambda events: parts.answer(offer.sdp, events)
    )
    return web.json_response({"sdp": answer, "type": "answer", "pc_id": call.ids.session})


async def patch_offer(request: web.Request) -> web.Response:
    """Add candidates that the caller found after its offer."""
    patch = await read(request, Candidates)
    transport = request.app[PARTS].registry.get(patch.pc_id).transport
    if not isinstance(transport, TrickleTransport):
        raise CallConflict("This call takes no candidates.")
    for item in patch.candidates:
        await transport.add_candidate(item.candidate, item.sdp_mid, item.sdp_mline_index)
    return web.json_response({"status": "success"})


def _known(request: web.Request, pc_id: str) -> bool:
    try:
        request.app[PARTS].registry.get(pc_id)
    except UnknownCall:
        return False
    return True


_EXAMPLES = {
    "Offer": '{"sdp": "v=0…", "type": "offer"}',
    "Candidates": '{"pc_id": "…", "candidates": [{"candidate": "…", "sdp_mid": "0"}]}',
}
