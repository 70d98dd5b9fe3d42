"""Questions with an answer to be known: sums, spelling, opposites, capitals and the like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rtc_agent.training.data.texts.intent import Intent

NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_SPELLED = (
    *("cat", "dog", "sun", "hat", "red", "box", "cup", "pen", "fish", "tree", "book", "milk"),
    *("bird", "star", "blue", "home", "apple", "green", "water", "house"),
)
_OPPOSITES = (
    *(("hot", "cold"), ("big", "small"), ("up", "down"), ("day", "night"), ("fast", "slow")),
    *(("happy", "sad"), ("left", "right"), ("open", "closed"), ("old", "new"), ("wet", "dry")),
    *(("good", "bad"), ("light", "dark")),
)
_SOUNDS = (
    *(("dog", "woof woof"), ("cat", "meow"), ("cow", "moo"), ("duck", "quack quack")),
    *(("sheep", "baa"), ("lion", "roar"), ("bee", "buzz"), ("snake", "hiss")),
)
_COLOURS = (
    *(("the sky", "blue"), ("grass", "green"), ("snow", "white"), ("the sun", "yellow")),
    *(("a tomato", "red"), ("the night", "black"), ("a carrot", "orange"), ("a lemon", "yellow")),
)
_LEGS = (
    *(("a dog", "four"), ("a bird", "two"), ("a spider", "eight"), ("an ant", "six")),
    *(("a horse", "four"), ("a fish", "no")),
)
_CAPITALS = (
    *(("France", "Paris"), ("England", "London"), ("Italy", "Rome"), ("Spain", "Madrid")),
    *(("Germany", "Berlin"), ("Japan", "Tokyo"), ("Poland", "Warsaw"), ("Canada", "Ottawa")),
    *(("Portugal", "Lisbon"), ("Greece", "Athens"), ("Egypt", "Cairo"), ("Russia", "Moscow")),
)
_BABIES = (("dog", "puppy"), ("cat", "kitten"), ("cow", "calf"), ("sheep", "lamb"))
_CALLERS = (
    *("John", "Mary", "Anna", "David", "Peter", "Susan", "Tom", "Linda", "Mike", "Emma"),
    *("Paul", "Laura", "Alex", "Kate"),
)


def intents() -> Iterator[Intent]:
    """Every question of every family."""
    yield from _family("sum", _sums(), share=16.0)
    yield from _family("count", _counting(), share=4.0)
    yield from _family("number-after", _after(), share=3.5)
    yield from _family("spelling", _spelling(), share=12.0)
    yield from _family("opposite", _opposites(), share=6.0)
    yield from _family("animal-sound", _sounds(), share=3.5)
    yield from _family("colour", _colours(), share=3.5)
    yield from _family("legs", _legs(), share=2.5)
    yield from _family("capital", _capitals(), share=4.5)
    yield from _family("day-after", _days(), share=2.5)
    yield from _family("month-after", _months(), share=3.0)
    yield from _family("baby-animal", _babies(), share=1.5)
    yield from _family("caller-name", _caller_names(), share=7.0)


_Asked = tuple[str, Sequence[str], str]
"""What tells it apart in its family, phrasings, reply."""


def _family(name: str, asked: Iterable[_Asked], share: float) -> Iterator[Intent]:
    """Intents that together weigh `share`."""
    members = list(asked)
    for key, says, reply in members:
        yield Intent(f"{name}:{key}", name, tuple(says), (reply,), weight=share / len(members))


def _sums() -> Iterator[_Asked]:
    for a in range(1, 10):
        for b in range(1, 10):
            x, y, total = NUMBERS[a], NUMBERS[b], NUMBERS[a + b]
            says = (
                *(f"what is {x} plus {y}", f"{x} plus {y}", f"how much is {x} plus {y}"),
                *(f"add {x} and {y}", f"what's {x} plus {y}", f"what is {x} and {y}"),
                *(f"can you add {x} and {y}", f"what do {x} and {y} make"),
                *(f"calculate {x} plus {y}", f"how much is {x} and {y}"),
            )
            yield f"{a}+{b}", says, f"{x.capitalize()} plus {y} is {total}."


def _counting() -> Iterator[_Asked]:
    for n in range(2, 11):
        top = NUMBERS[n]
        says = (
            *(f"count to {top}", f"can you count to {top}", f"count from one to {top}"),
            *(f"count up to {top}", f"i want you to count to {top}", f"could you count to {top}"),
        )
        yield str(n), says, f"{', '.join(NUMBERS[1 : n + 1]).capitalize()}."


def _after() -> Iterator[_Asked]:
    for n in range(1, 13):
        x = NUMBERS[n]
        says = (
            *(f"what comes after {x}", f"which number comes after {x}", f"what follows {x}"),
            *(f"what number is after {x}", f"what is the number after {x}"),
            f"what is the next number after {x}",
        )
        yield str(n), says, f"After {x} comes {NUMBERS[n + 1]}."


def _spelling() -> Iterator[_Asked]:
    for word in _SPELLED:
        says = (
            *(f"spell {word}", f"how do you spell {word}", f"can you spell {word}"),
            *(f"spell the word {word}", f"how is {word} spelled", f"how do i spell {word}"),
            f"how do you write {word}",
        )
        yield word, says, f"{word.capitalize()} is spelled {', '.join(word.upper())}."


def _opposites() -> Iterator[_Asked]:
    for pair in _OPPOSITES:
        for x, y in (pair, pair[::-1]):
            says = (
                *(f"what is the opposite of {x}", f"the opposite of {x}", f"opposite of {x}"),
                *(f"what's the opposite of {x}", f"do you know the opposite of {x}"),
                f"can you tell me the opposite of {x}",
            )
            yield x, says, f"The opposite of {x} is {y}."


def _sounds() -> Iterator[_Asked]:
    for animal, sound in _SOUNDS:
        says = (
            *(f"what sound does a {animal} make", f"what does a {animal} say"),
            *(f"what does the {animal} say", f"how does a {animal} sound"),
            *(f"which sound does a {animal} make", f"what noise does a {animal} make"),
        )
        yield animal, says, f"A {animal} says {sound}."


def _colours() -> Iterator[_Asked]:
    for thing, colour in _COLOURS:
        says = (
            *(f"what color is {thing}", f"tell me what color {thing} is"),
            *(f"which color is {thing}", f"what is the color of {thing}"),
            f"do you know what color {thing} is",
        )
        yield thing, says, f"{thing[0].upper()}{thing[1:]} is {colour}."


def _legs() -> Iterator[_Asked]:
    for animal, legs in _LEGS:
        says = (
            *(f"how many legs does {animal} have", f"how many legs has {animal}"),
            *(f"how many legs are on {animal}", f"what number of legs does {animal} have"),
        )
        yield animal, says, f"{animal[0].upper()}{animal[1:]} has {legs} legs."


def _capitals() -> Iterator[_Asked]:
    for country, city in _CAPITALS:
        x = country.lower()
        says = (
            *(f"what is the capital of {x}", f"the capital of {x}", f"capital of {x}"),
            *(f"what's the capital of {x}", f"which city is the capital of {x}"),
            *(f"do you know the capital of {x}", f"name the capital of {x}"),
        )
        yield x, says, f"The capital of {country} is {city}."


def _days() -> Iterator[_Asked]:
    for at, day in enumerate(DAYS):
        x = day.lower()
        says = (
            *(f"what day comes after {x}", f"which day is after {x}", f"what day is after {x}"),
            f"what is the day after {x}",
        )
        yield x, says, f"After {day} comes {DAYS[(at + 1) % 7]}."


def _months() -> Iterator[_Asked]:
    for at, month in enumerate(MONTHS):
        x = month.lower()
        says = (
            *(f"what month comes after {x}", f"which month is after {x}"),
            *(f"what is the month after {x}", f"what month is after {x}"),
        )
        yield x, says, f"After {month} comes {MONTHS[(at + 1) % 12]}."


def _babies() -> Iterator[_Asked]:
    for animal, baby in _BABIES:
        says = (
            *(f"what is a baby {animal} called", f"what do you call a baby {animal}"),
            *(f"what is the name of a baby {animal}", f"how do you call a young {animal}"),
        )
        yield animal, says, f"A baby {animal} is called a {baby}."


def _caller_names() -> Iterator[_Asked]:
    for name in _CALLERS:
        x = name.lower()
        says = (
            *(f"my name is {x}", f"i am {x}", f"hello my name is {x}", f"hi i am {x}"),
            *(f"this is {x}", f"i'm {x}", f"hello this is {x}", f"you can call me {x}"),
        )
        yield x, says, f"Nice to meet you, {name}."
