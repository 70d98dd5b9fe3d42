"""Float32 that is float32."""

from __future__ import annotations

import torch


def use_exact_float32() -> None:
    """Keep CUDA from rounding float32 products to TF32, for the whole process.

    The codec is float32 by its reference, and cuDNN's convolutions round by default.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
