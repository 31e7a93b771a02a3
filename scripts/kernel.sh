# SPDX-License-Identifier: GPL-2.0
# Functions for scripts that make kernels: lib.sh, the choice of packages, and their source.
# shellcheck shell=bash
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# choose_kernel FAMILY|VERSION: sets version and packages (PACKAGE=VERSION..., the source last).
choose_kernel() {
	local lists chosen
	need_tools python3:python3 xz:xz-utils
	lists=$("$top/scripts/archive" index)
	chosen=$("$top/scripts/kernel-set" "$lists" "$1") || exit 1
	mapfile -t packages <<<"$chosen"
	version=${packages[0]}
	packages=("${packages[@]:1}")
}

# unpack_source DEB DIR PATTERN...: unpacks the kernel source, except files that match a PATTERN.
unpack_source() {
	local deb=$1 dir=$2 name
	shift 2
	# The top folder of the archive.
	name=$(basename "$deb")
	name=${name%%_*}
	dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards '*/linux-source-*.tar.xz' | xz -dc -T0 |
		tar -x -C "$dir" --strip-components=1 --wildcards "${@/#/--exclude=$name/}"
}
