"""Settings of the phone line, and its dial plan."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from rtc_agent.protocol.janus_sip import parse_uri

PhoneCodec = Literal["G722", "opus", "PCMA", "PCMU"]


class DialRule(BaseModel):
    """What a called number gets. The first rule that fits counts."""

    model_config = ConfigDict(extra="forbid")

    number: str = Field(
        default="*", description="called number or user name; * and ? stand for anything"
    )
    voice: str | None = Field(
        default=None, description="voice of the agent; its default if left out"
    )
    persona: str | None = Field(default=None, description="who the agent is, in plain text")
    agent: str | None = Field(
        default=None,
        description="the agent that must answer here; another one does not take the call",
    )
    max_calls: int | None = Field(default=None, ge=1, description="calls to this number at once")
    call_limit_s: float | None = Field(
        default=None,
        ge=0,
        description="longest call in seconds; 0: no limit; left out: the server's",
    )
    idle_limit_s: float | None = Field(
        default=None,
        ge=0,
        description="seconds of saying nothing; 0: no limit; left out: the server's",
    )

    def fits(self, number: str) -> bool:
        return fnmatch.fnmatchcase(number.lower(), self.number.lower())


class TelephonySettings(BaseModel):
    """The phone line: the gateway, the account on it, and who may call whom."""

    model_config = ConfigDict(extra="forbid")

    janus: str = Field(
        default="",
        description="WebSocket URL of the SIP gateway (ws://host:8188); empty: no telephone",
    )
    api_secret: SecretStr | None = Field(default=None, description="the gateway's api_secret")
    token: SecretStr | None = Field(
        default=None, description="token for the gateway, where it wants one"
    )
    account: str = Field(default="sip:agent@127.0.0.1", description="the line's SIP address")
    registration: Literal["register", "trunk", "guest"] = Field(
        default="register",
        description="register: at the proxy; trunk: password but no REGISTER; guest: neither",
    )
    password: SecretStr | None = Field(default=None, description="password of the SIP account")
    auth_user: str | None = Field(
        default=None, description="name for the password, if not the account's"
    )
    display_name: str | None = Field(default=None, description="name that called parties see")
    proxy: str | None = Field(default=None, description="SIP registrar, such as sip:10.0.0.1:5060")
    outbound_proxy: str | None = Field(
        default=None, description="where every SIP request goes first"
    )
    register_ttl_s: int = Field(default=600, ge=60, description="seconds a registration lasts")
    lines: int = Field(default=4, ge=1, le=500, description="telephone calls at once")
    full_code: Literal[486, 503] = Field(
        default=486, description="SIP answer when every line or the agent is taken"
    )
    codecs: list[PhoneCodec] = Field(
        default=["G722", "opus", "PCMA", "PCMU"],
        min_length=1,
        description="codecs, the best one first",
    )
    dial_plan: list[DialRule] = Field(
        default=[DialRule()],
        description="what each called number gets; a number in no rule is not known",
    )
    outgoing: list[str] = Field(
        default=[], description="SIP addresses that may be called, with * and ?; empty: none"
    )
    call_token: SecretStr = Field(
        default=SecretStr(""),
        description="who brings it as bearer may make and end calls over HTTP; empty: nobody may",
    )
    ring_limit_s: float = Field(
        default=60, gt=0, description="seconds that a called party's telephone rings at most"
    )
    agent_limit_s: float = Field(
        default=20,
        gt=0,
        description="seconds that a caller hears ringing at most while the agent prepares",
    )
    srtp: Literal["off", "optional", "mandatory"] = Field(
        default="off", description="encryption of outgoing calls' audio on the telephone's side"
    )
    cdr_file: Path | None = Field(
        default=None,
        description="file that gets a line of JSON for every ended call, numbers included",
    )
    keepalive_s: Annotated[float, Field(gt=0, le=50)] = Field(
        default=25,
        description="seconds between signs of life to the gateway, which gives up after 60",
    )
    retry_limit_s: float = Field(
        default=30, gt=0, description="longest wait between attempts to connect or to register"
    )

    @model_validator(mode="after")
    def _check(self) -> TelephonySettings:
        if not self.janus:
            return self
        if not self.janus.startswith(("ws://", "wss://")):
            raise ValueError(f"janus: {self.janus!r} is no WebSocket URL (ws://… or wss://…)")
        uri = parse_uri(self.account)
        if uri is None or not uri.user:
            raise ValueError(f"account: {self.account!r} is no SIP address (sip:name@host)")
        if self.registration == "register" and self.password is None:
            raise ValueError(
                "password: registering needs one (may be empty); registration = "
                '"guest" does without'
            )
        for name in ("proxy", "outbound_proxy"):
            value = getattr(self, name)
            if value is not None and parse_uri(value) is None:
                raise ValueError(f"{name}: {value!r} is no SIP address (sip:host:port)")
        return self

    @property
    def enabled(self) -> bool:
        return bool(self.janus)

    def rule_for(self, number: str) -> DialRule | None:
        """The dial plan's answer for a called number; None if nobody is there."""
        return next((rule for rule in self.dial_plan if rule.fits(number)), None)

    def may_call(self, uri: str) -> bool:
        """Whether the settings allow a call to that SIP address."""
        bare = uri.split(";")[0].lower()
        return any(fnmatch.fnmatchcase(bare, pattern.lower()) for pattern in self.outgoing)
