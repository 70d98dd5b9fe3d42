"""The data that the demo agent is trained on: texts, voices, conversations, evaluation sets."""

from __future__ import annotations

from rtc_agent.training.data.archive import DemoData, open_data, prepare

__all__ = ["DemoData", "open_data", "prepare"]
