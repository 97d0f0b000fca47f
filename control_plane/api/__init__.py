"""The HTTP API: shapes of requests and answers, and how errors look from outside."""
