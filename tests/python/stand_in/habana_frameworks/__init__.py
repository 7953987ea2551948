# SPDX-License-Identifier: MIT
"""Stands in for Intel Gaudi's PyTorch bridge, of which hbmwire calls one function."""
