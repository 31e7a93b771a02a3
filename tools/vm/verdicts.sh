# SPDX-License-Identifier: GPL-2.0
# Sourced by guest.sh and by the tests of the packages: how a test ends.
# shellcheck shell=bash

# fail MESSAGE, skip REASON: end the script, and the test has failed or is skipped. note MESSAGE: prints it.
fail() { said=yes; note "FAIL: $(place)$*"; exit 1; }
skip() { said=yes; note "SKIP: $*"; exit 77; }
note() { echo "$*" >&2; }
# flaky REASON: the test goes on, and is reported as flaky if it passes. For tests that repeat what has failed.
flaky() { note "FLAKY: $*"; echo "$*" >>/job/out/flaky; }
# must COMMAND...: runs COMMAND; fails the test if it fails. What it prints to stderr is in the log before that.
must() { "$@" || fail "status $?: $*"; }
# put TEXT FILE: writes TEXT to FILE, one of the kernel's; fails the test if the kernel does not take it.
put() { echo "$1" >"$2" || fail "$2 does not take \"$1\""; }

# place [FRAMES]: prints the lines of the test that are executed, the outermost first: "NAME:LINE: NAME:LINE: ". It leaves out
# the innermost FRAMES.
place() {
	local i
	for ((i = ${#BASH_SOURCE[@]} - 1; i > ${1:-0}; i--)); do
		case ${BASH_SOURCE[i]##*/} in
		'' | main | environment | agent | guest.sh | verdicts.sh | common) ;;
		*) printf '%s:%s: ' "${BASH_SOURCE[i]##*/}" "${BASH_LINENO[i - 1]}" ;;
		esac
	done
}

# ended: what a test that sources this file does at its end. Runs $at_end, and says where the test ended if it ended early
# without a message.
ended() {
	local status=$? command=$BASH_COMMAND
	[[ ! ${at_end-} ]] || eval "$at_end"
	((status == 0 || status == 77)) || [[ ${said-} ]] || note "FAIL: $(place 2)ended with status $status: $command"
}
