"""One tree of errors, each with a stable code and the HTTP status an edge answers with.

A message says what was wrong, what was expected and what to do. It never carries a secret,
a token or a caller's words.
"""

from __future__ import annotations

from typing import ClassVar


class RtcAgentError(Exception):
    """Base of every error this project raises on purpose."""

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s


class InvalidRequest(RtcAgentError):
    """What the caller sent cannot be understood."""

    code = "invalid_request"
    http_status = 400


class InvalidOffer(InvalidRequest):
    """The session description cannot become a call."""

    code = "invalid_offer"


class UnsupportedOffer(RtcAgentError):
    """A well-formed offer that has nothing this server can answer (no audio, no common codec)."""

    code = "unsupported_offer"
    http_status = 422


class UnknownVoice(InvalidRequest):
    """The voice asked for does not exist here; the message lists those that do."""

    code = "unknown_voice"


class NoSample(RtcAgentError):
    """There is no short listen to that voice."""

    code = "no_sample"
    http_status = 404


class InvalidPersona(InvalidRequest):
    """The persona cannot be used: too long, or the agent takes none."""

    code = "invalid_persona"


class Unauthorized(RtcAgentError):
    """A key is needed, or the one given is unknown or has expired."""

    code = "unauthorized"
    http_status = 401


class Forbidden(RtcAgentError):
    """The key is known, and is not for this."""

    code = "forbidden"
    http_status = 403


class TooManyRequests(RtcAgentError):
    """A limit of this client's key or address is reached; `Retry-After` says until when."""

    code = "too_many_requests"
    http_status = 429


class RequestTooSlow(RtcAgentError):
    """The request did not arrive in the time that it may take."""

    code = "request_timeout"
    http_status = 408


class OriginNotAllowed(RtcAgentError):
    """A page of another origin used the server without being allowed to."""

    code = "origin_not_allowed"
    http_status = 403


class UnknownCall(RtcAgentError):
    """No call of that id, any more or ever."""

    code = "unknown_call"
    http_status = 404


class CallLost(RtcAgentError):
    """The server that held this call has gone, and the conversation with it."""

    code = "call_lost"
    http_status = 410


class CallConflict(RtcAgentError):
    """The call is in a state that forbids what was asked."""

    code = "call_conflict"
    http_status = 409


class PreconditionRequired(RtcAgentError):
    """The request must say which version of the session it is meant for."""

    code = "precondition_required"
    http_status = 428


class PreconditionFailed(RtcAgentError):
    """The request is meant for another version of the session than there is."""

    code = "precondition_failed"
    http_status = 412


class UnsupportedMediaType(RtcAgentError):
    """The body is of a kind that is not read here; the message names those that are."""

    code = "unsupported_media_type"
    http_status = 415


class ServerFull(RtcAgentError):
    """Every slot is taken."""

    code = "server_full"
    http_status = 503


class ServerDraining(RtcAgentError):
    """The server is stopping and takes no new call."""

    code = "server_draining"
    http_status = 503


class RelayUnavailable(RtcAgentError):
    """Calls may go by a TURN relay alone, and none answers."""

    code = "relay_unavailable"
    http_status = 503


class EngineFailed(RtcAgentError):
    """The engine stopped; no call can be opened until it is back."""

    code = "engine_failed"
    http_status = 503


class StageFailed(EngineFailed):
    """A stage that runs apart from the others cannot be had any more."""

    code = "stage_failed"


class ConfigError(RtcAgentError):
    """Settings or files on this machine do not allow what was asked."""

    code = "config_error"
    http_status = 500


class MissingDependency(ConfigError):
    """An optional package is needed; the message names the install command."""

    code = "missing_dependency"


class CheckpointError(ConfigError):
    """Model files are missing, damaged or of another shape than expected."""

    code = "checkpoint_error"


class NotEnoughMemory(ConfigError):
    """The model does not fit; the message has need, free, and the option that changes it."""

    code = "not_enough_memory"


class KernelsUnavailable(ConfigError):
    """The GPU or the installation cannot run the model's kernels; the message has the option."""

    code = "kernels_unavailable"


class CaptureFailed(ConfigError):
    """The tick could not be captured as a CUDA graph, so the agent does not start."""

    code = "capture_failed"


class TooSlow(ConfigError):
    """This device cannot keep up with a single call."""

    code = "too_slow"


class TrainingFailed(RtcAgentError):
    """A model in training learns nothing any more; the message has the figure that says so."""

    code = "training_failed"


class BadAudioFile(InvalidRequest):
    """A sound file cannot be read or written."""

    code = "bad_audio_file"


class DownloadError(ConfigError):
    """A model file could not be fetched; the subclasses say why."""

    code = "download_failed"


class HubTokenMissing(DownloadError):
    """The hub wants a token and has none, or does not know the one it was given."""

    code = "hub_token_missing"


class LicenceNotAccepted(DownloadError):
    """The token is known but its account has not accepted the model's licence."""

    code = "licence_not_accepted"


class HubFileNotFound(DownloadError):
    """The hub has no such model, revision or file."""

    code = "hub_file_not_found"


class HubUnreachable(DownloadError):
    """No connection to the hub, or it answers with errors of its own."""

    code = "hub_unreachable"


class DownloadIncomplete(DownloadError):
    """A file ended before its length; what is there is kept to go on from."""

    code = "download_incomplete"


class DownloadCorrupt(DownloadError):
    """A file has its length but not its checksum; it was thrown away."""

    code = "download_corrupt"


class DiskFull(DownloadError):
    """The disk cannot hold what is left to fetch."""

    code = "disk_full"


class ServerUnreachable(RtcAgentError):
    """No server answers at the address given."""

    code = "server_unreachable"
    http_status = 502


class CallRefused(RtcAgentError):
    """The server answered an offer with a refusal; the message is the server's."""

    code = "call_refused"
    http_status = 502


class CallFailed(RtcAgentError):
    """A call that the server accepted did not come up, or broke off."""

    code = "call_failed"
    http_status = 502


class GatewayUnreachable(RtcAgentError):
    """The telephone gateway does not answer, or the connection to it was lost."""

    code = "gateway_unreachable"
    http_status = 503


class GatewayRefused(RtcAgentError):
    """The telephone gateway refused a request; the message is the gateway's."""

    code = "gateway_refused"
    http_status = 502

    def __init__(self, message: str, *, gateway_code: int = 0) -> None:
        super().__init__(message)
        self.gateway_code = gateway_code


class NumberNotAllowed(RtcAgentError):
    """The settings do not allow a call to that address."""

    code = "number_not_allowed"
    http_status = 403


class PhoneCallFailed(RtcAgentError):
    """The called party could not be reached; `sip_code` says why."""

    code = "phone_call_failed"
    http_status = 502

    def __init__(self, message: str, *, sip_code: int) -> None:
        super().__init__(message)
        self.sip_code = sip_code
