"""Who may do what in a room, and how are rooms looked after? The only code that uses livekit.api."""
