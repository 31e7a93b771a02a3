// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU's emulator. It counts the executions of each block of kernel code that the
 * emulator translates, in a file that the VM can read while it runs:
 *
 *	-plugin blocks.so,counts=PATH
 *
 * The file is an array of `struct block` in the order of translation, with zeros behind the last
 * one. Code that is translated again gets another entry. instructions.py reads it. Behind the array
 * are the instructions of each page of the kernel's and of modules' code, from CODE on, as 64-bit
 * numbers: pages.py reads these often.
 *
 * Debian has no package with qemu-plugin.h, so what the plugin needs of it is declared here.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct qemu_plugin_insn;
struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *target, size_t size);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(
	qemu_plugin_id_t id, void (*translated)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
/* flags 0: the callback reads no registers. */
void qemu_plugin_register_vcpu_tb_exec_cb(
	struct qemu_plugin_tb *tb, void (*executed)(unsigned int cpu, void *data), int flags, void *data);

/* The version of the interface that these declarations follow. */
int qemu_plugin_version = 4;

struct block {
	uint64_t address;
	uint64_t instructions;
	uint64_t atomics;
	uint64_t executions;
};

#define MOST (1 << 20)
#define KERNEL (1ULL << 63)
/* Where x86-64 has the kernel, with modules behind it, and the pages up to the end of the address space. */
#define CODE 0xffffffff80000000ULL
#define PAGES (1 << 19)

/* QEMU translates and, with one thread for all CPUs, executes one block at a time. */
static struct block *blocks;
static uint64_t *pages;
static size_t used;

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	block->executions++;
	if (block->address >= CODE)
		pages[(block->address - CODE) >> 12] += block->instructions;
}

/*
 * An atomic instruction has the prefix LOCK, in whose place a kernel with one CPU puts DS, or it is an xchg with
 * memory. A jump with DS is one that the hardware does not track.
 */
static int is_atomic(const struct qemu_plugin_insn *insn)
{
	uint8_t code[4] = { 0 };
	int rex;

	qemu_plugin_insn_data(insn, code, sizeof(code));
	if (code[0] == 0xf0 || (code[0] == 0x3e && code[1] != 0xff))
		return 1;
	rex = (code[0] & 0xf0) == 0x40;
	return (code[rex] == 0x86 || code[rex] == 0x87) && code[rex + 1] < 0xc0;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct block *block;
	size_t i;

	(void)id;
	/* The reader refuses a full file. */
	if (qemu_plugin_tb_vaddr(tb) < KERNEL || used == MOST)
		return;
	block = &blocks[used++];
	block->instructions = qemu_plugin_tb_n_insns(tb);
	for (i = 0; i < block->instructions; i++)
		block->atomics += is_atomic(qemu_plugin_tb_get_insn(tb, i));
	block->address = qemu_plugin_tb_vaddr(tb);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, block);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	size_t size = MOST * sizeof(*blocks) + PAGES * sizeof(*pages);
	int file;

	(void)info;
	if (argc != 1 || strncmp(argv[0], "counts=", 7) != 0) {
		fprintf(stderr, "blocks: counts=PATH is missing\n");
		return -1;
	}
	file = open(argv[0] + 7, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (file < 0 || ftruncate(file, size) != 0) {
		perror(argv[0]);
		return -1;
	}
	blocks = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (blocks == MAP_FAILED) {
		perror("blocks: mmap");
		return -1;
	}
	pages = (uint64_t *)(blocks + MOST);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
