"""Known S3 systems with their documented limits. Sources: the evaluations that storelab builds on.

Zotes Resines, CERN openlab reviews (2012, 2013); Arsuaga-Rios et al., J. Phys.: Conf. Ser. 664 (2015) 022001, its
Table 1.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """What a system is and may.

    front_ends: of the documented installation, None where unknown; buckets_per_account: the most; multipart: whether it
    takes uploads in parts; multi_range: whether it answered a GET of several ranges with all of them.
    """

    system: str
    front_ends: int | None
    buckets_per_account: int
    multipart: bool
    multi_range: bool


PRESETS = {
    "amazon-s3": Preset("Amazon S3", None, 100, True, False),
    "huawei-uds-1": Preset("Huawei UDS, generation 1", 7, 100, False, True),
    "huawei-uds-2": Preset("Huawei UDS, generation 2 (OceanStor V100R002C00)", 4, 100, True, True),
}
