"""Training: one safe step, where minibatches come from, the loop, and compiled programs."""
