"""Torch modules that several methods share."""
