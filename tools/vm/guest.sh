# SPDX-License-Identifier: GPL-2.0
# Sourced by all scripts that run in a VM. A comment describes each function.
# shellcheck shell=bash

# The export is one file system with fsid=0, so it is / for NFSv4 and /export for NFSv3.
EXPORT=/export
VM_SLOW=${VM_SLOW:-1}
# kmemleak, which only the debug kernel has.
LEAKS=/sys/kernel/debug/kmemleak

. /src/tools/vm/verdicts.sh
. /src/tools/vm/klog.sh

# The factor for time limits: 1 on an idle machine.
SLOW=$((${VM_SLOW%.*} > 1 ? ${VM_SLOW%.*} : 1))

# patience SECONDS: sets limit to the seconds after which what takes SECONDS on an idle machine is taken for hung: SLOW times
# SECONDS, and three times SECONDS more on the debug kernel.
patience() {
	limit=$(($1 * SLOW))
	[[ ! -e $LEAKS ]] || ((limit += 3 * $1))
}

# wait_for SECONDS COMMAND...: runs COMMAND again and again until it succeeds. Returns 1 and names COMMAND if that takes longer
# than the patience for SECONDS.
wait_for() {
	local limit end
	patience "$1"
	((end = SECONDS + limit))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || { echo "timed out waiting for: $*" >&2; return 1; }
		nap
	done
}

# within SECONDS PROGRAM...: runs PROGRAM; kills it, and returns 137, after the patience for SECONDS.
within() {
	local limit
	patience "$1"
	timeout -s KILL "$limit" "${@:2}"
}

# nap [SECONDS]: sleeps for a tenth of a second. An emulated CPU takes long to start a program, so code that is repeated
# often starts none: here, in `server` and in `counter`.
# shellcheck disable=SC2120 # life.upgrade says for how long, on the server
nap() { read -r -t "${1:-0.1}" -u "$NEVER" _ || true; }
exec {NEVER}<> <(:)

# ---- the other VM ---------------------------------------------------------

# control_port: prints the device of the channel between the VMs.
control_port() {
	local p
	for p in /sys/class/virtio-ports/*; do
		[[ $(<"$p/name") == control ]] && echo "/dev/${p##*/}"
	done
}

# server COMMAND...: runs COMMAND in a shell on the server's VM, which has sourced this file; prints its output, returns its
# status. With one VM it runs in a subshell here.
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

# server_end: ends the server's VM; returns its verdict.
server_end() {
	local status
	echo end >&7
	read -r -u 7 status
	return "$status"
} 7<>"$CONTROL"

# ---- network and RDMA device -----------------------------------------------

# net_up: sets up eth0. /job/env has the addresses: IPV4 and IPV6 of this VM, SERVER and SERVER6, and MAC, as all VMs that
# start from one snapshot would have the same MAC.
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

# rxe_up: creates rxe0, soft RoCE on eth0, unless it exists.
rxe_up() {
	[[ ! -e /sys/class/infiniband/rxe0 ]] || return 0
	modprobe -a rdma_rxe rdma_ucm ib_uverbs
	must rdma link add rxe0 type rxe netdev eth0
}

# siw_up: creates siw0, soft iWARP on eth0, unless it exists. With one VM nfsd has to listen on SERVER alone: on siw a listener
# on all addresses accepts only connections that arrive by its device.
siw_up() {
	[[ ! -e /sys/class/infiniband/siw0 ]] || return 0
	modprobe -a siw rdma_ucm ib_uverbs
	must rdma link add siw0 type siw netdev eth0
}

# ---- modules ---------------------------------------------------------------

# load_ours: loads svcrdma.ko, with PARAMETERS if set, as the server and then rpcrdma as the client. The module that is loaded first registers the
# transport class "rdma".
load_ours() {
	must modprobe -a nfsd rdma_cm
	# shellcheck disable=SC2086
	must insmod "$MODULE" ${PARAMETERS:-}
	load_client
}

