"""The names by which models, handlers and the like are saved and found again; open to other packages.

A package registers its own classes by entry points, in its ``pyproject.toml``::

    [project.entry-points."pyro_unsup.models"]
    MyModel = "my_package.model:MyModel"

A script or a notebook calls :func:`register`. A saved fit holds such names and plain settings. Loading it builds what
is registered here, and imports nothing else: a file cannot make this process run code that was not installed for it.

There are seven kinds of names:

* ``models``, ``handlers``, ``components`` and ``estimators``: classes (or functions that make components) that can
  describe themselves, see :class:`Describable`;
* ``tasks``: classes that say what a model is for, see :class:`pyro_unsup.tasks.Task`. The class of a model names its
  task by an attribute ``task``;
* ``networks``: classes that make the network of a table and can describe themselves, see :class:`pyro_unsup.Neural`;
* ``structures``: structured distributions. They are not saved; a name makes them known to tools, such as test suites.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from .errors import NotDescribable, RegistryError, UnsupError

if TYPE_CHECKING:
    from torch import Tensor

    #: Plain values, as JSON has them, by name; and tensors by name.
    Settings = tuple[dict[str, Any], dict[str, Tensor]]

__all__ = ["Describable", "PlainSettings", "build", "describe", "find", "name_of", "names", "register", "unregister"]

KINDS = ("models", "handlers", "components", "estimators", "structures", "tasks", "networks")
#: What the name of an entry point group begins with, before the kind.
GROUP = "pyro_unsup."
LIBRARY = "pyro_unsup"

#: The library's own names. They are written as entry points are, and imported when they are asked for.
OWN: Mapping[str, Mapping[str, str]] = {
    "models": {
        name: f"pyro_unsup.models:{name}"
        for name in (
            "Adaptor",
            "Aligner",
            "CCM",
            "Clusterer",
            "DMV",
            "DMVCCM",
            "HMM",
            "HMMAligner",
            "PCFG",
            "Segmenter",
            "SimplePCFG",
            "Tagger",
        )
    },
    "handlers": {
        "constrain": "pyro_unsup.handlers:ConstrainMessenger",
        "harden": "pyro_unsup.handlers:HardenMessenger",
        "prefer": "pyro_unsup.handlers:PreferMessenger",
        "regularise": "pyro_unsup.handlers:RegulariseMessenger",
        "skew": "pyro_unsup.handlers:SkewMessenger",
        "temper": "pyro_unsup.handlers:TemperMessenger",
        "tie": "pyro_unsup.handlers:TieMessenger",
    },
    "components": {
        "at_least": "pyro_unsup.handlers.component:AtLeast",
        "both": "pyro_unsup.handlers.component:Both",
        "either": "pyro_unsup.handlers.component:Either",
        "opposite": "pyro_unsup.handlers.component:Opposite",
        "symmetric": "pyro_unsup.handlers.components.choices:Symmetric",
        **{
            name: f"pyro_unsup.handlers.components:{name}"
            for name in (
                "all_right",
                "arc",
                "closed_classes",
                "cognates",
                "distance",
                "ends_in",
                "fragments",
                "left_chain",
                "links_into",
                "near_diagonal",
                "noun_sequence",
                "punctuation_alike",
                "right_attach",
                "root",
                "seeds",
                "short_dependencies",
                "spelled_with",
                "starts_with",
                "states_at",
                "universal",
                "verb_as_root",
                "width",
                "word_tags",
            )
        },
    },
    "estimators": {
        name: f"pyro_unsup.estimate:{name}"
        for name in (
            "AddLambda",
            "DirichletMAP",
            "DirichletVB",
            "EmpiricalDirichlet",
            "LogLinear",
            "LogisticNormal",
            "Neural",
            "Normalise",
            "SparseL0",
        )
    },
    "networks": {name: f"pyro_unsup.estimate:{name}" for name in ("Cells", "Embeddings")},
    "structures": {
        name: f"pyro_unsup.distributions:{name}"
        for name in (
            "Agreement",
            "Alignment",
            "AlignmentHMM",
            "Bracketing",
            "Chain",
            "Dependency",
            "HMMAgreement",
            "HeadedBracketing",
            "Mixture",
            "PCFG",
            "Segmentation",
            "SemiMarkov",
            "SimplePCFG",
        )
    },
    "tasks": {
        "adaptor": "pyro_unsup.tasks.adaptor:AdaptorTask",
        "aligner": "pyro_unsup.tasks.aligner:AlignerTask",
        "ccm": "pyro_unsup.tasks.ccm:CCMTask",
        "clusterer": "pyro_unsup.tasks.clusterer:ClustererTask",
        "dmv": "pyro_unsup.tasks.dmv:DMVTask",
        "dmv-ccm": "pyro_unsup.tasks.dmv_ccm:DMVCCMTask",
        "generic": "pyro_unsup.tasks.generic:GenericTask",
        "pcfg": "pyro_unsup.tasks.pcfg:PCFGTask",
        "segmenter": "pyro_unsup.tasks.segmenter:SegmenterTask",
        "hmm": "pyro_unsup.tasks.hmm:HMMTask",
        "tagger": "pyro_unsup.tasks.tagger:TaggerTask",
    },
}


@runtime_checkable
class Describable(Protocol):
    """An object that tells its settings. Its class builds it again by ``from_settings(plain, tensors)``.

    >>> import pyro_unsup as pu
    >>> plain, tensors = pu.models.Clusterer(clusters=2, vocab=3).settings()
    >>> plain["clusters"], pu.models.Clusterer.from_settings(plain, tensors)
    (2, Clusterer(clusters=2, vocab=3))
    """

    def settings(self) -> Settings:
        """Plain values (as JSON has them) and tensors, each by name.

        :raises NotDescribable: if it holds what is neither, such as a function.
        """


class PlainSettings:
    """Gives a dataclass ``settings`` and ``from_settings``, for fields that are plain values or tensors.

    >>> from dataclasses import dataclass
    >>> from pyro_unsup.registry import PlainSettings
    >>> @dataclass(frozen=True)
    ... class Shrink(PlainSettings):
    ...     by: float = 0.5
    >>> Shrink(0.1).settings(), Shrink.from_settings({"by": 0.1}, {})
    (({'by': 0.1}, {}), Shrink(by=0.1))
    """

    def settings(self) -> Settings:
        """The fields of the dataclass."""
        from torch import Tensor

        plain: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, Tensor):
                tensors[one.name] = value
            else:
                plain[one.name] = _plain(value, one.name)
        return plain, tensors

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Build it again from what :meth:`settings` told."""
        known = {one.name for one in fields(cls)}  # type: ignore[arg-type]
        if unknown := sorted({*plain, *tensors} - known):
            raise RegistryError(f"expected settings of {cls.__name__} among {sorted(known)}, actual {unknown!s:.200}")
        return cls(**plain, **tensors)


