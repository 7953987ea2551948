// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory as dma-bufs without access by the CPU (no mmap, no vmap). The scatter list has DMA
 * addresses but no pages; its orig_nents is 0, as with habanalabs.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/slab.h>

#include "virtual_gaudi.h"

struct exported {
	struct card *card;
	struct mapping *mapping;
	struct file *owner; /* closes the card only after the last of its dma-bufs */
	u64 offset;
	u64 size;
};

static int attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct exported *exported = dmabuf->priv;

	atomic_inc(&exported->card->count.attaches);
	if (card_no_p2p)
		attachment->peer2peer = false;
	return 0;
}

static void detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct exported *exported = dmabuf->priv;

	atomic_inc(&exported->card->count.detaches);
}

/* The next piece after `at` bytes of the mapping: contiguous in the BAR, and no longer than the
 * importer accepts.
 */
static u64 next_piece(const struct exported *exported, u64 at, u64 longest, phys_addr_t *where)
{
	u64 end = exported->offset + exported->size;
	u64 in_page = at % CARD_PAGE;

	*where = exported->card->bar +
		 (u64)exported->mapping->memory->page[at / CARD_PAGE] * CARD_PAGE + in_page;
	return min3(end - at, CARD_PAGE - in_page, longest);
}

static u64 longest_piece(struct device *dev)
{
	return ALIGN_DOWN(max_t(u64, dma_get_max_seg_size(dev), PAGE_SIZE), PAGE_SIZE);
}

static void unmap_pieces(struct device *dev, struct sg_table *table, u32 count,
			 enum dma_data_direction direction)
{
	struct scatterlist *sg;
	u32 i;

	for_each_sg(table->sgl, sg, count, i)
		dma_unmap_resource(dev, sg_dma_address(sg), sg_dma_len(sg), direction,
				   DMA_ATTR_SKIP_CPU_SYNC);
}

static int map_pieces(const struct exported *exported, struct device *dev, struct sg_table *table,
		      enum dma_data_direction direction)
{
	u64 at = exported->offset, longest = longest_piece(dev);
	struct scatterlist *sg;
	u32 i;

	for_each_sg(table->sgl, sg, table->nents, i) {
		phys_addr_t where;
		u64 length = next_piece(exported, at, longest, &where);

		sg_set_page(sg, NULL, 0, 0);
		sg_dma_address(sg) =
			dma_map_resource(dev, where, length, direction, DMA_ATTR_SKIP_CPU_SYNC);
		if (dma_mapping_error(dev, sg_dma_address(sg))) {
			unmap_pieces(dev, table, i, direction);
			return -ENOMEM;
		}
		sg_dma_len(sg) = length;
		at += length;
	}
	return 0;
}

static u32 count_pieces(const struct exported *exported, u64 longest)
{
	u64 at = exported->offset, end = at + exported->size;
	phys_addr_t where;
	u32 count = 0;

	for (; at < end; count++)
		at += next_piece(exported, at, longest, &where);
	return count;
}

static struct sg_table *map(struct dma_buf_attachment *attachment,
			    enum dma_data_direction direction)
{
	struct exported *exported = attachment->dmabuf->priv;
	struct sg_table *table;
	int err;

	if (!attachment->peer2peer)
		return ERR_PTR(-EPERM);
	table = kzalloc(sizeof(*table), GFP_KERNEL);
	if (!table)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table(table, count_pieces(exported, longest_piece(attachment->dev)),
			     GFP_KERNEL);
	if (err)
		goto free_table;
	err = map_pieces(exported, attachment->dev, table, direction);
	if (err)
		goto free_list;
	/* No entry has a page. */
	table->orig_nents = 0;
	atomic_inc(&exported->card->count.maps);
	return table;

free_list:
	sg_free_table(table);
free_table:
	kfree(table);
	return ERR_PTR(err);
}

static void unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
		  enum dma_data_direction direction)
{
	struct exported *exported = attachment->dmabuf->priv;

	unmap_pieces(attachment->dev, table, table->nents, direction);
	/* sg_free_table() frees orig_nents entries. */
	table->orig_nents = table->nents;
	sg_free_table(table);
	kfree(table);
	atomic_inc(&exported->card->count.unmaps);
}

static void release(struct dma_buf *dmabuf)
{
	struct exported *exported = dmabuf->priv;
	struct card *card = exported->card;

	mutex_lock(&card->lock);
	exported->mapping->exports--;
	mutex_unlock(&card->lock);
	atomic_inc(&card->count.releases);
	fput(exported->owner);
	kfree(exported);
}

static const struct dma_buf_ops operations = {
	.attach = attach,
	.detach = detach,
	.map_dma_buf = map,
	.unmap_dma_buf = unmap,
	.release = release,
};

static int export_it(struct exported *exported, u32 flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(how);
	struct dma_buf *dmabuf;
	int fd;

	how.ops = &operations;
	how.size = exported->size;
	how.flags = flags;
	how.priv = exported;
	fd = get_unused_fd_flags(flags);
	if (fd < 0)
		return fd;
	dmabuf = dma_buf_export(&how);
	if (IS_ERR(dmabuf)) {
		put_unused_fd(fd);
		return PTR_ERR(dmabuf);
	}
	get_file(exported->owner);
	exported->mapping->exports++;
	atomic_inc(&exported->card->count.exports);
	fd_install(fd, dmabuf->file);
	return fd;
}

/* hl-thunk requires these flags; the driver itself passes any flags on. */
int card_export(struct card *card, struct drm_file *file, u64 address, u64 size, u64 offset,
		u32 flags)
{
	struct mapping *mapping = card_mapping(card, address);
	struct exported *exported;
	u64 end;
	int fd;

	if (flags != (O_RDWR | O_CLOEXEC) || !mapping || !mapping->memory)
		return -EINVAL;
	if (!size || !PAGE_ALIGNED(size) || !PAGE_ALIGNED(offset))
		return -EINVAL;
	if (check_add_overflow(offset, size, &end) || end > mapping->size)
		return -EINVAL;
	exported = kzalloc(sizeof(*exported), GFP_KERNEL);
	if (!exported)
		return -ENOMEM;
	exported->card = card;
	exported->mapping = mapping;
	exported->owner = file->filp;
	exported->offset = offset;
	exported->size = size;
	fd = export_it(exported, flags);
	if (fd < 0)
		kfree(exported);
	return fd;
}

MODULE_IMPORT_NS(DMA_BUF);
