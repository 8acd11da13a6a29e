"""NumPy references that do not fit in one expression."""

import numpy as np


def dp4a(A: np.ndarray, B: np.ndarray, M: int, N: int, K4: int) -> np.ndarray:
    """`A` holds four signed bytes per int along its rows, `B` four along the depth for each column."""
    left = A.astype(np.int64)
    right = B.reshape(K4, N, 4).transpose(0, 2, 1).reshape(4 * K4, N).astype(np.int64)
    return (left @ right).astype(np.int32)