@dataclass(frozen=True)
class _Entry:
    """One registered name.

    :param origin: who registered it, for errors: a package, or a module.
    :param load: imports the object, if that has not been done.
    :param module: that has the object; None if it is here already.
    """

    origin: str
    load: Callable[[], Any]
    module: str | None = None


#: By kind and name, what :func:`register` was given in this process.
_registered: dict[str, dict[str, _Entry]] = {kind: {} for kind in KINDS}
#: By kind and name, everyone who installed something by that name. Looked up once for each kind.
_installed: dict[str, dict[str, list[_Entry]]] = {}
#: Objects that have been imported.
_loaded: dict[EntryPoint, Any] = {}


def register(kind: str, name: str, what: Any) -> None:
    """Make something known by a name, in this process. An installed package has entry points for this.

    :param kind: one of ``models``, ``handlers``, ``components``, ``estimators``, ``networks``, ``structures`` and
        ``tasks``.
    :param name: that saved fits call it by.
    :param what: the class; for a component the function that makes it.

    >>> import pyro_unsup as pu
    >>> class Small(pu.models.Tagger):
    ...     pass
    >>> pu.registry.register("models", "Small", Small)
    >>> pu.registry.name_of("models", Small)
    'Small'
    >>> pu.registry.unregister("models", "Small")
    """
    if not isinstance(name, str) or not name:
        raise RegistryError(f"a registered name is a string that is not empty, actual {name!r:.80}")
    entry = _Entry(f"register() for {_where(what)}", lambda: what)
    if others := _entries(kind).get(name):
        if any(one.module is None and _where(one.load()) == _where(what) for one in others):
            _registered[kind][name] = entry  # a cell of a notebook was run again, and defined the class again
            return
        raise RegistryError(_twice(kind, name, [*others, entry]))
    _registered[kind][name] = entry


