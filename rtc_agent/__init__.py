"""PersonaPlex-7B on a real call: full-duplex speech to speech over WebRTC."""

__version__ = "0.1.0"
