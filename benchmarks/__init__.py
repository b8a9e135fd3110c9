"""What the project is measured by: speed against peers, the paper's tables, scale, loading."""
