"""Recording launches once, to be replayed as one."""

from __future__ import annotations

from collections.abc import Callable

import torch

from rtc_agent.errors import CaptureFailed


def capture(launch: Callable[[], None], device: torch.device) -> torch.cuda.CUDAGraph:
    """A CUDA graph of what `launch` does on static buffers; it is run once before.

    Raises:
        CaptureFailed: the device refused, with its reason.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.device(device):
            stream = torch.cuda.Stream(device)
            # What was asked of the device before has to be seen by the new stream.
            torch.cuda.synchronize(device)
            with torch.cuda.stream(stream):
                # Compiling and loading a kernel is nothing that a graph can record.
                launch()
                stream.synchronize()
                with torch.cuda.graph(graph, stream=stream):
                    launch()
            torch.cuda.synchronize(device)
    except Exception as error:
        reason = str(error).strip().split("\n", 1)[0]
        raise CaptureFailed(
            f"The model's tick could not be captured on {torch.cuda.get_device_name(device)}: "
            f"{type(error).__name__}: {reason}. `--kernels off` runs without."
        ) from error
    return graph
