"""Triton kernels of the CUDA stepper: everything between two tokens columns, on one device.

Importing a module of this package needs `triton`. On a machine without a GPU the kernels run in
Triton's interpreter when `TRITON_INTERPRET=1` is set before the first import.
"""
