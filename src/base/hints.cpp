// SPDX-License-Identifier: MIT
#include "hbmwire/error.hpp"

namespace hbmwire {

// One remedy a hint, for the people who read it at three in the morning: what to check or to do, in
// that order.
// NOLINTNEXTLINE(readability-function-size): a table, one sentence a row.
std::string_view hint_text(Hint hint) noexcept {
  switch (hint) {
    case Hint::none:
      return {};
    case Hint::no_rdma_device:
      return "check `ibv_devices` and that the NIC's driver (mlx5_ib, irdma, ...) is loaded; on a "
             "machine without RDMA hardware run the program below `hbmwire emulate --`";
    case Hint::no_such_rdma_device:
      return "`ibv_devices` lists the names; give one of them, or none to take the first with an "
             "active port";
    case Hint::no_active_port:
      return "bring a port up (`ibv_devinfo` shows PORT_ACTIVE, `ip link` its interface)";
    case Hint::no_usable_gid:
      return "give the NIC's interface an IP address, so that its port has a RoCE v2 GID";
    case Hint::no_hl_thunk:
      return "install the Habana driver packages (libhl-thunk.so, usually in /usr/lib/habanalabs) "
             "or set "
             "LD_LIBRARY_PATH; without a Gaudi use host memory, or `hbmwire emulate --`";
    case Hint::no_synapse:
      return "install SynapseAI (libSynapse.so, usually in /usr/lib/habanalabs), or let "
             "hl-thunk drive the card (HBMWIRE_GAUDI_OWNER=hl-thunk); without a Gaudi use host "
             "memory, or `hbmwire emulate --`";
    case Hint::old_hl_thunk:
      return "install hl-thunk 6.3 or newer, which can export mapped device memory as a dma-buf";
    case Hint::no_gaudi_device:
      return "check `hl-smi` and /dev/accel; without a Gaudi use host memory, or `hbmwire emulate "
             "--gaudi N --`";
    case Hint::no_such_gaudi_device:
      return "name a card by its PCI address (as `hl-smi -Q bus_id -f csv` prints it) or its index";
    case Hint::gaudi_busy:
      return "another process owns the card, and a Gaudi has one owner at a time: end that process "
             "(`fuser -v "
             "/dev/accel/accel*`) or choose another card";
    case Hint::gaudi_resetting:
      return "the card is being reset after its last owner: try again in a few seconds";
    case Hint::gaudi1_memory:
      return "first-generation Gaudi memory has no virtual addresses to export by hl-thunk: let "
             "SynapseAI drive it (HBMWIRE_GAUDI_OWNER=synapse)";
    case Hint::synapse_pool_base:
      return "this SynapseAI release does not tell where its memory pool begins: let hl-thunk "
             "drive the card (HBMWIRE_GAUDI_OWNER=hl-thunk), or install a newer release";
    case Hint::synapse_one_card:
      return "SynapseAI takes one card a process: let hl-thunk drive further ones "
             "(HBMWIRE_GAUDI_OWNER=hl-thunk), or use another process";
    case Hint::device_memory_exhausted:
      return "ask for less than the card has free (`hl-smi` shows it; each allocation takes whole "
             "pages of the card, "
             "768 MiB on Gaudi2)";
    case Hint::cuda_memory_exhausted:
      return "ask for less than the GPU has free (`nvidia-smi` shows it)";
    case Hint::export_refused:
      return "the driver exports only the exact base of a live mapping, in whole 4096-byte pages: "
             "check that what is adopted (Context::adopt()) is one, and still mapped; if hbmwire "
             "allocated the memory, please report this";
    case Hint::memlock_limit:
      return "raise the locked-memory limit (`ulimit -l unlimited`) or free memory; or the NIC has "
             "no room for another region: `hbmwire info -d` shows how many it has, `rdma resource` "
             "how many exist";
    case Hint::not_host_memory:
      return "the address is not mapped, or it is a device's: memory of a device is registered by "
             "Context::borrow(), adopt() or import_dmabuf(), which know whose it is";
    case Hint::memory_not_writable:
      return "map the memory with PROT_WRITE, or register it with no other access than remote_read";
    case Hint::memory_beyond_file:
      return "make the file as long as what is registered of its mapping (ftruncate, fallocate), "
             "or "
             "register less; pages that the kernel can't find memory for look the same";
    case Hint::memory_gone:
      return "keep registered memory mapped, with the protection that it had, and its file as long "
             "as it was, until its Region has gone and what was started with it is over";
    case Hint::peer_memory_gone:
      return "the peer's process has unmapped or truncated memory that it had opened to peers, or "
             "its device failed: its log says which";
    case Hint::not_for_local_writing:
      return "register what a get or a receive writes to with Access::local_write";
    case Hint::region_too_large:
      return "register the memory in parts: `ibv_devinfo -v` shows max_mr_size";
    case Hint::forked_nic:
      return "a child by fork(2) has no use of its parent's NIC: open it anew in the child "
             "(Nic::open()), and register and connect there";
    case Hint::descriptor_limit:
      return "raise the limit of open files (`ulimit -n`)";
    case Hint::system_descriptor_limit:
      return "the whole machine has no open files left: end programs that hold many, or raise the "
             "limit (`sysctl fs.file-max`)";
    case Hint::address_space_limit:
      return "raise the limit of the address space (`ulimit -v`), or ask for less";
    case Hint::data_limit:
      return "raise the limit of a process's data (`ulimit -d`), or ask for less";
    case Hint::cgroup_memory_limit:
      return "raise the memory limit of the container or its cgroup (`docker run --memory`, "
             "memory.max, memory.limit_in_bytes), or ask for less";
    case Hint::process_limit:
      return "raise the limit of processes and threads (`ulimit -u`, the cgroup's pids.max)";
    case Hint::queue_pair_limit:
      return "the NIC has no room for another queue pair or completion queue: close endpoints, or "
             "use another NIC (ContextOptions::nics); `hbmwire info -d` shows how many it has, "
             "`rdma resource` how many exist; a low locked-memory limit (`ulimit -l`) has the same "
             "effect";
    case Hint::completion_queue_length:
      return "a completion queue of the NIC is too short for an endpoint: make "
             "EndpointOptions::send_depth and receive_depth smaller, or use another NIC "
             "(ContextOptions::nics)";
    case Hint::host_memory_exhausted:
      return "ask for less than the machine has free (`free -m`), or allow the process more "
             "(`ulimit -v`, its cgroup's limit)";
    case Hint::no_such_advice:
      return "prefetching takes Linux 5.14 (MADV_POPULATE_READ), will-not-need Linux 5.4 "
             "(MADV_COLD) "
             "and pages that could be swapped out, neither huge nor locked ones; nothing depends "
             "on either";
    case Hint::huge_pages_exhausted:
      return "reserve more huge pages: `sysctl vm.nr_hugepages=N`, or nr_hugepages below "
             "/sys/kernel/mm/hugepages for another size (1 GiB pages best on the kernel's command "
             "line); `grep Huge /proc/meminfo` shows the free ones";
    case Hint::no_huge_pages:
      return "choose a page size that /sys/kernel/mm/hugepages lists; 1 GiB takes a CPU with "
             "pdpe1gb";
    case Hint::no_such_numa_node:
      return "/sys/devices/system/node/has_memory lists the nodes (`numactl -H`)";
    case Hint::numa_refused:
      return "the kernel refused to bind memory to this node: check the process's cpuset, and that "
             "the container allows mbind (CAP_SYS_NICE)";
    case Hint::dmabuf_not_supported:
      return "this NIC's driver can't import dma-bufs: it takes mlx5, irdma, efa, bnxt_re, mana or "
             "ionic on a kernel "
             ">= 5.12 and rdma-core >= 34; or use host memory";
    case Hint::dmabuf_no_p2p:
      return "NIC and card can't reach each other over PCIe: check that the kernel has "
             "CONFIG_PCI_P2PDMA, that ACS "
             "and the IOMMU allow it, and that both hang below the same switch or an allowed root "
             "port (`lspci -tv`)";
    case Hint::dmabuf_rejected:
      return "the NIC refused this dma-buf or range: check its size and that the exporter supports "
             "the NIC's driver "
             "(`dmesg` says more)";
    case Hint::dmabuf_read_only:
      return "have the exporter give it out with O_RDWR, or register it for reading alone";
    case Hint::dmabuf_page_offset:
      return "give the address at which exactly that offset of the dma-buf is mapped, or none";
    case Hint::import_dmabuf:
      return "the application hands its dma-bufs in one by one: Context::import_dmabuf()";
    case Hint::attach_gone:
      return "the process that published the memory has ended, or is in another network namespace, "
             "which has abstract sockets of its own; ask it for a new key";
    case Hint::attach_silent:
      return "the process that published the memory has to call AttachListener::progress() when "
             "its fd() is readable; see whether it is stopped or busy";
    case Hint::attach_other_user:
      return "run both processes as the same user: a dma-buf is handed to nobody else";
    case Hint::attach_withdrawn:
      return "ask the process that published the memory for a new key: what it published under "
             "this one it has withdrawn";
    case Hint::attach_no_dmabuf:
      return "publish device memory; host memory is shared by a mapping of your own (memfd_create, "
             "MAP_SHARED), which each process registers, or moved by RDMA with a memory key";
    case Hint::qp_attributes:
      return "the NIC refused these attributes for the queue pair's state: check that both sides' "
             "MTU, GID and LID "
             "are of the same network";
    case Hint::remote_key:
      return "the peer's memory is not registered for this access, or its registration is gone";
    case Hint::peer_unreachable:
      return "the peer's NIC did not answer: check that both GIDs are of one network, that the "
             "link is up, and that the peer is alive (`ibv_rc_pingpong` between the two tells); "
             "emulated NICs reach each other within one `hbmwire emulate --fabric`";
    case Hint::receiver_not_ready:
      return "the peer had no receive posted: it is stuck or gone";
    case Hint::peer_gone:
      return "the peer ended or its host went down: look at its output, then start it again";
    case Hint::peer_slow:
      return "the peer is stuck or too slow: look at its output, or allow "
             "it more time";
    case Hint::not_hbmwire:
      return "another program listens or calls there: check host and port";
    case Hint::other_version:
      return "install the same hbmwire on both sides";
    case Hint::name_resolution:
      return "check the host's name, or give its address";
    case Hint::connection_refused:
      return "no program listens there: start the one that listens first, and give both the same "
             "port";
    case Hint::host_unreachable:
      return "check the address, the route and firewalls (`ip route get ADDRESS`)";
    case Hint::port_in_use:
      return "another program listens on this port (`ss -ltnp` shows it): choose another";
    case Hint::port_privileged:
      return "ports below 1024 are for root: choose another";
    case Hint::not_our_address:
      return "no interface of this machine has that address (`ip address` lists them)";
    case Hint::setting_choices:
      return "`hbmwire info -c` lists each setting with its choices";
    case Hint::ambiguous_address:
      return "several cards have memory at this address: say which device is meant, or set "
             "HBMWIRE_DEFAULT_DEVICE to its PCI address";
    case Hint::no_cuda:
      return "install NVIDIA's driver (libcuda.so.1) or set LD_LIBRARY_PATH; without a GPU use "
             "host memory, or `hbmwire emulate --cuda N --`";
    case Hint::no_cuda_device:
      return "check `nvidia-smi` and CUDA_VISIBLE_DEVICES; without a GPU use host memory, or "
             "`hbmwire "
             "emulate --cuda N --`";
    case Hint::no_such_device:
      return "name a device by its PCI address or its index (`hbmwire info -d` lists them)";
    case Hint::cuda_dmabuf_not_supported:
      return "dma-buf export takes NVIDIA's open kernel modules 515 or newer (`modinfo -F license "
             "nvidia` says MIT/GPL) and CUDA 11.7; with nvidia_peermem loaded "
             "HBMWIRE_CUDA_DMABUF=try allows that path";
    case Hint::cuda_pcie_mapping:
      return "the driver maps this GPU's memory by PCIe only where the GPU has a direct link "
             "to the NIC: set HBMWIRE_CUDA_PCIE_MAPPING to no, or to try";
    case Hint::cuda_after_fork:
      return "CUDA does not work in a child by fork(2) of a process that has used it: start the "
             "child by posix_spawn(3) or exec, or fork before CUDA is used";
    case Hint::managed_memory:
      return "managed memory moves between host and GPU and has no dma-buf: allocate with "
             "cuMemAlloc, or register a host buffer";
    case Hint::dmabuf_forbidden:
      return "allow dma-bufs for this memory (the setting *_DMABUF=yes)";
    case Hint::no_rocm:
      return "install ROCm (libhsa-runtime64.so.1, libamdhip64.so) or set LD_LIBRARY_PATH; without "
             "a GPU use host memory, or `hbmwire emulate --rocm N --`";
    case Hint::no_rocm_device:
      return "check `rocminfo`, /dev/kfd and the groups video and render; without a GPU use "
             "host memory, or `hbmwire emulate --rocm N --`";
    case Hint::rocm_dmabuf_not_supported:
      return "dma-buf export takes ROCm 5.6 or newer, a large BAR (Above 4G decoding in the "
             "firmware), and a kernel with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY";
    case Hint::rocm_foreign_memory:
      return "register the memory in the process, and with the library, that allocated it "
             "(hipMalloc, hsa_amd_memory_pool_allocate), or hand its own dma-buf to "
             "import_dmabuf()";
    case Hint::not_a_dmabuf:
      return "give the descriptor of a dma-buf (`lsof -p PID` shows /dmabuf:), and an "
             "offset and length that lie in it";
    case Hint::settings_file:
      return "HBMWIRE_CONFIG names a file of lines NAME=VALUE, with comments after #: mend it, or "
             "unset the variable";
    case Hint::nic_permission:
      return "you may not open the NIC's node: check `ls -l /dev/infiniband` (usually anybody may, "
             "or who is in the group rdma), and give a container the devices";
    case Hint::no_userfaultfd:
      return "host memory is watched by userfaultfd(2): it takes Linux 5.19 (arm64: 6.10) with "
             "CONFIG_USERFAULTFD, and a container whose seccomp profile allows the call or which "
             "was given /dev/userfaultfd; without, host memory is registered for each use";
    case Hint::memory_not_watched:
      return "anonymous and shared memory (memfd, MAP_SHARED) can be watched, a file's pages, "
             "read-only shared memory and another userfaultfd's can't, nor more pieces than "
             "vm.max_map_count allows: keep a Region of such memory, for the cache registers it "
             "for each use";
    case Hint::memory_key_bytes:
      return "hand over exactly what MemoryKey::bytes() gave, all of it and nothing else";
    case Hint::memory_key_access:
      return "register the region with the access that its keys are to give, or with none of "
             "remote_write and remote_read, and name the key's own in MemoryKeyOptions::access";
    case Hint::memory_key_not_revocable:
      return "this key names the region's own registration, which ends with the region: ask for "
             "MemoryKeyOptions::revocable";
    case Hint::memory_key_other_process:
      return "the process that made the key has ended, and this connection leads to another one: "
             "get a new key from it";
    case Hint::memory_key_expired:
      return "get a new key from the peer; when it can't have expired yet, compare both machines' "
             "clocks";
    case Hint::memory_key_nic:
      return "a key names the NICs with which its region is registered: connect to one of those, "
             "or have the peer register the region with that NIC, too";
    case Hint::remote_region_stale:
      return "a remote region ends with its connection: ask for it anew (Endpoint::remote())";
    case Hint::region_name:
      return "the listening side advertises memory by Listener::advertise(): check the name there";
    case Hint::transfers_exhausted:
      return "let go of transfers that are over, or raise WorkerOptions::max_transfers";
    case Hint::peer_broke_off:
      return "the peer cancelled a transfer or one of its own failed: look at its output, then "
             "connect anew";
    case Hint::peer_unsettled:
      return "the peer is stopped, busy or cut off: its memory may still change until it runs "
             "again or ends";
    case Hint::path_policy:
      return "Region::explain() says why the better path was not taken; allow this one, or mend "
             "that";
    case Hint::other_transfer:
      return "Endpoint::error() says what ended the endpoint, and with it all that was under way";
    case Hint::completions_lost:
      return "the NIC's completion queue has failed or overrun: connect anew; if it comes again, "
             "look at the kernel's log and for other users of the NIC";
    case Hint::reconnect:
      return "Endpoint::reconnect() is for the side that called connect(), once phase() is failed "
             "or closed";
    case Hint::pre_shared_key:
      return "give both ends the same key, of 16 bytes or more (EndpointOptions::pre_shared_key, "
             "HBMWIRE_PRE_SHARED_KEY_FILE), or neither one";
    case Hint::pre_shared_key_file:
      return "the file is a regular one of 16 to 4096 bytes, which count all, that nobody but its "
             "owner may read: `head -c 32 /dev/urandom > FILE; chmod 600 FILE`";
    case Hint::peer_full:
      return "the peer's output says what it is out of (descriptors, locked memory, queue pairs): "
             "raise that limit there, or let it close endpoints";
    case Hint::invitation:
      return "hand over exactly what EndpointInvitation::bytes() gave at the other end, once and "
             "within one run of both";
    case Hint::rdma_cm:
      return "the address must be one of an RDMA NIC's interface, and that NIC the worker's "
             "(ContextOptions::nics); check `rdma link` and that rdma_cm's module (rdma_ucm) is "
             "loaded";
    case Hint::message_truncated:
      return "post a receive as long as the longest message that can match it";
    case Hint::message_let_go:
      return "the receiver's program takes messages by Worker::next_message(): it has to call "
             "IncomingMessage::receive() for what is longer than EndpointOptions::eager_bytes";
    case Hint::no_atomics:
      return "register without Access::remote_atomic, or use a NIC of which `ibv_devinfo -v` gives "
             "another atomic_cap than ATOMIC_NONE";
    case Hint::address_scope:
      return "a link-local address needs the interface by which it is reached behind it, as in "
             "fe80::1%eth0 (`ip address` lists the interfaces)";
    case Hint::link_options:
      return "choose a value that the NIC has (`hbmwire info` lists the GIDs and the MTU of each "
             "port, /sys/class/infiniband/*/ports/*/pkeys the partition keys), or leave the option "
             "(LinkOptions) or the setting (HBMWIRE_LINK_*) out for the library's choice";
    case Hint::retries_outlast:
      return "make ack_timeout (4.096 us * 2^N) or retry_count smaller (LinkOptions, "
             "HBMWIRE_LINK_ACK_TIMEOUT, HBMWIRE_LINK_RETRY_COUNT), or "
             "EndpointOptions::peer_timeout longer";
    case Hint::rdma_cm_route:
      return "leave the option (LinkOptions) or the setting (HBMWIRE_LINK_*) out, or connect "
             "without rdma_cm; a traffic class counts there, too";
  }
  return {};
}

}  // namespace hbmwire
