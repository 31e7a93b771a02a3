/* SPDX-License-Identifier: GPL-2.0 */
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/resource.h>
