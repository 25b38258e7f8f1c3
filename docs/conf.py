"""How `./dev docs` makes a site of these pages: Sphinx with its usual theme; the reference comes from docstrings."""

project = "framefuse"
author = "the framefuse authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "alabaster"
html_theme_options = {"description": "torch.compile done again in C++", "page_width": "1100px"}
html_static_path: "list[str]" = []
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Links to files of the repository that are no pages, and texts of types in docstrings, are not followed.
suppress_warnings = ["myst.xref_missing", "myst.header", "misc.highlighting_failure"]
default_role = "code"


def _settings() -> str:
    import framefuse

    rows = [f"| `{name}` | `{initial!r}` | {text} |" for name, text, initial in framefuse._C.config_settings()]
    return "\n".join(["| setting | at first | what it does |", "|---|---|---|", *rows])


def _fill_in(app, docname, source) -> None:
    """The table of settings comes from where they are defined (common/config.def)."""
    if docname == "settings":
        source[0] = source[0].replace("{settings}", _settings())


def setup(app) -> None:
    app.connect("source-read", _fill_in)
