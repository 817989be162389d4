"""The kinds of encoders, a module or folder each: settings, files, fingerprint, loading, and the steps that make it.

A module of a kind imports torch only inside functions, because the configuration and the list of steps read it.
"""
