"""Format counts with their nouns, for people to read."""


def counted(count: int, noun: str) -> str:
    """Return `1 text`, `0 texts` or `1,200 texts`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
