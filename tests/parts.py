"""Say which system parts tests will drive and which are missing; in CI a missing one is fatal."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

PARTS = {
    "chromium": "the call page and other browser clients",
    "firefox-esr": "the call page in Firefox",
    "npm": "browser clients that others make",
    "janus": "telephone calls over the gateway",
    "baresip": "telephone calls over the gateway",
    "kamailio": "telephone calls over the gateway",
    "turnserver": "calls through a TURN relay",
    "ip": "a server in a network of its own",
    "promtool": "alerts and the dashboard's queries",
    "gst-launch-1.0": "GStreamer as a caller",
}
SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
"""Where daemons are, though a person's PATH may not name it."""


def missing_parts() -> dict[str, str]:
    """Program → what is skipped without it."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    return {name: what for name, what in PARTS.items() if shutil.which(name, path=path) is None}


def main() -> int:
    missing = missing_parts()
    for name, what in missing.items():
        sys.stdout.write(f"not installed: {name}; skipped: {what} (`make system-parts`)\n")
    if missing and not Path("/usr/bin/apt-get").exists():
        sys.stdout.write("`make system-parts` works where there is apt.\n")
    return 1 if missing and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
