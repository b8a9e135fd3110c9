"""The collection: what there is to learn on, by name, each set with the story that it tells."""
