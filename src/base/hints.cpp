// SPDX-License-Identifier: MIT
#include <optional>
#include <string_view>

#include "hbmwire/error.hpp"

namespace hbmwire {
namespace {

/// The name of a hint is that of its enumerator, so that the two cannot differ.
struct HintRow {
  std::string_view name;
  std::string_view remedy;
};

// NOLINTBEGIN(bugprone-macro-parentheses): the label of a switch has no parentheses.
#define HBMWIRE_ROW(name, remedy) \
  case Hint::name:                \
    return { #name, remedy }

// NOLINTEND(bugprone-macro-parentheses)

// One row for each hint. People read the remedies at three in the morning: each is a check or a
// step, in the order in which to do them. A switch, so that the compiler names a hint without a
// row.
// NOLINTNEXTLINE(readability-function-size): a table, one sentence a row.
constexpr HintRow row_of(Hint hint) noexcept {
  switch (hint) {
    HBMWIRE_ROW(none, "");
    HBMWIRE_ROW(no_rdma_device,
                "check `ibv_devices` and that the NIC's driver (mlx5_ib, irdma, ...) is loaded; "
                "on a machine without RDMA hardware run the program below `hbmwire emulate --`");
    HBMWIRE_ROW(no_such_rdma_device,
                "`ibv_devices` lists the names; give one of them, or none to take the first with "
                "an active port");
    HBMWIRE_ROW(no_active_port,
                "bring a port up (`ibv_devinfo` shows PORT_ACTIVE, `ip link` its interface)");
    HBMWIRE_ROW(no_usable_gid,
                "give the NIC's interface an IP address, so that its port has a RoCE v2 GID");
    HBMWIRE_ROW(no_hl_thunk,
                "install the Habana driver packages (libhl-thunk.so, usually in "
                "/usr/lib/habanalabs) or set LD_LIBRARY_PATH; without a Gaudi use host memory, "
                "or `hbmwire emulate --`");
    HBMWIRE_ROW(no_synapse,
                "install SynapseAI (libSynapse.so, usually in /usr/lib/habanalabs), or let "
                "hl-thunk drive the card (HBMWIRE_GAUDI_OWNER=hl-thunk); without a Gaudi use "
                "host memory, or `hbmwire emulate --`");
    HBMWIRE_ROW(old_hl_thunk,
                "install hl-thunk 6.3 or newer, which can export mapped device memory as a "
                "dma-buf");
    HBMWIRE_ROW(no_gaudi_device,
                "check `hl-smi` and /dev/accel; without a Gaudi use host memory, or `hbmwire "
                "emulate --gaudi N --`");
    HBMWIRE_ROW(no_such_gaudi_device,
                "name a card by its PCI address (as `hl-smi -Q bus_id -f csv` prints it) or its "
                "index");
    HBMWIRE_ROW(gaudi_busy,
                "another process owns the card, and a Gaudi has one owner at a time: end that "
                "process (`fuser -v /dev/accel/accel*`) or choose another card");
    HBMWIRE_ROW(gaudi_resetting,
                "the card is being reset after its last owner: try again in a few seconds");
    HBMWIRE_ROW(gaudi1_memory,
                "first-generation Gaudi memory has no virtual addresses to export by hl-thunk: "
                "let SynapseAI drive it (HBMWIRE_GAUDI_OWNER=synapse)");
    HBMWIRE_ROW(synapse_pool_base,
                "this SynapseAI release does not tell where its memory pool begins: let hl-thunk "
                "drive the card (HBMWIRE_GAUDI_OWNER=hl-thunk), or install a newer release");
    HBMWIRE_ROW(synapse_one_card,
                "SynapseAI takes one card a process: let hl-thunk drive further ones "
                "(HBMWIRE_GAUDI_OWNER=hl-thunk), or use another process");
    HBMWIRE_ROW(device_memory_exhausted,
                "ask for less than the card has free (`hl-smi` shows it; each allocation takes "
                "whole pages of the card, 768 MiB on Gaudi2)");
    HBMWIRE_ROW(cuda_memory_exhausted,
                "ask for less than the GPU has free (`nvidia-smi` shows it)");
    HBMWIRE_ROW(export_refused,
                "the driver exports only the exact base of a live mapping, in whole 4096-byte "
                "pages: check that what is adopted (Context::adopt()) is one, and still mapped; "
                "if hbmwire allocated the memory, please report this");
    HBMWIRE_ROW(memlock_limit,
                "raise the locked-memory limit (`ulimit -l unlimited`) or free memory; or the "
                "NIC has no room for another region: `hbmwire info -d` shows how many it has, "
                "`rdma resource` how many exist");
    HBMWIRE_ROW(not_host_memory,
                "the address is not mapped, or it is a device's: memory of a device is "
                "registered by Context::borrow(), adopt() or import_dmabuf(), which know whose "
                "it is");
    HBMWIRE_ROW(memory_not_writable,
                "map the memory with PROT_WRITE, or register it with no other access than "
                "remote_read");
    HBMWIRE_ROW(memory_beyond_file,
                "make the file as long as what is registered of its mapping (ftruncate, "
                "fallocate), or register less; pages that the kernel can't find memory for look "
                "the same");
    HBMWIRE_ROW(memory_gone,
                "keep registered memory mapped, with the protection that it had, and its file as "
                "long as it was, until its Region has gone and what was started with it is over");
    HBMWIRE_ROW(peer_memory_gone,
                "the peer's process has unmapped or truncated memory that it had opened to "
                "peers, or its device failed: its log says which");
    HBMWIRE_ROW(not_for_local_writing,
                "register what a get or a receive writes to with Access::local_write");
    HBMWIRE_ROW(region_too_large,
                "register the memory in parts: `ibv_devinfo -v` shows max_mr_size");
    HBMWIRE_ROW(forked_nic,
                "a child by fork(2) has no use of its parent's NIC: open it anew in the child "
                "(Nic::open()), and register and connect there");
    HBMWIRE_ROW(descriptor_limit, "raise the limit of open files (`ulimit -n`)");
    HBMWIRE_ROW(system_descriptor_limit,
                "the whole machine has no open files left: end programs that hold many, or raise "
                "the limit (`sysctl fs.file-max`)");
    HBMWIRE_ROW(address_space_limit,
                "raise the limit of the address space (`ulimit -v`), or ask for less");
    HBMWIRE_ROW(data_limit, "raise the limit of a process's data (`ulimit -d`), or ask for less");
    HBMWIRE_ROW(cgroup_memory_limit,
                "raise the memory limit of the container or its cgroup (`docker run --memory`, "
                "memory.max, memory.limit_in_bytes), or ask for less");
    HBMWIRE_ROW(process_limit,
                "raise the limit of processes and threads (`ulimit -u`, the cgroup's pids.max)");
    HBMWIRE_ROW(queue_pair_limit,
                "the NIC has no room for another queue pair or completion queue: close "
                "endpoints, or use another NIC (ContextOptions::nics); `hbmwire info -d` shows "
                "how many it has, `rdma resource` how many exist; a low locked-memory limit "
                "(`ulimit -l`) has the same effect");
    HBMWIRE_ROW(completion_queue_length,
                "a completion queue of the NIC is too short for an endpoint: make "
                "EndpointOptions::send_depth and receive_depth smaller, or use another NIC "
                "(ContextOptions::nics)");
    HBMWIRE_ROW(host_memory_exhausted,
                "ask for less than the machine has free (`free -m`), or allow the process more "
                "(`ulimit -v`, its cgroup's limit)");
    HBMWIRE_ROW(no_such_advice,
                "prefetching takes Linux 5.14 (MADV_POPULATE_READ), will-not-need Linux 5.4 "
                "(MADV_COLD) and pages that could be swapped out, neither huge nor locked ones; "
                "nothing depends on either");
    HBMWIRE_ROW(huge_pages_exhausted,
                "reserve more huge pages: `sysctl vm.nr_hugepages=N`, or nr_hugepages below "
                "/sys/kernel/mm/hugepages for another size (1 GiB pages best on the kernel's "
                "command line); `grep Huge /proc/meminfo` shows the free ones");
    HBMWIRE_ROW(no_huge_pages,
                "choose a page size that /sys/kernel/mm/hugepages lists; 1 GiB takes a CPU with "
                "pdpe1gb");
    HBMWIRE_ROW(no_such_numa_node,
                "/sys/devices/system/node/has_memory lists the nodes (`numactl -H`)");
    HBMWIRE_ROW(numa_refused,
                "the kernel refused to bind memory to this node: check the process's cpuset, and "
                "that the container allows mbind (CAP_SYS_NICE)");
    HBMWIRE_ROW(dmabuf_not_supported,
                "this NIC's driver can't import dma-bufs: it takes mlx5, irdma, efa, bnxt_re, "
                "mana or ionic on a kernel >= 5.12 and rdma-core >= 34; or use host memory");
    HBMWIRE_ROW(dmabuf_no_p2p,
                "NIC and card can't reach each other over PCIe: check that the kernel has "
                "CONFIG_PCI_P2PDMA, that ACS and the IOMMU allow it, and that both hang below "
                "the same switch or an allowed root port (`lspci -tv`)");
    HBMWIRE_ROW(dmabuf_rejected,
                "the NIC refused this dma-buf or range: check its size and that the exporter "
                "supports the NIC's driver (`dmesg` says more)");
    HBMWIRE_ROW(dmabuf_read_only,
                "have the exporter give it out with O_RDWR, or register it for reading alone");
    HBMWIRE_ROW(dmabuf_page_offset,
                "give the address at which exactly that offset of the dma-buf is mapped, or none");
    HBMWIRE_ROW(import_dmabuf,
                "the application hands its dma-bufs in one by one: Context::import_dmabuf()");
    HBMWIRE_ROW(attach_gone,
                "the process that published the memory has ended, or is in another network "
                "namespace, which has abstract sockets of its own; ask it for a new key");
    HBMWIRE_ROW(attach_silent,
                "the process that published the memory has to call AttachListener::progress() "
                "when its fd() is readable; see whether it is stopped or busy");
    HBMWIRE_ROW(attach_other_user,
                "run both processes as the same user, since a dma-buf is handed to processes of "
                "the same user only");
    HBMWIRE_ROW(attach_withdrawn,
                "ask the process that published the memory for a new key: what it published "
                "under this one it has withdrawn");
    HBMWIRE_ROW(attach_no_dmabuf,
                "publish device memory; host memory is shared by a mapping of your own "
                "(memfd_create, MAP_SHARED), which each process registers, or moved by RDMA with "
                "a memory key");
    HBMWIRE_ROW(qp_attributes,
                "the NIC refused these attributes for the queue pair's state: check that both "
                "sides' MTU, GID and LID are of the same network");
    HBMWIRE_ROW(remote_key,
                "the peer's memory is not registered for this access, or its registration is gone");
    HBMWIRE_ROW(peer_unreachable,
                "the peer's NIC did not answer: check that both GIDs are of one network, that "
                "the link is up, and that the peer is alive (`ibv_rc_pingpong` between the two "
                "tells); emulated NICs reach each other within one `hbmwire emulate --fabric`");
    HBMWIRE_ROW(receiver_not_ready, "the peer had no receive posted: it is stuck or gone");
    HBMWIRE_ROW(peer_gone,
                "the peer ended or its host went down: look at its output, then start it again");
    HBMWIRE_ROW(peer_slow,
                "the peer is stuck or too slow: look at its output, or allow it more time");
    HBMWIRE_ROW(not_hbmwire, "another program listens or calls there: check host and port");
    HBMWIRE_ROW(other_version, "install the same hbmwire on both sides");
    HBMWIRE_ROW(name_resolution, "check the host's name, or give its address");
    HBMWIRE_ROW(connection_refused,
                "no program listens there: start the one that listens first, and give both the "
                "same port");
    HBMWIRE_ROW(host_unreachable,
                "check the address, the route and firewalls (`ip route get ADDRESS`)");
    HBMWIRE_ROW(port_in_use,
                "another program listens on this port (`ss -ltnp` shows it): choose another");
    HBMWIRE_ROW(port_privileged, "ports below 1024 are for root: choose another");
    HBMWIRE_ROW(not_our_address,
                "no interface of this machine has that address (`ip address` lists them)");
    HBMWIRE_ROW(setting_choices, "`hbmwire info -c` lists each setting with its choices");
    HBMWIRE_ROW(ambiguous_address,
                "several cards have memory at this address: say which device is meant, or set "
                "HBMWIRE_DEFAULT_DEVICE to its PCI address");
    HBMWIRE_ROW(no_cuda,
                "install NVIDIA's driver (libcuda.so.1) or set LD_LIBRARY_PATH; without a GPU "
                "use host memory, or `hbmwire emulate --cuda N --`");
    HBMWIRE_ROW(no_cuda_device,
                "check `nvidia-smi` and CUDA_VISIBLE_DEVICES; without a GPU use host memory, or "
                "`hbmwire emulate --cuda N --`");
    HBMWIRE_ROW(no_such_device,
                "name a device by its PCI address or its index (`hbmwire info -d` lists them)");
    HBMWIRE_ROW(cuda_dmabuf_not_supported,
                "dma-buf export takes NVIDIA's open kernel modules 515 or newer (`modinfo -F "
                "license nvidia` says MIT/GPL) and CUDA 11.7; with nvidia_peermem loaded "
                "HBMWIRE_CUDA_DMABUF=try allows that path");
    HBMWIRE_ROW(cuda_pcie_mapping,
                "the driver maps this GPU's memory by PCIe only where the GPU has a direct link "
                "to the NIC: set HBMWIRE_CUDA_PCIE_MAPPING to no, or to try");
    HBMWIRE_ROW(cuda_after_fork,
                "CUDA does not work in a child by fork(2) of a process that has used it: start "
                "the child by posix_spawn(3) or exec, or fork before CUDA is used");
    HBMWIRE_ROW(managed_memory,
                "managed memory moves between host and GPU and has no dma-buf: allocate with "
                "cuMemAlloc, or register a host buffer");
    HBMWIRE_ROW(dmabuf_forbidden, "allow dma-bufs for this memory (the setting *_DMABUF=yes)");
    HBMWIRE_ROW(no_rocm,
                "install ROCm (libhsa-runtime64.so.1, libamdhip64.so) or set LD_LIBRARY_PATH; "
                "without a GPU use host memory, or `hbmwire emulate --rocm N --`");
    HBMWIRE_ROW(no_rocm_device,
                "check `rocminfo`, /dev/kfd and the groups video and render; without a GPU use "
                "host memory, or `hbmwire emulate --rocm N --`");
    HBMWIRE_ROW(rocm_dmabuf_not_supported,
                "dma-buf export takes ROCm 5.6 or newer, a large BAR (Above 4G decoding in the "
                "firmware), and a kernel with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY");
    HBMWIRE_ROW(rocm_foreign_memory,
                "register the memory in the process, and with the library, that allocated it "
                "(hipMalloc, hsa_amd_memory_pool_allocate), or hand its own dma-buf to "
                "import_dmabuf()");
    HBMWIRE_ROW(not_a_dmabuf,
                "give the descriptor of a dma-buf (`lsof -p PID` shows /dmabuf:), and an offset "
                "and length that lie in it");
    HBMWIRE_ROW(settings_file,
                "HBMWIRE_CONFIG names a file of lines NAME=VALUE, with comments after #: mend "
                "it, or unset the variable");
    HBMWIRE_ROW(nic_permission,
                "you may not open the NIC's node: check `ls -l /dev/infiniband` (usually every "
                "user may, or members of the group rdma), and give a container the devices");
    HBMWIRE_ROW(no_userfaultfd,
                "host memory is watched by userfaultfd(2): it takes Linux 5.19 (arm64: 6.10) "
                "with CONFIG_USERFAULTFD, and a container whose seccomp profile allows the call "
                "or which was given /dev/userfaultfd; without, host memory is registered for "
                "each use");
    HBMWIRE_ROW(memory_not_watched,
                "anonymous and shared memory (memfd, MAP_SHARED) can be watched, a file's pages, "
                "read-only shared memory and another userfaultfd's can't, nor more pieces than "
                "vm.max_map_count allows: keep a Region of such memory, for the cache registers "
                "it for each use");
    HBMWIRE_ROW(memory_key_bytes,
                "hand over exactly what MemoryKey::bytes() gave, all of it and nothing else");
    HBMWIRE_ROW(memory_key_access,
                "register the region with the access that its keys are to give, or with none of "
                "remote_write and remote_read, and name the key's own in MemoryKeyOptions::access");
    HBMWIRE_ROW(memory_key_not_revocable,
                "this key names the region's own registration, which ends with the region: ask "
                "for MemoryKeyOptions::revocable");
    HBMWIRE_ROW(memory_key_other_process,
                "the process that made the key has ended, and this connection leads to another "
                "one: get a new key from it");
    HBMWIRE_ROW(memory_key_expired,
                "get a new key from the peer; when it can't have expired yet, compare both "
                "machines' clocks");
    HBMWIRE_ROW(memory_key_nic,
                "a key names the NICs with which its region is registered: connect to one of "
                "those, or have the peer register the region with that NIC, too");
    HBMWIRE_ROW(remote_region_stale,
                "a remote region ends with its connection: ask for it anew (Endpoint::remote())");
    HBMWIRE_ROW(region_name,
                "the listening side advertises memory by Listener::advertise(): check the name "
                "there");
    HBMWIRE_ROW(transfers_exhausted,
                "let go of transfers that are over, or raise WorkerOptions::max_transfers");
    HBMWIRE_ROW(peer_broke_off,
                "the peer cancelled a transfer or one of its own failed: look at its output, "
                "then connect anew");
    HBMWIRE_ROW(peer_unsettled,
                "the peer is stopped, busy or cut off: its memory may still change until it runs "
                "again or ends");
    HBMWIRE_ROW(path_policy,
                "Region::explain() says why the better path was not taken; allow this one, or "
                "mend that");
    HBMWIRE_ROW(other_transfer,
                "Endpoint::error() says what ended the endpoint, and with it all that was under "
                "way");
    HBMWIRE_ROW(completions_lost,
                "the NIC's completion queue has failed or overrun: connect anew; if it comes "
                "again, look at the kernel's log and for other users of the NIC");
    HBMWIRE_ROW(reconnect,
                "Endpoint::reconnect() is for the side that called connect(), once phase() is "
                "failed or closed");
    HBMWIRE_ROW(pre_shared_key,
                "give both ends the same key, of 16 bytes or more "
                "(EndpointOptions::pre_shared_key, HBMWIRE_PRE_SHARED_KEY_FILE), or neither one");
    HBMWIRE_ROW(pre_shared_key_file,
                "give a regular file of 16 to 4096 bytes, all of which are the key, that only its "
                "owner may read: `head -c 32 /dev/urandom > FILE; chmod 600 FILE`");
    HBMWIRE_ROW(peer_full,
                "the peer's output says what it is out of (descriptors, locked memory, queue "
                "pairs): raise that limit there, or let it close endpoints");
    HBMWIRE_ROW(invitation,
                "hand over exactly what EndpointInvitation::bytes() gave at the other end, once "
                "and within one run of both");
    HBMWIRE_ROW(rdma_cm,
                "the address must be one of an RDMA NIC's interface, and that NIC the worker's "
                "(ContextOptions::nics); check `rdma link` and that rdma_cm's module (rdma_ucm) "
                "is loaded");
    HBMWIRE_ROW(message_truncated,
                "post a receive as long as the longest message that can match it");
    HBMWIRE_ROW(message_let_go,
                "the receiver's program takes messages by Worker::next_message(): it has to call "
                "IncomingMessage::receive() for what is longer than EndpointOptions::eager_bytes");
    HBMWIRE_ROW(no_atomics,
                "register without Access::remote_atomic, or use a NIC of which `ibv_devinfo -v` "
                "gives another atomic_cap than ATOMIC_NONE");
    HBMWIRE_ROW(address_scope,
                "a link-local address needs the interface by which it is reached behind it, as "
                "in fe80::1%eth0 (`ip address` lists the interfaces)");
    HBMWIRE_ROW(link_options,
                "choose a value that the NIC has (`hbmwire info` lists the GIDs and the MTU of "
                "each port, /sys/class/infiniband/*/ports/*/pkeys the partition keys), or leave "
                "the option (LinkOptions) or the setting (HBMWIRE_LINK_*) out for the library's "
                "choice");
    HBMWIRE_ROW(retries_outlast,
                "make ack_timeout (4.096 us * 2^N) or retry_count smaller (LinkOptions, "
                "HBMWIRE_LINK_ACK_TIMEOUT, HBMWIRE_LINK_RETRY_COUNT), or "
                "EndpointOptions::peer_timeout longer");
    HBMWIRE_ROW(rdma_cm_route,
                "leave the option (LinkOptions) or the setting (HBMWIRE_LINK_*) out, or connect "
                "without rdma_cm; a traffic class counts there, too");
    HBMWIRE_ROW(group_launcher,
                "start all processes by mpirun, srun, torchrun or an indexed job of Kubernetes, or "
                "set HBMWIRE_GROUP (tcp://host:port, pmix, file:///path, etcd://host:port/name), "
                "HBMWIRE_GROUP_RANK and HBMWIRE_GROUP_SIZE (GroupOptions::meeting, rank, size) for "
                "each of them");
    HBMWIRE_ROW(group_rank_gone,
                "a rank of the group has ended: look at the output of that process; a process that "
                "replaces it joins by Group::create() when the others call Group::rejoin()");
    HBMWIRE_ROW(group_no_agreement,
                "all ranks need the same size and make the same calls of the group in the same "
                "order, with memory of the same length and the same root: compare them, and the "
                "number of processes with HBMWIRE_GROUP_SIZE");
    HBMWIRE_ROW(
        group_rank_late,
        "ranks of the group did not come before the deadline: see whether they were started "
        "and what they print, and give the call more time where they need it");
  }
  return {};  // a number that is no hint of this version
}

#undef HBMWIRE_ROW

constexpr int kMaxHints = 256;  // the range of the type of Hint

}  // namespace

std::string_view hint_text(Hint hint) noexcept { return row_of(hint).remedy; }

std::string_view to_string(Hint hint) noexcept { return row_of(hint).name; }

std::optional<Hint> hint_from_name(std::string_view name) noexcept {
  for (int number = 0; number < kMaxHints; ++number) {
    const auto hint = static_cast<Hint>(number);
    const std::string_view its_name = row_of(hint).name;
    if (its_name.empty()) break;  // past the last hint
    if (its_name == name) return hint;
  }
  return std::nullopt;
}

}  // namespace hbmwire
