"""The blocking client."""

# Made by generate.py; changes are lost. It is _async, blocking.
