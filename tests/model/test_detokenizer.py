"""The stream of text deltas must be the whole decode, cut up without loss."""

from __future__ import annotations

import io

import pytest
import sentencepiece as spm
from hypothesis import given
from hypothesis import strategies as st

from rtc_agent.model.detokenizer import Detokenizer, piece_table

VOCABULARY = 400
PAD, EPAD = 3, 0


@pytest.fixture(scope="module")
def processor() -> spm.SentencePieceProcessor:
    """A byte-fallback model whose special ids are the released tokenizer's."""
    model = io.BytesIO()
    sentences = [
        "Hello there, how are you today?",
        "Dear Name, I am sorry to hear that the café is closed.",
        "Two plus three is five, and seven minus four is three.",
        "I'm sorry, I didn't quite catch what you were saying.",
    ]
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 10),
        model_writer=model,
        vocab_size=VOCABULARY,
        hard_vocab_limit=False,
        byte_fallback=True,
        pad_id=PAD,
        minloglevel=2,
    )
    return spm.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.fixture(scope="module")
def table(processor: spm.SentencePieceProcessor) -> tuple[bytes, ...]:
    return piece_table(processor)


def stream(table: tuple[bytes, ...], ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(table)
    return [*(detokenizer.push(id) for id in ids), detokenizer.flush()]


def with_padding(ids: list[int], padding: list[int]) -> list[int]:
    """The ids as the model gives them: frames without text between any two."""
    padded: list[int] = []
    for index, id in enumerate(ids):
        padded += [PAD] * (padding[index % len(padding)] if padding else 0) + [EPAD, id]
    return padded


TEXT = st.text(
    st.one_of(
        st.sampled_from("Hello there, I'm sorry. "),
        st.sampled_from("éüñçß漢字かな한국🙂👩‍👩‍👧🇩🇪\u0301"),
        st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")),
    ),
    max_size=40,
)


@given(TEXT, st.lists(st.integers(0, 3), max_size=5))
def test_joined_stream_is_the_whole_decode(
    processor: spm.SentencePieceProcessor,
    table: tuple[bytes, ...],
    text: str,
    padding: list[int],
) -> None:
    ids = processor.encode(text)
    deltas = stream(table, with_padding(ids, padding))
    joined = "".join(deltas)
    # SentencePiece drops the dummy space in front of the first word; a stream of words keeps it.
    assert joined.removeprefix(" ") == processor.decode(ids)
    if ids:
        assert joined.startswith(" ")


@given(TEXT.filter(lambda text: "\ufffd" not in text))
def test_no_replacement_character_in_valid_text(
    processor: spm.SentencePieceProcessor, table: tuple[bytes, ...], text: str
) -> None:
    assert not any("\ufffd" in delta for delta in stream(table, processor.encode(text)))


@given(st.data())
def test_any_ids_decode_as_sentencepiece_decodes_them(
    processor: spm.SentencePieceProcessor, table: tuple[bytes, ...], data: st.DataObject
) -> None:
    """Sampled ids need not be valid UTF-8: truncated, overlong and surrogate bytes included."""
    byte_ids = [id for id in range(processor.vocab_size()) if processor.is_byte(id)]
    ids = data.draw(
        st.lists(
            st.one_of(st.sampled_from(byte_ids), st.integers(4, processor.vocab_size() - 1)),
            max_size=12,
        )
    )
    # A word in front keeps SentencePiece from dropping the space of the first drawn piece.
    first = processor.piece_to_id("\u2581I")
    whole = processor.decode([first, *ids])
    assert "".join(stream(table, [first, *ids])) == " " + whole


def test_a_character_shows_on_its_last_byte(
    processor: spm.SentencePieceProcessor, table: tuple[bytes, ...]
) -> None:
    ids = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in "🙂".encode()]
    detokenizer = Detokenizer(table)
    assert [detokenizer.push(id) for id in ids] == ["", "", "", "🙂"]
    assert detokenizer.flush() == ""


def test_truncated_character_shows_when_known_to_be_wrong(
    processor: spm.SentencePieceProcessor, table: tuple[bytes, ...]
) -> None:
    euro = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in "€".encode()]
    comma = processor.piece_to_id(",")
    detokenizer = Detokenizer(table)
    assert [detokenizer.push(id) for id in (*euro[:2], PAD, comma)] == ["", "", "", "\ufffd\ufffd,"]
    assert detokenizer.push(euro[0]) == ""
    assert detokenizer.flush() == "\ufffd"


def test_flush_and_reset_leave_nothing_for_the_next_session(
    processor: spm.SentencePieceProcessor, table: tuple[bytes, ...]
) -> None:
    lead, tail = (processor.piece_to_id(f"<0x{byte:02X}>") for byte in "é".encode())
    detokenizer = Detokenizer(table)
    detokenizer.push(lead)
    detokenizer.reset()
    assert detokenizer.push(tail) == "\ufffd"
    detokenizer.push(lead)
    detokenizer.flush()
    assert detokenizer.push(tail) == "\ufffd"


def test_special_and_foreign_ids_say_nothing(
    processor: spm.SentencePieceProcessor, table: tuple[bytes, ...]
) -> None:
    detokenizer = Detokenizer(table)
    silent = (0, 1, 2, 3, -1, processor.vocab_size(), 32_000)
    assert [detokenizer.push(id) for id in silent] == [""] * len(silent)
