"""Does somebody's service file keep the contract? ``greenroom check``."""
