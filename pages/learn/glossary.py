"""Every term and symbol, with an anchor that lessons link to; the paper, and its errata."""

from dataclasses import dataclass

import streamlit as st

from datasets.printed import ERRATA
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.lessons.lesson import CITATION, STYLE
from pages.ui.sentences import in_words

# Where a term appears, by the number of a lesson: its name and its address.
PLACES = {
    1: ("lesson 1", "what_is_a_gp"),
    2: ("lesson 2", "inducing_points"),
    3: ("lesson 3", "why_deep"),
    4: ("lesson 4", "why_not_zero_mean"),
    5: ("lesson 5", "the_bound"),
    6: ("lesson 6", "what_independence_costs"),
    7: ("lesson 7", "doubly_stochastic"),
    8: ("lesson 8", "prediction_is_a_mixture"),
    9: ("lesson 9", "does_depth_help"),
    10: ("lesson 10", "classes"),
    11: ("lesson 11", "for_practitioners"),
    12: ("lesson 12", "scale"),
    13: ("lesson 13", "results"),
}


@dataclass(frozen=True)
class Term:
    """A word of this field."""

    anchor: str
    name: str
    says: str
    """One or two sentences."""
    lessons: tuple[int, ...]
    symbol: str = ""
    """In TeX."""


# In the order of the pipeline: counts first, then what the equations are made of.
LETTERS = (
    ("S", "samples: paths through the layers, for each row"),
    ("N", "rows of the training data"),
    ("B", "rows in a minibatch"),
    ("M", "inducing points of a layer"),
    ("D", "inputs; $D^l$ is the width of layer $l$"),
    ("P", "outputs"),
    ("L", "layers"),
    ("C", "classes"),
    ("X,\\; Y", "inputs and outputs of the training rows"),
    ("x_*", "a new input, at which something is predicted"),
    ("K", "the kernel's matrix at the training inputs: $K_{ij} = k(x_i, x_j)$"),
    (
        "F^l,\\; U^l,\\; Z^{l-1}",
        "of layer $l$: its values at the rows, its values at the inducing "
        "inputs, and these inputs, which lie in the space that the layer below gives; $F^0 = X$",
    ),
    ("\\alpha(x)", "$k(Z, Z)^{-1} k(Z, x)$: how much each inducing value counts at $x$"),
    ("\\tilde\\mu,\\; \\tilde\\Sigma", "mean and covariance of f once q(u) is put in for u"),
    ("\\mathbf{m},\\; \\mathbf{S}", "mean and covariance of q(u)"),
    ("W", "the fixed matrix of an inner layer's linear mean function, $m(h) = hW$"),
    ("\\sigma^2", "the variance of the noise of y"),
    ("\\sigma_l^2", "the variance of the noise between layers"),
    ("\\Phi", "the normal distribution function"),
)

