"""FMDA equals its formulas, written as loops over pairs, tokens and dimensions with plain floats.

The loops take the long way: keys and values of every token, with their biases, before any sum.
"""

import math
from dataclasses import replace

import pytest
import torch
from synthetic import grouped_texts, random_rows
from torch import nn

from disent_core.heads.fmda import METHOD, FmdaConfig, FmdaHead, residual_attention, without_special_tokens

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
SWITCHES = {
    "paper": {},
    "ffn": {"ffn": "mlp2"},
    "activation": {"ffn": "mlp2", "activation": "tanh"},
    "attention_scale": {"attention_scale": "sqrt_d"},
    "attention_special": {"attention_special": "drop"},
    "residual_attention": {"residual_attention": "renorm"},
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
    return batch


# --- the loops --------------------------------------------------------------------------------------------


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def add(*vectors):
    return [sum(values) for values in zip(*vectors, strict=True)]


def cosine(left, right):
    return dot(left, right) / math.sqrt(dot(left, left)) / math.sqrt(dot(right, right))


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


def loop_embed(own: FmdaHead, vector, tokens) -> dict[str, list[float]]:
    config = own.config
    if config.attention_special == "drop":
        tokens = tokens[1:-1]
    query = through(own.query, vector)
    scale = 1 / math.sqrt(DIM) if config.attention_scale == "sqrt_d" else 1.0
    attention = softmax([scale * dot(query, through(own.key, token)) for token in tokens])
    if config.residual_attention == "softmax":
        rest = softmax([1 - weight for weight in attention])
    else:
        # A single token leaves nothing: weight 0.
        rest = [(1 - weight) / max(1, len(tokens) - 1) for weight in attention]
    parts = {}
    for name, weights, value in (
        ("template", attention, own.template_value),
        ("residual", rest, own.residual_value),
    ):
        weighted = [[weight * x for x in through(value, token)] for weight, token in zip(weights, tokens, strict=True)]
        parts[name] = add(*weighted)
    meaning = through(own.meaning, add(parts["template"], parts["residual"]))
    return {**parts, "meaning": meaning, "language": through(own.language, vector)}


def real_tokens(batch, role, row):
    place, group = int(batch[f"{role}_place"][row]), 0
    while place >= len(batch[f"{role}_mask_{group}"]):
        place -= len(batch[f"{role}_mask_{group}"])
        group += 1
    return batch[f"{role}_states_{group}"][place][batch[f"{role}_mask_{group}"][place]].tolist()


def texts_of(batch, role):
    return {name.removeprefix(f"{role}_"): value for name, value in batch.items() if name.startswith(f"{role}_")}


def loop_embeddings(own, batch, role):
    vectors = batch[f"{role}_vectors"].tolist()
    return [loop_embed(own, vector, real_tokens(batch, role, row)) for row, vector in enumerate(vectors)]


def loop_contrast(config, ones, twos, negatives, part):
    rows, total = range(len(ones)), 0.0
    for i in rows:
        one, two = ones[i][part], twos[i][part]
        pulled, first, second = (
            cosine(one, two),
            cosine(one, negatives["source"][i][part]),
            cosine(two, negatives["target"][i][part]),
        )
        if config.contrast == "linear":
            total += -pulled + first + second
        elif config.contrast == "hinge":
            total += 1 - pulled + max(0.0, first) + max(0.0, second)
        else:
            for anchor, positives, negative in ((one, twos, first), (two, ones, second)):
                scores = [cosine(anchor, other[part]) for other in positives] + [negative]
                total -= math.log(softmax([score / config.temperature for score in scores])[i])
    return total / len(ones)


def loop_terms(own: FmdaHead, batch) -> dict[str, float]:
    config, count = own.config, len(batch["source_vectors"])
    embedded = {side: loop_embeddings(own, batch, side) for side in SIDES}
    negatives = {side: loop_embeddings(own, batch, f"{side}_negative") for side in SIDES}
    terms = dict.fromkeys(["language_identification", *set.union(*GROUPS.values())], 0.0)
    for side in SIDES:
        for i in range(count):
            mine, others = embedded[side][i], embedded[OTHER[side]][i]
            chances = softmax(through(own.identity, mine["language"]))
            terms["language_identification"] -= math.log(chances[batch[f"{side}_language"][i]]) / count
            total = add(mine["language"], mine["template"], mine["residual"])
            if config.reconstruction_mlp != "none":
                total = through(own.utterance, total)
            target = batch[f"{side}_vectors"][i].tolist()
            if config.reconstruction_target == "mean":
                tokens = real_tokens(batch, side, i)
                target = [value / len(tokens) for value in add(*tokens)]
            terms["utterance_reconstruction"] += squared_error(total, target) / count
            for part in ("template", "residual"):
                for kind, language, at in (("", mine, side), ("cross_", others, OTHER[side])):
                    total = add(mine[part], language["language"])
                    if config.reconstruction_mlp == "all":
                        total = through(getattr(own, f"{part}_target"), total)
                    weight = batch[f"{at}_has_residual"][i].item() if part == "residual" else 1.0
                    error = squared_error(total, batch[f"{at}_{part}_vectors"][i].tolist())
                    terms[f"{part}_{kind}reconstruction"] += weight * error / count
    for part in ("template", "meaning"):
        terms[f"{part}_contrast"] = loop_contrast(config, embedded["source"], embedded["target"], negatives, part)
    left_out = set().union(*(GROUPS[group] for group in config.without))
    return {name: value for name, value in terms.items() if name not in left_out}


# --- the claims -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_every_term_equals_a_loop_over_pairs_and_tokens(switches):
    own, batch = head(**switches), batch_of_pairs()
    found = {name: value.item() for name, value in own(batch).items()}
    assert found == pytest.approx(loop_terms(own, batch), abs=1e-9)


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_embeddings_equal_attention_with_keys_and_values_of_every_token(switches):
    own, batch = head(**switches), batch_of_pairs()
    found = own.embed(texts_of(batch, "source"))
    for name, rows in found.items():
        expected = [one[name] for one in loop_embeddings(own, batch, "source")]
        assert torch.allclose(rows, torch.tensor(expected, dtype=torch.float64), atol=1e-9), name


def test_embeddings_in_float32_equal_the_loop_to_1e_6():
    own, batch = head(), batch_of_pairs()
    texts = {name: value.float() if value.is_floating_point() else value for name, value in batch.items()}
    single = own.float().embed(texts_of(texts, "source"))
    own.double()
    for name, rows in single.items():
        expected = [one[name] for one in loop_embeddings(own, batch, "source")]
        assert torch.allclose(rows.double(), torch.tensor(expected, dtype=torch.float64), atol=1e-6), name


@pytest.mark.parametrize("switches", [value for name, value in SWITCHES.items() if name != "paper"])
def test_every_switch_changes_a_term(switches):
    batch = batch_of_pairs()
    changed, paper = head(**switches)(batch), head()(batch)
    assert any(abs(changed[name] - paper[name]) > 1e-6 for name in paper)


@pytest.mark.parametrize("group", GROUPS)
def test_without_leaves_out_the_terms_of_its_group_and_no_other(group):
    batch = batch_of_pairs()
    everything, rest = head()(batch), head(without=(group,))(batch)
    assert set(everything) - set(rest) == GROUPS[group]
    assert all(torch.equal(rest[name], everything[name]) for name in rest)


def test_without_every_group_only_language_identification_is_left():
    assert list(head(without=tuple(GROUPS))(batch_of_pairs())) == ["language_identification"]


def test_the_terms_are_the_eight_names_of_fourteen_losses():
    assert set(head()(batch_of_pairs())) == {"language_identification"}.union(*GROUPS.values())


def more_padding(batch, count, value):
    """The same texts with more padding, and all padding of another value."""
    wider = dict(batch)
    for name in [name for name in batch if "_mask_" in name]:
        states = name.replace("_mask_", "_states_")
        wider[name] = nn.functional.pad(batch[name], (0, count))
        padded = nn.functional.pad(batch[states], (0, 0, 0, count))
        wider[states] = padded.masked_fill(~wider[name].unsqueeze(-1), value)
    return wider


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_padding_never_matters(switches):
    own, batch = head(**switches), batch_of_pairs()
    expected = {name: value.item() for name, value in own(batch).items()}
    padded = own(more_padding(batch, 4, 100.0))
    assert {name: value.item() for name, value in padded.items()} == pytest.approx(expected, abs=1e-9)


def test_groups_of_similar_length_change_no_term():
    own, batch = head(reconstruction_target="mean"), batch_of_pairs()
    as_one = {name: value for name, value in batch.items() if not name[-1].isdigit() and "order" not in name}
    for role in ("source", "target", "source_negative", "target_negative"):
        tokens = [torch.tensor(real_tokens(batch, role, row), dtype=torch.float64) for row in range(4)]
        as_one[f"{role}_states_0"] = nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        lengths = torch.tensor([len(own_tokens) for own_tokens in tokens]).unsqueeze(1)
        as_one[f"{role}_mask_0"] = torch.arange(int(lengths.max())) < lengths
        as_one |= {f"{role}_order": torch.arange(4), f"{role}_place": torch.arange(4)}
    grouped, single = own(batch), own(as_one)
    assert {name: value.item() for name, value in single.items()} == pytest.approx(
        {name: value.item() for name, value in grouped.items()}, abs=1e-9
    )


@pytest.mark.parametrize("form", ["softmax", "renorm"])
def test_residual_attention_gives_padding_no_weight_and_sums_to_one(form):
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    attention = random_rows(2, 4, seed=0).masked_fill(~mask, float("-inf")).softmax(dim=-1)
    rest = residual_attention(attention, mask, form)
    assert (rest[~mask] == 0).all()
    assert rest.sum(dim=-1).tolist() == pytest.approx([1.0, 1.0])


def test_renormalised_residual_attention_of_a_single_token_is_finite():
    attention = torch.ones(1, 1)
    assert residual_attention(attention, torch.ones(1, 1, dtype=torch.bool), "renorm").tolist() == [[0.0]]


def test_dropping_special_tokens_hides_first_and_last_but_keeps_texts_of_nothing_else():
    lengths = torch.tensor([4, 3, 2, 1])
    mask = torch.arange(4) < lengths.unsqueeze(1)
    assert without_special_tokens(mask).int().tolist() == [[0, 1, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]]


def test_rows_without_residual_weigh_nothing():
    own, batch = head(), batch_of_pairs()
    changed = dict(batch)
    for side in SIDES:
        rows = batch[f"{side}_has_residual"] == 0
        changed[f"{side}_residual_vectors"] = torch.where(rows.unsqueeze(-1), 99.0, batch[f"{side}_residual_vectors"])
    before, after = own(batch), own(changed)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_bias_of_the_keys_has_no_effect():
    own, batch = head(), batch_of_pairs()
    before = own(batch)
    with torch.no_grad():
        own.key.bias.add_(3)
    after = own(batch)
    assert all(torch.equal(before[name], after[name]) for name in before)
    expected = loop_terms(own, batch)  # which does add the bias to every key
    assert {name: value.item() for name, value in after.items()} == pytest.approx(expected, abs=1e-9)


def test_gradients_reach_every_parameter_of_the_paper_preset_but_the_keys_bias():
    own = head()
    sum(own(batch_of_pairs()).values()).backward()
    still = {name for name, value in own.named_parameters() if value.grad is None or not value.grad.abs().sum() > 0}
    assert still == {"key.bias"}


def test_one_optimisation_step_lowers_the_total():
    own, batch = head(), batch_of_pairs()
    optimiser = torch.optim.SGD(own.parameters(), lr=0.01)
    before = sum(own(batch).values())
    before.backward()
    optimiser.step()
    assert sum(own(batch).values()) < before


def test_the_paper_preset_has_the_papers_settings():
    paper = METHOD.presets["paper"]
    assert (paper.learning_rate, paper.batch_size, paper.patience) == (1e-4, 512, 15)
    assert paper == replace(FmdaConfig(), monitor="dev_retrieval")


def test_a_temperature_that_is_not_positive_is_rejected():
    with pytest.raises(ValueError, match="temperature must be positive, not 0"):
        FmdaConfig(temperature=0.0)
