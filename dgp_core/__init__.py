"""Deep Gaussian processes trained by doubly stochastic variational inference.

After Salimbeni & Deisenroth, "Doubly stochastic variational inference for deep Gaussian
processes" (NIPS 2017). Axis letters, here once and for all:

    S samples · N rows · B minibatch · M inducing points · D inputs · P outputs · L layers
"""

import jax

# A global setting, since the context manager does not reach a background thread.
jax.config.update("jax_enable_x64", True)
