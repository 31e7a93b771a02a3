# SPDX-License-Identifier: GPL-2.0
# Sourced by everything that runs in a VM: what tests have in common. See README.
# shellcheck shell=bash

# The export: one file system, fsid=0, so NFSv4's / and NFSv3's /export are the same.
EXPORT=/export
VM_SLOW=${VM_SLOW:-1}
# Only the debug kernel has it.
LEAKS=/sys/kernel/debug/kmemleak

fail() { echo "FAIL: $*" >&2; exit 1; }
skip() { echo "SKIP: $*" >&2; exit 77; }
note() { echo "$*" >&2; }

# Times that a limit is as long as on a machine that is not busy.
SLOW=$((${VM_SLOW%.*} > 1 ? ${VM_SLOW%.*} : 1))

# wait_for SECONDS COMMAND...: until it succeeds; fails after that time, SLOW= times as long. On the
# debug kernel all takes longer.
wait_for() {
	local end=$((SECONDS + $1 * SLOW))
	[[ ! -e $LEAKS ]] || ((end += 3 * $1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || { echo "timed out waiting for: $*" >&2; return 1; }
		nap
	done
}

# nap [SECONDS]: a tenth of a second. An emulated CPU takes as long to start a program as to do much else,
# so what is done again and again has none: here, in `server` and in `counter`.
# shellcheck disable=SC2120 # life.upgrade says for how long, on the server
nap() { read -r -t "${1:-0.1}" -u "$NEVER" _ || true; }
exec {NEVER}<> <(:)

# ---- the other VM ---------------------------------------------------------

control_port() {
	local p
	for p in /sys/class/virtio-ports/*; do
		[[ $(<"$p/name") == control ]] && echo "/dev/${p##*/}"
	done
}

# server COMMAND...: runs it where the server is, with these helpers at hand;
# prints its output, returns its status. With one VM: here.
server() {
	local status output
	if ((VM_COUNT == 1)); then
		(eval "$*")
		return
	fi
	{
		flock 6
		printf '%q\n' "$*" >&7
		read -r -u 7 status output
	} 6>/run/lock/server 7<>"$CONTROL"
	eval "printf %s $output"
	return "$status"
}

server_end() {
	local status
	echo end >&7
	read -r -u 7 status
	return "$status"
} 7<>"$CONTROL"

# ---- network and RDMA device -----------------------------------------------

# Addresses come from the job: IPV4 and IPV6 of this VM, SERVER and SERVER6; MAC, because
# VMs that start from one snapshot would have one.
net_up() {
	modprobe virtio_net
	wait_for 10 test -e /sys/class/net/eth0
	ip -batch - <<-END
		link set lo up
		link set eth0 address $MAC mtu 9000 up
		addr add $IPV4/24 dev eth0
		addr add $IPV6/64 dev eth0 nodad
	END
}

# rxe_up: soft RoCE on the VM's NIC, as rxe0.
rxe_up() {
	[[ ! -e /sys/class/infiniband/rxe0 ]] || return 0
	modprobe -a rdma_rxe rdma_ucm ib_uverbs
	rdma link add rxe0 type rxe netdev eth0 || fail "no rxe device"
}

# siw_up: soft iWARP there, as siw0. With one VM the listener has to be of SERVER alone: one of all
# addresses has only what comes by its device.
siw_up() {
	[[ ! -e /sys/class/infiniband/siw0 ]] || return 0
	modprobe -a siw rdma_ucm ib_uverbs
	rdma link add siw0 type siw netdev eth0 || fail "no siw device"
}

# ---- modules ---------------------------------------------------------------

# Ours first: the class "rdma" belongs to whoever registers it, and rpcrdma then
# is the client only.
load_ours() {
	modprobe -a nfsd rdma_cm || fail "modprobe nfsd rdma_cm"
	insmod "$MODULE" || fail "insmod svcrdma.ko"
	load_client
}

# The stock server, which is one module with the client.
load_stock() { modprobe -a nfsd rpcrdma || fail "modprobe nfsd rpcrdma"; }
load_client() { modprobe -a nfs rpcrdma || fail "modprobe rpcrdma"; }

# load: the one that this run of the test is about.
load() { "load_$VM_SERVER" "$@"; }

# ---- server ----------------------------------------------------------------

# export_up [TYPE [sync|async]]: a new file system of the VM's data disk, exported.
export_up() {
	local type=${1:-ext4} sync=${2:-sync}
	mountpoint -q "$EXPORT" && return
	case $type in
	ext4) mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 /dev/vdc ;;
	*) "mkfs.$type" -q -f /dev/vdc ;;
	esac || fail "mkfs.$type"
	mount -t "$type" /dev/vdc "$EXPORT" || fail "mount of $EXPORT"
	chmod 1777 "$EXPORT"
	echo "$EXPORT *(rw,$sync,no_root_squash,no_subtree_check,insecure,fsid=0)" >/etc/exports
}

