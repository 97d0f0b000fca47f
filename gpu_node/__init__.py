"""One agent per loaded model service: it holds sessions, rooms and the execution lease."""
