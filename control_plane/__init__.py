"""One replica of the API: stateless, so run as many as you like in front of one registry."""
