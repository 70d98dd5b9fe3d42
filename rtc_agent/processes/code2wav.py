"""Code2wav's own process: arguments are its pipe, the stages' memory, and the parent."""

from __future__ import annotations

import logging
import signal
import sys
from multiprocessing.connection import Connection

from rtc_agent import logs
from rtc_agent.engine.stages.code2wav import serve
from rtc_agent.engine.stages.memory import StageMemory
from rtc_agent.engine.stages.plan import Code2WavPlan, bank_maker
from rtc_agent.processes.signals import end_with_parent

log = logging.getLogger("rtc_agent.processes.code2wav")


def main() -> None:
    pipe, memory_fd, parent = map(int, sys.argv[1:])
    # Whoever stops the server closes the pipe; a terminal's signals are not meant for this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The pipe's end would do, were it not for a code2wav that hangs or is stopped.
    end_with_parent(parent, signal.SIGKILL)
    with Connection(pipe) as connection:
        try:
            plan: Code2WavPlan = connection.recv()
        except EOFError:
            return
        logs.setup(plan.log_level, plan.log_format)
        serve(connection, StageMemory(memory_fd, plan.layout), lambda: bank_maker(plan), plan.banks)


if __name__ == "__main__":
    main()
