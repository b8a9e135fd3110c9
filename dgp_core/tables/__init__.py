"""A user's file to a Dataset: bytes, cells, columns and decisions, the recipe."""
