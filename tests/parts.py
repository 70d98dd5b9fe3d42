"""Say which system parts the tests will drive; in CI a missing one is fatal."""

from __future__ import annotations

import os
import shutil
import sys

PARTS = {
    "chromium": "the call page's browser tests",
    "npm": "the tests with other people's browser clients",
}


def main() -> int:
    missing = {name: what for name, what in PARTS.items() if shutil.which(name) is None}
    for name, what in missing.items():
        print(f"not installed: {name}; skipped: {what} (`make system-parts` installs Debian's)")
    return 1 if missing and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
