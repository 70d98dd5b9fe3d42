"""Talker and code2wav set apart: on two devices, in two processes, or both."""
