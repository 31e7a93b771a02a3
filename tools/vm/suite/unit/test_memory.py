# SPDX-License-Identifier: GPL-2.0
"""Memory by owner, as the kernel's files tell it."""

import unittest

from memory import Owned, caches, difference, lost, of_pages, of_slabs, of_vmalloc, table

SLABINFO = """\
slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> : slabdata <active_slabs>
kmalloc-512         1000   1008    512    8    1 : tunables    0    0    0 : slabdata    126    126      0
task_struct          100    102   9024    3    8 : tunables    0    0    0 : slabdata     34     34      0
"""
VMALLOCINFO = """\
0xffffc90000000000-0xffffc90000005000   20480 kernel_clone+0x9d/0x400 pages=4 vmalloc N0=4
0xffffc90000006000-0xffffc90000008000    8192 acpi_os_map_iomem+0x1b4/0x1d0 phys=0x7ffe0000 ioremap
0xffffc90000010000-0xffffc90000021000   69632 rxe_queue_init+0x9a/0x1a0 [rdma_rxe] pages=16 vmalloc user N0=16
0xffffc90000030000-0xffffc90000033000   12288 rxe_queue_init+0x9a/0x1a0 [rdma_rxe] pages=2 vmalloc user N0=2
0xffffc90000040000-0xffffc90000042000    8192 vb_alloc.isra.0+0x1/0x2 vmap
"""
MEMINFO = """\
MemTotal:        1000000 kB
MemFree:          600000 kB
Cached:           100000 kB
Slab:              10000 kB
VmallocUsed:       50000 kB
Percpu:             4000 kB
HugePages_Total:       0
"""
ZONEINFO = """\
Node 0, zone      DMA
  pages free     3840
    cpu: 0
              count:    100
              high:     0
    cpu: 1
              count:    400
"""


class MemoryTest(unittest.TestCase):
    def test_slabs(self) -> None:
        found = caches(SLABINFO.splitlines())
        self.assertEqual([each.pages for each in found], [126, 272])
        self.assertEqual(of_slabs(found)["slab kmalloc-512"], Owned(1000, 500))

    def test_vmalloc_without_stacks_and_mappings(self) -> None:
        self.assertEqual(of_vmalloc(VMALLOCINFO.splitlines()), {"vmalloc rxe_queue_init": Owned(2, 72)})

    def test_pages_without_free_ones_of_cpus(self) -> None:
        found = of_pages(MEMINFO.splitlines(), ZONEINFO.splitlines(), 2000)
        self.assertEqual(found["pages"].kib, 1000000 - 600000 - 100000 - 10000 - 50000 - 4000 - 500 * 4)
        self.assertEqual(found["large kmallocs"], Owned(500, 2000))

    def test_lost_is_what_has_grown_by_so_many_objects(self) -> None:
        before = {"slab a": Owned(10, 10), "slab b": Owned(10, 10), "slab gone": Owned(300, 1), "slab vmap_area": Owned(0, 0)}
        after = {"slab a": Owned(209, 300), "slab b": Owned(210, 11), "vmalloc new": Owned(200, 1), "slab vmap_area": Owned(900, 9)}
        growth = difference(before, after)
        self.assertEqual(set(lost(growth, 200)), {"slab b", "vmalloc new"})
        self.assertTrue(table(growth).startswith("       290 KiB      199 objects  slab a\n"))

    def test_new_threads_explain_a_few_objects_each(self) -> None:
        growth = {"slab task_struct": Owned(100, 900), "slab pid": Owned(200, 10), "slab b": Owned(500, 10)}
        self.assertEqual(set(lost(growth, 200)), {"slab b"})
