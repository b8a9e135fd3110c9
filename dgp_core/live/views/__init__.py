"""The numbers of every picture."""
