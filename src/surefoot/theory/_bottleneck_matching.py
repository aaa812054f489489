"""Bottleneck matching: the couplings that move nothing far."""

import math

import numpy as np
from numpy.typing import NDArray


def bottleneck(distances: NDArray[np.float64]) -> float:
    """The least r for which mass spread evenly over A rows and over B columns can be matched within distance r.

    With A = B, a permutation that moves nothing further than r (Birkhoff: a coupling exists only if a permutation
    does); otherwise a flow in units of which a row has B / gcd and a column A / gcd. A search over the distances
    themselves, starting from the largest that some row or column must cover to its nearest. Costs a matching, or a
    maximal flow, per halving.

    >>> bottleneck(np.array([[0.0, 1.0], [3.0, 2.0]]))
    2.0
    """
    least = max(distances.min(axis=1).max(), distances.min(axis=0).max())
    candidates = np.unique(distances[distances >= least])
    high = 1
    while high < len(candidates) and not _coupled(distances <= candidates[high - 1]):
        high *= 2  # from below: the answer is near the least, and graphs there have few edges
    low, high = high // 2, min(high, len(candidates))  # the first `high` suffice, the first `low` do not
    while high - low > 1:
        middle = (low + high) // 2
        if _coupled(distances <= candidates[middle - 1]):
            high = middle
        else:
            low = middle
    return float(candidates[high - 1])


def _coupled(allowed: NDArray[np.bool_]) -> bool:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching, maximum_flow

    num_rows, num_columns = allowed.shape
    if num_rows == num_columns:
        return bool((maximum_bipartite_matching(csr_array(allowed), perm_type="column") >= 0).all())
    shared = math.gcd(num_rows, num_columns)
    supply, demand = num_columns // shared, num_rows // shared
    rows, columns = allowed.nonzero()
    source, sink = num_rows + num_columns, num_rows + num_columns + 1
    starts = [np.full(num_rows, source), rows, num_rows + np.arange(num_columns)]
    ends = [np.arange(num_rows), num_rows + columns, np.full(num_columns, sink)]
    units = [np.full(num_rows, supply), np.full(len(rows), supply), np.full(num_columns, demand)]
    where = (np.concatenate(starts), np.concatenate(ends))
    graph = csr_array((np.concatenate(units).astype(np.int32), where), shape=(sink + 1, sink + 1))
    return bool(maximum_flow(graph, source, sink).flow_value == num_rows * supply)
