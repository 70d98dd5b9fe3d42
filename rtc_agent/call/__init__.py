"""One call: its states, its limits, its text channel. Knows no web framework."""
