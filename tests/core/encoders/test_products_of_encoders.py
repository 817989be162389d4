"""The key `products` of encoders of every kind, and encoders that are older than it."""

import pytest
from word_bert import config, save_model

from disent_core.encoders import describe_config
from disent_core.encoders.kinds.huggingface import encoder_fingerprint
from disent_core.encoders.kinds.scratch import ScratchConfig
from disent_core.lineage.head_records import encoder_of
from disent_core.storage.tables import fingerprint
from tests.core import tiny_teacher


@pytest.mark.parametrize("products", ["onednn", "torch"])
def test_a_distilled_encoder_and_that_of_a_head_have_the_products_that_they_were_given(tmp_path, products):
    assert tiny_teacher.config(products=products).model(tmp_path).products == products
    own = config(save_model(tmp_path / "model"), products=products)
    described = describe_config(own, tmp_path)
    assert encoder_of(tmp_path, described, tmp_path, ()) == own


def test_distilled_encoders_have_onednns_products_by_default_and_pretrained_ones_torchs(tmp_path):
    made = [one.model(tmp_path).products for one in (tiny_teacher.config(), ScratchConfig(name="tiny"))]
    assert made == ["onednn", "torch"]


def test_torchs_products_keep_the_fingerprint_from_before_the_key_and_the_student():
    torch_, onednn = (tiny_teacher.config(products=one) for one in ("torch", "onednn"))
    assert "products" not in f"{torch_}"
    assert fingerprint(torch_) == fingerprint(repr(onednn))
    assert fingerprint(torch_) != fingerprint(onednn)
    torch_, onednn = (tiny_teacher.config(products=one).identity(is_student=True) for one in ("torch", "onednn"))
    assert torch_ == onednn


def test_a_head_that_is_older_than_the_key_has_torchs_products(tmp_path):
    own = config(save_model(tmp_path / "model"), products="torch")
    described = {name: value for name, value in describe_config(own, tmp_path).items() if name != "products"}
    assert encoder_fingerprint(encoder_of(tmp_path, described, tmp_path, ()), {}) == encoder_fingerprint(own, {})
