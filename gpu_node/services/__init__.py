"""Model services: what they must offer, how they are loaded, where they live."""
