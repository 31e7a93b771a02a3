# SPDX-License-Identifier: GPL-2.0
# Functions that scripts source: messages, checks of prerequisites, the cache.
# shellcheck shell=bash

# shellcheck disable=SC2034 # these are for those who source us
top=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
# The folder must hold nothing else, as unused entries are removed from it.
# shellcheck disable=SC2034
cache=${SVCRDMA_CACHE:-/var/cache}/svcrdma
# The Debian release whose toolchain built the packaged kernels.
# shellcheck disable=SC2034
release=trixie
# The families of Debian's kernels that the module supports, the newest first.
# shellcheck disable=SC2034
supported=(7.3 7.2)

# su may leave these folders out.
PATH=$PATH:/usr/sbin:/sbin

# say TEXT: prints a line. Standard error may be closed, and the caller goes on then.
say() { echo "svcrdma: $*" >&2 || true; }
die() { say "$*"; exit 1; }

need_root() {
	[[ $EUID -eq 0 ]] || die "$1 needs root: run it as root (sudo make ...)"
}

# need_space MIB DIR: fails early if the disk of DIR has too little space.
need_space() {
	local have
	mkdir -p "$2" || die "cannot create $2: run as root"
	have=$(df --output=avail -BM "$2" | tail -n1 | tr -dc 0-9)
	((have >= $1)) ||
		die "no space: $2 has $have MiB free and $1 are needed; free some, or set SVCRDMA_CACHE to another disk"
}

# need_tools COMMAND:PACKAGE...: installs the packages whose commands the host lacks.
need_tools() {
	local t missing=()
	for t; do command -v "${t%%:*}" >/dev/null || missing+=("${t##*:}"); done
	((${#missing[@]})) || return 0
	need_root "installing ${missing[*]}"
	say "installing on this host: ${missing[*]}"
	mkdir -p "$cache"
	(
		flock 8
		install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; }
		install || { apt-get update -qq && install; }
	) 8>"$cache/host-tools.lock" >"$cache/host-tools.log" 2>&1 </dev/null ||
		die "cannot install ${missing[*]}: install them by hand (log: $cache/host-tools.log)"
}

# key FILE|STRING...: prints a hash of all inputs of an artefact.
key() {
	local a
	for a; do
		if [[ -f $a ]]; then cat "$a"; else echo "$a"; fi
	done | sha256sum | cut -c1-12
}

# used DIR...: marks cache entries as used, so that fill keeps them.
used() { touch -c "$@" 2>/dev/null || true; }

# discard DIR: removes a temporary folder, but nothing that is mounted below it.
discard() {
	local at
	while read -r at; do umount --lazy "$at" || true; done < <(
		awk -v "dir=$1/" 'index($2, dir) == 1 { print $2 }' /proc/self/mounts | tac
	)
	rm -rf --one-file-system "$1"
}

# fill DIR MIB COMMAND...: creates the cache entry DIR if it does not exist. COMMAND gets a
# temporary folder as its last argument, which becomes DIR if COMMAND succeeds. Concurrent callers
# wait for the lock.
fill() {
	local dir=$1 mib=$2 apart=()
	shift 2
	[[ -e $dir ]] && return
	need_space "$mib" "$(dirname "$dir")"
	# What mmdebstrap mounts is gone when it ends, also if it is killed.
	[[ $EUID -ne 0 ]] || apart=(unshare --mount)
	(
		flock 9
		[[ -e $dir ]] && exit
		# The lock is held, so a temporary folder is left from a killed run.
		discard "$dir.tmp"
		trap 'discard "$dir.tmp"' EXIT
		mkdir "$dir.tmp"
		"${apart[@]}" "$@" "$dir.tmp" >"$dir.log" 2>&1 </dev/null 9>&- || {
			tail -n 15 "$dir.log" >&2
			die "could not make $(basename "$dir"); whole log: $dir.log"
		}
		mv -T "$dir.tmp" "$dir"
		# Remove entries of the same kind that were not used for a month.
		find "$(dirname "$dir")" -maxdepth 1 -name "$(basename "$dir" | sed 's/-.*//')-*" -mtime +30 -exec rm -rf {} +
	) 9>"$dir.lock"
}
