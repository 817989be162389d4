"""Convert stored texts to token ids, using the model's mask token; marked subwords are masked or hidden."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from jaxtyping import Bool, Int, Int32

from disent_core import text
from disent_core.errors import EncoderError, is_failure

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CLOSING = {text.SUBWORD_MASK_OPEN: text.SUBWORD_MASK_CLOSE, text.HIDDEN_OPEN: text.HIDDEN_CLOSE}
_SPECIAL = re.compile(f"({'|'.join(map(re.escape, (text.MASK, *sorted(text.MARKERS))))})")

Span = tuple[int, int]
Result = TypeVar("Result")


@dataclass(frozen=True)
class TokenisedTexts:
    """Token ids of texts, concatenated: text i has `ids[offsets[i] : offsets[i + 1]]`.

    `hidden` marks subwords that stay in the text but that no token may attend to. `truncated` marks the texts that were
    truncated.
    """

    ids: Int[np.ndarray, " tokens"]
    hidden: Bool[np.ndarray, " tokens"]
    offsets: Int[np.ndarray, " texts_and_one"]
    truncated: Bool[np.ndarray, " texts"]

    @property
    def lengths(self) -> Int[np.ndarray, " texts"]:
        """Number of tokens of each text, special and hidden ones included."""
        return np.diff(self.offsets)


def joined_tokens(parts: Sequence[TokenisedTexts]) -> TokenisedTexts:
    nothing = TokenisedTexts(np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(1, np.int64), np.zeros(0, bool))
    every = [nothing, *parts]
    ids, hidden, lengths, truncated = (
        np.concatenate([getattr(part, name) for part in every]) for name in ("ids", "hidden", "lengths", "truncated")
    )
    return TokenisedTexts(ids, hidden, np.concatenate([[0], np.cumsum(lengths)]), truncated)


def ids_of(
    tokeniser: "Tokenizer", texts: Iterable[list[str] | list[tuple[str, str]]], *, add_special_tokens: bool = True
) -> tuple[Int32[np.ndarray, " tokens"], Int[np.ndarray, " texts"]]:
    """Return the concatenated token ids of texts or pairs, which come in blocks, and the number of ids of each."""
    ids, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for block in texts:
        encodings = tokeniser.encode_batch_fast(block, add_special_tokens=add_special_tokens)
        lengths.append(np.fromiter(map(len, encodings), np.int64))
        ids.append(np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int32))
    return np.concatenate(ids), np.concatenate(lengths)


def equal_runs(rows: Int[np.ndarray, " rows"], *values: np.ndarray) -> list[Int[np.ndarray, " run"]]:
    """Split rows, sorted by `values`, wherever one of the values changes."""
    changes = np.any([np.diff(value[rows]) != 0 for value in values], axis=0)
    return np.split(rows, np.flatnonzero(changes) + 1) if len(rows) else []


def padded_widths(lengths: Int[np.ndarray, " texts"]) -> Int[np.ndarray, " texts"]:
    """Return the padded width of each text: its length up to 16, and at most an eighth more beyond that.

    Widths depend only on the text, so that product shapes do too, and there are few of them.
    """
    lengths = np.maximum(lengths, 1)
    # Lengths of 2^k to 2^(k+1) tokens are rounded up to multiples of 2^(k-3).
    steps = 2 ** np.maximum(np.frexp(lengths)[1].astype(np.int64) - 4, 0)
    return -(-lengths // steps) * steps


def parse_marks(stored: str, mask_token: str) -> tuple[str, list[Span], list[Span]]:
    """Return the text with marks replaced by the model's mask token, and the character spans to mask and to hide."""
    clean, mark, start = "", "", 0
    spans: dict[str, list[Span]] = {opening: [] for opening in _CLOSING}
    for piece in _SPECIAL.split(stored):  # alternating texts and marks
        if piece not in text.MARKERS:
            clean += mask_token if piece == text.MASK else piece
        elif not mark and piece in _CLOSING:
            mark, start = piece, len(clean)
        elif mark and piece == _CLOSING[mark]:
            spans[mark].append((start, len(clean)))
            mark = ""
        else:
            raise _unpaired(stored)
    if mark:
        raise _unpaired(stored)
    return clean, spans[text.SUBWORD_MASK_OPEN], spans[text.HIDDEN_OPEN]


