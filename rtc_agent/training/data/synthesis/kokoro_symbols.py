"""eSpeak NG's phonemes of English in the symbols that Kokoro was trained on."""

from __future__ import annotations

AMERICAN, BRITISH = "en-us", "en-gb-x-rp"
"""eSpeak NG's accents for which there are symbols."""
TIE = "^"
"""Between the characters of one phoneme."""

_EITHER = (
    ("n\u0329", "ᵊn"),
    ("l\u0329", "ᵊl"),
    ("m\u0329", "ᵊm"),
    ("ə^l", "ᵊl"),
    ("t^ʃ", "ʧ"),
    ("d^ʒ", "ʤ"),
    ("a^ɪ", "I"),
    ("a^ʊ", "W"),
    ("e^ɪ", "A"),
    ("ɔ^ɪ", "Y"),
    ("g", "ɡ"),
    ("r", "ɹ"),
    ("x", "k"),
    ("ç", "k"),
    ("ɬ", "l"),
    ("ʔ", "t"),
    ("ɐ", "ə"),
)
_OF = {
    # Vowels have no length there, and their r is a consonant of its own.
    AMERICAN: (
        *_EITHER,
        ("o^ʊ", "O"),
        ("ɜː", "ɜɹ"),
        ("ɚ", "əɹ"),
        ("ɑ̃", "ɑn"),
        ("e", "A"),
        ("ɒ", "ɑ"),
        ("o", "ɔ"),
        ("a", "æ"),
        ("ː", ""),
        (TIE, ""),
        ("ɹɹ", "ɹ"),
    ),
    BRITISH: (
        *_EITHER,
        ("ə^ʊ", "Q"),
        ("o^ʊ", "Q"),
        ("e^ə", "ɛː"),
        ("i^ə", "ɪə"),
        ("ɚ", "ə"),
        ("ɑ̃", "ɒn"),
        ("ɾ", "t"),
        ("ᵻ", "ɪ"),
        ("æ", "a"),
        ("e", "ɛ"),
        (TIE, ""),
    ),
}


def to_symbols(phonemes: str, accent: str) -> str:
    """Kokoro's symbols for what `Espeak.phonemes` gave with `TIE`.

    Diphthongs are single capitals there (A I O Q W Y), affricates single letters (ʧ ʤ), and a
    syllabic consonant has ᵊ before it.
    """
    for of, become in _OF[accent]:
        phonemes = phonemes.replace(of, become)
    return phonemes
