from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.protocol.bursts import UNHEARD_FRAMES, Bursts, Step
from rtc_agent.protocol.events import CallEvent, Levels, Speech, Text


def text(frame: int, delta: str) -> Text:
    return Text(frame=frame, delta=delta)


def speech(frame: int, speaking: bool) -> Speech:
    return Speech(frame=frame, who="agent", speaking=speaking, duration_ms=0)


def steps(*happened: CallEvent) -> list[tuple[Step, str]]:
    bursts = Bursts()
    return [(s.step, s.text) for event in happened for s in bursts.push(event)]


def test_text_before_and_during_sound_is_one_burst() -> None:
    assert steps(text(1, " He"), speech(2, True), text(3, "llo"), speech(9, False)) == [
        (Step.OPENED, ""),
        (Step.TEXT, " He"),
        (Step.HEARD, ""),
        (Step.TEXT, "llo"),
        (Step.SILENT, ""),
        (Step.CLOSED, " Hello"),
    ]


def test_sound_without_text_is_a_burst_too() -> None:
    assert [s for s, _ in steps(speech(1, True), speech(5, False))] == [
        Step.OPENED,
        Step.HEARD,
        Step.SILENT,
        Step.CLOSED,
    ]


def test_text_that_is_never_heard_does_not_run_into_the_next_burst() -> None:
    late = UNHEARD_FRAMES + 6
    assert steps(text(5, " Bye"), Levels(frame=late - 1, caller=0, agent=0)) == [
        (Step.OPENED, ""),
        (Step.TEXT, " Bye"),
    ]
    assert (Step.CLOSED, " Bye") in steps(text(5, " Bye"), Levels(frame=late, caller=0, agent=0))


happenings = st.lists(
    st.one_of(
        st.builds(lambda d: text(0, d), st.text(min_size=1, max_size=3)),
        st.builds(lambda s: speech(0, s), st.booleans()),
        st.builds(
            lambda s: Speech(who="caller", speaking=s, duration_ms=0),
            st.booleans(),
        ),
    ),
    max_size=40,
)


@given(happenings)
def test_bursts_are_well_formed_and_lose_no_text(happened: list[CallEvent]) -> None:
    bursts = Bursts()
    seen = [s for event in happened for s in bursts.push(event)] + list(bursts.close())
    depth = heard = 0
    for step in seen:
        match step.step:
            case Step.OPENED:
                assert depth == 0
                depth = 1
            case Step.CLOSED:
                assert depth == 1 and heard == 0
                depth = 0
            case Step.HEARD:
                assert depth == 1 and heard == 0
                heard = 1
            case Step.SILENT:
                assert heard == 1
                heard = 0
            case Step.TEXT:
                assert depth == 1
    assert depth == heard == 0
    said = "".join(e.delta for e in happened if isinstance(e, Text))
    assert "".join(s.text for s in seen if s.step is Step.TEXT) == said
    assert "".join(s.text for s in seen if s.step is Step.CLOSED) == said
