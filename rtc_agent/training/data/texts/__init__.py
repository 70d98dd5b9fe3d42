"""What is said: the demo agent's closed domain, and what lies outside it."""
