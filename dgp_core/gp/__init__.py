"""The deep GP as in the paper: kernels to layers, the model and its bound, predictions."""