# load_stock: loads rpcrdma as server and client. load_client: loads the modules of the client.
load_stock() { must modprobe -a nfsd rpcrdma; }
load_client() { must modprobe -a nfs rpcrdma; }

# load: loads the server that this run tests, and the client.
load() { "load_$VM_SERVER" "$@"; }

# ---- server ----------------------------------------------------------------

# export_up [TYPE [sync|async]]: makes a file system on the data disk, mounts it on $EXPORT and writes /etc/exports.
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

# nfsd_up [-t THREADS] [-b MAX_BLOCK_SIZE] [-f FILESYSTEM] [-a]: starts nfsd with an export and a TCP listener, and waits for
# the end of grace. Grace and lease (LEASE, 10 s) are short, or the first open would wait for 90 s. -a: the export is async.
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
	mountpoint -q /proc/fs/nfsd || must mount -t nfsd nfsd /proc/fs/nfsd
	rpc_up
	echo 10 >/proc/fs/nfsd/nfsv4gracetime # the smallest value that nfsd takes
	echo "${LEASE:-10}" >/proc/fs/nfsd/nfsv4leasetime
	# lockd's grace also holds for locks of NFSv4. 3 s is the smallest value.
	echo 3 >/proc/sys/fs/nfs/nlm_timeout
	echo 1 >/proc/sys/fs/nfs/nlm_grace_period
	[[ ! $block ]] || echo "$block" >/proc/fs/nfsd/max_block_size
	daemons_up
	exportfs -ra
	must rpc.nfsd "$threads"
	# After a fresh start there is nothing to reclaim, so grace can end. nfsd refuses if it is over already, or if nfsdcld does
	# not answer within a second; then the wait below lasts for all of grace.
	{ echo Y >/proc/fs/nfsd/v4_end_grace; } 2>/dev/null || true
	{ echo Y >/proc/fs/lockd/nlm_end_grace; } 2>/dev/null || true
	wait_for 60 grace_is_over || fail "no end of grace"
}

# grace_is_over: returns true if grace is over for opens of NFSv4 and for all locks.
grace_is_over() { [[ $(</proc/fs/nfsd/v4_end_grace) == Y && $(</proc/fs/lockd/nlm_end_grace) == Y ]]; }

# nfsd_down: stops nfsd; returns its status.
nfsd_down() { rpc.nfsd 0; }

# daemons_up: starts the daemons that nfsd needs.
daemons_up() {
	pidof -q nfsdcld || nfsdcld
	pidof -q rpc.mountd || rpc.mountd
}

# rpc_up: starts the daemons of ONC RPC that NFS clients and servers need.
rpc_up() {
	mkdir -p /run/rpc_pipefs /run/rpcbind /var/lib/nfs/nfsdcld /var/lib/nfs/sm /var/lib/nfs/sm.bak
	mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
	pidof -q rpcbind || rpcbind -w
	pidof -q rpc.statd || rpc.statd --no-notify
}

# rdma_listen [PORT]: adds RDMA listeners on all addresses, port 20049 if none is given; fails the test if nfsd refuses.
rdma_listen() { put "rdma ${1:-20049}" /proc/fs/nfsd/portlist; }

# configure SETTING VALUE: writes a setting of the transport to /etc/sysctl.d, and installs the udev rule that applies it.
configure() {
	install -D -m 644 /src/scripts/svcrdma.rules /etc/udev/rules.d/60-svcrdma.rules
	echo "sunrpc.svcrdma.$1 = $2" >>/etc/sysctl.d/svcrdma.conf
	pidof -q systemd-udevd || /usr/lib/systemd/systemd-udevd --daemon || fail "no udev"
}

# server_up [OPTION...]: loads the modules, creates the RDMA devices, and starts nfsd with nfsd_up's options and RDMA
# listeners, on the server's VM. Loads the client's modules. DEVICE=siw for iWARP; LEASE as for nfsd_up.
server_up() {
	must server "LEASE=${LEASE:-}; PARAMETERS=${PARAMETERS:-}; load && ${DEVICE:-rxe}_up && nfsd_up $* && rdma_listen"
	((VM_COUNT == 1)) || { load_client && "${DEVICE:-rxe}_up"; }
}

