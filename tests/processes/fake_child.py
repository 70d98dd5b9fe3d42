"""A child that does what its first argument says; the last one is its parent's process id."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    behaviour, folder = sys.argv[1], Path(sys.argv[2])
    run = len(list(folder.glob("run-*")))
    (folder / f"run-{run}").write_text(f"{os.getpid()} {sys.argv[-1]}")
    match behaviour:
        case "works":
            say("ready")
            while True:
                say("alive")
                time.sleep(0.05)
        case "hangs":
            say("ready")
            time.sleep(600)
        case "loads long":
            time.sleep(1.5)
            say("ready")
            while True:
                say("alive")
                time.sleep(0.05)
        case "reloads":
            (folder / "begun").touch()
            while not (folder / "told").exists():
                time.sleep(0.01)
            signal.signal(signal.SIGHUP, lambda *_: say("ready"))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
            time.sleep(600)
        case "dies":
            sys.exit(3)
        case "refuses":
            sys.exit(2)
        case "refuses once it has worked":
            if run == 1:
                sys.exit(2)
            say("ready")
            if run == 0:
                sys.exit(1)
            time.sleep(600)
        case "ignores SIGTERM":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say("ready")
            time.sleep(600)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


main()
