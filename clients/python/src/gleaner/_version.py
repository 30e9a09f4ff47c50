"""Of this package; the same as that of the box that it was made with."""

__version__ = "0.1.0"
