"""GPyTorch's deep GP, as its documentation builds it; one layer by natural gradients, if wanted."""

import gpytorch
import numpy as np
import torch
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    NaturalVariationalDistribution,
    VariationalStrategy,
)
from scipy.cluster.vq import kmeans2
from serve import serve

torch.set_default_dtype(torch.float64)

PATHS = 100
"""Sample paths of a prediction."""


class Layer(DeepGPLayer):
    """A hidden layer with a linear mean, or the last one with a constant."""

    def __init__(self, Z, n_outputs):
        D = Z.shape[1]
        shape = torch.Size([]) if n_outputs is None else torch.Size([n_outputs])
        q = CholeskyVariationalDistribution(len(Z), batch_shape=shape)
        inducing = torch.as_tensor(Z).expand(*shape, *Z.shape).clone()
        strategy = VariationalStrategy(self, inducing, q, learn_inducing_locations=True)
        super().__init__(strategy, D, n_outputs)
        last = n_outputs is None
        self.mean_module = gpytorch.means.ConstantMean() if last else gpytorch.means.LinearMean(D)
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(batch_shape=shape, ard_num_dims=D), batch_shape=shape
        )

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Deep(DeepGP):
    """Hidden layers as wide as the inputs, and a last one."""

    def __init__(self, Z, layers):
        super().__init__()
        widths = [Z.shape[1]] * (layers - 1) + [None]
        self.layers = torch.nn.ModuleList([Layer(Z, width) for width in widths])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Single(gpytorch.models.ApproximateGP):
    """One layer; q(u) in natural parameters where natural gradients train it."""

    def __init__(self, Z, natural):
        of = NaturalVariationalDistribution if natural else CholeskyVariationalDistribution
        inducing = torch.as_tensor(Z)
        super().__init__(VariationalStrategy(self, inducing, of(len(Z)), True))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
        )

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Model:
    def prepare(self, X, Y, layers, inducing, minibatch, natural, seed):
        """Start values: the library's own, Z from k-means, noise 0.01."""
        torch.manual_seed(seed)
        self.X, self.y = torch.as_tensor(X), torch.as_tensor(Y[:, 0])
        self.minibatch = len(X) if minibatch is None else min(minibatch, len(X))
        Z = kmeans2(X, inducing, minit="points", seed=seed)[0]
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.likelihood.noise = 0.01
        self.deep = layers > 1
        self.model = Deep(Z, layers) if self.deep else Single(Z, natural)
        bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(X))
        self.bound = gpytorch.mlls.DeepApproximateMLL(bound) if self.deep else bound
        others = [*self.model.parameters(), *self.likelihood.parameters()]
        self.optimisers = []
        if natural and not self.deep:
            self.optimisers = [
                gpytorch.optim.NGD(self.model.variational_parameters(), num_data=len(X), lr=0.1)
            ]
            others = [*self.model.hyperparameters(), *self.likelihood.parameters()]
        self.optimisers.append(torch.optim.Adam(others, lr=0.01))

    def steps(self, n):
        self.model.train()
        self.likelihood.train()
        N, B = len(self.X), self.minibatch
        with gpytorch.settings.num_likelihood_samples(1):
            for _ in range(n):
                rows = slice(None) if B == N else torch.randint(N, (B,))
                for optimiser in self.optimisers:
                    optimiser.zero_grad()
                loss = -self.bound(self.model(self.X[rows]), self.y[rows])
                loss.backward()
                for optimiser in self.optimisers:
                    optimiser.step()

    def predict(self, X):
        """Moments of y on every sample path: two of (S, N)."""
        self.model.eval()
        self.likelihood.eval()
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(PATHS if self.deep else 1):
            y = self.likelihood(self.model(torch.as_tensor(X)))
        mean, variance = y.mean.numpy(), y.variance.numpy()
        return (mean, variance) if self.deep else (mean[None], variance[None])


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve(Model())
