# SPDX-License-Identifier: GPL-2.0
"""Settings of Sphinx, see scripts/htmldocs."""

import os

from docutils import nodes
from sphinx.application import Sphinx

project = "svcrdma"
author = "The svcrdma developers"
# The packages show their version.
release = os.environ.get("SVCRDMA_VERSION", "")
extensions = ["sphinx.ext.graphviz"]
graphviz_output_format = "svg"
html_theme = "alabaster"
html_copy_source = False
html_show_copyright = False
# Words in double quotes are names of settings.
smartquotes = False
# Source, name, description, authors, section.
man_pages: list[tuple[str, str, str, list[str], int]] = [
    ("man/settings", "svcrdma-settings", "settings of the NFS/RDMA server svcrdma", [], 5),
    ("man/counters", "svcrdma-counters", "counters and latencies of the NFS/RDMA server svcrdma", [], 7),
    ("man/closes", "svcrdma-closes", "why the NFS/RDMA server svcrdma closed a connection", [], 7),
    ("man/findings", "svcrdma-findings", "findings of svcrdmactl check", [], 7),
]


def definitions(table: nodes.table) -> nodes.definition_list:
    """Returns the rows of a table as definitions of their first cells."""
    headers = [entry.astext() for head in table.findall(nodes.thead) for entry in head.findall(nodes.entry)]
    items = nodes.definition_list()
    for row in next(iter(table.findall(nodes.tbody))):
        first, *middle, last = row.children
        term = nodes.term("", "", *(child for paragraph in first for child in paragraph))
        for header, cell in zip(headers[1:] or [""] * len(middle), middle, strict=False):
            name = f"{header} " if len(middle) > 1 else ""
            term += nodes.Text(f", {name}{cell.astext()}")
        items += nodes.definition_list_item("", term, nodes.definition("", *last.children))
    return items


def for_terminals(app: Sphinx, doctree: nodes.document, _name: str) -> None:
    """Replaces what manual pages cannot show: tables and raised text."""
    if app.builder.name == "man":
        for table in list(doctree.findall(nodes.table)):
            table.replace_self(definitions(table))
        for raised in list(doctree.findall(nodes.superscript)):
            raised.replace_self(nodes.Text(f"^({raised.astext()})"))


def select(app: Sphinx) -> None:
    """Leaves out the sources of manual pages, which include parts of the other pages, from all but those."""
    if app.builder.name != "man":
        app.config.exclude_patterns.append("man")


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", select)
    app.connect("doctree-resolved", for_terminals)
