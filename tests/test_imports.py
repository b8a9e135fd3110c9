"""Who may import whom: numbers know nothing of the screen, figures nothing of Streamlit."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A folder or file, and all that it may import of this project; the longest that fits counts.
CORE = ("dgp_core.gp", "dgp_core.tables", "dgp_core.training", "dgp_core.evaluation")
FILES = ("dgp_core.archive", "dgp_core.line_file")
TOP = (*CORE, *FILES, "dgp_core.estimator", "dgp_core.outcome", "dgp_core.script")
ARROWS = {
    "app.py": (
        "pages.ui.stage",
        "pages.ui.startup",
        "pages.ui.classroom",
        "pages.figures.boards",
    ),
    "pages/explore/": ("pages.ui", "pages.figures", "datasets", "dgp_core"),
    "pages/learn/": ("pages.ui", "pages.figures", "datasets", "dgp_core"),
    "pages/ui/": ("pages.ui", "datasets", "dgp_core"),
    "pages/ui/theme.py": ("pages.figures.palette",),
    "pages/ui/your_data/": ("pages.ui", "pages.figures", "datasets", "dgp_core"),
    "pages/figures/": ("pages.figures", "datasets", "dgp_core"),
    "datasets/": ("datasets", "dgp_core"),
    "dgp_core/": TOP,
    "dgp_core/__main__.py": (*TOP, "dgp_core.command"),
    "dgp_core/command/": (*TOP, "dgp_core.command"),
    "dgp_core/live/": (*TOP, "dgp_core.live"),
    "dgp_core/evaluation/": CORE,
    "dgp_core/training/": ("dgp_core.training", "dgp_core.gp"),
    "dgp_core/tables/": ("dgp_core.tables", "dgp_core.gp.data", "dgp_core.gp.splits"),
    "dgp_core/gp/": ("dgp_core.gp",),
}

# A package from outside, and the only places where it may be imported.
OUTSIDE = {
    "streamlit": ("app.py", "pages/explore/", "pages/learn/", "pages/ui/"),
    "plotly": ("pages/figures/", "pages/ui/stage/"),
    "jax": ("dgp_core/",),
    "optax": ("dgp_core/",),
    "pandas": ("dgp_core/tables/",),
    "pyarrow": ("dgp_core/tables/", "datasets/fetch.py"),
    "sklearn": ("dgp_core/",),
    "tqdm": ("dgp_core/",),
}


def imports(path: Path, root: Path) -> set[str]:
    """Every module that a file imports when it runs (`from a import b` gives a and a.b)."""
    package = path.relative_to(root).parent.parts
    found = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def is_in(name: str, *modules: str) -> bool:
    return any(name == module or name.startswith(module + ".") for module in modules)


def violations(root: Path) -> list[str]:
    """A sentence for each import that goes against the arrows."""
    files = [
        f for folder in ("pages", "datasets", "dgp_core") for f in (root / folder).rglob("*.py")
    ]
    wrong = [f"pages/{f.name} would be listed by Streamlit itself" for f in root.glob("pages/*.py")]
    for path in sorted([*root.glob("app.py"), *set(files) - set(root.glob("pages/*.py"))]):
        here = path.relative_to(root).as_posix()
        allowed = ARROWS[max((part for part in ARROWS if here.startswith(part)), key=len)]
        found = sorted(imports(path, root))
        for name in found:
            ours = is_in(name, "app", "pages", "datasets", "dgp_core", "benchmarks")
            if ours and not is_in(name, *allowed):
                wrong.append(f"{here} imports {name}")
        for package, places in OUTSIDE.items():
            if any(is_in(name, package) for name in found) and not here.startswith(places):
                wrong.append(f"{here} imports {package}")
    return wrong


def test_the_project_holds_its_arrows():
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("path", "line", "complaint"),
    [
        ("app.py", "import dgp_core.gp.model", "imports dgp_core.gp.model"),
        ("pages/explore/a.py", "import jax.numpy as jnp", "imports jax"),
        ("pages/explore/a.py", "def f():\n    from jax import jit", "imports jax"),
        ("pages/explore/a.py", "import plotly.graph_objects as go", "imports plotly"),
        ("pages/explore/a.py", "from pages.learn import b", "imports pages.learn"),
        ("pages/explore/a.py", "from pages.explore.b import c", "imports pages.explore.b"),
        ("pages/explore/a.py", "from . import b", "imports pages.explore.b"),
        ("pages/figures/a.py", "import streamlit as st", "imports streamlit"),
        ("pages/figures/a.py", "from pages.ui import controls", "imports pages.ui"),
        ("pages/ui/a.py", "from pages.figures.b import c", "imports pages.figures.b"),
        ("pages/ui/theme.py", "from pages.ui import bar", "imports pages.ui.bar"),
        ("pages/a.py", "", "would be listed by Streamlit"),
        ("datasets/a.py", "from pages.figures import b", "imports pages.figures"),
        ("dgp_core/gp/a.py", "import pandas", "imports pandas"),
        ("dgp_core/gp/a.py", "import datasets.toys", "imports datasets.toys"),
        ("dgp_core/gp/a.py", "from dgp_core.training.train import b", "imports dgp_core.training"),
        ("dgp_core/gp/a.py", "from ..live.run import Run", "imports dgp_core.live.run"),
        (
            "dgp_core/training/a.py",
            "from dgp_core.tables.table import b",
            "imports dgp_core.tables",
        ),
        ("dgp_core/tables/a.py", "from dgp_core.gp.model import b", "imports dgp_core.gp.model"),
        ("dgp_core/evaluation/a.py", "from dgp_core import archive", "imports dgp_core.archive"),
        ("dgp_core/estimator.py", "from dgp_core.live import run", "imports dgp_core.live.run"),
        ("dgp_core/gp/a.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import pandas", "pandas"),
    ],
)
def test_a_wrong_import_is_named(tmp_path, path, line, complaint):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line + "\n", encoding="utf-8")
    assert any(complaint in sentence for sentence in violations(tmp_path))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("app.py", "import streamlit as st"),
        ("pages/explore/a.py", "from datasets.catalogue import load\nfrom dgp_core import split"),
        ("pages/figures/a.py", "import plotly.graph_objects as go\nfrom . import palette"),
        ("datasets/toys.py", "import numpy\nfrom dgp_core.gp.data import Dataset"),
        ("dgp_core/tables/a.py", "import pandas, pyarrow\nfrom ..gp.data import Dataset"),
        ("dgp_core/gp/a.py", "if TYPE_CHECKING:\n    from dgp_core.tables.table import Table"),
        ("dgp_core/live/a.py", "from .run import Run\nfrom ..training.train import TrainState"),
    ],
)
def test_a_right_import_is_not(tmp_path, path, line):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line + "\n", encoding="utf-8")
    assert violations(tmp_path) == []