def unregister(kind: str, name: str) -> None:
    """Take back what :func:`register` did.

    >>> import pyro_unsup as pu
    >>> pu.registry.register("estimators", "Half", object)
    >>> pu.registry.unregister("estimators", "Half")
    >>> "Half" in pu.registry.names("estimators")
    False
    """
    _entries(kind)
    if name not in _registered[kind]:
        raise RegistryError(f"no {_one(kind)} {name!r:.80} was registered by register() in this process")
    del _registered[kind][name]


def names(kind: str) -> list[str]:
    """All registered names of a kind. Nothing is imported for this.

    >>> import pyro_unsup as pu
    >>> pu.registry.names("handlers")
    ['constrain', 'harden', 'prefer', 'regularise', 'skew', 'temper', 'tie']
    """
    return sorted(_entries(kind))


def find(kind: str, name: str) -> Any:
    """What is registered by a name, imported now if it has not been.

    :param kind: one of ``models``, ``handlers``, ``components``, ``estimators``, ``structures`` and ``tasks``.
    :raises RegistryError: if nothing is, if two packages claim the name, or if the import fails.

    >>> import pyro_unsup as pu
    >>> pu.registry.find("models", "Tagger") is pu.models.Tagger
    True
    """
    known = _entries(kind)
    if not isinstance(name, str) or name not in known:
        raise RegistryError(
            f"unknown {_one(kind)} {name!r:.80}: known are {', '.join(sorted(known))!s:.250}. If it comes from another "
            f"package, install the package that registers it (by an entry point in the group '{GROUP}{kind}'); if it "
            f"is your own, call pyro_unsup.registry.register({kind!r}, name, ...) first"
        )
    if len(known[name]) > 1:
        raise RegistryError(_twice(kind, name, known[name]))
    return known[name][0].load()


def name_of(kind: str, what: Any) -> str | None:
    """The name that something is registered by; None if it is not. A subclass has to be registered on its own.

    Packages that were not imported are not imported for this: what is here cannot come from them.

    >>> import pyro_unsup as pu
    >>> pu.registry.name_of("models", pu.models.DMV), pu.registry.name_of("models", dict)
    ('DMV', None)
    """
    for name, entries in _entries(kind).items():
        for one in entries:
            if one.module is not None and one.module.partition(".")[0] not in sys.modules:
                continue
            try:
                found = one.load()
            except RegistryError:  # a package that is broken is no reason to fail here; find() tells what is wrong
                continue
            if found is what:
                return name
    return None


def describe(kind: str, what: Any, builder: Any = None) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """The registered name and the settings of something, in plain values, and its tensors; None if it is not
    registered.

    :param kind: of what it is.
    :param what: the object itself, not its class.
    :param builder: what is registered for it; by default its class.
    :raises NotDescribable: if it is registered, but holds what cannot be described.

    >>> import pyro_unsup as pu
    >>> pu.registry.describe("estimators", pu.AddLambda(0.1))
    ({'name': 'AddLambda', 'settings': {'amount': 0.1}}, {})
    """
    name = name_of(kind, type(what) if builder is None else builder)
    if name is None:
        return None
    if not isinstance(what, Describable):
        raise NotDescribable(
            f"the {_one(kind)} {name} is registered, but has no method settings() that returns plain values and tensors"
        )
    plain, tensors = what.settings()
    return {"name": name, "settings": dict(plain)}, dict(tensors)


