// SPDX-License-Identifier: MIT
#include "emulation/tool/kernel_config.hpp"

#include <gtest/gtest.h>

namespace hbmwire::emulation::tool {
namespace {

/// The two settings without which ROCm has no dma-bufs.
constexpr const char* kOn = "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\n";

TEST(KernelConfig, PeerToPeerIsTurnedOnInAnyText) {
  EXPECT_EQ(with_peer_to_peer(""), kOn);
  EXPECT_EQ(with_peer_to_peer("# CONFIG_PCI_P2PDMA is not set\nCONFIG_DMABUF_MOVE_NOTIFY=n\n"),
            kOn);
  EXPECT_EQ(with_peer_to_peer(kOn), kOn);
}

TEST(KernelConfig, OtherLinesAreKept) {
  EXPECT_EQ(with_peer_to_peer("CONFIG_PCI=y\n\nCONFIG_PCI_P2PDMA_X=y\n# a comment"),
            std::string("CONFIG_PCI=y\n\nCONFIG_PCI_P2PDMA_X=y\n# a comment\n") + kOn);
}

}  // namespace
}  // namespace hbmwire::emulation::tool
