"""How well a trained model holds calls, measured through the run-time's own stepper."""
