// SPDX-License-Identifier: GPL-2.0
/* Which build this is, for modinfo and /sys/module/svcrdma/version. */
#include <linux/module.h>

MODULE_VERSION(SVCRDMA_VERSION);
