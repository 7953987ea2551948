# SPDX-License-Identifier: MIT
"""Replaces Intel Gaudi's PyTorch bridge, of which hbmwire calls one function."""
