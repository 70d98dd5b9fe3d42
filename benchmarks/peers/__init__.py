"""Echo servers of other projects, as their own examples build them, for `media_peers.py`."""
