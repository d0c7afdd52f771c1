"""How every axis reads, as a person checks it: over a column, and its values in a sentence (figures, tables and TeX say no other words)."""

import pytest

from storelab.analysis.parts import words
from storelab.core import axes

# column -> heading, value -> what is said
READS = {
    'clients': ('Clients', {1: '1 client', 3: '3 clients'}),
    'workers': ('Workers', {1: '1 worker per client', 3: '3 workers per client'}),
    'buckets': ('Buckets', {1: '1 bucket', 3: '3 buckets'}),
    'accounts': ('Accounts', {1: '1 account', 3: '3 accounts'}),
    'front_ends': ('Front-ends', {1: '1 front-end', 3: '3 front-ends'}),
    'part_size_bytes': ('Parts', {0: '', 4000: 'parts of 4 kB'}),
    'parallel_parts': ('Parallel parts', {0: '', 1: '1 part at a time', 3: '3 parts at a time'}),
    'batch': ('Objects a request', {1: '1 object a request', 3: '3 objects a request'}),
    'offset': ('Offset', {'random': 'random places', '1MB': 'at 1MB'}),
    'range_size_bytes': ('Range', {4000: 'ranges of 4 kB'}),
    'object_size_bytes': ('Objects', {4000: '4 kB objects'}),
    'working_set_bytes': ('Working set', {0: '', 4000: 'working set of 4 kB'}),
    'keys_per_worker': ('Keys per worker', {1: '1 key per worker', 3: '3 keys per worker'}),
    'deletions_percent': ('Deletions [%]', {25.0: '25 % deletions'}),
    'keys': ('Keys', {1: '1 key', 3: '3 keys'}),
    'page_size': ('Page', {1: 'pages of 1', 3: 'pages of 3'}),
    'prefix_depth': ('Depth', {0: '', 1: '1 folder deep', 3: '3 folders deep'}),
    'scale': ('File', {'x': 'file x'}),
    'entry_fraction_percent': ('Entries [%]', {25.0: '25 % of entries'}),
    'volume_fraction_percent': ('Volume [%]', {25.0: '25 % of volume'}),
    'merge': ('Merge', {'planned': 'planned', 'gap': 'fixed gap'}),
    'max_range_gap_bytes': ('Gap', {0: 'gap 0 B', 4000: 'gap 4 kB'}),
    'thrift': ('Thrift', {0: '', 1: 'thrift 1', 3: 'thrift 3'}),
    'max_amplification': ('At most', {0: '', 1: 'at most 1×', 3: 'at most 3×'}),
    'navigation': ('Navigation', {'scan': 'scan', 'random': 'random navigation'}),
    'cache': ('Cache', {'none': 'no cache', 'readahead': 'cache readahead', 'bytes': 'cache bytes', 'blockcache': 'cache blockcache', 'all': 'whole file kept'}),
    'read_ahead_bytes': ('Read-ahead', {0: '', 4000: '4 kB read ahead'}),
    'step': ('Step', {1: 'steps of 1 event', 3: 'steps of 3 events'}),
    'files': ('Files', {1: '1 file', 3: '3 files'}),
    'engine': ('Engine', {'x': 'x'}),
    'arrival_rate': ('Due/s', {0: 'closed loop', 1: 'open loop, 1 operations/s due', 3: 'open loop, 3 operations/s due'}),
    'arrivals': ('Arrivals', {'even': '', 'poisson': 'Poisson arrivals'}),
    'balance': ('Balance', {'client': 'balance client', 'round_robin': 'balance round_robin', 'least_load': 'balance least_load'}),
    'payload': ('Payload', {'default': 'payload default', 'unsigned': 'payload unsigned', 'sha256': 'payload sha256'}),
    'ledger': ('Ledger', {'none': 'ledger none', 'kept': 'ledger kept'}),
    'codec': ('Codec', {'zstd': 'codec zstd', 'lz4': 'codec lz4', 'zlib': 'codec zlib'}),
    'transport': ('Transport', {'default': 'transport default', 'http': 'transport http'}),
    'access': ('Access', {'warm': 'access warm', 'cold': 'access cold'}),
    'header': ('Header', {'read': 'header read', 'cached': 'header cached'}),
    'connections': ('Connections', {1: 'connections 1', 3: 'connections 3'}),
    'split_bytes': ('Split', {0: 'split bytes 0', 4000: 'split bytes 4000'}),
    'most_buckets': ('Most buckets', {0: 'most buckets 0', 1: 'most buckets 1', 3: 'most buckets 3'}),
    'clients_per_node': ('Clients per node', {0: 'clients per node 0', 1: 'clients per node 1', 3: 'clients per node 3'}),
    'redundancy': ('Redundancy', {'default': '', 'x': 'x'}),
    'servers': ('Data servers', {0: '', 1: '1 data server', 3: '3 data servers'}),
    'backing': ('Backing', {'default': '', 'disk': 'on disk', 'tmpfs': 'on tmpfs', 'memory': 'on memory'}),
    'scheme': ('Scheme', {'default': '', 'http': 'http', 'https': 'https'}),
    'mix': ('Mix', {'x': 'mix x'}),
    'sizes': ('Sizes', {'random': 'sizes random', '1MB': 'sizes 1MB'}),
    'pattern': ('Pattern', {'cvmfs': 'pattern cvmfs', 'tuned': 'pattern tuned'}),
    'days': ('Days', {1: '1 day', 3: '3 days'}),
    'expired': ('Expired', {'none': '', 'x': 'signature expired on days x'}),
    'keep': ('Kept', {1: '1 day kept', 3: '3 days kept'}),
    'stratum0': ('Stratum 0', {'none': '', 'x': 'stratum 0 on x'}),
    'start_files': ('Files', {1: 'starts of 1 files', 3: 'starts of 3 files'}),
    'applications': ('Applications', {1: '', 3: '3 applications'}),
    'client_cache': ('Client cache', {'none': 'cold clients', 'kept': 'warm clients'}),
    'http_cache': ('HTTP cache', {'none': 'no HTTP cache', 'squid': 'through Squid'}),
    'part': ('Part', {0: '', 1: 'part 1', 3: 'part 3'}),
    'fault': ('Fault', {'none': '', 'x': 'x'}),
    'fill': ('Full [%]', {0: '', 1: '1 % full', 3: '3 % full'}),
}  # fmt: skip


@pytest.mark.parametrize("column", READS)
def test_how_an_axis_reads(column):
    heading, said = READS[column]
    assert words.heading(column) == heading
    assert {value: words.value_text(column, value) for value in said} == said


def test_every_axis_is_in_the_table_with_all_that_may_be_chosen():
    assert {*READS} == {*axes.BY_COLUMN}
    for column, (_, said) in READS.items():
        axis = axes.BY_COLUMN[column]
        assert axis.kind != "text" or {*axis.choices} <= {*said}, column
