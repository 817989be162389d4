"""Tables worked on row by row in plain Python, against which tests and a benchmark hold the joins and groupings."""

import hashlib
from collections import Counter, defaultdict


def loop_split(key, shares, seed):
    """The first split whose share, with those before it, exceeds the hash of the key."""
    drawn = int.from_bytes(hashlib.sha256(f"{seed}\n{key}".encode()).digest()[:8], "big") / (1 << 64)
    reached = 0.0
    for split, share in zip(("train", "dev", "test"), shares, strict=True):
        reached += share
        if drawn < reached:
            return split
    return "test"


def loop_bound(pairs):
    """For each pair of keys the smallest key that it is bound to, by merging sets of keys."""
    group_of = {}
    for pair in pairs:
        groups = sorted((group_of.get(key, {key}) for key in pair), key=len)
        merged = groups[1] if groups[0] is groups[1] else groups[1] | groups[0]
        group_of |= dict.fromkeys(merged, merged)
    smallest = {id(group): min(group) for group in group_of.values()}
    return [smallest[id(group_of[key])] for key, _ in pairs]


def loop_limited(rows, limit):
    seen = Counter()
    for row in rows:
        seen[row["split"]] += 1
        if seen[row["split"]] <= limit:
            yield row


def loop_aligned(pair, source, target):
    """Rows of `aligned_pairs` of the utterances that both sides have."""
    sides = [_addresses(tables) for tables in (source, target)]
    return [
        {
            **{name: row[name] for name in ("corpus", "utterance_id", "split")},
            **{
                f"{side}_{name}": value
                for side, by_id in zip(("source", "target"), sides, strict=True)
                for name, value in by_id[row["utterance_id"]].items()
            },
            "pair": pair,
        }
        for row in source.utterances.to_pylist()
        if row["utterance_id"] in sides[1]
    ]


def _addresses(tables):
    masked = {row["utterance_id"]: row for row in tables.masked.to_pylist()}
    negatives = set(tables.pool["utterance_id"].to_pylist())
    return {
        row["utterance_id"]: {
            "language": row["language"],
            "key": row["text_key"],
            "template_key": masked[row["utterance_id"]]["template_key"],
            "residual_key": masked[row["utterance_id"]]["residual_key"],
            "is_negative": row["utterance_id"] in negatives,
        }
        for row in tables.utterances.to_pylist()
    }


def loop_previous_witnesses(now, before):
    """Which texts a state of the negatives knows and where their witnesses are now.

    Args:
        now: key by id.
        before: key and witness by id.
    """
    kept = {id_: witness for id_, (key, witness) in before.items() if now.get(id_) == key}
    places = {id_: place for place, id_ in enumerate(now)}
    is_kept, nearest = [id_ in kept for id_ in now], [-1] * len(now)
    for id_, witness in kept.items():
        if witness is not None:
            nearest[places[id_]] = places[witness] if witness in kept else -2
    return is_kept, nearest


def loop_in_two_splits(rows):
    """How many keys of a corpus, from rows of corpus, key and split, are in train and in another split."""
    splits = defaultdict(set)
    for corpus, key, split in rows:
        splits[corpus, key].add(split)
    return sum("train" in splits_of_text and len(splits_of_text) > 1 for splits_of_text in splits.values())


def loop_fingerprint(name, texts):
    """Content fingerprint of one column of texts, which has no null."""
    encoded = [text.encode() for text in texts]
    digest = hashlib.sha256(f"{name}:string;{len(texts)};".encode() + bytes(-(-len(texts) // 8)))
    for text in encoded:
        digest.update(len(text).to_bytes(8, "little"))
    for text in encoded:
        digest.update(text)
    return digest.hexdigest()[:32]
