"""From settings to a code2wav that runs apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rtc_agent.config import Settings
from rtc_agent.engine.stages.link import Code2WavLink
from rtc_agent.engine.stages.memory import Layout
from rtc_agent.engine.stages.plan import Code2WavPlan, bank_maker
from rtc_agent.engine.stages.settings import StageSettings
from rtc_agent.engine.stages.worker import ProcessWorker, ThreadWorker, Worker


def connect(
    settings: Settings,
    stages: StageSettings,
    talker_device: str,
    model: Path | None,
    slots: int,
    bank_rows: int,
) -> Code2WavLink:
    """Start a code2wav for so many slots; it loads by itself.

    Args:
        model: the folder whose codec it takes; None: the tiny agent's.
    """
    layout = Layout.of(slots, stages)
    plan = Code2WavPlan(
        model=model,
        moshi=settings.agent == "moshi",
        device=stages.code2wav.device or talker_device,
        kernels=settings.kernels == "auto",
        cpu_threads=settings.cpu_threads,
        bank_rows=bank_rows,
        layout=layout,
        log_level=settings.log_level,
        log_format=settings.log_format,
    )

    def start(memory_fd: int) -> Worker:
        if stages.code2wav.process:
            return ProcessWorker(plan, memory_fd)
        return ThreadWorker(partial(bank_maker, plan), plan.banks, memory_fd, layout)

    return Code2WavLink(
        layout, start, stages.codec_left_context_frames, spare=stages.code2wav.spare
    )
