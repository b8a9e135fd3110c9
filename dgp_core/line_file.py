"""The straight line's model file: the same kind of file as a GP's, and as plain."""

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from dgp_core import archive
from dgp_core.archive import Archive, ArchiveError, Described
from dgp_core.evaluation.forecast import StraightLine
from dgp_core.gp.data import Task
from dgp_core.gp.references import (
    BayesianLinear,
    BayesianLogistic,
    BayesianPoisson,
    LinearPosterior,
    Standard,
)

KIND = "straight line"


@dataclass(frozen=True, eq=False, kw_only=True)
class LineArchive(Described):
    """All there is to know of a straight line but its training rows."""

    line: StraightLine


def save(file: archive.File, record: LineArchive) -> None:
    """Writes a straight line to a path, all or nothing, or to an open binary file."""
    line = record.line
    posterior, standard = line.posterior, line.posterior.standard
    about = archive.description(record) | {"kind": KIND}
    arrays = {f"scaler/{n}": np.asarray(getattr(record.scaler, n)) for n in archive.SCALER} | {
        "line/input_mean": standard.mean,
        # Of a constant column it is infinite, which is written as 0.
        "line/input_scale": np.where(np.isinf(standard.scale), 0.0, standard.scale),
        "line/mean": posterior.mean,
        "line/covariance": posterior.covariance,
        "line/precision": posterior.precision,
    }
    if isinstance(line, BayesianLinear):
        arrays["line/noise_variance"] = line.noise_variance
    if isinstance(line, BayesianLogistic):
        arrays["line/shares"] = line.shares
    content = archive.zipped(about, arrays | archive.domain_arrays(record.domain))
    _rebuild(*archive.unzipped(content))  # before anybody relies on it
    archive.write_bytes(file, content)


def load(file: archive.File) -> Archive | LineArchive:
    """A model of either kind, or an ArchiveError."""
    content = archive.read_bytes(file)
    with archive.whatever_happens():
        about, members = archive.unzipped(content)
        if about.value.get("kind") == KIND:
            return _rebuild(about, members)
        return archive.rebuild(about, members)


def _rebuild(about: Any, members: dict[str, bytes]) -> LineArchive:
    named = archive.described(about)
    read = archive.Arrays(members)
    D, P, C = (len(named[n]) for n in ("input_names", "output_names", "classes"))
    scaler = archive.scaler_of(read, D, P)
    domain = archive.domain_of(read, D, int(scaler.kept.sum()))
    mean, scale = (read.take(f"line/{n}", (D,), "float64") for n in ("input_mean", "input_scale"))
    standard = Standard(mean, np.where(scale > 0, scale, np.inf))
    m = read.take("line/mean", (D + 1, None), "float64")
    K = m.shape[1]
    S = read.take("line/covariance", (K, D + 1, D + 1), "float64")
    posterior = LinearPosterior(standard, m, S, read.take("line/precision", (K,), "float64"))
    task: Task = named["task"]
    if task not in get_args(Task) or (scale < 0).any():
        raise ArchiveError("This straight line is damaged: save it again.")
    if task == "regression":
        noise = read.take("line/noise_variance", (P,), "float64")
        line: StraightLine = BayesianLinear(posterior, noise)
        fits = K == P and bool((noise > 0).all())
    elif task == "counts":
        line, fits = BayesianPoisson(posterior, scaler.exposed), K == P
    else:
        shares = read.take("line/shares", (max(2, C),), "float64")
        line = BayesianLogistic(posterior, shares)
        open_ = int((shares == 0).sum())
        fits = K == {0: 0, 2: 1}.get(open_, open_) and bool((shares >= 0).all())
    if not fits or read.left:
        raise ArchiveError("The parts of this straight line do not fit together: save it again.")
    return LineArchive(line=line, scaler=scaler, domain=domain, **named)
