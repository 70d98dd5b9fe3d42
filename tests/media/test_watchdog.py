"""An agent whose text comes and whose voice does not."""

from __future__ import annotations

from rtc_agent.media.watchdog import SoundFault, SoundWatchdog


def run(
    seconds: float, *, text: str = "word", level: float = -100.0, sending: bool = True
) -> list[tuple[float, SoundFault]]:
    """A call of so long, a frame each 80 ms and four packets with it."""
    dog, found = SoundWatchdog(), []
    for i in range(int(seconds / 0.08)):
        now = i * 0.08
        dog.frame(now, text, level)
        dog.sent(now, 4 * i if sending else 7)
        if (fault := dog.fault(now)) is not None:
            found.append((now, fault))
    return found


def test_text_without_sound_is_told_once() -> None:
    found = run(20)
    assert [fault for _, fault in found] == [SoundFault.SILENT]
    assert 5 <= found[0][0] <= 5.2


def test_sound_with_text_is_well() -> None:
    assert run(20, level=-30) == []


def test_silence_without_text_is_well() -> None:
    assert run(20, text="") == []
    assert run(20, text=" ") == []


def test_audio_that_never_leaves_is_told() -> None:
    assert [fault for _, fault in run(20, level=-30, sending=False)] == [SoundFault.UNSENT]


def test_a_remark_now_and_then_is_well() -> None:
    dog = SoundWatchdog()
    for i in range(500):
        dog.frame(i * 0.08, "you spoke for 1.8 s" if i % 100 == 0 else "", -100)
        dog.sent(i * 0.08, i)
        assert dog.fault(i * 0.08) is None


def test_a_fault_that_returns_is_told_again() -> None:
    dog, found = SoundWatchdog(), []
    for i in range(400):
        now = i * 0.08
        dog.frame(now, "word", -30 if 150 < i < 200 else -100)
        dog.sent(now, i)
        if (fault := dog.fault(now)) is not None:
            found.append(fault)
    assert found == [SoundFault.SILENT, SoundFault.SILENT]