# ---- client ----------------------------------------------------------------

# nfs_path VERSION: prints the path of the export.
nfs_path() { [[ $1 == 3 ]] && echo "$EXPORT" || echo /; }

# mount_rdma VERSION DIR [OPTIONS], mount_tcp VERSION DIR [OPTIONS]: create DIR if needed and mount the export on
# it; fail the test if mount fails. With SERVER=$SERVER6 they use IPv6.
mount_rdma() { mount_nfs "$1" "$2" "proto=$(netid rdma),port=20049${3:+,$3}"; }
mount_tcp() { mount_nfs "$1" "$2" "proto=$(netid tcp)${3:+,$3}"; }

# netid rdma|tcp: prints the netid for the family of SERVER.
netid() { [[ $SERVER == *:* ]] && echo "${1}6" || echo "$1"; }

mount_nfs() {
	local host=$SERVER
	[[ $host == *:* ]] && host="[$host]"
	mkdir -p "$2"
	[[ $1 != 3 ]] || rpc_up
	must mount -t nfs -o "vers=$1,$3" "$host:$(nfs_path "$1")" "$2"
}

# ---- memory -----------------------------------------------------------------

# memory save NAME, memory grown NAME NAME, memory lost NAME NAME N: measure the memory of this VM's kernel by owner, see
# memory.py.
memory() { sync && python3 /src/tools/vm/memory.py "$@"; }

# ---- verdicts --------------------------------------------------------------

# verdict: returns true if the kernel of this VM has no complaint at the end of a test. On the debug kernel the module is
# unloaded first, and nothing that it has allocated may be left.
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

# retire: unmounts, stops nfsd and unloads the module, as far as the test has left them; returns false if it cannot.
retire() {
	umount -a -t nfs,nfs4
	[[ ! -e /proc/fs/nfsd/threads ]] || nfsd_down
	[[ -e /sys/module/svcrdma ]] || return 0
	wait_for 120 rmmod svcrdma || { echo "FAIL: svcrdma cannot be unloaded" >&2; return 1; }
}

# klog_check: returns false, and prints the lines, if the kernel log has complaints. Lines that match the list klog-allow or
# the test's own `# klog-allow:` are no complaints.
klog_check() {
	local bad
	# Most logs have no such line, and matching the allowed lines takes far longer.
	dmesg | complaints >/dev/null || return 0
	bad=$(dmesg | klog_disallowed "${VM_KLOG_ALLOW:-}") || { echo "FAIL: klog-allow cannot be used" >&2; return 1; }
	bad=$(complaints <<<"$bad") || return 0
	echo "FAIL: the kernel log of $VM_NAME complains:" >&2
	echo "$bad" >&2
	return 1
}

# leak_check: returns false, and prints the records, if kmemleak finds memory that the unloaded module has allocated.
leak_check() {
	local ours
	[[ -w $LEAKS ]] || { echo "FAIL: kmemleak has given up (see the kernel log)" >&2; return 1; }
	# kmemleak reports an object that is unreferenced and unchanged in a second scan, and some seconds old.
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

# leaks_of_ours: prints those of kmemleak's records whose backtrace has a function of the module. As the module is unloaded,
# the backtrace has bare addresses; their names are added.
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

# counter_above NAME NUMBER, counter_is NAME NUMBER: return true if a counter of this VM is above NUMBER, or equal to it.
counter_above() { local value; read -r value <"/proc/sys/sunrpc/svcrdma/$1" && ((value > $2)); }
counter_is() { local value; read -r value <"/proc/sys/sunrpc/svcrdma/$1" && ((value == $2)); }

# counters: prints all counters and settings of this VM's transport, NAME VALUE.
counters() { (cd /proc/sys/sunrpc/svcrdma && grep -H . -- *) 2>/dev/null | sed 's/:/ /'; }
