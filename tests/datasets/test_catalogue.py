"""The catalogue and its command: every set by name, and a sentence for what is not there."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from datasets import catalogue
from datasets.__main__ import main, table
from datasets.fetch import SETS
from datasets.shipped import SHIPPED
from datasets.toys import TOYS, drawn

ROOT = Path(__file__).parents[2]


def test_every_set_has_an_entry_of_its_kind():
    assert set(catalogue.names("toy")) == {*TOYS, "drawn"}
    assert set(catalogue.names("shipped")) == set(SHIPPED)
    assert set(catalogue.names("fetched")) == set(SETS)
    assert len(catalogue.names()) == len(set(catalogue.names())) == len(TOYS) + 1 + 9 + 12


@pytest.mark.parametrize("name", catalogue.names())
def test_an_entry_says_all_that_a_page_shows(name):
    e = catalogue.entry(name)
    assert e.name == name and e.title and e.licence and e.source
    assert len(e.story) > 40 and e.story.endswith((".", "?"))
    assert e.task in ("regression", "binary", "multiclass", "counts") and e.D >= 1


@pytest.mark.parametrize("name", [*catalogue.names("toy"), *catalogue.names("shipped")])
def test_an_entry_promises_what_load_brings(name):
    if name == "drawn":
        d = catalogue.load("drawn", points=[(0, 1), (1, 0)])
        assert np.array_equal(d.X, drawn([(0, 1), (1, 0)]).X)
        return
    e, d = catalogue.entry(name), catalogue.load(name)
    assert (e.N, e.D) == d.X.shape and e.task == d.task and e.story == d.story
    if e.image:
        assert e.image[0] * e.image[1] == e.D


def test_picture_sets_say_so():
    pictures = {n for n in catalogue.names() if catalogue.entry(n).image}
    assert pictures == {"rectangles", "digits", "fashion_mnist", "mnist", "rectangles_images"}


def test_the_errata_of_the_paper_are_right_here():
    facts = {n: (catalogue.entry(n).N, catalogue.entry(n).D) for n in catalogue.names()}
    assert facts["wine_red"] == (1599, 11) and facts["naval"] == (11_934, 16)
    assert facts["higgs"] == (11_000_000, 28) and facts["susy"] == (5_000_000, 18)


def test_names_forgive_capitals_and_hyphens():
    assert catalogue.entry("HIGGS").name == "higgs"
    assert catalogue.entry("rectangles-images").name == "rectangles_images"


def test_options_reach_the_toy():
    d = catalogue.load("chirp", n=30, noise=0, seed=7)
    assert np.array_equal(d.X, TOYS["chirp"].generate(30, 0, 7).X)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("motorcicle", {}, "Did you mean motorcycle"),
        ("qqqqqqqq", {}, "There are step, ramp"),
        ("step", {"rows": 3}, "no option rows: it takes n, noise, seed"),
        ("boston", {"seed": 3}, "no option seed: it takes no options"),
        ("drawn", {}, "at least two points"),
    ],
)
def test_a_wrong_name_or_option_gets_a_sentence(name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        catalogue.load(name, **options)


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_the_list_names_every_set_and_keeps_to_the_width(width):
    text = table(width)
    for name in catalogue.names():
        e = catalogue.entry(name)
        line = next(li for li in text.splitlines() if li.startswith(name + " "))
        cells = line.split()
        assert cells[1] == ("varies" if e.N is None else f"{e.N:,}")
        assert cells[2] == str(e.D) and cells[3] == e.task
        assert e.story.split()[0] in text
    if width >= 100:
        assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    if width < 120:  # the story runs on underneath, unbroken by other columns
        assert all(catalogue.entry(n).story in words for n in catalogue.names())
    assert all(catalogue.entry(n).licence.split()[0] in words for n in catalogue.names())


def test_the_command_prints_the_list(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "datasets", "list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert all(name in run.stdout for name in catalogue.names())


def test_the_list_as_json(tmp_path, capsys):
    assert main(["list", "--json", str(tmp_path / "list.json")]) == 0
    entries = json.loads((tmp_path / "list.json").read_text("utf-8"))
    assert [e["name"] for e in entries] == list(catalogue.names())
    assert entries[0].keys() >= {"N", "D", "task", "story", "licence", "source", "warning"}
    assert "racial" in next(e for e in entries if e["name"] == "boston")["warning"]
    assert capsys.readouterr().out == ""
