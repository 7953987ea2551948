// SPDX-License-Identifier: GPL-2.0
/* Allocations and mappings of the process that owns the card. */
#include <linux/bitmap.h>
#include <linux/slab.h>

#include "virtual_gaudi.h"

int card_memory_init(struct card *card)
{
	mutex_init(&card->lock);
	idr_init(&card->allocations);
	INIT_LIST_HEAD(&card->mappings);
	card->taken = bitmap_zalloc(card->pages, GFP_KERNEL);
	return card->taken ? 0 : -ENOMEM;
}

static void forget(struct card *card, struct allocation *memory)
{
	u32 i;

	for (i = 0; i < memory->pages; i++)
		clear_bit(memory->page[i], card->taken);
	card->used -= (u64)memory->pages * CARD_PAGE;
	idr_remove(&card->allocations, memory->handle);
	kfree(memory);
}

static void unlink(struct mapping *mapping)
{
	if (mapping->memory)
		mapping->memory->mappings--;
	list_del(&mapping->entry);
	kfree(mapping);
}

void card_memory_drop(struct card *card)
{
	struct mapping *mapping, *next;
	struct allocation *memory;
	int handle;

	list_for_each_entry_safe(mapping, next, &card->mappings, entry) {
		WARN_ON(mapping->exports);
		unlink(mapping);
	}
	idr_for_each_entry(&card->allocations, memory, handle) {
		forget(card, memory);
	}
}

void card_memory_fini(struct card *card)
{
	idr_destroy(&card->allocations);
	bitmap_free(card->taken);
}

struct mapping *card_mapping(struct card *card, u64 address)
{
	struct mapping *mapping;

	list_for_each_entry(mapping, &card->mappings, entry) {
		if (mapping->address == address)
			return mapping;
	}
	return NULL;
}

/* Pages of an allocation that need not be contiguous come from the BAR's end downwards, so that
 * neighbours in device addresses are never neighbours in the BAR.
 */
static int take_pages(struct card *card, struct allocation *memory, bool contiguous)
{
	unsigned long at;
	u32 i, found = 0;

	if (contiguous) {
		at = bitmap_find_next_zero_area(card->taken, card->pages, 0, memory->pages, 0);
		if (at >= card->pages)
			return -ENOMEM;
		for (i = 0; i < memory->pages; i++)
			memory->page[found++] = at + i;
	}
	for (i = card->pages; i-- > 0 && found < memory->pages;) {
		if (!test_bit(i, card->taken))
			memory->page[found++] = i;
	}
	if (found < memory->pages)
		return -ENOMEM;
	for (i = 0; i < found; i++)
		set_bit(memory->page[i], card->taken);
	return 0;
}

static int allocate(struct card *card, const struct hl_mem_in *in, u64 *handle)
{
	u64 pages = DIV_ROUND_UP_ULL(in->alloc.mem_size, CARD_PAGE);
	struct allocation *memory;
	int id;

	if (!in->alloc.mem_size)
		return -EINVAL;
	if (in->alloc.mem_size > (u64)card->pages * CARD_PAGE)
		return -ENOMEM;
	memory = kzalloc(struct_size(memory, page, pages), GFP_KERNEL);
	if (!memory)
		return -ENOMEM;
	memory->pages = pages;
	id = take_pages(card, memory, in->flags & HL_MEM_CONTIGUOUS);
	if (!id)
		id = idr_alloc(&card->allocations, memory, 1, 0, GFP_KERNEL);
	if (id < 0) {
		kfree(memory);
		return id;
	}
	memory->handle = id;
	card->used += pages * CARD_PAGE;
	*handle = id;
	return 0;
}

static int release(struct card *card, const struct hl_mem_in *in)
{
	struct allocation *memory = idr_find(&card->allocations, (u32)in->free.handle);

	if (!memory || memory->mappings)
		return -EINVAL;
	forget(card, memory);
	return 0;
}

/* The lowest address from `base` on with room for `size` bytes; `before`: the mapping after it.
 */
static u64 room_for(struct card *card, u64 base, u64 size, struct list_head **before)
{
	struct mapping *mapping;

	list_for_each_entry(mapping, &card->mappings, entry) {
		*before = &mapping->entry;
		if (mapping->address + mapping->size <= base)
			continue;
		if (mapping->address >= base && mapping->address - base >= size)
			return base;
		base = mapping->address + mapping->size;
	}
	*before = &card->mappings;
	return base;
}

/* The driver need not follow the hint. Host memory only gets an address, since this card has no
 * engine that would access it.
 */
static int map(struct card *card, const struct hl_mem_in *in, u64 *address)
{
	bool host = in->flags & HL_MEM_USERPTR;
	struct mapping *mapping;
	struct list_head *before;

	mapping = kzalloc(sizeof(*mapping), GFP_KERNEL);
	if (!mapping)
		return -ENOMEM;
	if (host) {
		mapping->size = PAGE_ALIGN(in->map_host.mem_size);
	} else {
		mapping->memory = idr_find(&card->allocations, (u32)in->map_device.handle);
		mapping->size = mapping->memory ? (u64)mapping->memory->pages * CARD_PAGE : 0;
	}
	if (!mapping->size) {
		kfree(mapping);
		return -EINVAL;
	}
	mapping->address =
		room_for(card, host ? CARD_HOST_BASE : CARD_DEVICE_BASE, mapping->size, &before);
	list_add_tail(&mapping->entry, before);
	if (mapping->memory)
		mapping->memory->mappings++;
	*address = mapping->address;
	return 0;
}

static int unmap(struct card *card, const struct hl_mem_in *in)
{
	struct mapping *mapping = card_mapping(card, in->unmap.device_virt_addr);

	if (!mapping || mapping->exports)
		return -EINVAL;
	unlink(mapping);
	return 0;
}

static int export(struct card *card, struct drm_file *file, union hl_mem_args *args)
{
	int fd = card_export(card, file, args->in.export_dmabuf_fd.addr,
			     args->in.export_dmabuf_fd.mem_size, args->in.export_dmabuf_fd.offset,
			     args->in.flags);

	memset(args, 0, sizeof(*args));
	args->out.fd = fd < 0 ? -EBADF : fd;
	return fd < 0 ? fd : 0;
}

static int execute(struct card *card, struct drm_file *file, union hl_mem_args *args)
{
	const struct hl_mem_in in = args->in;

	switch (in.op) {
	case HL_MEM_OP_ALLOC:
		memset(args, 0, sizeof(*args));
		return allocate(card, &in, &args->out.handle);
	case HL_MEM_OP_FREE:
		return release(card, &in);
	case HL_MEM_OP_MAP:
		memset(args, 0, sizeof(*args));
		return map(card, &in, &args->out.device_virt_addr);
	case HL_MEM_OP_UNMAP:
		return unmap(card, &in);
	case HL_MEM_OP_EXPORT_DMABUF_FD:
		return export(card, file, args);
	default:
		return -EINVAL;
	}
}

int card_memory_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct card *card = to_card(drm);
	int err;

	mutex_lock(&card->lock);
	err = execute(card, file, data);
	mutex_unlock(&card->lock);
	return err;
}
