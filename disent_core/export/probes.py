"""Texts whose vectors, or sentences whose tags, an exported folder has to reproduce."""

PROBES = (
    "",
    "a",
    "wake me up at nine on friday",
    "weck mich am freitag um neun auf",
    "despiértame el viernes a las nueve",
    "金曜日の九時に起こして",
    "Play 'So What' (live), please!",
    " ".join(["what is the weather in rome"] * 40),
)
"""Eight: empty, short, in several scripts, with punctuation, longer than an encoder reads."""
SENTENCES = (*(tuple(text.split()) for text in PROBES if text), tuple("金曜日の九時"))
"""The same as words; and characters of one that has no spaces."""
