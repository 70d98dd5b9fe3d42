"""The engine's own process: arguments are settings file, socket, memory descriptor, parent."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

from rtc_agent import logs
from rtc_agent.clock import MonotonicClock
from rtc_agent.config import Settings
from rtc_agent.engine.agents import create_stepper
from rtc_agent.engine.remote.host import EngineHost
from rtc_agent.engine.remote.memory import FrameMemory
from rtc_agent.engine.staggered import Engine, create_engine
from rtc_agent.errors import RtcAgentError
from rtc_agent.processes.child import REFUSAL
from rtc_agent.processes.signals import child_of, tell_parent, until_stopped
from rtc_agent.threads import end_process, in_daemon_thread

log = logging.getLogger("rtc_agent.processes.engine")
"""A program's own `__name__` is another, whose info lines nobody logs."""

HUNG_S = 10.0
"""A step that takes so long will not come back: the process ends, and is started again."""
HUNG_STATUS = 70


async def run(settings: Settings, socket: Path, memory_fd: int) -> None:
    """Load the agent, serve it to media processes, say `ready`; until told to stop."""
    clock = MonotonicClock()
    choice = await in_daemon_thread(lambda: create_stepper(settings, log.info))
    engine = create_engine(choice.stepper, clock, choice.notice)
    engine.start()
    host = EngineHost(engine, FrameMemory(memory_fd, settings.sessions))
    await host.start(socket)
    watch = asyncio.create_task(_watch_for_hang(engine))
    choice.tell(log)
    tell_parent("ready")
    try:
        await until_stopped()
    finally:
        watch.cancel()
        await host.aclose()
        await engine.aclose()


async def _watch_for_hang(engine: Engine) -> None:
    while True:
        await asyncio.sleep(1)
        if engine.step_running_s() > HUNG_S or not engine.status().ready:
            log.critical("the engine hangs or has failed; its process ends")
            os._exit(HUNG_STATUS)


def main() -> None:
    settings_file, engine_socket, memory_fd, parent = sys.argv[1:]
    with child_of(int(parent), Path(settings_file).parent):
        settings = Settings.model_validate_json(Path(settings_file).read_text(encoding="utf-8"))
        logs.setup(settings.log_level, settings.log_format)
        try:
            asyncio.run(run(settings, Path(engine_socket), int(memory_fd)))
        except RtcAgentError as error:
            log.error("%s", error.message)
            sys.exit(REFUSAL)
    end_process(0)


if __name__ == "__main__":
    main()
