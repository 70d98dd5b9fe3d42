"""An engine that is still being loaded: the server answers meanwhile, and says how far that is."""

from __future__ import annotations

from rtc_agent.engine.client import (
    EngineClient,
    EngineSession,
    EngineStatus,
    FrameSink,
    FrameSource,
)
from rtc_agent.engine.stepper import SessionSpec, StepperInfo
from rtc_agent.errors import EngineFailed

RETRY_AFTER_S = 5


class PendingEngine:
    """An `EngineClient` that refuses calls until it `becomes` the engine that was loaded."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._engine: EngineClient | None = None
        self._detail = "The agent is being loaded."

    def report(self, progress: str) -> None:
        """How far the loading is, in a few words. Callable from any thread."""
        self._detail = f"The agent is being loaded: {progress}."

    def become(self, engine: EngineClient) -> None:
        self._engine = engine

    @property
    def info(self) -> StepperInfo:
        if self._engine is None:
            return StepperInfo(agent=self._agent, description=self._detail)
        return self._engine.info

    def status(self) -> EngineStatus:
        if self._engine is None:
            return EngineStatus(False, self._detail, 0, 0, 0, 0, 0.0, 0.0)
        return self._engine.status()

    def next_tick_s(self) -> float:
        return self._loaded().next_tick_s()

    def check(self, spec: SessionSpec) -> None:
        self._loaded().check(spec)

    async def open(
        self, spec: SessionSpec, source: FrameSource, sink: FrameSink, call_id: str
    ) -> EngineSession:
        return await self._loaded().open(spec, source, sink, call_id)

    async def aclose(self) -> None:
        if self._engine is not None:
            await self._engine.aclose()

    def _loaded(self) -> EngineClient:
        if self._engine is None:
            raise EngineFailed(self._detail, retry_after_s=RETRY_AFTER_S)
        return self._engine
