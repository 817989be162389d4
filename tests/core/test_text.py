"""Texts: one key for every way of writing the same characters, and spans that lead back to tokens."""

import itertools
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from disent_core.text import (
    is_unspaced,
    language_part,
    normalise,
    separator_of,
    text_key,
    text_keys,
    token_spans,
    tokenize,
)

SCRIPTS = "aZ9 éß \u3000 дя \t Ωά 東京へ 한글 ก็ ي م \n हिं 🙂\u0301"
texts = st.one_of(st.text(), st.text(alphabet=SCRIPTS, max_size=40))
languages = st.sampled_from(["en", "de-DE", "ja", "ja-JP", "zh-TW", "th", "ru", "ko"])


@given(texts, st.sampled_from(["NFC", "NFD"]))
def test_keys_do_not_depend_on_the_canonical_form(text, form):
    assert text_key(unicodedata.normalize(form, text)) == text_key(text)
    assert normalise(normalise(text)) == normalise(text)


def test_a_key_is_half_of_sha_256_in_hex_and_compatibility_forms_are_other_texts():
    assert normalise("ﬁ ｱ ²") == "ﬁ ｱ ²"
    assert text_key("") == "e3b0c44298fc1c149afbf4c8996fb924"
    assert text_keys(["a", ""]) == [text_key("a"), text_key("")]


@example("ｱ 　b", "ja")
@given(texts, languages)
def test_spans_lead_back_to_the_tokens(text, language):
    tokens = tokenize(text, language)
    spans = token_spans(text, tokens)
    assert [text[start:end] for start, end in spans] == tokens
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@given(texts, languages)
def test_tokens_with_their_separators_are_cut_at_the_same_places(text, language):
    tokens = tokenize(text, language)
    assert tokenize(separator_of(language).join(tokens), language) == tokens


@given(texts, languages)
def test_tokens_of_unspaced_scripts_are_characters_and_others_have_no_white_space(text, language):
    tokens = tokenize(text, language)
    assert "".join(tokens) == "".join(text.split())
    assert not any(character.isspace() for token in tokens for character in token)
    if is_unspaced(language):
        assert all(len(token) == 1 for token in tokens)


@pytest.mark.parametrize(
    ("text", "tokens", "message"),
    [
        ("a b", ["b"], "token 'b' is not next in 'a b' at character 0"),
        ("a b", ["a"], "' b' of 'a b' belongs to no token"),
        ("a", ["a", "a"], "token 'a' is not next in 'a' at character 1"),
    ],
)
def test_tokens_that_do_not_cover_the_text_in_order_are_rejected(text, tokens, message):
    with pytest.raises(ValueError, match=message):
        token_spans(text, tokens)


def test_the_language_part_of_a_locale_is_lower_case():
    assert [language_part(locale) for locale in ("en-US", "EN", "zh-Hant-TW")] == ["en", "en", "zh"]


@given(st.lists(st.sampled_from(["e", " ", "\u0301", "\u0327", "\u0344", "\u0f73", "\u1100", "\u1161", "\U0001d160"])))
def test_nfc_of_a_long_text_is_that_of_the_standard_library(pieces):
    text = "".join(pieces)
    long = f"{text}{'a' * 1_001}{text}"
    assert normalise(long) == unicodedata.normalize("NFC", long)


def test_marks_of_a_long_text_reach_the_standard_library_in_order(monkeypatch):
    seen = []
    standard = unicodedata.normalize
    monkeypatch.setattr(unicodedata, "normalize", lambda form, text: seen.append(text) or standard(form, text))
    normalise("e" + "\u0301\u0327" * 1_000)
    assert seen[-1] == "e" + "\u0327" * 1_000 + "\u0301" * 1_000
