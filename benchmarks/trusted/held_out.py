"""Which rows are held out, and whether the straight line is fair on wide tables."""

from collections.abc import Iterator

import numpy as np
from scipy import stats

from benchmarks.trusted import Row, case, row
from datasets import catalogue
from datasets.shipped import FILES
from dgp_core.evaluation.comparison import score
from dgp_core.evaluation.forecast import deep_predictor, straight_line
from dgp_core.gp.data import Dataset, Scaler, split
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.gp.references import BayesianLinear
from dgp_core.tables.splitting import propose_split
from dgp_core.tables.table import read_table
from dgp_core.training.train import TrainSpec, train


@case("time")
def time() -> Iterator[Row]:
    """CO₂ by week: what is proposed, and what both ways of holding out say of one model."""
    file = FILES / "co2_mauna_loa_weekly.csv"
    table = read_table(file.read_bytes(), file.name)
    target = table.columns[-1].name
    latest = propose_split(table, target).value[0] == "latest"
    yield row("where there is a date, the latest rows are proposed", float(latest), least=1.0)
    data = catalogue.load("co2")
    for way, given in (("by chance", {}), ("the latest", {"order": data.X[:, 0]})):
        rows, held = split(data, 0.9, 0, **given)
        scaler = Scaler.fit(rows)
        X, Y = scaler.inputs(rows.X), scaler.outputs(rows.Y)
        spec = TrainSpec(steps=1000, minibatch=500)
        state, _ = train(create_model(ModelSpec(layers=2, inducing=50), X), X, Y, spec)
        found = score("deep", deep_predictor(state.model, scaler), held, n_train=len(rows)).scores
        yield row(f"CO₂, {way} held out: RMSE (ppm)", found["rmse"])
        yield row(f"CO₂, {way} held out: share inside 90 %", found["coverage_90"])


@case("wide")
def wide() -> Iterator[Row]:
    """Linear data in wide tables: held-out nats a row of the line, less Bayesian ridge's."""
    from sklearn.linear_model import BayesianRidge

    for n, D in ((45, 10), (90, 30), (90, 60), (200, 60)):
        differences = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            w, X = rng.standard_normal(D) / np.sqrt(D), rng.standard_normal((n + 500, D))
            y = X @ w + rng.standard_normal(n + 500)
            names = tuple(f"x{i}" for i in range(D))
            line = straight_line(Dataset("wide", X[:n], y[:n, None], names, ("y",)))
            assert isinstance(line, BayesianLinear)
            ours = line.predict(X[n:]).log_density(y[n:, None]).mean()
            mean, sd = BayesianRidge().fit(X[:n], y[:n]).predict(X[n:], return_std=True)
            differences.append(ours - stats.norm.logpdf(y[n:], mean, sd).mean())
        yield row(
            f"{n} rows, {D} inputs: nats against Bayesian ridge",
            float(np.mean(differences)),
            least=-0.05,
        )