def build(kind: str, said: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    """The way back from :func:`describe`. Raises where the parts do not agree.

    :param kind: of what is to be built.
    :param said: ``name`` and ``settings``.
    :param tensors: by name, of the shapes that they were described with.

    >>> import pyro_unsup as pu
    >>> pu.registry.build("estimators", {"name": "AddLambda", "settings": {"amount": 0.1}}, {})
    AddLambda(amount=0.1)
    """
    builder = find(kind, said["name"])
    if not hasattr(builder, "from_settings"):
        raise RegistryError(f"the {_one(kind)} {said['name']} is registered, but has no from_settings(plain, tensors)")
    try:
        return builder.from_settings(said["settings"], tensors)
    except UnsupError:
        raise
    except Exception as error:  # the settings may come from anyone, and the class from any package
        raise RegistryError(
            f"the {_one(kind)} {said['name']} cannot be built from these settings ({_brief(error)})"
        ) from error


def _entries(kind: str) -> dict[str, list[_Entry]]:
    """By name, everyone who registered it."""
    if kind not in _registered:
        raise RegistryError(f"expected one of the kinds {', '.join(KINDS)}, actual {kind!r:.80}")
    if kind not in _installed:
        found: dict[str, list[_Entry]] = {}
        for entry in _points(kind):
            found.setdefault(entry.name, []).append(_Entry(_origin(entry), _loader(kind, entry), entry.module))
        _installed[kind] = found
    known = {name: list(entries) for name, entries in _installed[kind].items()}
    for name, one in _registered[kind].items():
        known.setdefault(name, []).append(one)
    return known


def _points(kind: str) -> Iterator[EntryPoint]:
    """The library's own entry points, and those of installed packages."""
    own = {name: EntryPoint(name, value, GROUP + kind) for name, value in OWN[kind].items()}
    yield from own.values()
    # One package may be found twice, as in a source tree beside its installation: it says the same both times.
    seen = {(LIBRARY, name, one.value) for name, one in own.items()}
    for one in entry_points(group=GROUP + kind):
        key = (_origin(one), one.name, one.value)
        if key not in seen:
            seen.add(key)
            yield one


def _loader(kind: str, entry: EntryPoint) -> Callable[[], Any]:
    def load() -> Any:
        if entry not in _loaded:
            try:
                found: Any = import_module(entry.module)
                for part in filter(None, (entry.attr or "").split(".")):
                    found = getattr(found, part)
            except Exception as error:
                raise RegistryError(
                    f"the {_one(kind)} {entry.name!r:.80} is registered by {_origin(entry)} as '{entry.value}', which "
                    f"cannot be imported ({_brief(error)}): repair or remove that package"
                ) from error
            _loaded[entry] = found
        return _loaded[entry]

    return load


def _brief(error: Exception) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())!s:.200}"


def _origin(entry: EntryPoint) -> str:
    return LIBRARY if entry.dist is None else entry.dist.name


def _where(what: Any) -> str:
    return f"{getattr(what, '__module__', type(what).__module__)}.{getattr(what, '__qualname__', repr(what))}"


def _one(kind: str) -> str:
    return kind.removesuffix("s")


def _twice(kind: str, name: str, entries: list[_Entry]) -> str:
    origins = " and ".join(one.origin for one in entries)
    return f"the {_one(kind)} {name!r:.80} is registered twice, by {origins}: rename one, or remove one of the packages"


def _plain(value: Any, name: str) -> Any:
    """The value, if JSON has such values."""
    import numpy as np

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one, name) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(one, name) for key, one in value.items()}
    raise NotDescribable(f"'{name}' holds {value!r:.80}, which is neither a plain value nor a tensor")
