// SPDX-License-Identifier: GPL-2.0
/* The PCI device, its nodes /dev/accel/accelN and accel_controlDN, and its files in sysfs. */
#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_ioctl.h>
#include <linux/memremap.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "virtual_gaudi.h"

bool card_no_p2p;
module_param_named(no_p2p, card_no_p2p, bool, 0644);

static struct card *of_device(struct device *dev)
{
	return to_card(dev_get_drvdata(dev));
}

/* The names of habanalabs in the PCI device's folder. */
static ssize_t pci_addr_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "%s\n", dev_name(dev));
}
static DEVICE_ATTR_RO(pci_addr);

static ssize_t status_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "Operational\n");
}
static DEVICE_ATTR_RO(status);

static ssize_t device_type_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "GAUDI2\n");
}
static DEVICE_ATTR_RO(device_type);

/* Two files for tests, which no real card has. */
static ssize_t counters_show(struct device *dev, struct device_attribute *attr, char *text)
{
	struct counters *count = &of_device(dev)->count;

	return sysfs_emit(text,
			  "exports %d\nreleases %d\nattaches %d\ndetaches %d\nmaps %d\nunmaps %d\n",
			  atomic_read(&count->exports), atomic_read(&count->releases),
			  atomic_read(&count->attaches), atomic_read(&count->detaches),
			  atomic_read(&count->maps), atomic_read(&count->unmaps));
}
static DEVICE_ATTR_RO(counters);

/* One line for each page: its device address, and its place in the BAR. */
static ssize_t mappings_show(struct device *dev, struct device_attribute *attr, char *text)
{
	struct card *card = of_device(dev);
	struct mapping *mapping;
	ssize_t at = 0;
	u32 i;

	mutex_lock(&card->lock);
	list_for_each_entry(mapping, &card->mappings, entry) {
		for (i = 0; mapping->memory && i < mapping->memory->pages; i++)
			at += sysfs_emit_at(text, at, "%#llx %#llx\n",
					    mapping->address + (u64)i * CARD_PAGE,
					    (u64)mapping->memory->page[i] * CARD_PAGE);
	}
	mutex_unlock(&card->lock);
	return at;
}
static DEVICE_ATTR_RO(mappings);

static struct attribute *card_attributes[] = {
	&dev_attr_pci_addr.attr, &dev_attr_status.attr,	  &dev_attr_device_type.attr,
	&dev_attr_counters.attr, &dev_attr_mappings.attr, NULL,
};
static const struct attribute_group card_group = {.attrs = card_attributes};

/* One owner: another open is refused until the last dma-buf of the first owner is released, too. */
static int compute_open(struct drm_device *drm, struct drm_file *file)
{
	struct card *card = to_card(drm);
	int err = 0;

	mutex_lock(&card->lock);
	if (card->owner) {
		err = -EBUSY;
	} else {
		card->owner = file;
		card->opened++;
	}
	mutex_unlock(&card->lock);
	return err;
}

static void compute_close(struct drm_device *drm, struct drm_file *file)
{
	struct card *card = to_card(drm);

	mutex_lock(&card->lock);
	card_memory_drop(card);
	card->owner = NULL;
	mutex_unlock(&card->lock);
}

static const struct file_operations compute_operations = {
	.owner = THIS_MODULE,
	.open = accel_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.llseek = noop_llseek,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

static const struct drm_ioctl_desc compute_calls[] = {
	DRM_IOCTL_DEF_DRV(HL_INFO, card_info_ioctl, 0),
	DRM_IOCTL_DEF_DRV(HL_MEMORY, card_memory_ioctl, 0),
};

static const struct drm_driver compute_driver = {
	.driver_features = DRIVER_COMPUTE_ACCEL,
	.name = "habanalabs",
	.desc = "virtual Gaudi of hbmwire's tests",
	.date = "20261121",
	.major = 1,
	.fops = &compute_operations,
	.open = compute_open,
	.postclose = compute_close,
	.ioctls = compute_calls,
	.num_ioctls = ARRAY_SIZE(compute_calls),
};

/* The control node: any number of openers, but only for information. */
static long control_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct card *card = container_of(file->private_data, struct card, control);
	struct hl_info_args args;

	if (command != DRM_IOCTL_HL_INFO)
		return -ENOTTY;
	if (copy_from_user(&args, (void __user *)argument, sizeof(args)))
		return -EFAULT;
	return card_info(card, NULL, &args);
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = control_ioctl,
};

static int add_control(struct card *card)
{
	u32 index = card->drm.accel->index;

	snprintf(card->control_name, sizeof(card->control_name), "accel_controlD%u", index);
	snprintf(card->control_node, sizeof(card->control_node), "accel/accel_controlD%u", index);
	card->control.minor = MISC_DYNAMIC_MINOR;
	card->control.name = card->control_name;
	card->control.nodename = card->control_node;
	card->control.fops = &control_operations;
	card->control.parent = &card->pdev->dev;
	return misc_register(&card->control);
}

/* Makes page structures for the BAR, since a software NIC needs some. Importers do not learn of
 * them. */
static int take_bar(struct card *card)
{
	struct pci_dev *pdev = card->pdev;
	struct dev_pagemap *map;
	int err = pcim_enable_device(pdev);

	if (err)
		return err;
	map = devm_kzalloc(&pdev->dev, sizeof(*map), GFP_KERNEL);
	if (!map)
		return -ENOMEM;
	map->type = MEMORY_DEVICE_GENERIC;
	map->range.start = pci_resource_start(pdev, 2);
	map->range.end = pci_resource_end(pdev, 2);
	map->nr_range = 1;
	card->bar = map->range.start;
	card->pages = pci_resource_len(pdev, 2) / CARD_PAGE;
	return PTR_ERR_OR_ZERO(devm_memremap_pages(&pdev->dev, map));
}

/* Makes the card's nodes and files; on an error, none is left. */
static int show(struct card *card)
{
	int err = card_memory_init(card);

	if (err)
		return err;
	dev_set_drvdata(&card->pdev->dev, &card->drm);
	err = drm_dev_register(&card->drm, 0);
	if (err)
		goto fini;
	err = add_control(card);
	if (err)
		goto unregister;
	err = device_add_group(&card->pdev->dev, &card_group);
	if (err)
		goto remove_control;
	return 0;

remove_control:
	misc_deregister(&card->control);
unregister:
	drm_dev_unregister(&card->drm);
fini:
	card_memory_fini(card);
	return err;
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct card *card;
	int err;

	card = devm_drm_dev_alloc(&pdev->dev, &compute_driver, struct card, drm);
	if (IS_ERR(card))
		return PTR_ERR(card);
	card->pdev = pdev;
	err = take_bar(card);
	if (err)
		return err;
	err = show(card);
	if (err)
		return err;
	/* Values that sysfs shows from now on. The configuration space remains that of ivshmem. */
	pdev->vendor = CARD_VENDOR;
	pdev->device = CARD_DEVICE;
	return 0;
}

static const struct pci_device_id ivshmem[] = {{PCI_DEVICE(0x1af4, 0x1110)}, {}};

/* There is no removal: the module lives until the guest ends. */
static struct pci_driver card_driver = {
	.name = "habanalabs",
	.id_table = ivshmem,
	.probe = probe,
	.driver = {.suppress_bind_attrs = true},
};
builtin_pci_driver(card_driver);

MODULE_DESCRIPTION("virtual Gaudi of hbmwire's tests");
MODULE_LICENSE("GPL");
