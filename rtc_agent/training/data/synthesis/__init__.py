"""Free speech synthesisers, driven as programs or libraries to make training data."""
