"""The contract of a structure as a test suite, for everyone who writes one.

Say how small random cases are made and how their structures are enumerated, in a :class:`Case`, and put it before the
suite. Every test then runs on your structure, by its definition and, if it has one, by its kernel::

    from pyro_unsup.testing import Case, StructureContract

    class TestRing(StructureContract):
        case = Case("ring", instances=ring_instances(), ...)

It needs ``pytest``, ``hypothesis`` and ``scipy``: ``pip install 'pyro-unsup[test]'``.
"""

from .case import Case, Enumerated, Instance, Table
from .contract import StructureContract

__all__ = ["Case", "Enumerated", "Instance", "StructureContract", "Table"]
