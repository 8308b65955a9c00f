"""How Sphinx builds the site: ``make -C docs html``. Nothing is fetched, and every warning is an error."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from jupyter_cache import get_cache

# Pyro asks tqdm for bars of notebooks; pages need none, and no warning that there are none.
os.environ["PYTHONWARNINGS"] = "ignore:IProgress"
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent))

import pyro_unsup  # noqa: E402

project = "pyro_unsup"
author = "The pyro_unsup authors"
version = release = pyro_unsup.__version__
copyright = f"{author}. Version {version}"  # the footer shows it

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    # In _ext: parts of the site that are made from code, notebooks and results.
    "api",
    "commands",
    "gallery",
    "mathml",
    "papers",
    "places",
]
exclude_patterns = ["_build", "_ext", "clusters", "examples", "papers/generated/*.md", "**/.ipynb_checkpoints"]
nitpicky = True  # references must lead somewhere; api.py has the rule for types of other libraries

# Pages: Markdown. The code cells of a page run when the site is built, and their output is what readers see.
# Notebooks bring their saved outputs, which a test compares with what they give when they run again.
myst_enable_extensions = [
    "amsmath",
    "attrs_block",
    "attrs_inline",
    "colon_fence",
    "deflist",
    "dollarmath",
    "substitution",
]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_excludepatterns = ["tutorials/*"]
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "alpha"

autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_type_aliases = {
    "Array": "Array", "ArrayLike": "ArrayLike", "Links": "pyro_unsup.data.Links", "Tensor": "torch.Tensor",
}  # fmt: skip
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"pyro_unsup {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/favicon.svg"
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "pyro_unsup", "alt_text": "pyro_unsup, the first page"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_sidebars = {"index": [], "glossary": [], "changelog": [], "about": []}


def make_cache(app: Any) -> None:
    """Make the cache of executed pages before two processes do, which would be in each other's way."""
    get_cache(Path(app.outdir).parent / ".jupyter_cache").db  # noqa: B018 (asking for it makes it)


def setup(app: Any) -> None:
    app.connect("builder-inited", make_cache)
