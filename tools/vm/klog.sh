# SPDX-License-Identifier: GPL-2.0
# Sourced by guest.sh, and by the unit tests of the runner: the lines of a kernel log that fail a test.
# shellcheck shell=bash

# The most lines that are dropped with an allowed warning: its registers, modules and trace.
TRACE_LINES=100
# What a kernel says first when something is wrong, before its trace. It ends the trace of an allowed warning.
COMPLAINT='BUG\b|WARNING\b|Oops|KASAN|UBSAN|general protection|nable to handle|panicked|blocked for more than|soft lockup'

# complaints: prints the lines of its input that are complaints; returns false if there are none.
complaints() {
	grep -E -e "$COMPLAINT" -e 'Call Trace' -e 'refcount' -e '\b[Ll]eak' -e 'list_(add|del)' -e 'rcu.*stall' -e 'while atomic'
}

# klog_disallowed [REGEX]: prints its input without the lines that are allowed, which match the list klog-allow or REGEX. With
# an allowed warning it drops the rest of the warning, down to the end of the trace, but neither more than TRACE_LINES lines
# nor another complaint.
klog_disallowed() {
	(sed '/^#/d; /^$/d' "${BASH_SOURCE[0]%/*}/klog-allow"; echo "${1:-^\$}") | awk -v most="$TRACE_LINES" -v complaint="${COMPLAINT//\\b/}" '
		NR == FNR { allowed[++n] = $0; next }
		{
			for (i = 1; i <= n; i++)
				if ($0 ~ allowed[i]) { left = /WARNING/ ? most : 0; next }
			if ($0 ~ complaint) left = 0
			if (left > 0) { left = /end trace/ ? 0 : left - 1; next }
			print
		}' - /dev/fd/3
} 3<&0
