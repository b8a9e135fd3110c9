"""Training in the background, for many people at once; pages only ask."""
