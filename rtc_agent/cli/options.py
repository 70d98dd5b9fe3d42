"""Options that several commands have, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

IceHosts = Annotated[
    list[str] | None,
    typer.Option(
        help="Offer only this local address; repeatable, loopback allowed.",
        show_default="every address but loopback",
    ),
]
Relay = Annotated[
    str | None,
    typer.Option(
        help="Take no path but through a TURN relay that the server names, reached by udp, tcp or "
        "tls.",
        show_default="the direct path",
    ),
]
Agent = Annotated[
    str | None,
    typer.Option(help="auto, echo, demo, tiny, mirror, personaplex or moshi.", show_default="auto"),
]
Model = Annotated[Path | None, typer.Option(help="Folder of the model's files.")]
Stages = Annotated[
    Path | None,
    typer.Option(
        help="TOML file that sets talker and code2wav apart: devices, process, chunks.",
        show_default="one step does both",
    ),
]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1 …", show_default="auto")]
