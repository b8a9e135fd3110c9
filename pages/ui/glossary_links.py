"""Words of the essays that lead to the glossary: each term where it first appears."""

import re

import streamlit as st

# Where a term is meant, by its anchor in the glossary; longer words come before those in them.
WORDS = {
    "accuracy": r"accuracy",
    "adam": r"Adam",
    "auc": r"AUC",
    "bernoulli": r"Bernoulli likelihood",
    "calibration": r"calibration|calibrated",
    "cholesky": r"Cholesky factor",
    "component": r"components? \(thin\)|\d+ components",
    "composition": r"composition",
    "conditional": r"conditional",
    "coverage": r"coverage",
    "crps": r"CRPS",
    "deep-gaussian-process": r"deep GPs?",
    "departure": r"departs? from its mean function|how far each inner layer is from its mean "
    r"function",
    "draw": r"function draws?|functions drawn|draw functions",
    "elbo": r"evidence lower bound|ELBO",
    "epoch": r"epochs?",
    "epsilon": r"ε",
    "evidence": r"log evidence|evidence",
    "fit": r"expected log-likelihood",
    "float32": r"float32|float64|single precision",
    "gaussian-process": r"Gaussian process",
    "gaussian": r"(?:jointly )?Gaussian",
    "held-out": r"held-out (?:rows?|data|score)",
    "identity": r"identity",
    "inducing-points": r"inducing (?:points|inputs)",
    "jensen": r"Jensen's\s+inequality",
    "jitter": r"jitter",
    "k-means": r"k-means",
    "stationary-kernel": r"stationary kernel",
    "rbf": r"RBF(?: kernel)?",
    "matern": r"Matérn(?: kernels)?",
    "kernel": r"kernel",
    "kl-divergence": r"KL",
    "learning-rate": r"learning rate",
    "layer-noise": r"noise between (?:the )?layers",
    "layer": r"layers?",
    "lengthscale": r"lengthscales?",
    "log-likelihood": r"log-likelihood",
    "likelihood": r"likelihood",
    "marginal": r"marginals?",
    "mean-field": r"mean-field",
    "mean-function": r"mean functions?",
    "minibatch": r"minibatch(?:es)?",
    "mixture": r"mixture",
    "nat": r"nats?",
    "natural-gradient": r"natural gradients?",
    "negative-binomial": r"negative binomial",
    "noise": r"noise",
    "overfitting": r"overfit(?:s|ting)?",
    "pathology": r"pathology",
    "pca": r"PCA|principal components",
    "pit": r"PIT",
    "poisson": r"Poisson",
    "posterior": r"posterior",
    "prior": r"prior",
    "q-u": r"q\(u\)|q\(U\)",
    "quantile-band": r"quantile bands?",
    "relevance": r"relevance",
    "reparameterisation": r"reparameterisation trick",
    "response-curve": r"response curves?",
    "rival": r"rival",
    "rmse": r"RMSE",
    "robust-max": r"robust-max",
    "sample-path": r"sample paths?",
    "signal-to-noise-ratio": r"signal-to-noise ratio",
    "softmax": r"softmax",
    "sparse-gp": r"sparse GP",
    "standardise": r"standardises?|scaling",
    "student-t": r"Student-t",
    "unbiased": r"unbiased",
    "variance-split": r"between the paths|between paths",
    "variational": r"variational inference",
    "whitening": r"whiten(?:ing|ed)",
    "width": r"widths",
    "bound": r"bounds?",
}
# What is left as it is: equations, links, code, names of buttons, headings.
LEFT = re.compile(r"(\$[^$]*\$|\[[^\]]*\]\([^)]*\)|`[^`]*`|\*\*[^*]+\*\*|^#{1,6} [^\n]*)", re.M)
LINKED = re.compile(r"\]\(glossary#([\w-]+)\)")
TERM = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(f"(?P<{anchor.replace('-', '_')}>{words})" for anchor, words in WORDS.items())
    + r")(?![\w-])",
    re.IGNORECASE,
)


class Linker:
    """Links each term once on a page, where it appears first."""

    def __init__(self):
        self.seen: set[str] = set()
        self._texts: dict[str, str] = {}
        """Texts with their links: a part of a page that is made again has the same."""

    def linked(self, text: str) -> str:
        """The text in Markdown, with a link at each term that had none on this page."""
        if text not in self._texts:
            self.seen |= set(LINKED.findall(text))
            pieces = LEFT.split(text)
            pieces[::2] = [TERM.sub(self._link, piece) for piece in pieces[::2]]
            self._texts[text] = "".join(pieces)
        return self._texts[text]

    def write(self, text: str) -> None:
        """Puts the text on the page, with its links."""
        st.markdown(self.linked(text))

    def _link(self, found: re.Match) -> str:
        anchor = (found.lastgroup or "").replace("_", "-")
        if anchor in self.seen:
            return found[0]
        self.seen.add(anchor)
        return f"[{found[0]}](glossary#{anchor})"
