# SPDX-License-Identifier: GPL-2.0
# Functions that make the Rust metadata, which the headers of a packaged kernel lack, from the source of
# that kernel. scripts/kernel and scripts/dkms source it after lib.sh.
# shellcheck shell=bash

# The files that the packaged headers lack for building Rust modules.
metadata=(
	rust/lib{core,compiler_builtins,ffi,build_error,pin_init,bindings,uapi,kernel,zerocopy}.rmeta
	rust/lib{macros,pin_init_internal,zerocopy_derive}.so
	rust/kernel/generated_arch_{static_branch,warn,reachable}_asm.rs
	rust/Makefile rust/bindgen_parameters
	.clippy.toml .rustfmt.toml
)

# The files of the source that are not needed: three quarters of its 100,000.
# shellcheck disable=SC2034
not_needed=(
	{fs,net,sound,drivers/{[!i],i[!n],in[!f],infiniband/{core,hw,ulp,sw/r}}}'*.c' {drivers/{accel,gpu,media,net,scsi,staging},sound}/'*.h'
	arch/'[a-wyz]*/'{'*.[chS]',boot} 'Documentation/*.rst' Documentation/devicetree tools/{net,perf,testing}
)

# make_metadata SOURCE HEADERS MAKE...: makes the metadata in SOURCE for the kernel of HEADERS, with MAKE.
make_metadata() {
	local source=$1 headers=$2
	shift 2
	cp "$headers/.config" "$headers/Module.symvers" "$source/"
	"$@" olddefconfig prepare modules_prepare
	cmp "$source/.config" "$headers/.config" || die "the packaged configuration does not fit the packaged source"
	# shellcheck disable=SC2154 # of lib.sh
	"$top/scripts/check-exports" "$source"
}

# shadow ROOT KDIR SOURCE HEADERS DIR: makes in DIR, which will be moved to KDIR, a build folder of the
# headers and the metadata of SOURCE. The packages' files are below ROOT.
shadow() {
	local root=$1 kdir=$2 source=$3 headers=$4 dir=$5 kbuild f
	kbuild=$(realpath "$headers/scripts/..")
	kbuild=$root/usr/lib/${kbuild##*/}
	cp -a "$headers" "$dir"
	sed -i -e "s|^KBUILD_OUTPUT=.*|KBUILD_OUTPUT=$kdir|" -e "s|^include /usr/src|include $root/usr/src|" "$dir/Makefile"
	rm "$dir/scripts" "$dir/tools"
	ln -s "$kbuild/tools" "$dir/tools"
	mkdir "$dir/scripts"
	for f in "$headers"/scripts/*; do ln -s "$kbuild/scripts/${f##*/}" "$dir/scripts/"; done
	cp "$source/scripts/target.json" "$dir/scripts/"
	(cd "$source" && cp --parents "${metadata[@]}" "$dir/")
}
