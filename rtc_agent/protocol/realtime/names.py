"""What the beta called the events that were renamed since."""

from __future__ import annotations

BETA_NAMES = {
    "conversation.item.added": "conversation.item.created",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
    "response.output_audio.done": "response.audio.done",
}
UNKNOWN_TO_BETA = frozenset({"conversation.item.done"})
"""Events that the beta did not have; not sent to its clients."""
