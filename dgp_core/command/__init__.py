"""The command without a screen: options, actions, training, files."""
