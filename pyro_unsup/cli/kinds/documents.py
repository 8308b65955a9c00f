"""Documents as the commands read them: where they lie, in which form, and what is left of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ..options import MODEL, OUTPUT

if TYPE_CHECKING:
    from ...data import Documents


class Form(StrEnum):
    """How documents lie in a file or folder."""

    AUTO = "auto"
    PLAIN = "plain"
    LABELLED = "labelled"
    NEWSGROUPS = "newsgroups"
    FOLDERS = "folders"


class Encoding(StrEnum):
    """Of the files in a folder."""

    UTF8 = "utf-8"
    LATIN1 = "latin-1"


FORMS = (
    "plain (a document a line), labelled (label TAB text), newsgroups (split TAB group TAB id TAB text) or folders "
    "(one a label, a file a document). auto goes by the tabs in the first line."
)
FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="Documents: a file, a folder, or saved ones. - is stdin.")
]
FormOption = Annotated[Form, typer.Option("--format", metavar="FORMAT", help=FORMS, rich_help_panel=OUTPUT)]
ClustersOption = Annotated[int, typer.Option("--clusters", metavar="N", min=1, help="How many.", rich_help_panel=MODEL)]
DropOption = Annotated[
    int,
    typer.Option(
        "--drop-frequent", metavar="N", min=0, help="Leave out the N most frequent words.", rich_help_panel=OUTPUT
    ),
]
LeastOption = Annotated[
    int,
    typer.Option("--min-count", metavar="N", min=1, help="Leave out words seen fewer times.", rich_help_panel=OUTPUT),
]
SplitOption = Annotated[
    str | None,
    typer.Option("--split", metavar="NAME", help="With newsgroups, only this split.", rich_help_panel=OUTPUT),
]
EncodingOption = Annotated[Encoding, typer.Option("--encoding", help="Of files in folders.", rich_help_panel=OUTPUT)]
SkipOption = Annotated[
    bool, typer.Option("--skip-empty", help="Leave out documents without words.", rich_help_panel=OUTPUT)
]


def kept_words(
    file: str,
    form: Form,
    split: str | None,
    encoding: Encoding,
    lowercase: bool,
    skip_empty: bool,
    drop_frequent: int,
    min_count: int,
) -> Documents:
    """Documents of the words that are neither too frequent nor too rare."""
    whole = read(file, form, split, encoding, lowercase, "drop" if skip_empty else "error")
    try:
        return whole.drop_frequent(drop_frequent).drop_rare(min_count)
    except InputError as error:
        raise InputError("no word is left; lower --drop-frequent and --min-count", file) from error


def read(
    file: str,
    form: Form,
    split: str | None,
    encoding: Encoding,
    lowercase: bool,
    empty: Any,
    option: str = "--skip-empty",
) -> Documents:
    """Documents of any form, or as they were saved.

    :param empty: what to do with those that have no words; ``option`` says what else could be done.
    """
    from ...data import Documents, read_documents

    if (Path(file) / "documents.json").is_file():
        if lowercase:
            raise InputError("taken as it was saved, which --lowercase would change; leave it out", file)
        return Documents.open(file)
    options: dict[str, Any] = {"split": split, "encoding": encoding.value, "lowercase": lowercase, "empty": empty}
    try:
        return read_documents(file, str(form), **options)  # type: ignore[arg-type]
    except InputError as error:
        what = error.what.replace("read with empty='drop' or empty='keep'", f"add {option}")
        raise InputError(what, error.path, error.line) from error