TERMS = (
    Term(
        "accuracy",
        "Accuracy",
        "The share of held-out rows whose likeliest class came true. It does not see how sure a "
        "model was.",
        (10,),
    ),
    Term(
        "adam",
        "Adam",
        "A way of climbing with noisy gradients: each parameter has a step of its own size, from "
        "the recent mean and spread of its gradient.",
        (7, 11),
    ),
    Term(
        "auc",
        "AUC",
        "The area under the ROC curve: how often, of one row of each class, the right one has the "
        "higher probability. 0.5 is a coin, 1 is perfect order.",
        (13,),
    ),
    Term(
        "bernoulli",
        "Bernoulli likelihood",
        "For two classes: the function is sent through the normal distribution function Φ and "
        "becomes the probability of the second class.",
        (10,),
        r"p(y = 1 \mid f) = \Phi(f)",
    ),
    Term(
        "bound",
        "Bound",
        "What training maximises: the fit less the KL of every layer. It never lies above the log "
        "evidence.",
        (2, 5, 7),
        r"\mathcal{L}",
    ),
    Term(
        "calibration",
        "Calibration",
        "Whether probabilities come true: of all rows called 80 %, four in five should be right; "
        "of all 95 % intervals, 95 in a hundred should hold their row.",
        (10, 11),
    ),
    Term(
        "cholesky",
        "Cholesky factor",
        "A lower-triangular matrix whose square is a covariance. It solves the equations of a GP, "
        "and fails where the covariance has lost its digits.",
        (11,),
        r"K = R R^\top",
    ),
    Term(
        "component",
        "Component",
        "One Gaussian of a predictive mixture: what the last layer says at the end of one sample "
        "path.",
        (8,),
    ),
    Term(
        "composition",
        "Composition",
        "One function applied to what another gives. A deep GP is a composition of GPs.",
        (3,),
        r"f^2(f^1(x))",
    ),
    Term(
        "conditional",
        "Conditional",
        "What is known of some values once others are given. Given u, a layer knows its function "
        "everywhere, up to what the prior leaves open.",
        (2,),
        r"p(f \mid u)",
    ),
    Term(
        "coverage",
        "Coverage",
        "The share of held-out rows inside an interval that promised to hold, say, 95 % of them.",
        (11,),
    ),
    Term(
        "crps",
        "CRPS",
        "A score of a whole predictive distribution in the units of y: how far its cumulative "
        "curve is from a step at what happened. Less is better; for a point forecast it is the "
        "absolute error.",
        (11,),
    ),
    Term(
        "deep-gaussian-process",
        "Deep Gaussian process",
        "Several GPs, each of them fed with what the one before it gives.",
        (3, 4),
        r"f = f^L \circ \cdots \circ f^1",
    ),
    Term(
        "departure",
        "Departure (how much a layer changes its input)",
        "How far a layer's output is from its mean function: 0 % passes its input on, 100 % makes "
        "something new of it.",
        (5, 9),
    ),
    Term(
        "draw",
        "Draw (function draw)",
        "One whole function that a model thinks possible, its values drawn together. The thin "
        "lines of the pictures.",
        (1, 3, 8),
    ),
    Term(
        "elbo",
        "ELBO",
        "Evidence lower bound: the usual short name of the bound.",
        (2, 5),
        r"\mathcal{L} \le \log p(y)",
    ),
    Term(
        "epsilon",
        "ε, the noise of a path",
        "Standard normal numbers that say where within a layer's uncertainty a sample path goes. "
        "Drawn apart from the parameters, so that gradients pass through.",
        (7,),
        r"\varepsilon \sim \mathcal{N}(0, I)",
    ),
    Term(
        "epoch",
        "Epoch",
        "As many steps as it takes until all rows could have been seen once: N/B of them.",
        (12,),
        r"N / B",
    ),
    Term(
        "evidence",
        "Evidence (marginal likelihood)",
        "How probable the data are under a model, with everything unknown averaged out. Exact for "
        "a single GP with Gaussian noise, out of reach for a deep one.",
        (1, 2, 5),
        r"p(y)",
    ),
    Term(
        "fit",
        "Fit (expected log-likelihood)",
        "The bound's first part: how likely the data are, averaged over what the layers might do.",
        (5, 7),
        r"\sum_i \mathbb{E}_{q(f_i^L)}[\log p(y_i \mid f_i^L)]",
    ),
    Term(
        "float32",
        "float32, float64",
        "Numbers of about 7 and 16 digits. A GP subtracts nearly equal numbers, so digits matter.",
        (11,),
    ),
    Term(
        "gaussian",
        "Gaussian (normal) distribution",
        "The bell curve: all of it is said by a mean and a variance.",
        (1, 8),
        r"\mathcal{N}(\mu, \sigma^2)",
    ),
    Term(
        "gaussian-process",
        "Gaussian process (GP)",
        "A distribution over functions: any finite set of their values is jointly Gaussian. A mean "
        "function and a kernel say all of it.",
        (1,),
        r"f \sim \mathcal{GP}(m, k)",
    ),
    Term(
        "held-out",
        "Held-out rows",
        "Rows that no model has seen in training, kept to judge it by.",
        (9, 11),
    ),
    Term(
        "identity",
        "Identity",
        "The function that gives back what it is given. It is an inner layer's mean function where "
        "widths agree.",
        (4,),
    ),
    Term(
        "inducing-points",
        "Inducing points, inducing inputs",
        "A layer remembers its function by the values u at M inputs Z, which are learned. The "
        "triangles of the pictures.",
        (2, 11),
        r"Z,\; u = f(Z)",
    ),
    Term(
        "jensen",
        "Jensen's inequality",
        "The log of an average lies above the average of logs. It is why the bound is one, and why "
        "paths are averaged before the log is taken.",
        (5, 8),
        r"\log \mathbb{E}[z] \ge \mathbb{E}[\log z]",
    ),
    Term(
        "jitter",
        "Jitter",
        "A tiny number added to the diagonal of a covariance, so that rounding does not make it "
        "indefinite.",
        (11,),
    ),
    Term(
        "k-means",
        "k-means",
        "A way of putting M centres among the rows, each in the middle of those nearest to it. "
        "Start values of Z.",
        (11,),
    ),
    Term(
        "kernel",
        "Kernel (covariance function)",
        "How alike the function's values at two inputs are expected to be. It decides how smooth "
        "draws are.",
        (1, 3),
        r"k(x, x')",
    ),
    Term(
        "kl-divergence",
        "KL divergence",
        "How far one distribution is from another, in nats, and never negative. In the bound it is "
        "the price that a layer pays for leaving its prior.",
        (2, 5, 9),
        r"\mathrm{KL}[q(u) \,\|\, p(u)]",
    ),
    Term(
        "layer",
        "Layer",
        "One GP of a deep model, with its own kernel, inducing points and q(u). Inner layers hand "
        "on; the last one makes the prediction.",
        (3, 5),
        r"f^l",
    ),
    Term(
        "learning-rate",
        "Learning rate",
        "How far Adam goes in a step. Too small is slow, too large throws everything away.",
        (11,),
    ),
    Term(
        "lengthscale",
        "Lengthscale",
        "How far one must go along an input before the function's values have little to do with "
        "each other. There is one for each input.",
        (1, 3),
        r"\ell",
    ),
    Term(
        "likelihood",
        "Likelihood",
        "How what we see follows from the function: with Gaussian noise, as a class, as a count.",
        (1, 10),
        r"p(y \mid f)",
    ),
    Term(
        "log-likelihood",
        "Log-likelihood (held-out)",
        "The log of the density that a model gave to what then happened, a row. More is better; "
        "sure and wrong is punished hardest.",
        (8, 9),
    ),
    Term(
        "marginal",
        "Marginal",
        "The distribution of one value alone, whatever the others are. The fit asks only for "
        "marginals, one row at a time.",
        (7,),
        r"q(f_i^L)",
    ),
    Term(
        "matern",
        "Matérn kernels",
        "A family of kernels, by roughness: draws of Matérn 1/2 have no slope anywhere, those of "
        "3/2 have a slope, those of 5/2 a curvature too. The RBF is its smooth end.",
        (1,),
    ),
    Term(
        "mean-field",
        "Mean-field",
        "A posterior that is a product over what it belongs to. In a deep GP: a Gaussian of its "
        "own for every row and inner layer, independent of the layer below.",
        (6,),
        r"\prod_{l,n} q(h_n^l)",
    ),
    Term(
        "mean-function",
        "Mean function",
        "What a layer gives before it has learned anything. Inner layers have a linear one, so "
        "that nothing is lost on the way; the last one's is zero.",
        (4, 9, 11),
        r"m(x)",
    ),
    Term(
        "minibatch",
        "Minibatch",
        "The B rows that a step looks at, drawn anew each time; their fit counts N/B-fold.",
        (7,),
        "B",
    ),
    Term(
        "mixture",
        "Mixture",
        "A distribution made of several, each with a weight. A deep GP predicts an equal mixture "
        "of S Gaussians.",
        (8,),
        r"\frac1S \sum_s \mathcal{N}(\mu_s, \sigma_s^2)",
    ),
    Term(
        "nat",
        "Nat",
        "The unit of log-probability with the natural logarithm: one nat is a factor of e ≈ 2.72.",
        (5, 9),
    ),
    Term(
        "natural-gradient",
        "Natural gradient",
        "A step that measures distance between distributions, not between their parameters. With "
        "Gaussian noise it takes the last layer's q(u) nearly to its best at once.",
        (11,),
        r"\gamma",
    ),
    Term(
        "negative-binomial",
        "Negative binomial likelihood",
        "For counts that vary more than Poisson's: their variance grows with the square of the "
        "rate too, by a size r that is learnt. A large r is Poisson's.",
        (10,),
        r"\operatorname{Var} y = \mu + \mu^2 / r,\ \ \mu = e^f",
    ),
    Term(
        "noise",
        "Noise variance",
        "What no function explains. In standard units, noise of 1 means that nothing was learned.",
        (1, 11),
        r"\sigma^2",
    ),
    Term(
        "layer-noise",
        "Noise between layers",
        "A trace of noise that each layer adds to what it hands on, as part of its kernel's "
        "diagonal.",
        (3,),
        r"\sigma_l^2",
    ),
    Term(
        "overfitting",
        "Overfitting",
        "To learn by heart what will not come again. Its sign is a held-out score that falls while "
        "the training score rises.",
        (9, 11),
    ),
    Term(
        "pathology",
        "Pathology of deep priors",
        "With zero means, each layer forgets a part of what entered it; after many layers, draws "
        "are flat nearly everywhere and jump in between.",
        (4, 11),
    ),
    Term(
        "pca",
        "PCA (principal components)",
        "The few directions along which rows differ most. A layer that is narrower than what "
        "enters it starts by looking along these.",
        (4, 10),
    ),
    Term(
        "pit",
        "PIT",
        "The share of the predictive distribution that lies below what happened. Over many rows it "
        "is uniform if the model is calibrated.",
        (11,),
        r"F(y)",
    ),
    Term(
        "poisson",
        "Poisson likelihood",
        "For counts: the function is the logarithm of their rate.",
        (10,),
        r"y \sim \mathrm{Poisson}(e^f)",
    ),
    Term(
        "posterior",
        "Posterior",
        "What is believed after the data were seen: the prior, weighed by the likelihood.",
        (1,),
        r"p(f \mid y)",
    ),
    Term(
        "prior",
        "Prior",
        "What is believed before any data: which functions are thought possible, and how likely.",
        (1, 4),
        r"p(f)",
    ),
    Term(
        "q-u",
        "q(u)",
        "The model's belief about a layer's values u at its inducing inputs: a Gaussian, whose "
        "mean $\\mathbf{m}$ and covariance $\\mathbf{S}$ are learned.",
        (2, 5),
        r"q(u) = \mathcal{N}(\mathbf{m}, \mathbf{S})",
    ),
    Term(
        "quantile-band",
        "Quantile band",
        "What lies between two quantiles of a prediction: between the 2.5th and the 97.5th "
        "hundredth, a new point lies in 95 cases of a hundred.",
        (11,),
    ),
    Term(
        "rbf",
        "RBF kernel",
        "The commonest kernel, also called squared exponential. Its functions are very smooth.",
        (1,),
        r"\sigma_f^2 \exp\!\big({-\tfrac12} \|x - x'\|^2 / \ell^2\big)",
    ),
    Term(
        "relevance",
        "Relevance",
        "How sharply the first layer depends on an input: one over its lengthscale, in standard "
        "units.",
        (11,),
        r"1 / \ell_d",
    ),
    Term(
        "reparameterisation",
        "Reparameterisation trick",
        "To write a draw as a mean and a standard deviation times ε, with ε drawn apart from the "
        "parameters, so that gradients pass through the draw.",
        (7,),
        r"\mu + \varepsilon\, \sigma",
    ),
    Term(
        "response-curve",
        "Response curve",
        "What a model predicts while one input varies and the others stay at their medians.",
        (11,),
    ),
    Term(
        "rival",
        "Rival (single layer)",
        "The sparse GP of one layer that trains beside every deep model here: same data, same "
        "seed, as many inducing points.",
        (3, 9),
    ),
    Term(
        "rmse",
        "RMSE",
        "The root of the mean squared error of the predicted means, in the units of y.",
        (9,),
    ),
    Term(
        "robust-max",
        "Robust max",
        "A likelihood for several classes: the largest of C functions wins with probability 1 − ε, "
        "and the others share the rest.",
        (10,),
    ),
    Term(
        "sample-path",
        "Sample path",
        "One way through the layers for one row: each layer's mean and variance given the sample "
        "below, and ε to say where in between.",
        (7, 8),
        r"\hat f^{\,1}, \ldots, \hat f^{\,L-1}",
    ),
    Term(
        "signal-to-noise-ratio",
        "Signal-to-noise ratio",
        "Of an inner layer: the variance over rows of what it adds to its mean function, over the "
        "variance of its noise. A layer is turned off where it tends to zero.",
        (6,),
    ),
    Term(
        "softmax",
        "Softmax",
        "A likelihood for several classes: each has a probability in proportion to e to the power "
        "of its function.",
        (10,),
        r"e^{f_c} / \textstyle\sum_k e^{f_k}",
    ),
    Term(
        "sparse-gp",
        "Sparse GP",
        "A GP that remembers its function by M inducing points instead of all N rows.",
        (2,),
    ),
    Term(
        "standardise",
        "Standardise (scale)",
        "To subtract a column's mean and divide by its standard deviation, both measured on "
        "training rows.",
        (11,),
    ),
    Term(
        "stationary-kernel",
        "Stationary kernel",
        "A kernel that asks only how far apart two inputs are, not where they are. It cannot be "
        "smooth here and rough there.",
        (3,),
    ),
    Term(
        "student-t",
        "Student-t likelihood",
        "Noise with heavy tails: a row that is far off costs less than with Gaussian noise, so "
        "outliers do not drag the function along.",
        (10,),
    ),
    Term(
        "unbiased",
        "Unbiased",
        "Right on average: the mean over all throws of the dice is what is estimated, however far "
        "off one throw may be.",
        (7,),
    ),
    Term(
        "variance-split",
        "Within and between",
        "The two parts of a mixture's variance: what every path leaves open, and what the paths "
        "disagree about.",
        (8,),
    ),
    Term(
        "variational",
        "Variational inference",
        "To look for the best belief within a family that can be computed with, by maximising the "
        "bound.",
        (2, 5),
        r"q",
    ),
    Term(
        "whitening",
        "Whitening",
        "To learn v instead of u = R v with k(Z, Z) = R Rᵀ, so that the prior of v is N(0, I). "
        "Training is then less stiff.",
        (2,),
    ),
    Term(
        "width",
        "Width",
        "The number of outputs of an inner layer: as many as inputs, 30 at the most, unless you "
        "choose.",
        (3, 10),
        r"D^l",
    ),
)

