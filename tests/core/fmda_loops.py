"""FMDA as loops over pairs, tokens and dimensions with plain floats, and batches for both.

The loops take the long way: keys and values of every token, with their biases, before any sum.
"""

import math

import torch
from loops import cosine, dot
from synthetic import grouped_texts, random_rows
from torch import nn

from disent_core.methods.fmda import FmdaConfig
from disent_core.methods.fmda_head import ROLES, FmdaHead

SIDES, OTHER = ("source", "target"), {"source": "target", "target": "source"}
DIM, LENGTHS = 5, {"source": (4, 6, 3, 5), "target": (6, 3, 5, 4)}
NEGATIVES = {"source": (3, 4, 5, 6), "target": (5, 5, 4, 3)}
HAS_RESIDUAL = {"source": (1.0, 0.0, 1.0, 1.0), "target": (1.0, 0.0, 0.0, 1.0)}
GROUPS = {
    "utterance_reconstruction": {"utterance_reconstruction"},
    "template_reconstruction": {"template_reconstruction", "template_cross_reconstruction"},
    "residual_reconstruction": {"residual_reconstruction", "residual_cross_reconstruction"},
    "contrast": {"template_contrast", "meaning_contrast"},
}
GROUPS["reconstruction"] = set().union(*(terms for group, terms in GROUPS.items() if group != "contrast"))
SWITCHES = {
    "paper": {},
    "ffn": {"ffn": "mlp2"},
    "activation": {"ffn": "mlp2", "activation": "tanh"},
    "attention_scale": {"attention_scale": "sqrt_d"},
    "attention_special": {"attention_special": "drop"},
    "residual_attention": {"residual_attention": "renorm"},
    "residual_attention_of_one_token": {"residual_attention": "renorm", "attention_special": "drop"},
    "reconstruction_target": {"reconstruction_target": "mean"},
    "reconstruction_mlp_all": {"reconstruction_mlp": "all"},
    "reconstruction_mlp_none": {"reconstruction_mlp": "none"},
    "contrast_hinge": {"contrast": "hinge"},
    "contrast_softmax": {"contrast": "softmax"},
    "temperature": {"contrast": "softmax", "temperature": 0.5},
    "several": {
        "ffn": "mlp2",
        "residual_attention": "renorm",
        "attention_special": "drop",
        "reconstruction_mlp": "all",
    },
}


def head(**switches) -> FmdaHead:
    torch.manual_seed(0)
    return FmdaHead(DIM, 2, FmdaConfig(**switches)).double()


def batch_of_pairs(seed: int = 0) -> dict[str, torch.Tensor]:
    batch = {}
    for offset, side in enumerate(SIDES):
        for role, lengths in ((side, LENGTHS[side]), (f"{side}_negative", NEGATIVES[side])):
            seed += 10
            texts = grouped_texts(lengths, DIM, seed=seed)
            batch |= {f"{role}_{name}": value for name, value in texts.items()}
            batch[f"{role}_vectors"] = random_rows(4, DIM, seed=seed + 3)
        batch[f"{side}_template_vectors"] = random_rows(4, DIM, seed=seed + 1)
        batch[f"{side}_residual_vectors"] = random_rows(4, DIM, seed=seed + 2)
        batch[f"{side}_has_residual"] = torch.tensor(HAS_RESIDUAL[side], dtype=torch.float64)
        batch[f"{side}_language"] = torch.tensor([offset, 1 - offset, offset, offset])
    return batch | {"role_vectors": torch.stack([batch[f"{role}_vectors"] for role in ROLES])}


def add(*vectors):
    return [sum(values) for values in zip(*vectors, strict=True)]


def squared_error(left, right):
    return sum((a - b) ** 2 for a, b in zip(left, right, strict=True)) / len(left)


def softmax(scores):
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


ACTIVATIONS = {
    nn.GELU: lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    nn.Tanh: math.tanh,
    nn.ReLU: lambda x: max(0.0, x),
}


def through(layer, x):
    if isinstance(layer, nn.Sequential):
        for part in layer:
            x = through(part, x)
        return x
    if type(layer) in ACTIVATIONS:
        return [ACTIVATIONS[type(layer)](value) for value in x]
    return [dot(row, x) + bias for row, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)]


