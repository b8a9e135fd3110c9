"""Deep GP Lab's own model, asked as its peers are."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from serve import serve

from dgp_core.gp.kernels import RBF
from dgp_core.gp.layers import Layer, factorise, kl_from_prior
from dgp_core.gp.likelihoods import Gaussian
from dgp_core.gp.model import ModelSpec, create_model, expected_log_likelihood
from dgp_core.gp.predict import predict_latent, predict_observed
from dgp_core.training.optimise import create_state
from dgp_core.training.train import LONGEST_CHUNK, Rows, TrainSpec, train_chunk

PEERS_JITTER = 1e-6
"""What GPflow adds to Kzz's diagonal, whatever the kernel's variance."""


class Model:
    def prepare(self, X, Y, layers, inducing, minibatch, natural, seed):
        """The default recipe; without natural gradients, Adam on every parameter at one rate."""
        self.train = TrainSpec(seed=seed, minibatch=minibatch)
        if not natural:
            self.train = replace(self.train, natural_rate=0.0, decay=False)
        model = create_model(ModelSpec(layers=layers, inducing=inducing), X, seed=seed)
        self.state = create_state(model, jax.random.key(seed))
        self.rows = Rows.create(X, Y, minibatch, jnp.float64, seed)

    def steps(self, n):
        for start in range(0, n, LONGEST_CHUNK):
            size = min(LONGEST_CHUNK, n - start)
            self.state, _ = train_chunk(self.state, self.rows, self.train, size)

    def predict(self, X):
        """Moments of y on every sample path: two of (S, N)."""
        model = self.state.model
        y = predict_observed(model, predict_latent(model, X, jax.random.key(1)))
        return y.means[..., 0], y.variances[..., 0]

    def parameters(self):
        """Every parameter by name, layer by layer; noise between layers is left out."""
        model = self.state.model
        found = {"noise": np.asarray(model.likelihood.variance)[0]}
        for l, layer in enumerate(model.layers):
            found |= {
                f"variance_{l}": np.asarray(layer.kernel.variance),
                f"lengthscales_{l}": np.asarray(layer.kernel.lengthscales),
                f"Z_{l}": np.asarray(layer.inducing),
                f"m_{l}": np.asarray(layer.q_mean),
                f"C_{l}": np.asarray(layer.factor),
            }
        return found

    def bound(self, p):
        """Our bound at given parameters, data and ε, with a peer's jitter and no noise between
        layers; inner means are the identity."""
        X, Y = jnp.asarray(p["X"]), jnp.asarray(p["Y"])
        L = sum(name.startswith("Z_") for name in p)
        layers = [
            Layer(
                kernel=RBF(
                    jnp.log(jnp.asarray(p[f"variance_{l}"])),
                    jnp.log(jnp.asarray(p[f"lengthscales_{l}"])),
                ),
                inducing=jnp.asarray(p[f"Z_{l}"]),
                q_mean=jnp.asarray(p[f"m_{l}"]),
                q_factor=jnp.asarray(p[f"C_{l}"]),
                mean_weights=jnp.eye(p[f"Z_{l}"].shape[1]) if l < L - 1 else None,
            )
            for l in range(L)
        ]
        factors = tuple(factorise(layer, PEERS_JITTER / layer.kernel.variance) for layer in layers)
        draws = tuple(jnp.asarray(p[f"eps_{l}"]) for l in range(L - 1))
        likelihood = Gaussian(jnp.log(jnp.asarray(p["noise"]).reshape(1)))
        fit = expected_log_likelihood(factors, likelihood, X, Y, jnp.ones(len(X)), draws)
        return float(fit - sum(kl_from_prior(layer) for layer in layers))


if __name__ == "__main__":
    serve(Model())
