"""Compiled passes over flat ragged data. Nothing is compiled at import; what is compiled is cached on disk.

Kernels are speed, never meaning: each agrees with a readable torch function in :mod:`pyro_unsup.distributions`.
"""
