"""tilepipe: software-pipeline the tile loop of a CUDA kernel, and prove what was done."""

__version__ = "0.1.0"
