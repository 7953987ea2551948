# SPDX-License-Identifier: MIT
"""Imitates the calls of vLLM, LMCache and SGLang to hbmwire.nixl and hbmwire.mooncake."""
