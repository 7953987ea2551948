/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A card that looks like a Gaudi2 to programs: its memory is BAR 2 of QEMU's ivshmem device, which
 * a file of the host backs. It refuses the same calls as drivers/accel/habanalabs of Linux 6.12,
 * except where a comment says otherwise. It has no engines: only DMA through a dma-buf reaches its
 * memory.
 */
#ifndef VIRTUAL_GAUDI_H
#define VIRTUAL_GAUDI_H

#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <linux/idr.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <uapi/drm/habanalabs_accel.h>

/* Gaudi2 has pages of 768 MiB, which is too much for a guest. */
#define CARD_PAGE SZ_2M
/* The first device address of Gaudi2: right above its 96 GiB of physical ones. */
#define CARD_DEVICE_BASE 0x1001001800000000ULL
#define CARD_HOST_BASE 0xFFF0000000000000ULL
#define CARD_VENDOR 0x1da3
#define CARD_DEVICE 0x1020

/* Allocated device memory: pages of the BAR, in any order. */
struct allocation {
	u32 handle;
	u32 pages;
	u32 mappings;
	u32 page[]; /* numbers of pages in the BAR */
};

struct mapping {
	struct list_head entry; /* sorted by address */
	u64 address;
	u64 size;
	u32 exports;
	struct allocation *memory; /* NULL for host memory */
};

struct counters {
	atomic_t exports, releases, attaches, detaches, maps, unmaps;
};

struct card {
	struct drm_device drm;
	struct pci_dev *pdev;
	struct miscdevice control;
	char control_name[32], control_node[32];
	phys_addr_t bar;
	u32 pages;

	struct mutex lock; /* guards the members below */
	struct drm_file *owner;
	u64 opened;
	unsigned long *taken; /* one bit for each page */
	u64 used;
	struct idr allocations;
	struct list_head mappings;

	struct counters count;
};

static inline struct card *to_card(struct drm_device *drm)
{
	return container_of(drm, struct card, drm);
}

/* Parameter no_p2p: importers are told that they cannot reach the card, as with a kernel without
 * CONFIG_PCI_P2PDMA, or a topology without a path.
 */
extern bool card_no_p2p;

int card_info(struct card *card, struct drm_file *file, struct hl_info_args *args);
int card_info_ioctl(struct drm_device *drm, void *data, struct drm_file *file);
int card_memory_ioctl(struct drm_device *drm, void *data, struct drm_file *file);

int card_memory_init(struct card *card);
/* Releases the memory of an owner that has ended. Called with the lock held. */
void card_memory_drop(struct card *card);
void card_memory_fini(struct card *card);
struct mapping *card_mapping(struct card *card, u64 address);

/* Returns a descriptor, or a negative error. */
int card_export(struct card *card, struct drm_file *file, u64 address, u64 size, u64 offset,
		u32 flags);

#endif
