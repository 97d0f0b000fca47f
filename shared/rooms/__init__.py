"""Who may do what in a room, and who looks after rooms? The only code that uses livekit.api."""
