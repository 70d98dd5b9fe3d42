"""Trainable tensors by checkpoint key."""

from __future__ import annotations

import torch

from rtc_agent.training.keyed import KeyedTensors, decay_groups, keyed_state
from rtc_agent.training.lm_init import is_embedding, new_lm
from tests.training.small_model import SPEC


def test_keys_and_gradients_go_through() -> None:
    tensors = KeyedTensors({"a.b": torch.ones(3), "a.c": torch.ones(2)}, lambda key: key == "a.c")
    tensors.fetch("a.b").sum().backward()
    (trained,) = tensors.trained()
    assert trained.grad is not None and trained.grad.tolist() == [1, 1, 1]
    assert tensors.fetch("a.b", 2).shape == (2,)
    assert not tensors.fetch("a.c").requires_grad
    assert keyed_state(tensors.state_dict()).keys() == tensors.export().keys() == {"a.b", "a.c"}


def test_gains_and_embeddings_do_not_decay() -> None:
    tensors = new_lm(SPEC.lm, 0)
    spared = tensors.trained(is_embedding)
    decayed, rest = decay_groups(tensors, 0.05, spared)
    mine = {id(p) for p in rest["params"]}  # type: ignore[attr-defined]
    for key in tensors.keys:
        gain_or_table = key.endswith("alpha") or "emb." in key
        assert (id(tensors.fetch(key)) in mine) is gain_or_table, key
    assert decayed["weight_decay"] == 0.05 and rest["weight_decay"] == 0
    assert len(decayed["params"]) + len(mine) == len(tensors.keys)  # type: ignore[arg-type]