def _unpaired(stored: str) -> EncoderError:
    return EncoderError(f"text {stored!r}: marks are not in pairs. Make the masked texts again")


class TextTokeniser:
    """A fast tokeniser for stored texts: a copy of the model's, ignoring its saved padding and truncation.

    `mask_token` is the model's, if it has one; texts are cut to `max_length` tokens, special tokens included.
    """

    def __init__(self, tokeniser: "Tokenizer", mask_token: str | None, max_length: int) -> None:
        self._tokeniser = type(tokeniser).from_str(tokeniser.to_str())
        self._tokeniser.no_padding()
        self._tokeniser.enable_truncation(max_length)
        self._mask_token = mask_token
        self._mask_id = -1 if mask_token is None else (tokeniser.token_to_id(mask_token) or 0)

    def __call__(self, texts: Sequence[str]) -> TokenisedTexts:
        marked = [index for index, stored in enumerate(texts) if _SPECIAL.search(stored)]
        parsed = [parse_marks(texts[index], self._checked_mask(texts[index])) for index in marked]
        plain = list(texts)
        for index, (clean, _, _) in zip(marked, parsed, strict=True):
            plain[index] = clean
        # The tokeniser is faster without offsets, which only texts with spans need.
        try:
            encodings = self._tokeniser.encode_batch_fast(plain)
        except BaseException as error:  # the library has no exception class, and a forged file makes it panic
            if not is_failure(error):
                raise
            problem = f"the encoder's tokeniser can't read these texts ({' '.join(str(error).split())})"
            raise EncoderError(f"{problem}; check its tokenizer.json") from error
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, encodings), np.int64, len(texts)), out=offsets[1:])
        flat = chain.from_iterable(encoding.ids for encoding in encodings)
        ids = np.fromiter(flat, np.int64, int(offsets[-1]))
        truncated = np.fromiter((bool(encoding.overflowing) for encoding in encodings), bool, len(texts))
        hidden = np.zeros(len(ids), dtype=bool)
        for index, (clean, masked_spans, hidden_spans) in zip(marked, parsed, strict=True):
            if masked_spans or hidden_spans:
                tokens_of_text = slice(offsets[index], offsets[index + 1])
                starts, ends = np.array(self._tokeniser.encode(clean).offsets).T
                hidden[tokens_of_text] = _inside(starts, ends, hidden_spans)
                ids[tokens_of_text][_inside(starts, ends, masked_spans)] = self._mask_id
        return TokenisedTexts(ids, hidden, offsets, truncated)

    def _checked_mask(self, stored: str) -> str:
        has_mask = text.MASK in stored or text.SUBWORD_MASK_OPEN in stored
        if has_mask and self._mask_token is None:
            raise EncoderError(
                f"text {stored!r}: it has masks, and this encoder's tokeniser has no mask token. "
                "Mask by deletion or by attention, or choose another encoder"
            )
        return self._mask_token or ""


def _inside(
    starts: Int[np.ndarray, " tokens"], ends: Int[np.ndarray, " tokens"], spans: Sequence[Span]
) -> Bool[np.ndarray, " tokens"]:
    """Return which tokens share a character with a span; special tokens cover no character."""
    inside = np.zeros(len(starts), dtype=bool)
    for start, end in spans:
        inside |= (ends > start) & (starts < end) & (ends > starts)
    return inside


def one_ahead(calls: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Yield the results of the calls, in order; run each in a thread while the previous result is in use."""
    upcoming = None
    with ThreadPoolExecutor(1) as thread:
        for call in calls:
            ready, upcoming = upcoming, thread.submit(call)
            if ready is not None:
                yield ready.result()
        if upcoming is not None:
            yield upcoming.result()
