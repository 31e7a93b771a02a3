#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# NFS at the file: rates, latencies and instructions for each RPC of this server, the stock server and TCP, in turns in one boot,
# with intervals. CELLS=quick, all, or patterns; ROUNDS and SECONDS_EACH are those of tools/bench/hosts; FROM is an earlier run's folder
# below build/, whose samples are kept.
# limit: 7200
# vms: 2
# server: ours
# counted: yes
# takes: CELLS ROUNDS SECONDS_EACH FROM
#
# Documentation/performance.rst says how to read the figures.
. /src/tools/vm/guest.sh
. /src/tools/vm/bench/io
set -u
trap ended EXIT

[[ ! ${FROM-} ]] || { mkdir -p /job/out/io && must cp "/src/$FROM"/{samples.jsonl,fabric.json} /job/out/io/; }
export ROUNDS=${ROUNDS-} SECONDS_EACH=${SECONDS_EACH:-2}
io_up
io "${CELLS:-quick}" || fail "a goal is missed, or the run has failed"
