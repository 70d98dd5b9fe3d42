from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from rtc_agent.client.server_cpu import LocalServer, find_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

SERVER = """
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
child = os.fork()
if child == 0:
    listener.close()
    end = time.process_time() + 0.4
    while time.process_time() < end: pass
    print("burnt", flush=True)
    time.sleep(60)
print(listener.getsockname()[1], flush=True)
time.sleep(60)
"""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield process
        os.killpg(process.pid, 9)


def test_finds_the_process_and_counts_its_children(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    lines = {server.stdout.readline().strip(), server.stdout.readline().strip()}
    (port,) = lines - {"burnt"}
    found = find_server(f"http://127.0.0.1:{port}")
    assert found == LocalServer(server.pid)
    # A child's time counts while it lives.
    assert 0.35 <= found.cpu_s() < 3
    assert found.rss_bytes() > 4e6
    assert find_server(f"http://localhost:{port}") == found


def test_no_local_server_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        found = find_server(f"http://127.0.0.1:{port}")
        assert found == LocalServer(os.getpid())
    assert find_server(f"http://127.0.0.1:{port}") is None
    assert find_server("http://192.0.2.1:80") is None
    assert find_server("http://example.invalid") is None


def test_a_gone_process_has_no_time() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    start = time.monotonic()
    assert LocalServer(gone.pid).cpu_s() == 0
    assert time.monotonic() - start < 5
