"""`rtc-agent bench`: how fast this machine runs the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from rtc_agent.cli.output import json_refusal, print_json


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Measure this machine.", no_args_is_help=True, rich_markup_mode=None)
    # A callback keeps a group of one command a group.
    group.callback()(lambda: None)
    group.command()(tick)
    app.add_typer(group, name="bench")


def tick(
    sessions: Annotated[str, typer.Option(help="Sessions at once, comma-separated.")] = "1,4,16,64",
    window: Annotated[
        str, typer.Option(help="full, minute and empty, comma-separated: how long calls have run.")
    ] = "full",
    ticks: Annotated[int, typer.Option(min=20, help="Ticks a measurement.")] = 200,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    kv_dtype: Annotated[
        str, typer.Option(help="Of keys and values: auto, model or int8.")
    ] = "auto",
    weights: Annotated[
        str, typer.Option(help="Form of the matrices: model, int8 or int4.")
    ] = "model",
    kernels: Annotated[str, typer.Option(help="auto, or off for plain torch.")] = "auto",
    tiny: Annotated[bool, typer.Option("--tiny", help="The tiny agent's sizes.")] = False,
    peer: Annotated[
        bool, typer.Option(help="Measure the `moshi` package too, where it is installed.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object as the last line.")
    ] = False,
) -> None:
    """Time whole ticks of random weights of the released sizes: sound in to sound out."""
    from rtc_agent.bench.report import measure

    with json_refusal(as_json):
        report = measure(
            sessions=sessions,
            windows=window,
            ticks=ticks,
            device=device,
            dtype=dtype,
            kv_dtype=kv_dtype,
            weights=weights,
            kernels=kernels,
            tiny=tiny,
            peer=peer,
            progress=lambda row: None if as_json else typer.echo(_line(row)),
        )
    if as_json:
        print_json(report)


def _line(row: Mapping[str, Any]) -> str:
    """One measurement for a person."""
    tick = row["tick_ms"]
    parts = [
        f"{row['sessions']:4} {row.get('window') or row['peer']:7}",
        f"tick p50 {tick['p50']:8.3f}  p99 {tick['p99']:8.3f}  max {tick['max']:8.3f} ms",
    ]
    if "peer" in row:
        return "  ".join(parts)
    if row["floor_ms"] is not None:
        parts.append(f"floor {row['floor_ms']:6.2f} ms")
    if row["stages_ms"] is not None:
        stages = (f"{name} {ms:.2f}" for name, ms in row["stages_ms"].items())
        parts.append(" ".join(stages) + " ms")
    if row["trace"] is not None:
        trace = row["trace"]
        parts.append(f"{trace['kernels']} kernels, busy {trace['busy']:.0%}")
    if row["memory_gib"]:
        parts.append(f"{row['memory_gib']:.2f} GiB, at most {row['peak_gib']:.2f}")
    if row["open"] is not None:
        times = row["open"]
        parts.append(
            f"open {times['frames']} frames: cold {times['cold_ms']:.1f}, "
            f"known {times['known_ms']:.1f}, longest piece {times['piece_ms']:.1f} ms"
        )
    return "  ".join(parts)
