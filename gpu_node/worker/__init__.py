"""The model service in a process of its own."""
