// SPDX-License-Identifier: GPL-2.0
/* Identifies the build in modinfo and /sys/module/svcrdma/version. */
#include <linux/module.h>

MODULE_VERSION(SVCRDMA_VERSION);
