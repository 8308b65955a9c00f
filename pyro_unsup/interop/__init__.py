"""To and from the formats of other libraries: spaCy, nltk and scikit-learn. Each is imported when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from . import nltk as nltk
    from . import sklearn as sklearn
    from . import spacy as spacy

__all__ = ["nltk", "sklearn", "spacy"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != name:
            raise
        package = {"sklearn": "scikit-learn"}.get(name, name)
        raise InputError(f"pu.interop.{name} needs {package}; install it (pip install {package})") from error


def __dir__() -> list[str]:
    return sorted(__all__)
