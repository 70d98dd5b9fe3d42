"""The demo agent's sizes: 13 million parameters of language model and 6 million of codec."""

from __future__ import annotations

from rtc_agent.model.spec import PERSONAPLEX, LmSpec, MimiSpec, ModelSpec

FRAMES = 800
"""Frames of a conversation in training: 64 s, and the window of the model."""

DEMO_SPEC = ModelSpec(
    family=PERSONAPLEX,
    lm=LmSpec(
        dim=256,
        num_layers=8,
        num_heads=8,
        # Four times the width instead of the usual 4.125 keeps both files within 20 MB.
        feedforward=1024,
        context=FRAMES + PERSONAPLEX.ring_loss,
        window=FRAMES,
        depformer_dim=128,
        depformer_num_layers=2,
        depformer_num_heads=4,
        depformer_feedforward=512,
        depformer_checkpoint_steps=8,
        # The reference's ring, as the run-time has it: step 7 does not see step 0.
        depformer_window=8 - PERSONAPLEX.ring_loss,
        text_card=512,
        card=512,
    ),
    mimi=MimiSpec(
        n_filters=24,
        dimension=192,
        transformer_layers=2,
        transformer_heads=6,
        transformer_ffn=768,
        quantizer_dimension=96,
        bins=512,
        n_q_total=8,
    ),
    # Whatever the trained codec makes of silence and of a sine is put here.
    silence_codes=(0,) * 8,
    sine_codes=(0,) * 8,
)
