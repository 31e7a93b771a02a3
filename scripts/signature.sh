# SPDX-License-Identifier: GPL-2.0
# Functions that scripts/upgrade and the guard source: the signature of a module.
# shellcheck shell=bash

# must_be_signed: returns true if the kernel loads signed modules only.
must_be_signed() {
	grep -qs '\[\(integrity\|confidentiality\)\]' /sys/kernel/security/lockdown ||
		grep -qsx Y /sys/module/module/parameters/sig_enforce
}

# has_key NAME: returns true if the kernel has a key whose certificate has that name, or if its keys cannot be seen.
has_key() {
	awk -v name=" $1: " '/ asymmetri / { seen = 1; if (index($0, name)) found = 1 } END { exit seen && !found }' /proc/keys
}

# signature_refused FILE: prints why the kernel will not accept the signature of a module; prints nothing if it will.
signature_refused() {
	local signer
	must_be_signed || return 0
	signer=$(modinfo -F signer "$1") || return 0
	if [[ ! $signer ]]; then
		echo "$1 has no signature, and the kernel loads signed modules only: sign it, see the page install"
	elif ! has_key "$signer"; then
		echo "$1 is signed by \"$signer\", and the kernel has no key of that name: mokutil --import its key, and reboot"
	fi
}
