# SPDX-License-Identifier: GPL-2.0
"""Settings of Sphinx, see scripts/htmldocs."""

project = "svcrdma"
author = "The svcrdma developers"
extensions = ["sphinx.ext.graphviz"]
graphviz_output_format = "svg"
html_theme = "alabaster"
html_copy_source = False
html_show_copyright = False
# Words in double quotes are names of settings.
smartquotes = False
