"""Draw docs/tick.png from h200.json: `python benchmarks/tick/plot.py` (needs matplotlib)."""

import json
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent


def main() -> None:
    measured = json.loads((HERE / "h200.json").read_text())
    rows, peers = measured["rows"], measured["peers"]
    wide = [r for r in rows if r["weights"] == "model"]
    figure, axes = plt.subplots(figsize=(8, 4.6), dpi=120)
    theirs = [(r["sessions"], r["tick_ms"]["p50"]) for r in peers]
    axes.plot(*zip(*theirs, strict=True), "s--", color="#999999", label=peers[0]["peer"])
    for window, colour in (("full", "#c0392b"), ("minute", "#2471a3"), ("empty", "#1e8449")):
        line = [
            (r["sessions"], r["tick_ms"]["p50"])
            for r in wide
            if r["window"] == window and r["kv_dtype"] == "bfloat16"
        ]
        axes.plot(*zip(*sorted(line), strict=True), "o-", color=colour, label=f"ours, {window}")
    floor = [
        (r["sessions"], r["floor_ms"])
        for r in wide
        if r["window"] == "full" and r["kv_dtype"] == "bfloat16"
    ]
    axes.plot(*zip(*sorted(floor), strict=True), ":", color="black", label="floor, full")
    narrow = [(r["sessions"], r["tick_ms"]["p50"]) for r in wide if r["kv_dtype"] == "int8"]
    axes.plot(*zip(*narrow, strict=True), "D", color="#8e44ad", label="ours, full, int8 keys")
    axes.axhline(80, color="#e67e22", linewidth=1)
    axes.text(1, 76, "a frame: 80 ms", color="#e67e22", va="top")
    axes.set(xlabel="sessions", ylabel="whole tick, p50 ms", xlim=(0, 132), ylim=(0, 84))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE.parent.parent / "docs" / "tick.png")


if __name__ == "__main__":
    main()
