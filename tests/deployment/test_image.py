"""What the images are made with."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.deployment.files import DOCKER, ROOT

RECIPE = (DOCKER / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_everything_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", RECIPE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            assert source.split("/")[0] not in ignored


def test_no_image_runs_as_root() -> None:
    for stage in re.split(r"^FROM ", RECIPE, flags=re.MULTILINE)[1:]:
        if " AS cuda" in stage or " AS cpu" in stage:
            assert stage.rstrip().splitlines()[-1] == "USER 1000:1000"


def test_both_images_have_what_a_model_runs_on() -> None:
    for stage in (" AS cuda", " AS cpu"):
        [recipe] = [
            part for part in re.split(r"^FROM ", RECIPE, flags=re.MULTILINE) if stage in part
        ]
        assert "pyproject.toml model >" in recipe


def test_extras_of_the_recipe_are_extras() -> None:
    [named] = re.findall(r'^ARG EXTRAS="(.*)"$', RECIPE, re.MULTILINE)
    listed = subprocess.run(
        [sys.executable, DOCKER / "requirements.py", ROOT / "pyproject.toml", *named.split()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    wanted = list(PROJECT["dependencies"])
    for extra in named.split():
        wanted += PROJECT["optional-dependencies"][extra]
    assert listed == wanted


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(("path", "status"), [("/healthz", 0), ("/readyz", 1)])
def test_a_container_is_as_healthy_as_its_server(path: str, status: int) -> None:
    with HTTPServer(("127.0.0.1", 0), _Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}{path}"
        asked = subprocess.run([sys.executable, DOCKER / "health.py"], env={"HEALTH_URL": url})
        server.shutdown()
    assert asked.returncode == status


def test_a_container_without_a_server_is_not() -> None:
    env = {"HEALTH_URL": "http://127.0.0.1:9/healthz"}
    asked = subprocess.run([sys.executable, DOCKER / "health.py"], env=env, capture_output=True)
    assert asked.returncode == 1 and b"refused" in asked.stderr
