"""GPflow's SVGP and GPflux's deep GP, as their documentation builds them, in a compiled loop."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import gpflow
import gpflux
import numpy as np
import tensorflow as tf
import tf_keras
from gpflux.architectures import Config, build_constant_input_dim_deep_gp
from scipy.cluster.vq import kmeans2
from serve import serve

LOOP = 100
"""Steps of one compiled loop."""

PATHS = 100
"""Sample paths of a prediction."""


class GivenDraws(gpflux.layers.GPLayer):
    """A layer whose sample is μ + ε √Σ with a given ε, instead of one of its own."""

    eps = None

    def _convert_to_tensor_fn(self, distribution):
        return distribution.mean() + self.eps * distribution.stddev()


class Model:
    def prepare(self, X, Y, layers, inducing, minibatch, natural, seed):
        """Start values: the documentation's; one layer is GPflow's SVGP."""
        np.random.seed(seed)
        tf.random.set_seed(seed)
        self.X, self.Y = tf.constant(X), tf.constant(Y)
        self.layers, N = layers, len(X)
        if layers == 1:
            Z = kmeans2(X, inducing, minit="points", seed=seed)[0]
            self.model = gpflow.models.SVGP(
                gpflow.kernels.SquaredExponential(lengthscales=[2.0] * X.shape[1]),
                gpflow.likelihoods.Gaussian(0.01),
                Z,
                num_data=N,
            )
        else:
            self.model = build_constant_input_dim_deep_gp(X, layers, Config(inducing, 1e-5, 1e-2))
        adam = tf_keras.optimizers.Adam(0.01)
        q = None
        if natural and layers == 1:
            q = (self.model.q_mu, self.model.q_sqrt)
            gpflow.set_trainable(self.model.q_mu, False)
            gpflow.set_trainable(self.model.q_sqrt, False)
            descent = gpflow.optimizers.NaturalGradient(gamma=0.1)
        parts = [self.model] if layers == 1 else [*self.model.f_layers, self.model.likelihood_layer]
        variables = [v for part in parts for v in part.trainable_variables]

        def batch():
            if minibatch is None or minibatch >= N:
                return self.X, self.Y
            rows = tf.random.uniform([minibatch], 0, N, tf.int32)
            return tf.gather(self.X, rows), tf.gather(self.Y, rows)

        @tf.function
        def loop(n):
            for _ in tf.range(n):
                data = batch()
                if q is not None:
                    descent.minimize(lambda data=data: -self.model.elbo(data), [q])
                with tf.GradientTape() as tape:
                    loss = -self.model.elbo(data)
                adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

        adam.build(variables)
        self.loop = loop

    def steps(self, n):
        for start in range(0, n, LOOP):
            self.loop(tf.constant(min(LOOP, n - start)))

    def predict(self, X):
        """Moments of y on every sample path: two of (S, N)."""
        X = tf.constant(X)
        if self.layers == 1:
            mean, variance = self.model.predict_y(X)
            return mean.numpy()[None, :, 0], variance.numpy()[None, :, 0]
        noise = self.model.likelihood_layer.likelihood.variance.numpy()
        draw = tf.function(self.model.predict_f)
        draws = [draw(X) for _ in range(PATHS)]
        means = np.stack([mean.numpy()[:, 0] for mean, _ in draws])
        return means, np.stack([variance.numpy()[:, 0] for _, variance in draws]) + noise

    def parameters(self):
        """Every parameter by name, layer by layer."""
        if self.layers == 1:
            parts = [(self.model, self.model.kernel, self.model.inducing_variable)]
            likelihood = self.model.likelihood
        else:
            likelihood = self.model.likelihood_layer.likelihood
            parts = [
                (layer, layer.kernel.kernel, layer.inducing_variable.inducing_variable)
                for layer in self.model.f_layers
            ]
        found = {"noise": likelihood.variance.numpy()}
        for l, (q, kernel, inducing) in enumerate(parts):
            found |= {
                f"variance_{l}": kernel.variance.numpy(),
                f"lengthscales_{l}": kernel.lengthscales.numpy(),
                f"Z_{l}": inducing.Z.numpy(),
                f"m_{l}": q.q_mu.numpy(),
                f"C_{l}": q.q_sqrt.numpy(),
            }
        return found

    def bound(self, p):
        """The library's own bound at given parameters, data and ε; inner means are the identity."""
        N, L = len(p["X"]), sum(name.startswith("Z_") for name in p)

        def kernel(l):
            return gpflow.kernels.SquaredExponential(
                variance=p[f"variance_{l}"], lengthscales=p[f"lengthscales_{l}"]
            )

        likelihood = gpflow.likelihoods.Gaussian(p["noise"])
        data = tf.constant(p["X"]), tf.constant(p["Y"])
        if L == 1:
            model = gpflow.models.SVGP(
                kernel(0),
                likelihood,
                p["Z_0"],
                q_mu=p["m_0"],
                q_sqrt=p["C_0"],
                num_data=N,
            )
            return float(model.elbo(data))
        layers = []
        for l in range(L):
            P = p[f"m_{l}"].shape[1]
            layer = GivenDraws(
                gpflow.kernels.SharedIndependent(kernel(l), P),
                gpflow.inducing_variables.SharedIndependentInducingVariables(
                    gpflow.inducing_variables.InducingPoints(p[f"Z_{l}"])
                ),
                N,
                mean_function=gpflow.mean_functions.Identity()
                if l < L - 1
                else gpflow.mean_functions.Zero(),
            )
            layer.q_mu.assign(p[f"m_{l}"])
            layer.q_sqrt.assign(p[f"C_{l}"])
            layer.eps = tf.constant(p[f"eps_{l}"]) if l < L - 1 else 0.0
            layers.append(layer)
        return float(gpflux.models.DeepGP(layers, likelihood).elbo(data))


if __name__ == "__main__":
    serve(Model())
