# SPDX-License-Identifier: GPL-2.0
"""The runner of `make test`: builds what the tests need and runs each in VMs or on this host.

settings    choices of the caller: KERNEL=, SERVER=, SLOW=, TESTS=
header      the `# key: value` lines at the beginning of a test in tools/vm
test        a test: a command, its limit, and what it needs
catalogue   all tests, and the selection of some
preparation build root, kernels and snapshots, before the first test
slots       the number of VMs and commands that run at a time
processes   commands on this host, none of which outlives the run
executor    one test on this host or in VMs, and its judgement
run         the selected tests, as many at a time as there are slots
result      the result of a test
report      lines, counts and the JUnit file
main        the command line
"""
