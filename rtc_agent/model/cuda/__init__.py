"""The model's tick on a CUDA device: our kernels over static buffers, captured as one graph."""
