"""Who may import whom: numbers know nothing of the screen, figures nothing of Streamlit."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TABLES = tuple(f"dgp_core/{name}.py" for name in ("parsing", "reading", "table", "rows"))

# A name from outside, and the only places where it may be imported.
OUTSIDE = {
    "streamlit": ("app.py", "pages/explore/", "pages/learn/", "pages/ui/"),
    "plotly": ("pages/figures/", "pages/ui/"),
    "jax": ("dgp_core/",),
    "optax": ("dgp_core/",),
    "pandas": TABLES,
    "pyarrow": (*TABLES, "datasets/fetch.py"),
    "sklearn": (),
}

# A part of the project, and the only parts beside itself that it may import.
INSIDE = {
    "app.py": ("pages.ui.early", "pages.ui.server", "pages.figures.boards"),
    "pages/explore/": ("pages.ui", "pages.figures", "datasets", "dgp_core"),
    "pages/learn/": ("pages.ui", "pages.figures", "datasets", "dgp_core"),
    "pages/ui/": ("pages.ui", "datasets", "dgp_core"),
    "pages/figures/": ("pages.figures", "datasets", "dgp_core"),
    "datasets/": ("datasets", "dgp_core"),
    "dgp_core/": ("dgp_core",),
}

# Inside the core, from the ground up: a module may import only from floors below its own.
FLOORS = (
    ("compile_cache", "pytree"),
    ("data", "kernels", "likelihoods", "mixture", "plain", "prior_view"),
    ("by_hand", "layers", "parsing"),
    ("model", "references", "reading"),
    ("optimise", "recipe"),
    ("train", "predict", "table"),
    ("scores", "plan", "rows", "generic"),
    ("archive", "judge", "script", "programs"),
    ("estimator", "explain"),
    ("outcome",),
    ("live", "__main__"),
)
FLOOR = {module: floor for floor, modules in enumerate(FLOORS) for module in modules}


def imports(path: Path, root: Path) -> set[str]:
    """Every module that a file imports when it runs (`from a import b` gives a and a.b)."""
    package = path.relative_to(root).parent.parts
    found = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def is_in(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def violations(root: Path) -> list[str]:
    """A sentence for each import that goes against the arrows."""
    files = [root / "app.py", *(f for part in INSIDE for f in (root / part).rglob("*.py"))]
    wrong = []
    for path in sorted({f for f in files if f.is_file()}):
        here, names = path.relative_to(root).as_posix(), imports(path, root)
        for outside, places in OUTSIDE.items():
            if any(is_in(n, outside) for n in names) and not here.startswith(places):
                wrong.append(f"{here} imports {outside}")
        part = next(p for p in INSIDE if here.startswith(p))
        for name in names:
            ours = name.split(".")[0] in ("app", "pages", "datasets", "dgp_core", "benchmarks")
            allowed = any(is_in(name, module) for module in INSIDE[part])
            if ours and name != "pages" and not allowed:
                wrong.append(f"{here} imports {name}")
        wrong += core_violations(here, names)
    return wrong


def core_violations(here: str, names: set[str]) -> list[str]:
    """The same for the floors of the core; `dgp_core/__init__.py` stands above them all."""
    if not here.startswith("dgp_core/") or here == "dgp_core/__init__.py":
        return []
    own = here.removeprefix("dgp_core/").removesuffix(".py").split("/")[0]
    if own not in FLOOR:
        return [f"{here} has no floor in tests/test_imports.py: give it one"]
    modules = {n.split(".")[1] for n in names if n.startswith("dgp_core.")} - {own}
    return [
        f"{here} imports {module}, which is not below it"
        for module in sorted(modules & FLOOR.keys())
        if FLOOR[module] >= FLOOR[own]
    ]


def stray_pages(root: Path) -> list[str]:
    """Scripts directly in pages/, which Streamlit would list by itself."""
    return [f.name for f in (root / "pages").glob("*.py")]


def test_the_project_holds_its_arrows():
    assert violations(ROOT) == []
    assert stray_pages(ROOT) == []
    assert len(list((ROOT / "dgp_core").rglob("*.py"))) > 1


@pytest.mark.parametrize(
    ("path", "line", "complaint"),
    [
        ("app.py", "import dgp_core.model", "app.py imports dgp_core.model"),
        ("pages/explore/a.py", "import jax.numpy as jnp", "imports jax"),
        ("pages/explore/a.py", "def f():\n    from jax import jit", "imports jax"),
        ("pages/explore/a.py", "import plotly.graph_objects as go", "imports plotly"),
        ("pages/explore/a.py", "from pages.learn import b", "imports pages.learn"),
        ("pages/explore/a.py", "from pages.explore.b import c", "imports pages.explore.b"),
        ("pages/explore/a.py", "from . import b", "imports pages.explore.b"),
        ("pages/explore/a.py", "from pages import explore", "imports pages.explore"),
        ("pages/figures/a.py", "import streamlit as st", "imports streamlit"),
        ("pages/figures/a.py", "from pages.ui import controls", "imports pages.ui"),
        ("pages/ui/a.py", "from pages.figures.b import c", "imports pages.figures.b"),
        ("datasets/a.py", "from pages.figures import b", "imports pages.figures"),
        ("dgp_core/data.py", "import pandas", "dgp_core/data.py imports pandas"),
        ("dgp_core/data.py", "import streamlit", "dgp_core/data.py imports streamlit"),
        ("dgp_core/estimator.py", "import sklearn.base", "imports sklearn"),
        ("dgp_core/model.py", "import datasets.toys", "imports datasets.toys"),
        ("dgp_core/model.py", "import datasets", "imports datasets"),
        ("dgp_core/kernels.py", "from dgp_core import model", "model, which is not below it"),
        ("dgp_core/kernels.py", "from .layers import Layer", "layers, which is not below it"),
        ("dgp_core/train.py", "from .live.run import Run", "live, which is not below it"),
        ("dgp_core/data.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import pandas", "pandas"),
        ("dgp_core/new.py", "", "dgp_core/new.py has no floor"),
    ],
)
def test_a_wrong_import_is_named(tmp_path, path, line, complaint):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line + "\n", encoding="utf-8")
    found = violations(tmp_path)
    assert any(complaint in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("app.py", "import streamlit as st"),
        ("pages/explore/a.py", "from datasets.catalogue import load\nfrom dgp_core import split"),
        ("pages/figures/a.py", "import plotly.graph_objects as go\nfrom . import palette"),
        ("datasets/toys.py", "import numpy\nfrom dgp_core.data import Dataset"),
        ("dgp_core/table.py", "import pandas, pyarrow\nfrom .data import Dataset"),
        ("dgp_core/__init__.py", "import jax\nfrom .model import DeepGP"),
        ("dgp_core/recipe.py", "if TYPE_CHECKING:\n    from dgp_core.table import Table"),
        ("dgp_core/live/workshop.py", "from .run import Run\nfrom ..train import TrainState"),
    ],
)
def test_a_right_import_is_not(tmp_path, path, line):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line + "\n", encoding="utf-8")
    assert violations(tmp_path) == []


def test_a_script_directly_in_pages_is_found(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "playground.py").touch()
    assert stray_pages(tmp_path) == ["playground.py"]