# nfsd_up [-t THREADS] [-b MAX_BLOCK_SIZE] [-f FILESYSTEM] [-a]: nfsd with an export,
# listening on TCP; short grace and lease (LEASE, 10 s), or the first open would wait for 90 s. With
# -a nothing waits for the disk.
nfsd_up() {
	local threads=4 block='' type=ext4 sync=sync o OPTIND=1
	while getopts t:b:f:a o; do
		case $o in
		a) sync=async ;;
		t) threads=$OPTARG ;;
		b) block=$OPTARG ;;
		f) type=$OPTARG ;;
		*) fail "nfsd_up: bad option" ;;
		esac
	done
	export_up "$type" "$sync"
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd || fail "mount of /proc/fs/nfsd"
	rpc_up
	echo 10 >/proc/fs/nfsd/nfsv4gracetime # the least it takes
	echo "${LEASE:-10}" >/proc/fs/nfsd/nfsv4leasetime
	# lockd's grace, which is NFSv4's locks' too: 3 s, the least.
	echo 3 >/proc/sys/fs/nfs/nlm_timeout
	echo 1 >/proc/sys/fs/nfs/nlm_grace_period
	[[ ! $block ]] || echo "$block" >/proc/fs/nfsd/max_block_size
	daemons_up
	exportfs -ra
	rpc.nfsd "$threads" || fail "rpc.nfsd"
	# Nothing to reclaim after a fresh start; it refuses if grace is over already, and without nfsdcld,
	# which it waits for a second only: then all of grace passes before anything may be opened.
	{ echo Y >/proc/fs/nfsd/v4_end_grace; } 2>/dev/null || true
	{ echo Y >/proc/fs/lockd/nlm_end_grace; } 2>/dev/null || true
	wait_for 60 grace_is_over || fail "no end of grace"
}

# Of NFSv4's opens and of all locks.
grace_is_over() { [[ $(</proc/fs/nfsd/v4_end_grace) == Y && $(</proc/fs/lockd/nlm_end_grace) == Y ]]; }

nfsd_down() { rpc.nfsd 0; }

# What nfsd needs of daemons.
daemons_up() {
	pidof -q nfsdcld || nfsdcld
	pidof -q rpc.mountd || rpc.mountd
}

# What both NFS client and server need of ONC RPC's daemons.
rpc_up() {
	mkdir -p /run/rpc_pipefs /run/rpcbind /var/lib/nfs/nfsdcld /var/lib/nfs/sm /var/lib/nfs/sm.bak
	mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
	pidof -q rpcbind || rpcbind -w
	pidof -q rpc.statd || rpc.statd --no-notify
}

# rdma_listen [PORT]
rdma_listen() { echo "rdma ${1:-20049}" >/proc/fs/nfsd/portlist || fail "no RDMA listener"; }

# configure LIMIT VALUE: what an admin writes to /etc/sysctl.d, and what make install has udev do with it.
configure() {
	install -D -m 644 /src/scripts/svcrdma.rules /etc/udev/rules.d/60-svcrdma.rules
	echo "sunrpc.svcrdma.$1 = $2" >>/etc/sysctl.d/svcrdma.conf
	pidof -q systemd-udevd || /usr/lib/systemd/systemd-udevd --daemon || fail "no udev"
}

# server_up [nfsd_up's options]: all of the server, wherever it is; DEVICE=siw for iWARP, LEASE as of
# nfsd_up.
server_up() {
	server "LEASE=${LEASE:-}; load && ${DEVICE:-rxe}_up && nfsd_up $* && rdma_listen" || fail "server did not come up"
	((VM_COUNT == 1)) || { load_client && "${DEVICE:-rxe}_up"; }
}

# ---- client ----------------------------------------------------------------

nfs_path() { [[ $1 == 3 ]] && echo "$EXPORT" || echo /; }

# mount_rdma VERSION DIR [OPTIONS]; mount_tcp likewise. SERVER may be set to SERVER6.
mount_rdma() { mount_nfs "$1" "$2" "proto=$(netid rdma),port=20049${3:+,$3}"; }
mount_tcp() { mount_nfs "$1" "$2" "proto=$(netid tcp)${3:+,$3}"; }

netid() { [[ $SERVER == *:* ]] && echo "${1}6" || echo "$1"; }

mount_nfs() {
	local host=$SERVER
	[[ $host == *:* ]] && host="[$host]"
	mkdir -p "$2"
	[[ $1 != 3 ]] || rpc_up
	mount -t nfs -o "vers=$1,$3" "$host:$(nfs_path "$1")" "$2" ||
		fail "mount -o vers=$1,$3 $host"
}

# ---- memory -----------------------------------------------------------------