SLIPS = (
    *ERRATA.values(),
    "Below equation (13), the means and covariances are those at the row of layer l − 1, not l.",
    "In equation (14), the product goes to L, not to L − 1.",
    "Equation (16) lacks the logarithm of its ratio.",
    "Equation (17) writes i and n for the same row.",
    "On HIGGS, four numbers are given for “DGP 2–4”: they are those of DGP 2–5.",
    "The deepest model is said to be best on five of the eight small sets; by the table it is on "
    "three (kin8nm, power, protein), and SGP 500 on the others, concrete and energy among them.",
    "Deep models are said to be never worse than one layer; by the table DGP 5 has 6.41 on naval "
    "where SGP has 6.57, and DGP 3 to 5 are behind by 0.01 or 0.02 on boston, all within the "
    "standard errors.",
)


def show_term(term: Term) -> None:
    """A heading that links can reach, the words, and where it appears."""
    symbol = f" · ${term.symbol}$" if term.symbol else ""
    st.subheader(f"{term.name}{symbol}", anchor=term.anchor)
    places = ", ".join("[{}]({})".format(*PLACES[number]) for number in term.lessons)
    st.markdown(f"{term.says} :small[{places}]")


session.browser()
session.arrive_at_lesson()
with in_words("The glossary could not be shown. Reload the page."):
    st.title("Glossary", anchor=False)
    st.markdown("Every term and symbol of the lessons and the app, and where it appears.")
    query = st.text_input(
        "Find a term", key="glossary_wish", placeholder="for instance: inducing", max_chars=60
    )
    matches = [t for t in TERMS if query.strip().lower() in f"{t.name} {t.says}".lower()]
    if not query:
        st.subheader("Letters and symbols", anchor="letters")
        st.markdown(
            "| | |\n|:--|:--|\n" + "\n".join(f"| ${letter}$ | {says} |" for letter, says in LETTERS)
        )
    elif not matches:
        st.info("No term has that in it. Try a shorter word.")
    for term in matches:
        show_term(term)
    if not query:
        st.subheader("The paper", anchor="the-paper")
        st.markdown(
            f"{CITATION}. [arXiv:1705.08933](https://arxiv.org/abs/1705.08933). Equations "
            "of the lessons that have a number have the paper's."
        )
        st.subheader("Its errata", anchor="errata")
        st.markdown(
            "Small slips in the paper, found while its experiments were repeated:\n\n"
            + "\n".join(f"- {slip}" for slip in SLIPS)
        )
session.page_made()
dress(STYLE)
