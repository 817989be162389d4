"""Plan the steps that materialise a selection: what each run makes, and which runs it waits for.

A step is small enough that independent work goes side by side: the texts of one language, the embeddings of one
language, one head and its metrics of one training set.
"""

import difflib
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

import dagster as dg
from dagster._core.definitions.asset_selection import DagsterInvalidAssetSelectionError
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph

from disent_core.experiment.keys import HEAD, METRICS
from disent_core.experiment.workspace import Key

STAGES = ("corpora", "negatives", "targets", "embeddings", "heads", "evaluation", "warehouse")
TEXT_STAGES = STAGES[:3]
"""Stages of short steps on texts: a partition's share one run, since a run costs more than most of them."""
_STAGE = re.compile(rf"(?<![\w/:\"*])(?:group:)?\"?({'|'.join(STAGES)})\"?(?![\w/*\"])")


_Node = tuple[int, str | None]
"""The number of a bundle (assets that share runs), and a partition."""


@dataclass(frozen=True)
class Step:
    """The assets that one run materialises, for one partition (None if they have no partitions).

    Attributes:
        keys: of the assets, upstream first.
        partition: of all of them.
        after: names of the steps of the plan that it waits for; a name that is not in the plan is done.
        uses_device: whether it takes the whole accelerator, if there is one.
        depth: how many parts of each key are the prefix of the workspace.
    """

    keys: tuple[dg.AssetKey, ...]
    partition: str | None
    after: frozenset[str] = frozenset()
    uses_device: bool = False
    depth: int = 0

    @property
    def path(self) -> Sequence[str]:
        """Key of its first asset, without prefix."""
        return self.keys[0].path[self.depth :]

    @property
    def name(self) -> str:
        """Its first asset and partition, which no other step has."""
        first = "/".join(self.path)
        return f"{first} [{self.partition}]" if self.partition else first

    def __str__(self) -> str:
        stage, *middle, last = self.path
        if not middle:
            of = ", ".join(dict.fromkeys(key.path[self.depth] for key in self.keys))
        elif last.endswith((HEAD, METRICS)):
            of = f"{last.removesuffix(HEAD).removesuffix(METRICS)} on {'/'.join(middle)}"
        else:
            of = f"{stage}, {last}"
        return f"{of} [{self.partition}]" if self.partition else of


def plan(
    definitions: dg.Definitions, selections: Sequence[str] = (), partition: str | None = None, *, prefix: Key = ()
) -> list[Step]:
    """The steps that materialise a selection, upstream first.

    Args:
        definitions: with the assets of the configuration.
        selections: in Dagster's syntax, or names of stages; everything if there are none.
        partition: only steps of this partition and of what it is made from, as a pair is from its languages.
        prefix: of the workspace.

    Raises:
        ValueError: if a selection or the partition matches nothing.
    """
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    graph = definitions.resolve_asset_graph()
    keys = {key for key in graph.get_all_asset_keys() if graph.get(key).is_materializable}
    selected = keys & set().union(*(_select(graph, one) for one in selections)) if selections else keys
    if not selected:
        raise ValueError(f"nothing to materialise in selection {' '.join(selections)!r}")
    bundles = _bundles(graph, keys, len(prefix))
    upstream = dict(_upstream(graph, bundles))
    chosen = {index for index, bundle in enumerate(bundles) if selected & set(bundle)}
    allowed = upstream.keys() if partition is None else _made_for(partition, upstream, chosen)
    steps = _steps(graph, bundles, upstream, selected, allowed, len(prefix))
    if not steps:
        raise ValueError(f"no asset of the selection has a partition {partition!r}")
    return steps


# --- selection --------------------------------------------------------------------------------------------


def _select(graph: BaseAssetGraph, selection: str) -> set[dg.AssetKey]:
    """The assets of a selection, and those that the same steps make; a stage's name stands for all its assets."""
    text = _STAGE.sub(r'key:"\1/*"', selection)
    try:
        return set(dg.AssetSelection.from_string(text).required_multi_asset_neighbors().resolve(graph))
    except (DagsterInvalidAssetSelectionError, dg.DagsterInvalidSubsetError) as error:
        close = difflib.get_close_matches(selection.strip("+"), STAGES, n=1)
        meant = f"did you mean {close[0]!r}? The" if close else "write for instance 'heads' or '+evaluation'; the"
        raise ValueError(f"selection {selection!r} can't be read; {meant} stages are {', '.join(STAGES)}") from error


def _made_for(partition: str, upstream: Mapping[_Node, set[_Node]], selected: Collection[int]) -> set[_Node]:
    """The selected bundles of a partition and of its languages, and the partitions of others that they are made from.

    What has no partitions, such as an encoder that is pretrained on every language, counts only if it is selected.
    """
    known = sorted({name for _, name in upstream if name is not None})
    if partition not in known:
        close = difflib.get_close_matches(partition, known, n=1)
        meant = f". Did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"there is no partition {partition!r}{meant} The partitions are {', '.join(known)}")
    own = {partition, *partition.replace("+", "-").split("-")}
    around = _with_upstream({node for node in upstream if node[1] == partition}, upstream, selected)
    # Not all of `around`: the metrics of a pair are made from texts of others, which nobody asked for with `targets`.
    return _with_upstream({node for node in around if node[0] in selected and node[1] in own}, upstream, selected)