# memory FIELD...: of /proc/meminfo, in KiB, with nothing in caches and no empty slabs.
memory() {
	local slab field
	sync
	echo 3 >/proc/sys/vm/drop_caches
	for slab in /sys/kernel/slab/*/shrink; do echo 1 >"$slab"; done
	sleep 2
	for field; do awk -v field="$field:" '$1 == field { print $2 }' /proc/meminfo; done | paste -sd' '
}

# ---- verdicts --------------------------------------------------------------

# verdict: what the kernel says of the test in the end. The debug kernel is asked when the
# module is gone, for then nothing of it may be left.
verdict() {
	local status=0
	if [[ -e $LEAKS ]]; then
		grep -F '[svcrdma]' /proc/kallsyms | sort >/run/svcrdma.symbols
		retire || status=1
	fi
	klog_check || status=1
	[[ ! -e $LEAKS ]] || leak_check || status=1
	return "$status"
}

# retire: ends what the test has left running, and unloads the module.
retire() {
	umount -a -t nfs,nfs4
	[[ ! -e /proc/fs/nfsd/threads ]] || nfsd_down
	[[ -e /sys/module/svcrdma ]] || return 0
	wait_for 120 rmmod svcrdma || { echo "FAIL: svcrdma cannot be unloaded" >&2; return 1; }
}

# klog_check: fails if the kernel complained. Lines that the list klog-allow
# matches, and those of the test's own `# klog-allow:`, are no complaints.
klog_check() {
	local bad
	# Most kernels have said nothing of the kind, and what is allowed takes far longer to look for.
	dmesg | complaints >/dev/null || return 0
	bad=$(dmesg | klog_disallowed) || { echo "FAIL: klog-allow cannot be used" >&2; return 1; }
	bad=$(complaints <<<"$bad") || return 0
	echo "FAIL: the kernel log of $VM_NAME complains:" >&2
	echo "$bad" >&2
	return 1
}

complaints() {
	grep -E -e 'BUG\b' -e 'WARNING\b' -e 'Oops' -e 'KASAN|UBSAN' -e 'general protection' -e 'nable to handle' \
		-e 'Call Trace' -e 'panicked' -e 'blocked for more than' -e 'refcount' -e '\b[Ll]eak' \
		-e 'list_(add|del)' -e 'rcu.*stall' -e 'soft lockup' -e 'while atomic'
}

# klog_disallowed: drops the lines that are allowed, and with a warning what the
# kernel tells of it, down to the end of the trace.
klog_disallowed() {
	(sed '/^#/d; /^$/d' /src/tools/vm/klog-allow; echo "${VM_KLOG_ALLOW:-^\$}") | awk '
		NR == FNR { allowed[++n] = $0; next }
		in_trace { if (/end trace/) in_trace = 0; next }
		{
			for (i = 1; i <= n; i++)
				if ($0 ~ allowed[i]) { in_trace = /WARNING/; next }
			print
		}' - /dev/fd/3
} 3<&0

# leak_check: fails if something is left that the module has allocated, or that was for it.
leak_check() {
	local ours
	[[ -w $LEAKS ]] || { echo "FAIL: kmemleak has given up (see the kernel log)" >&2; return 1; }
	# What has no reference now is a leak if it is the same at the second look, and not young.
	echo scan >"$LEAKS"
	sleep 5
	echo scan >"$LEAKS"
	cat "$LEAKS" >/tmp/leaks
	echo "kmemleak: $(grep -c '^unreferenced' /tmp/leaks) objects of the whole kernel are not referenced"
	ours=$(leaks_of_ours </tmp/leaks)
	cat /tmp/leaks
	[[ $ours ]] || return 0
	echo "FAIL: not freed by svcrdma on $VM_NAME:" >&2
	echo "$ours" >&2
	return 1
}

# leaks_of_ours: those of kmemleak's records with a function of the module in the backtrace. It
# is unloaded: its functions are bare addresses, and get their names again.
leaks_of_ours() {
	awk '
		FILENAME != "-" { address[++n] = $1; name[n] = $3; next }
		function show() { if (ours) printf "%s", record; record = ""; ours = 0 }
		/^unreferenced object/ { show() }
		/\[svcrdma/ { ours = 1 }
		$1 ~ /^0xffffffff/ {
			ours = 1
			at = "x" substr($1, 3)
			found = ""
			for (i = 1; i <= n && "x" address[i] <= at; i++) found = name[i]
			$0 = $0 " " found
		}
		{ record = record $0 "\n" }
		END { show() }' /run/svcrdma.symbols -
}

# counter_above NAME NUMBER, counter_is NAME NUMBER: whether a counter of this VM is.
counter_above() { local value; read -r value <"/proc/sys/sunrpc/svcrdma/$1" && ((value > $2)); }
counter_is() { local value; read -r value <"/proc/sys/sunrpc/svcrdma/$1" && ((value == $2)); }

# counters: all of the transport's, NAME VALUE.
counters() { (cd /proc/sys/sunrpc/svcrdma && grep -H . -- *) 2>/dev/null | sed 's/:/ /'; }
