import numpy as np

from rtc_agent.training.data.texts import names, out_of_domain
from rtc_agent.training.data.texts.intent import ASK_NAME, GREETING, kind_of
from rtc_agent.training.data.texts.intents import demo_domain


def test_the_domain_has_sixty_kinds_of_questions_and_three_hundred_sentences() -> None:
    domain = demo_domain()
    assert len(domain.families) >= 60
    replies = dict(domain.replies())
    assert len(replies) >= 300
    assert max(map(len, replies)) < 130


def test_every_intent_has_an_answer_and_several_ways_to_ask() -> None:
    for intent in demo_domain().intents.values():
        assert intent.replies, intent.name
        assert len(intent.says) >= 2, intent.name
        for said in intent.says:
            assert said == " ".join(said.split()) and said == said.lower()
            assert not set(said) - set("abcdefghijklmnopqrstuvwxyz' "), said


def test_nothing_outside_the_domain_is_a_phrasing_of_it() -> None:
    known = {said for intent in demo_domain().intents.values() for said in intent.says}
    rng = np.random.default_rng(0)
    drawn = {out_of_domain.draw(rng) for _ in range(2_000)}
    assert not drawn & known
    assert len(drawn) > 1_400


def test_intents_are_drawn_by_their_weight() -> None:
    domain, rng = demo_domain(), np.random.default_rng(1)
    drawn = [domain.draw(rng)[0].family for _ in range(4_000)]
    whole = sum(intent.weight for intent in domain.intents.values())
    sums = sum(i.weight for i in domain.intents.values() if i.family == "sum")
    assert abs(drawn.count("sum") / 4_000 - sums / whole) < 0.03


def test_every_name_has_its_greeting_and_a_persona_tells_it() -> None:
    assert len(set(names.NAMES)) >= 20
    replies = dict(demo_domain().replies())
    for kind, say in ((GREETING, names.greeting), (ASK_NAME, names.answer)):
        mine = {text: reply for text, reply in replies.items() if kind_of(reply) == kind}
        assert list(mine) == [say(name) for name in names.NAMES]
        # Whose it is must be known before the sound tells it: no two share a class.
        assert len(set(mine.values())) == len(names.NAMES)
    rng = np.random.default_rng(2)
    drawn = [names.draw_persona(rng) for _ in range(200)]
    written = names.personas()
    for text, name in drawn:
        assert name.lower() in text.lower() or name == names.DEFAULT_NAME
        # Longest first: one may begin like another.
        rest = text.lower()
        for part in sorted(written, key=len, reverse=True):
            rest = rest.replace(part.lower(), "", 1).strip()
        assert not rest
    assert 10 < sum(text == text.lower() for text, _ in drawn) < 50
    assert 40 < sum(text not in written and text != text.lower() for text, _ in drawn) < 120