def _with_upstream(nodes: set[_Node], upstream: Mapping[_Node, set[_Node]], selected: Collection[int]) -> set[_Node]:
    """These, and what they are made from."""
    found, due = set(nodes), list(nodes)
    while due:
        above = {node for node in upstream[due.pop()] - found if node[1] is not None or node[0] in selected}
        found |= above
        due += above
    return found


# --- assets that share a run ------------------------------------------------------------------------------


Bundle = tuple[dg.AssetKey, ...]


def _bundles(graph: BaseAssetGraph, keys: set[dg.AssetKey], depth: int) -> list[Bundle]:
    """Assets that share runs, upstream first.

    Those that one step makes; the texts of a partition; and a head with its metrics.
    """
    bundles: list[list[dg.AssetKey]] = []
    place: dict[dg.AssetKey, int] = {}
    for key in graph.toposorted_asset_keys:
        if key not in keys:
            continue
        index = next((place[other] for other in graph.get(key).execution_set_asset_keys if other in place), None)
        if index is None:
            joined = (index for index, bundle in enumerate(bundles) if _joins(graph, key, bundle, depth))
            index = next(joined, len(bundles))
        if index == len(bundles):
            bundles.append([])
        bundles[index].append(key)
        place[key] = index
    return [tuple(bundle) for bundle in bundles]


def _joins(graph: BaseAssetGraph, key: dg.AssetKey, bundle: Sequence[dg.AssetKey], depth: int) -> bool:
    node, first = graph.get(key), bundle[0]
    if node.partitions_def != graph.get(first).partitions_def:
        return False
    outside = node.parent_keys - set(bundle)
    if any(graph.get_ancestor_asset_keys(parent) & set(bundle) for parent in outside):
        return False  # it would wait for a step that waits for the bundle
    stage, last = key.path[depth], bundle[-1]
    is_text = stage in TEXT_STAGES and first.path[depth] in TEXT_STAGES
    return is_text or (stage == "evaluation" and last.path[depth] == "heads" and last in node.parent_keys)


# --- steps and their order --------------------------------------------------------------------------------


def _steps(
    graph: BaseAssetGraph,
    bundles: Sequence[Bundle],
    upstream: Mapping[_Node, set[_Node]],
    selected: set[dg.AssetKey],
    allowed: Collection[_Node],
    depth: int,
) -> list[Step]:
    """The chosen steps, upstream first; they wait for each other also by way of steps that are not chosen."""
    chosen: dict[_Node, Step] = {}
    waits_for: dict[_Node, frozenset[str]] = {}
    for node in TopologicalSorter(upstream).static_order():
        index, partition = node
        above = [{chosen[one].name} if one in chosen else waits_for[one] for one in upstream[node]]
        waits_for[node] = frozenset().union(*above)
        keys = tuple(key for key in bundles[index] if key in selected)
        if keys and node in allowed:
            uses_device = any(graph.get(key).pools for key in keys)
            chosen[node] = Step(keys, partition, waits_for[node], uses_device, depth)
    return list(chosen.values())


def _upstream(graph: BaseAssetGraph, bundles: Sequence[Bundle]) -> Iterator[tuple[_Node, set[_Node]]]:
    """Every bundle and partition with those that it depends on."""
    place = {key: index for index, bundle in enumerate(bundles) for key in bundle}
    for index, bundle in enumerate(bundles):
        edges = {(place[parent], parent, key) for key in bundle for parent in graph.get(key).parent_keys & set(place)}
        upstream: dict[str | None, set[_Node]] = {name: set() for name in _names(graph, bundle[0])}
        for above, parent, key in edges:
            if above != index:
                for name, parents in _parents(graph, key, parent):
                    upstream[name] |= {(above, one) for one in parents}
        yield from (((index, name), nodes) for name, nodes in upstream.items())


def _parents(
    graph: BaseAssetGraph, key: dg.AssetKey, parent: dg.AssetKey
) -> Iterator[tuple[str | None, Iterable[str | None]]]:
    """Every partition of an asset with the partitions of a parent that it depends on."""
    names, of_parent = _names(graph, key), _names(graph, parent)
    mapping = graph.get_partition_mapping(key, parent)
    if isinstance(mapping, dg.StaticPartitionMapping):
        by_name: dict[str | None, list[str]] = {}
        for one, dependents in mapping.downstream_partition_keys_by_upstream_partition_key.items():
            for name in [dependents] if isinstance(dependents, str) else dependents:
                by_name.setdefault(name, []).append(one)
        yield from ((name, by_name.get(name, [])) for name in names)
    elif isinstance(mapping, dg.IdentityPartitionMapping):
        yield from ((name, [name]) for name in names)
    else:
        yield from ((name, of_parent) for name in names)


def _names(graph: BaseAssetGraph, key: dg.AssetKey) -> Sequence[str | None]:
    partitions = graph.get(key).partitions_def
    return [None] if partitions is None else partitions.get_partition_keys()
