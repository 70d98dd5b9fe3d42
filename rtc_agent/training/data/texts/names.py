"""The names a persona may give the agent, and the sentences that hold one."""

from __future__ import annotations

import numpy as np

from rtc_agent.model.persona import NAME_PERSONA

NAMES = (
    *("Nova", "Ruby", "Max", "Ada", "Leo", "Sam", "Luna", "Oscar", "Iris", "Felix"),
    *("Clara", "Hugo", "Stella", "Victor", "Molly", "Jasper", "Alice", "Henry", "Daisy", "Oliver"),
)
DEFAULT_NAME = NAMES[0]
"""The agent's name when no persona gives one."""

ASKED = (
    *("what is your name", "what's your name", "who are you", "what are you called"),
    *("tell me your name", "do you have a name", "may i know your name"),
    *("what should i call you", "what do i call you"),
    *("who am i talking to", "who am i speaking with", "who is this", "your name please"),
    *(
        "can you tell me your name",
        "say your name",
        "what do people call you",
    ),
    *("what was your name again", "and what is your name", "introduce yourself"),
)

_NAMED = (
    *(NAME_PERSONA, "You are {name}.", "Your name is {name}. Be brief and kind."),
    "You are {name}, a friendly voice on the phone.",
    "You are {name}. You are a helpful assistant.",
    "You are a helpful assistant. Your name is {name}.",
    "You enjoy having a good conversation. Your name is {name}.",
    "You work for a small demo company and your name is {name}.",
    "You are {name}, a wise and friendly teacher.",
    "You are a voice agent called {name}.",
    "Your name is {name} and you like short answers.",
    "{name} is your name.",
    "Please answer as {name}.",
    "Be kind and patient. You are called {name}.",
    "You are {name}. You work for a small hotel by the sea.",
    "{name} is a cheerful assistant who likes animals.",
    "Answer questions in a clear and engaging way. Your name is {name}.",
    "Hello, you are {name} today. Keep it short.",
    "I want you to be {name}, who knows a lot and talks little.",
)
_NAMELESS = (
    "You are a helpful assistant.",
    "You enjoy having a good conversation.",
    "You are a wise and friendly teacher. Answer questions in a clear and engaging way.",
    "You are a friendly voice on the phone.",
    "Be brief and kind.",
)
_BEFORE = (
    *("Be brief and kind.", "Speak slowly.", "You love short answers.", "Be polite."),
    "You work at the front desk of a small hotel.",
    "This is a call about a broken machine.",
    "You help callers of a shop that sells garden tools, and you are patient with them.",
)
_AFTER = (
    *("Be brief.", "Never get angry.", "You like music and the sea.", "Ask how you can help."),
    "You work for a bank, and callers ask for their cards.",
    "Speak of nothing but the weather, and say so when you do not know.",
    "If somebody is sad, be kind. If somebody is in a hurry, be quick.",
)
_BEFORE_SHARE, _AFTER_SHARE = 0.25, 0.35
"""Of personas with a name, those with more text around it: a model that is taught a few texts only
learns where in them the name stands, and in others finds another."""
_NAMELESS_SHARE = 0.15
_SMALL_SHARE = 0.15
"""Of personas in small letters, as people write on a phone."""


def greeting(name: str) -> str:
    """What the agent opens a call with."""
    return f"Hello, I am {name}. How can I help you?"


def answer(name: str) -> str:
    """What the agent says to who asks for its name."""
    return f"My name is {name}."


def draw_persona(rng: np.random.Generator) -> tuple[str, str]:
    """A persona's text, and the name that the agent must go by."""
    if rng.random() < _NAMELESS_SHARE:
        return _NAMELESS[int(rng.integers(len(_NAMELESS)))], DEFAULT_NAME
    name = NAMES[int(rng.integers(len(NAMES)))]
    text = _NAMED[int(rng.integers(len(_NAMED)))].format(name=name)
    if rng.random() < _BEFORE_SHARE:
        text = f"{_BEFORE[int(rng.integers(len(_BEFORE)))]} {text}"
    if rng.random() < _AFTER_SHARE:
        text = f"{text} {_AFTER[int(rng.integers(len(_AFTER)))]}"
    return text.lower() if rng.random() < _SMALL_SHARE else text, name


def personas() -> tuple[str, ...]:
    """Every text that `draw_persona` gives one or several of, but for those in small letters."""
    named = (text.format(name=name) for text in _NAMED for name in NAMES)
    return (*named, *_BEFORE, *_AFTER, *_NAMELESS)
