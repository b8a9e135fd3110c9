"""What was measured: no set mixes models that were trained in different ways."""

from datasets.measured import of_one_recipe, regression


def rows(name: str, recipe: str, *models: str) -> list[dict]:
    return [{"set": name, "recipe": recipe, "model": model} for model in models]


def test_a_set_is_shown_by_the_recipe_with_the_most_models_of_equals_the_newest():
    line = rows("a", "", "linear")
    old, new = rows("a", "old", "sgp", "dgp2", "dgp3"), rows("a", "new", "sgp", "dgp2")
    assert of_one_recipe(line + old + new) == line + old
    more = rows("a", "new", "dgp3")
    assert of_one_recipe(line + old + new + more) == line + new + more
    other = rows("b", "old", "sgp", "sgp", "sgp") + rows("b", "new", "sgp")
    assert of_one_recipe(line + old + other) == line + old + other[-1:]
    assert of_one_recipe(line) == line


def test_no_set_that_is_shown_mixes_recipes():
    recipes: dict[str, set[str]] = {}
    for row in regression():
        recipes.setdefault(row["set"], set()).update({row["recipe"]} - {""})
    assert recipes and all(len(used) <= 1 for used in recipes.values())
