"""What a media worker is made of."""

from __future__ import annotations

import subprocess
import sys


def test_no_media_worker_carries_a_model() -> None:
    """Workers hold calls; torch alone would be 300 MB more in each of them."""
    program = "import sys, rtc_agent.processes.media; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (out.stdout.strip(), out.stderr) == ("False", "")
