"""The short set of benchmarks: every row has an aim, met or missed."""

import json

from benchmarks import bench
from benchmarks.recipes import CHOSEN


def test_every_aim_is_met_or_missed(tmp_path, monkeypatch):
    def step(workload, L, M):
        return {"ms": 2.0, "ratio_to_limit": 1.4 if workload == "A" else 1.6, "aim": 1.5}

    def fit(dataset, model, i, recipe, inner):
        assert (dataset.name, i, recipe, inner) == ("concrete", 0, CHOSEN, False)
        return {"loglik": {"sgp": -3.2, "dgp2": -3.1}[model]}

    monkeypatch.setattr(bench, "measure_step", step)
    monkeypatch.setattr(bench.paper, "measure", fit)
    path = tmp_path / "rows.json"
    monkeypatch.setattr(
        "sys.argv", ["benchmarks.bench", "--only", "speed,depth", "--json", str(path)]
    )
    bench.main()
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert [row[""] for row in rows] == ["met", "missed", "missed", "missed", "met"]
    assert rows[0]["what"].startswith("A, 2 layers: 2 ms") and rows[-1]["aim"] == "≥ 0"


def test_least_squares_on_what_comes_along_is_the_paper_s_to_every_digit(monkeypatch):
    monkeypatch.setattr(bench, "SHIPPED", ("boston",))
    assert [(value, aim) for _, value, aim in bench.linear()] == [(0, "≤ 0")]
