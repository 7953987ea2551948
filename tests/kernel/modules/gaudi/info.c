// SPDX-License-Identifier: GPL-2.0
/* The information that the card reports. */
#include <linux/uaccess.h>

#include "virtual_gaudi.h"

static int answer(const struct hl_info_args *args, const void *what, size_t size)
{
	void __user *to = u64_to_user_ptr(args->return_pointer);

	if (!to || !args->return_size)
		return -EINVAL;
	return copy_to_user(to, what, min_t(size_t, size, args->return_size)) ? -EFAULT : 0;
}

static int hw_ip(struct card *card, const struct hl_info_args *args)
{
	struct hl_info_hw_ip_info ip = {
		.dram_base_address = CARD_DEVICE_BASE,
		.dram_size = (u64)card->pages * CARD_PAGE,
		.device_id = CARD_DEVICE,
		.module_id = card->drm.accel->index,
		.server_type = HL_SERVER_GAUDI2_HLS2,
		.dram_enabled = 1,
		.cpucp_version = "virtual",
		.card_name = "HL225",
		.dram_page_size = CARD_PAGE,
		.device_mem_alloc_default_page_size = CARD_PAGE,
	};

	return answer(args, &ip, sizeof(ip));
}

static int dram_usage(struct card *card, struct drm_file *file, const struct hl_info_args *args)
{
	struct hl_info_dram_usage usage = {};

	mutex_lock(&card->lock);
	usage.dram_free_mem = (u64)card->pages * CARD_PAGE - card->used;
	usage.ctx_dram_mem = file && file == card->owner ? card->used : 0;
	mutex_unlock(&card->lock);
	return answer(args, &usage, sizeof(usage));
}

static int status(const struct hl_info_args *args)
{
	struct hl_info_device_status now = {.status = HL_DEVICE_STATUS_OPERATIONAL};

	return answer(args, &now, sizeof(now));
}

static int open_stats(struct card *card, const struct hl_info_args *args)
{
	struct hl_open_stats_info stats = {};

	mutex_lock(&card->lock);
	stats.open_counter = card->opened;
	stats.is_compute_ctx_active = card->owner != NULL;
	mutex_unlock(&card->lock);
	return answer(args, &stats, sizeof(stats));
}

/* Through a compute node, or (file: NULL) through a control node. */
int card_info(struct card *card, struct drm_file *file, struct hl_info_args *args)
{
	if (args->pad)
		return -EINVAL;
	switch (args->op) {
	case HL_INFO_HW_IP_INFO:
		return hw_ip(card, args);
	case HL_INFO_DRAM_USAGE:
		return dram_usage(card, file, args);
	case HL_INFO_DEVICE_STATUS:
		return status(args);
	case HL_INFO_OPEN_STATS:
		return open_stats(card, args);
	default:
		return -EINVAL;
	}
}

int card_info_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	return card_info(to_card(drm), file, data);
}