def loop_embed(head: FmdaHead, vector, tokens) -> dict[str, list[float]]:
    config = head.config
    if config.attention_special == "drop":
        tokens = tokens[1:-1]
    query = through(head.attention.query, vector)
    scale = 1 / math.sqrt(DIM) if config.attention_scale == "sqrt_d" else 1.0
    attention = softmax([scale * dot(query, through(head.attention.key, token)) for token in tokens])
    if config.residual_attention == "softmax":
        complement = softmax([1 - weight for weight in attention])
    elif len(tokens) == 1:
        complement = [1.0]
    else:
        complement = [(1 - weight) / (len(tokens) - 1) for weight in attention]
    parts = {}
    for name, weights, value in (
        ("template", attention, head.attention.template_value),
        ("residual", complement, head.attention.residual_value),
    ):
        weighted = [[weight * x for x in through(value, token)] for weight, token in zip(weights, tokens, strict=True)]
        parts[name] = add(*weighted)
    meaning = through(head.meaning, add(parts["template"], parts["residual"]))
    return {**parts, "meaning": meaning, "language": through(head.language, vector)}


def real_tokens(batch, role, row):
    place, group = int(batch[f"{role}_place"][row]), 0
    while place >= len(batch[f"{role}_mask_{group}"]):
        place -= len(batch[f"{role}_mask_{group}"])
        group += 1
    return batch[f"{role}_states_{group}"][place][batch[f"{role}_mask_{group}"][place]].tolist()


def texts_of(batch, role):
    return {name.removeprefix(f"{role}_"): value for name, value in batch.items() if name.startswith(f"{role}_")}


def loop_embeddings(head, batch, role):
    vectors = batch[f"{role}_vectors"].tolist()
    return [loop_embed(head, vector, real_tokens(batch, role, row)) for row, vector in enumerate(vectors)]


def loop_contrast(config, sources, targets, negatives, part):
    rows, total = range(len(sources)), 0.0
    for i in rows:
        source, target = sources[i][part], targets[i][part]
        pulled, first, second = (
            cosine(source, target),
            cosine(source, negatives["source"][i][part]),
            cosine(target, negatives["target"][i][part]),
        )
        if config.contrast == "linear":
            total += -pulled + first + second
        elif config.contrast == "hinge":
            total += 1 - pulled + max(0.0, first) + max(0.0, second)
        else:
            for anchor, positives, negative in ((source, targets, first), (target, sources, second)):
                scores = [cosine(anchor, other[part]) for other in positives] + [negative]
                total -= math.log(softmax([score / config.temperature for score in scores])[i])
    return total / len(sources)


def loop_terms(head: FmdaHead, batch) -> dict[str, float]:
    config, count = head.config, len(batch["source_vectors"])
    embedded = {side: loop_embeddings(head, batch, side) for side in SIDES}
    negatives = {side: loop_embeddings(head, batch, f"{side}_negative") for side in SIDES}
    terms = dict.fromkeys(["language_identification", *set.union(*GROUPS.values())], 0.0)
    for side in SIDES:
        for i in range(count):
            mine, others = embedded[side][i], embedded[OTHER[side]][i]
            chances = softmax(through(head.identity, mine["language"]))
            terms["language_identification"] -= math.log(chances[batch[f"{side}_language"][i]]) / count
            total = add(mine["language"], mine["template"], mine["residual"])
            if config.reconstruction_mlp != "none":
                total = through(head.utterance, total)
            target = batch[f"{side}_vectors"][i].tolist()
            if config.reconstruction_target == "mean":
                tokens = real_tokens(batch, side, i)
                target = [value / len(tokens) for value in add(*tokens)]
            terms["utterance_reconstruction"] += squared_error(total, target) / count
            for part in ("template", "residual"):
                for kind, language, at in (("", mine, side), ("cross_", others, OTHER[side])):
                    total = add(mine[part], language["language"])
                    if config.reconstruction_mlp == "all":
                        total = through(getattr(head, f"{part}_target"), total)
                    weight = batch[f"{at}_has_residual"][i].item() if part == "residual" else 1.0
                    error = squared_error(total, batch[f"{at}_{part}_vectors"][i].tolist())
                    terms[f"{part}_{kind}reconstruction"] += weight * error / count
    for part in ("template", "meaning"):
        terms[f"{part}_contrast"] = loop_contrast(config, embedded["source"], embedded["target"], negatives, part)
    left_out = set().union(*(GROUPS[group] for group in config.without))
    return {name: value for name, value in terms.items() if name not in left_out}
