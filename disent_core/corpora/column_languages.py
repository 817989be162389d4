"""Detect which of two columns is in which of two languages, by script and by English function words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from disent_core.errors import CorpusError, located
from disent_core.text import language_part

_SCRIPTS = {
    "ARABIC": "ar arz ary arq fa ps sd ug ur ckb",
    "BENGALI": "as bn",
    "CJK": "zh yue wuu ja",
    "CYRILLIC": "be bg ky mk ru tg uk",
    "DEVANAGARI": "awa bho hi mai mr ne sa",
    "ETHIOPIC": "am ti",
    "GEORGIAN": "ka",
    "GREEK": "el",
    "GUJARATI": "gu",
    "HANGUL": "ko",
    "HEBREW": "he yi",
    "KANNADA": "kn",
    "KHMER": "km",
    "LATIN": "ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv nb nl nn no pl pt ro sk sl sq sv tl tr vi",
    "MALAYALAM": "ml",
    "ARMENIAN": "hy",
    "MYANMAR": "my",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
}
_SCRIPT_OF = {language: script for script, languages in _SCRIPTS.items() for language in languages.split()}
_KANA = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}
_ENGLISH = re.compile(r"\b(the|and|is|are|was|of|with|to|an|on|at|for|his|her|their)\b")


def is_swapped(path: Path, columns: tuple[Sequence[str], Sequence[str]], languages: tuple[str, str]) -> bool:
    """Whether the first column is in the second language rather than in the first; False if it can't be detected.

    The majority of rows decides: by the scripts of their sentences or, if the scripts do not differ and one language is
    English, by which sentence has more English function words.

    Raises:
        CorpusError: if the scripts of most rows fit the languages in neither order.
    """
    rows = list(zip(*columns, strict=True))
    row_scripts = [(_script(left), _script(right)) for left, right in rows]
    as_named = sum(_fits(scripts, languages) for scripts in row_scripts)
    as_swapped = sum(_fits(scripts[::-1], languages) for scripts in row_scripts)
    if max(as_named, as_swapped) * 2 <= len(row_scripts):
        frequent = " and ".join(script.lower() for script in Counter(row_scripts).most_common(1)[0][0])
        problem = f"most rows are in {frequent} script, which is not {' and '.join(languages)}"
        raise CorpusError(located(path, None, problem, "Check the name of the file"))
    if as_named != as_swapped:
        return as_swapped > as_named
    parts = [language_part(language) for language in languages]
    if parts.count("en") != 1:
        return False
    leanings = [_english(left) - _english(right) for left, right in rows]
    first_is_english = sum((leaning > 0) - (leaning < 0) for leaning in leanings)
    return first_is_english < 0 if parts[0] == "en" else first_is_english > 0


def _english(text: str) -> int:
    return len(_ENGLISH.findall(text.lower()))


def _fits(scripts: tuple[str, ...], languages: tuple[str, str]) -> bool:
    """Whether each script is that of its language; a language with several scripts fits any."""
    expected_scripts = (_SCRIPT_OF.get(language_part(language)) for language in languages)
    return all(expected in (None, script) for expected, script in zip(expected_scripts, scripts, strict=True))


def _script(text: str) -> str:
    """The script of most letters."""
    scripts = [unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha()]
    named = [_KANA.get(script, script) for script in scripts]
    return Counter(named).most_common(1)[0][0] if named else "no"
