# SPDX-License-Identifier: MIT
"""The calling side of hbmwire.nixl and hbmwire.mooncake, as vLLM, LMCache and SGLang play it."""
