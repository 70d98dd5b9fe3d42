"""Messages as pure functions and types; no I/O of any kind."""
