"""Each alert goes off for what it is about, after its time, and not on a good day."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deployment.metrics import ALERTS, alert_rules
from tests.deployment.prometheus import require_prometheus

STEP_S = 15
SERVER = 'instance="a:8080",job="rtc-agent"'

GOOD_DAY = {
    f"up{{{SERVER}}}": "1x240",
    f"rtc_agent_ready{{{SERVER}}}": "1x240",
    f"rtc_agent_engine_ready{{{SERVER}}}": "1x240",
    f"rtc_agent_engine_slots{{{SERVER}}}": "64x240",
    f"rtc_agent_engine_slots_free{{{SERVER}}}": "10x240",
    f"rtc_agent_engine_banks{{{SERVER}}}": "1x240",
    f"rtc_agent_engine_ticks_total{{{SERVER}}}": "0+187x240",
    f"rtc_agent_engine_skipped_ticks_total{{{SERVER}}}": "0x240",
    f'rtc_agent_engine_step_seconds_bucket{{{SERVER},le="0.04"}}': "0+187x240",
    f'rtc_agent_engine_step_seconds_bucket{{{SERVER},le="0.08"}}': "0+187x240",
    f'rtc_agent_engine_step_seconds_bucket{{{SERVER},le="+Inf"}}': "0+187x240",
    f'rtc_agent_loop_lag_seconds_bucket{{{SERVER},worker="w0",le="0.01"}}': "0+300x240",
    f'rtc_agent_loop_lag_seconds_bucket{{{SERVER},worker="w0",le="0.1"}}': "0+300x240",
    f'rtc_agent_loop_lag_seconds_bucket{{{SERVER},worker="w0",le="+Inf"}}': "0+300x240",
    f'rtc_agent_refusals_total{{{SERVER},reason="server_full"}}': "0x240",
    f'rtc_agent_recordings_total{{{SERVER},outcome="failed"}}': "0x240",
    f'rtc_agent_recordings_total{{{SERVER},outcome="kept"}}': "0+1x240",
    f"rtc_agent_recording_dropped_frames_total{{{SERVER}}}": "0x240",
    f'rtc_agent_process_restarts_total{{{SERVER},process="the engine"}}': "0x240",
    f'rtc_agent_calls_ended_total{{{SERVER},reason="hangup"}}': "0+2x240",
    f'rtc_agent_calls_ended_total{{{SERVER},reason="connect_timeout"}}': "0x240",
    f'rtc_agent_calls_ended_total{{{SERVER},reason="agent_failed"}}': "0x240",
    f'rtc_agent_call_loss_ratio_bucket{{{SERVER},le="0.01"}}': "0+2x240",
    f'rtc_agent_call_loss_ratio_bucket{{{SERVER},le="0.1"}}': "0+2x240",
    f'rtc_agent_call_loss_ratio_bucket{{{SERVER},le="+Inf"}}': "0+2x240",
    f'rtc_agent_relay_up{{{SERVER},relay="turn:a:3478"}}': "1x240",
    'rtc_agent_cluster_replicas{job="rtc-agent",instance="front:8080",state="away"}': "0x240",
    f"process_open_fds{{{SERVER}}}": "200x240",
    f"process_max_fds{{{SERVER}}}": "1024x240",
}


@dataclass(frozen=True)
class Trouble:
    """What an alert is about: series that are other than on a good day."""

    series: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the alert, beside its severity and the server's; `value` is what it counts."""
    keeps_job: bool = False
    """Its expression does not group, so that the job's name stays."""
    keeps_instance: bool = True


