# SPDX-License-Identifier: GPL-2.0
# Sourced by the scripts: messages, refusals, the cache.
# shellcheck shell=bash

# shellcheck disable=SC2034 # these are for those who source us
top=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
# A folder of our own wherever it is: what nobody needs any more is removed from it.
# shellcheck disable=SC2034
cache=${SVCRDMA_CACHE:-/var/cache}/svcrdma
# The Debian release that has the toolchain the packaged kernels were built with.
# shellcheck disable=SC2034
release=trixie

# Where su leaves it out.
PATH=$PATH:/usr/sbin:/sbin

say() { echo "svcrdma: $*" >&2; }
die() { say "$*"; exit 1; }

need_root() {
	[[ $EUID -eq 0 ]] || die "$1 needs root: run it as root (sudo make ...)"
}

# need_space MIB DIR: before a folder is filled, not after an hour.
need_space() {
	local have
	mkdir -p "$2" || die "cannot create $2: run as root"
	have=$(df --output=avail -BM "$2" | tail -n1 | tr -dc 0-9)
	((have >= $1)) ||
		die "no space: $2 has $have MiB free and $1 are needed; free some, or set SVCRDMA_CACHE to another disk"
}

# need_tools COMMAND:PACKAGE...: installs what the host lacks.
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

# key FILE|STRING...: a name for everything an artefact is made from.
key() {
	local a
	for a; do
		if [[ -f $a ]]; then cat "$a"; else echo "$a"; fi
	done | sha256sum | cut -c1-12
}

# used DIR...: of the cache, so that fill knows what nobody needs any more.
used() { touch -c "$@" 2>/dev/null || true; }

# fill DIR MIB COMMAND...: makes the cache entry DIR once. COMMAND gets a
# temporary folder as its last argument, which becomes DIR if it succeeds;
# others who want the same wait for the lock.
fill() {
	local dir=$1 mib=$2
	shift 2
	[[ -e $dir ]] && return
	need_space "$mib" "$(dirname "$dir")"
	(
		flock 9
		[[ -e $dir ]] && exit
		# We hold the lock: what is there is of a run that was killed.
		rm -rf "$dir.tmp"
		trap 'rm -rf "$dir.tmp"' EXIT
		mkdir "$dir.tmp"
		"$@" "$dir.tmp" >"$dir.log" 2>&1 </dev/null 9>&- || {
			tail -n 15 "$dir.log" >&2
			die "could not make $(basename "$dir"); whole log: $dir.log"
		}
		mv -T "$dir.tmp" "$dir"
		# Of the same kind, what nobody has used for a month.
		find "$(dirname "$dir")" -maxdepth 1 -name "$(basename "$dir" | sed 's/-.*//')-*" -mtime +30 -exec rm -rf {} +
	) 9>"$dir.lock"
}
