// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <memory>

/// Owners of verbs objects. A destructor that fails is reported: a case that leaves objects behind
/// has failed.
namespace hbmwire::conformance {

void report_destroy(const char* what, int result);

template <auto kDestroy>
struct Destroyer {
  const char* what = "destroying";

  template <typename T>
  void operator()(T* object) const {
    report_destroy(what, kDestroy(object));
  }
};

// Inline functions of verbs.h cannot be template arguments with external linkage.
inline int dealloc_mw(ibv_mw* mw) { return ibv_dealloc_mw(mw); }

inline int close_xrcd(ibv_xrcd* xrcd) { return ibv_close_xrcd(xrcd); }

template <typename T, auto kDestroy>
using Owner = std::unique_ptr<T, Destroyer<kDestroy>>;

using Context = Owner<ibv_context, ibv_close_device>;
using Channel = Owner<ibv_comp_channel, ibv_destroy_comp_channel>;
using Pd = Owner<ibv_pd, ibv_dealloc_pd>;
using Cq = Owner<ibv_cq, ibv_destroy_cq>;
using Mr = Owner<ibv_mr, ibv_dereg_mr>;
using Mw = Owner<ibv_mw, dealloc_mw>;
using Ah = Owner<ibv_ah, ibv_destroy_ah>;
using Srq = Owner<ibv_srq, ibv_destroy_srq>;
using Xrcd = Owner<ibv_xrcd, close_xrcd>;
using Qp = Owner<ibv_qp, ibv_destroy_qp>;

}  // namespace hbmwire::conformance
