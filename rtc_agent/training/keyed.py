"""Trainable tensors under the very keys that a checkpoint has.

The groups that the run-time works on are assembled from a function of keys; given this one, they
hold what is being trained, and gradients flow back through them. So training and run-time cannot
disagree about what a key means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

Draw = Callable[[str, tuple[int, ...], torch.Generator], Tensor]
"""Key, shape and source of chance to a tensor's first value, on the CPU."""


class KeyedTensors(nn.Module):
    """Parameters and buffers by checkpoint key.

    Args:
        fixed: whether a key's tensor is not trained by gradients.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], fixed: Callable[[str], bool] = lambda _: False
    ) -> None:
        super().__init__()
        self.keys = tuple(tensors)
        for key, tensor in tensors.items():
            if fixed(key):
                self.register_buffer(_name(key), tensor)
            else:
                self.register_parameter(_name(key), nn.Parameter(tensor))

    def fetch(self, key: str, rows: int | None = None) -> Tensor:
        """As `rtc_agent.model.weights.Fetch`."""
        tensor: Tensor = getattr(self, _name(key))
        return tensor if rows is None else tensor[:rows]

    def trained(self, keys: Callable[[str], bool] = lambda _: True) -> list[nn.Parameter]:
        """The parameters of the keys that pass."""
        held = (getattr(self, _name(key)) for key in self.keys if keys(key))
        return [tensor for tensor in held if isinstance(tensor, nn.Parameter)]

    def export(self) -> dict[str, Tensor]:
        """Copies on the CPU, as a checkpoint holds them."""
        return {key: self.fetch(key).detach().cpu().clone() for key in self.keys}


def keyed_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A saved `KeyedTensors` by checkpoint keys."""
    return {name.replace("/", "."): tensor for name, tensor in state.items()}


def module_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Its inverse."""
    return {_name(key): tensor for key, tensor in tensors.items()}


def drawn(shapes: Mapping[str, tuple[int, ...]], draw: Draw, seed: int) -> dict[str, Tensor]:
    """First values of every key, on the CPU, so that a seed means the same on any device."""
    generator = torch.Generator().manual_seed(seed)
    return {key: draw(key, shape, generator) for key, shape in shapes.items()}


def decay_groups(
    module: nn.Module, weight_decay: float, spared: Iterable[nn.Parameter] = ()
) -> list[dict[str, object]]:
    """Optimiser groups: matrices decay; vectors and the `spared` do not."""
    kept = {id(parameter) for parameter in spared}
    wanted = [p for p in module.parameters() if p.requires_grad]
    decayed = [p for p in wanted if is_matrix(p) and id(p) not in kept]
    rest = [p for p in wanted if not is_matrix(p) or id(p) in kept]
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]


def is_matrix(tensor: Tensor) -> bool:
    """Whether it has rows and columns, as weights have and gains and biases have not."""
    return bool(sum(size > 1 for size in tensor.shape) > 1)


def _name(key: str) -> str:
    # A module's names may hold no dots.
    return key.replace(".", "/")
