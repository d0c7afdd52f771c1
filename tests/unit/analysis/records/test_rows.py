"""Selection of rows by conditions, as figures and claims have them."""

import pandas as pd

from storelab.analysis.records.selection import select


def test_conditions_select_rows():
    """The smallest and largest values are those of the rows that the other conditions select."""
    table = pd.DataFrame({"a": [1, 1, 2, 3], "b": [5, 4, 3, 9]})
    cases = [
        *[({"b": "least"}, [2]), ({"b": "most"}, [3]), ({"a": 1, "b": "least"}, [1]), ({"a": 1, "b": "most"}, [0])],
        *[({"a": ">= 2", "b": "least"}, [2]), ({"c": 1}, []), ({"a": 7, "b": "least"}, []), ({"a": [2, 3]}, [2, 3])],
        *[({"a": "> 1"}, [2, 3]), ({"a": "<=1", "b": "< 5"}, [1]), ({}, [0, 1, 2, 3])],
    ]
    for where, kept in cases:
        assert select(table, where).index.tolist() == kept, where
