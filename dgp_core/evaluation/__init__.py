"""How good a model is: scores, held-out forecasts, the verdict, explanations."""
