# SPDX-License-Identifier: GPL-2.0
"""Tests of the statistics and of the report, without a server."""
