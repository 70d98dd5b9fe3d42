"""`rtc-agent sip`: refusals are one line, and the settings come from file and flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rtc_agent.cli import probe, sip
from rtc_agent.errors import ConfigError, InvalidRequest
from rtc_agent.telephony import standalone


def app() -> typer.Typer:
    made = typer.Typer()
    probe.register(made)
    sip.register(made)
    return made


def test_a_sip_address_is_probed_over_the_telephone() -> None:
    result = CliRunner().invoke(app(), ["probe", "sip:nobody@127.0.0.1:9", "--plot", "p", "--json"])
    assert isinstance(result.exception, InvalidRequest)
    assert "--plot" in json.loads(result.stdout.splitlines()[-1])["error"]["message"]


def test_the_table_of_a_file_with_flags_over_it(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        'port = 1\n[telephony]\njanus = "ws://a"\npassword = ""\nlines = 9\n'
        '[[telephony.dial_plan]]\nnumber = "+49*"\nvoice = "v"\n'
    )
    settings = standalone.load(file, janus="ws://b", proxy=None)
    assert (settings.janus, settings.lines) == ("ws://b", 9)
    assert settings.dial_plan[0].voice == "v"


@pytest.mark.parametrize(
    "text", ["[telephony]\nnonsense = 1\n", "[telephony", '[telephony]\njanus = "http://x"\n']
)
def test_what_does_not_fit_is_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        standalone.load(file)
    assert "\n" not in refused.value.message
    with pytest.raises(ConfigError):
        standalone.load(tmp_path / "none.toml")


async def test_without_a_gateway_there_is_nothing_to_run() -> None:
    with pytest.raises(ConfigError, match=r"telephony\.janus"):
        await standalone.run(standalone.load(), ["http://127.0.0.1:1"], lambda _: None)
