"""The engine room: one batched stepper, its slots and the 80 ms tick. Knows no RTP and no HTTP."""
