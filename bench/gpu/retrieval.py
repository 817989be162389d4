"""Compare exact search with sentence-transformers and a bare product on the same device."""

import numpy as np
import torch

from bench.gpu.measuring import Row, in_turns, seconds
from disent_core.evaluation.metrics.exact_search import nearest_rows
from disent_core.evaluation.metrics.ranking import unit_rows

BLOCK = {"cpu": 512, "cuda": 4_096}


def rows(count: int, dim: int, k: int, device: str, repeats: int) -> Row:
    """Find the k nearest of `count` candidates for as many queries, all of norm 1 and initially on the CPU."""
    from sentence_transformers.util import semantic_search

    random = np.random.default_rng(0)
    pool = random.standard_normal((count, dim), dtype=np.float32)
    queries = unit_rows(pool + random.standard_normal((count, dim), dtype=np.float32), "queries")
    pool = unit_rows(pool, "pool")

    def peer() -> list[list[dict[str, float]]]:
        left, right = (torch.from_numpy(side).to(device) for side in (queries, pool))
        return semantic_search(left, right, top_k=k)

    def product() -> None:
        left, right = (torch.from_numpy(side).to(device) for side in (queries, pool))
        for block in left.split(BLOCK[device]):
            _ = block @ right.T

    ours, peer_seconds = in_turns(lambda: nearest_rows(queries, pool, k, device=device), peer, device, repeats)
    alone = min(seconds(product, device) for _ in range(repeats + 1))
    some = slice(min(count, 1_000))
    here, cpu = (nearest_rows(queries[some], pool, k, device=where) for where in (device, "cpu"))
    different = float(np.abs(here[0] - cpu[0]).max()) + float((here[1] != cpu[1]).sum())
    peers = np.array([[hit["corpus_id"] for hit in row] for row in peer()])
    same = (nearest_rows(queries, pool, k, device=device)[1] == peers).mean()
    return Row(
        f"{k} nearest of {count:,}, {count:,} queries of {dim} dimensions",
        ours,
        peer_seconds,
        f"{count / ours:,.0f} queries/s",
        alone / ours,
        different,
        0.0,
        f"beside semantic_search; {same:.4%} of its indices are ours; the product is float32 and discarded",
    )
