"""Without a GPU the kernels run in Triton's interpreter, which has to be chosen before import."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

pytest.importorskip("triton")