BROKEN = {
    "RtcAgentDown": Trouble({f"up{{{SERVER}}}": "0x240"}, keeps_job=True),
    "RtcAgentNotReady": Trouble({f"rtc_agent_ready{{{SERVER}}}": "0x240"}),
    "RtcAgentEngineDown": Trouble(
        {f"rtc_agent_engine_ready{{{SERVER}}}": "0x240"},
        keeps_job=True,
    ),
    "RtcAgentTicksMissed": Trouble(
        {f"rtc_agent_engine_skipped_ticks_total{{{SERVER}}}": "0+1x240"}, keeps_job=True
    ),
    # Steps are as on a good day, but two of them are to fit a frame.
    "RtcAgentTickNearLimit": Trouble({f"rtc_agent_engine_banks{{{SERVER}}}": "2x240"}),
    "RtcAgentFull": Trouble(
        {f"rtc_agent_engine_slots_free{{{SERVER}}}": "0x240"},
        keeps_job=True,
    ),
    "RtcAgentCallersTurnedAway": Trouble(
        {f'rtc_agent_refusals_total{{{SERVER},reason="server_full"}}': "0+1x240"}
    ),
    "RtcAgentEventLoopLate": Trouble(
        {f'rtc_agent_loop_lag_seconds_bucket{{{SERVER},worker="w0",le="0.01"}}': "0+100x240"},
        {"worker": "w0"},
    ),
    "RtcAgentRecordingsLost": Trouble(
        {f'rtc_agent_recordings_total{{{SERVER},outcome="failed"}}': "0 0 1x238"}
    ),
    "RtcAgentRecordingsBehind": Trouble(
        {f"rtc_agent_recording_dropped_frames_total{{{SERVER}}}": "0 0 25x238"}
    ),
    "RtcAgentProcessDied": Trouble(
        {f'rtc_agent_process_restarts_total{{{SERVER},process="the engine"}}': "0 0 1x238"},
        {"process": "the engine"},
    ),
    "RtcAgentCallsDoNotConnect": Trouble(
        {f'rtc_agent_calls_ended_total{{{SERVER},reason="connect_timeout"}}': "0+1x240"}
    ),
    "RtcAgentAgentFails": Trouble(
        {f'rtc_agent_calls_ended_total{{{SERVER},reason="agent_failed"}}': "0 0 1x238"}
    ),
    "RtcAgentCallersLosePackets": Trouble(
        {f'rtc_agent_call_loss_ratio_bucket{{{SERVER},le="0.01"}}': "0+1x240"}
    ),
    "RtcAgentRelayAway": Trouble(
        {f'rtc_agent_relay_up{{{SERVER},relay="turn:a:3478"}}': "0x240"}, {"relay": "turn:a:3478"}
    ),
    "RtcAgentReplicasAway": Trouble(
        {'rtc_agent_cluster_replicas{job="rtc-agent",instance="front:8080",state="away"}': "2x240"},
        {"state": "away", "value": "2"},
        keeps_job=True,
        keeps_instance=False,
    ),
    "RtcAgentFilesRunOut": Trouble({f"process_open_fds{{{SERVER}}}": "900x240"}, keeps_job=True),
}
RULES = {rule["alert"]: rule for rule in alert_rules()}
SEEN_S = 120
"""By when what is counted over some time shows."""


def case(name: str, trouble: Trouble) -> dict[str, Any]:
    """That this alert, in its trouble, is not there at first and then is; in promtool's form."""
    rule = RULES[name]
    job = {"job": "rtc-agent"} if trouble.keeps_job else {}
    instance = {"instance": "a:8080"} if trouble.keeps_instance else {}
    labels = {**rule["labels"], **instance, **job, **trouble.labels}
    value = labels.pop("value", "")
    annotations = dict(rule["annotations"])
    for key, text in annotations.items():
        for label, said in labels.items():
            text = text.replace(f"{{{{ $labels.{label} }}}}", said)
        annotations[key] = text.replace("{{ $value }}", value)
    patience_s = 60 * int(rule.get("for", "0m").removesuffix("m"))
    expected = [{"exp_labels": labels, "exp_annotations": annotations}]
    checks = [(patience_s + SEEN_S, expected)]
    if patience_s:
        checks.append((patience_s - STEP_S, []))
    return _promtool_test({**GOOD_DAY, **trouble.series}, {name: checks})


def _promtool_test(
    series: Mapping[str, str], checks: Mapping[str, list[tuple[int, list[dict[str, Any]]]]]
) -> dict[str, Any]:
    return {
        "interval": f"{STEP_S}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{at_s}s", "alertname": name, "exp_alerts": expected}
            for name, each in checks.items()
            for at_s, expected in each
        ],
    }


def test_every_alert_is_tried() -> None:
    assert set(BROKEN) == set(RULES)


def test_alerts_go_off_when_they_should_and_not_before(tmp_path: Path) -> None:
    promtool = require_prometheus("promtool")
    quiet = _promtool_test(GOOD_DAY, {name: [(45 * 60, [])] for name in RULES})
    cases = [quiet, *(case(name, trouble) for name, trouble in BROKEN.items())]
    file = tmp_path / "tests.yml"
    file.write_text(
        yaml.safe_dump(
            {"rule_files": [str(ALERTS)], "evaluation_interval": f"{STEP_S}s", "tests": cases}
        )
    )
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True)
    if done.returncode:
        pytest.fail(done.stdout + done.stderr)
