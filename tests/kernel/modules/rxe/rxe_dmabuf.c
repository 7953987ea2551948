// SPDX-License-Identifier: GPL-2.0
/*
 * Lets rxe import dma-bufs, like the drivers of RDMA NICs. The import uses only DMA addresses, so
 * it works with exporters whose scatter lists have no pages (memory of accelerators).
 */
#include <linux/dma-mapping.h>
#include <rdma/ib_umem.h>
#if __has_include(<rdma/iter.h>) /* newer 6.12 */
#include <rdma/iter.h>
#endif

#include "rxe.h"
#include "rxe_loc.h"

/* rxe copies with the CPU. Without an IOMMU, a DMA address is a physical address. The memory there
 * must have a struct page: RAM, or a BAR for which its driver has made pages.
 */
static int rxe_fill_from_dma(struct rxe_mr *mr, struct ib_umem *umem)
{
	struct ib_block_iter block;
	u32 found = 0;

	rdma_umem_for_each_dma_block(umem, &block, PAGE_SIZE) {
		unsigned long pfn = PHYS_PFN(rdma_block_iter_dma_address(&block));

		if (!pfn_valid(pfn) || found == mr->num_buf)
			return -EFAULT;
		mr->page_info[found].page = pfn_to_page(pfn);
		mr->page_info[found].offset = 0;
		found++;
	}
	mr->nbuf = found;
	return found == mr->num_buf ? 0 : -EFAULT;
}

static int rxe_fill_from_dmabuf(struct rxe_mr *mr, struct ib_umem *umem)
{
	u32 pages = ib_umem_num_pages(umem);
	int err;

	mr->page_info = kcalloc(pages, sizeof(*mr->page_info), GFP_KERNEL);
	if (!mr->page_info)
		return -ENOMEM;
	mr->num_buf = pages;
	mr->max_allowed_buf = pages;
	err = rxe_fill_from_dma(mr, umem);
	if (err) {
		kfree(mr->page_info);
		mr->page_info = NULL;
	}
	return err;
}

static int rxe_import_dmabuf(struct rxe_dev *rxe, struct rxe_mr *mr, u64 offset, u64 length, int fd,
			     int access)
{
	struct device *dev = &rxe->ib_dev.dev;
	struct ib_umem_dmabuf *dmabuf;
	int err;

	/* rxe has no device for DMA; this one stands for a device that reaches all memory. */
	err = dma_coerce_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (err)
		return err;
	dmabuf = ib_umem_dmabuf_get_pinned_with_dma_device(&rxe->ib_dev, dev, offset, length, fd,
							   access);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	err = rxe_fill_from_dmabuf(mr, &dmabuf->umem);
	if (err) {
		ib_umem_release(&dmabuf->umem);
		return err;
	}
	mr->umem = &dmabuf->umem;
	return 0;
}

struct ib_mr *rxe_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova, int fd,
				     int access, struct uverbs_attr_bundle *attrs)
{
	struct rxe_dev *rxe = to_rdev(ibpd->device);
	struct rxe_mr *mr;
	int err;

	if (access & ~RXE_ACCESS_SUPPORTED_MR)
		return ERR_PTR(-EOPNOTSUPP);
	/* A page of the memory must be a page of addresses, as in the page table of a real NIC. */
	if (!length || offset_in_page(offset) != offset_in_page(iova))
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = rxe_add_to_pool(&rxe->mr_pool, mr);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	rxe_get(to_rpd(ibpd));
	mr->ibmr.pd = ibpd;
	mr->ibmr.device = ibpd->device;
	rxe_mr_init(access, mr);
	err = rxe_import_dmabuf(rxe, mr, offset, length, fd, access);
	if (err) {
		rxe_cleanup(mr);
		kfree(mr);
		return ERR_PTR(err);
	}
	mr->ibmr.type = IB_MR_TYPE_USER;
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	mr->state = RXE_MR_STATE_VALID;
	rxe_finalize(mr);
	return &mr->ibmr;
}

MODULE_IMPORT_NS(DMA_BUF);
