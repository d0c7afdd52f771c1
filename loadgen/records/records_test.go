package records

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func plan(most int, open bool) *Plan {
	return &Plan{
		Client: 3, StartNs: 1_700_000_000_000_000_000, MostSingle: most, Open: open,
		Kinds:  []Kind{{Op: "GET", Bytes: 4000, Requests: 1}, {Op: "DELETE_MULTI", Requests: 1, Many: true}, {Op: "PUT", Bytes: 100, Requests: 4}},
		Object: func(kind, number int) string { return fmt.Sprintf("%d/%d", kind, number) },
	}
}

func TestPackedIsTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		o := Op{
			Start: rng.Int64N(1 << timeBits), Lasted: rng.Int64N(1 << timeBits), First: rng.Int64N(1 << timeBits), Kind: rng.IntN(7),
			Class: rng.IntN(mostClasses), Status: rng.IntN(1000), Object: rng.IntN(1 << 32), Endpoint: rng.IntN(MostEndpoints),
		}
		p := pack(&o)
		if got := p.unpack(); got != o {
			t.Fatalf("%+v came back as %+v", o, got)
		}
	}
}

func written(t *testing.T, k *Keeper) ([]row, Totals) {
	path := filepath.Join(t.TempDir(), "ops.parquet")
	totals, err := k.Write(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.ReadFile[row](path)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	return rows, totals
}

func TestSingle(t *testing.T) {
	p := plan(100, true)
	k := NewKeeper(p)
	w := k.Worker(7)
	w.Note(&Op{Start: 5, Lasted: 10, First: 4, Due: 2, Status: 200, Object: 11, Endpoint: 1})
	w.Note(&Op{Start: 20, Lasted: 10, Kind: 1, Object: 250, Status: 200})
	w.Note(&Op{Start: 40, Lasted: 5, Kind: 2, Object: 9, Class: p.Class("SlowDown"), Status: 503})
	w.Flush()
	rows, totals := written(t, k)
	at := p.StartNs
	want := []row{
		{Client: 3, Worker: 7, Op: "GET", Object: "0/11", Count: 1, Bytes: 4000, Requests: 1, StartNs: at + 5, FirstByteNs: at + 9, EndNs: at + 15, Status: 200, IntendedNs: at + 2, Endpoint: 1},
		{Client: 3, Worker: 7, Op: "DELETE_MULTI", Count: 250, Requests: 1, StartNs: at + 20, EndNs: at + 30, Status: 200, IntendedNs: at},
		{Client: 3, Worker: 7, Op: "PUT", Object: "2/9", Count: 1, Requests: 4, StartNs: at + 40, EndNs: at + 45, Status: 503, Error: "SlowDown", IntendedNs: at},
	}
	for i := range rows {
		if len(rows[i].LatencyHist) == 0 {
			rows[i].LatencyHist = nil
		}
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("rows are\n%+v\ninstead of\n%+v", rows, want)
	}
	if totals.Operations != 251 || totals.Errors != 1 || totals.Bytes != 4000 || totals.Rows != 3 || totals.Binned || totals.ByClass["SlowDown"] != 1 {
		t.Errorf("totals are %+v", totals)
	}
}

// Above the limit of single operations, all are in bins. None is lost or counted twice, for any worker that crosses the
// limit.
func TestBinned(t *testing.T) {
	for _, width := range []int64{0, BinNs / 4, 3 * BinNs} {
		binned(t, width)
	}
}

func binned(t *testing.T, width int64) {
	const n = 50_000
	p := plan(20_000, false)
	if p.BinNs = width; width == 0 {
		width = 100_000_000
	}
	k := NewKeeper(p)
	workers := []*Worker{k.Worker(0), k.Worker(1), k.Worker(2)}
	slow := p.Class("SlowDown")
	counts := map[[2]int64]int64{}
	for i := range n {
		o := Op{Start: int64(i) * 20_000, Lasted: 1_000_000 + int64(i%7)*100_000, Status: 200}
		if i%100 == 0 {
			o.Class, o.Status = slow, 503
		}
		counts[[2]int64{(o.Start + o.Lasted + width - 1) / width, int64(o.Class)}]++
		workers[i%3].Note(&o)
	}
	for _, w := range workers {
		w.Flush()
	}
	rows, totals := written(t, k)
	if totals.Operations != n-n/100 || totals.Errors != n/100 || totals.Bytes != 4000*(n-n/100) || !totals.Binned || int(totals.Rows) != len(rows) {
		t.Errorf("totals are %+v for %d rows", totals, len(rows))
	}
	for _, r := range rows {
		class := int64(0)
		if r.Error != "" {
			class = int64(slow)
		}
		sum := int64(0)
		for i, b := range r.LatencyHist {
			sum += b.Count
			if b.UpperNs < 1_000_000 || b.UpperNs > 1_640_000 || i > 0 && b.UpperNs <= r.LatencyHist[i-1].UpperNs {
				t.Errorf("bucket %+v of latencies of 1 to 1.6 ms", b)
			}
		}
		place := [2]int64{(r.EndNs - p.StartNs) / width, class}
		if r.Count != counts[place] || sum != r.Count || r.StartNs != 0 || r.Object != "" || r.Requests != int32(r.Count) {
			t.Errorf("row %+v has %d operations where there were %d", r, r.Count, counts[place])
		}
		delete(counts, place)
	}
	if len(counts) != 0 {
		t.Errorf("bins without a row: %v", counts)
	}
}

// Calculated by hand: the first bucket ends at 1 µs, each next one a fiftieth later, and includes its upper end. In an open
// loop, latency counts from the due time of the operation.
func TestLatenciesStandInTheirBuckets(t *testing.T) {
	for i := 1; i < len(edges); i++ {
		if wider := edges[i] - edges[i-1]; wider*50 > edges[i-1] || wider*50 <= edges[i-1]-50 {
			t.Fatalf("a bucket from %d to %d", edges[i-1], edges[i])
		}
	}
	for _, c := range []struct{ lasted, late, upper int64 }{
		{1, 0, 1000}, {1000, 0, 1000}, {1001, 0, 1020}, {1020, 0, 1020}, {1021, 0, 1040}, {1000, 21, 1040},
	} {
		k := NewKeeper(plan(1, c.late > 0))
		w := k.Worker(0)
		for range 3 {
			o := Op{Start: 5000, Lasted: c.lasted, Status: 200}
			if c.late > 0 {
				o.Due = 5000 - c.late
			}
			w.Note(&o)
		}
		w.Flush()
		rows, totals := written(t, k)
		if !totals.Binned || len(rows) != 1 || len(rows[0].LatencyHist) != 1 || rows[0].LatencyHist[0].UpperNs != c.upper || rows[0].LatencyHist[0].Count != 3 {
			t.Errorf("%d ns, begun %d ns late, not in the bucket up to %d: %+v", c.lasted, c.late, c.upper, rows)
		}
	}
}

func TestClasses(t *testing.T) {
	p := plan(1, false)
	for i := range 300 {
		if n := p.Class(fmt.Sprint("class", i)); n < 1 || n >= mostClasses {
			t.Fatalf("class %d has number %d", i, n)
		}
	}
	if p.Class("class5") != 6 || p.Class("class299") != p.Class("class298") {
		t.Error("classes changed their numbers")
	}
}

func BenchmarkNote(b *testing.B) {
	k := NewKeeper(plan(1<<40, false))
	w := k.Worker(0)
	o := Op{Start: 1, Lasted: 2, Status: 200}
	b.ReportAllocs()
	for b.Loop() {
		w.Note(&o)
		if k.n > 1<<20 {
			k.chunks, k.n = nil, 0
		}
	}
}

// For whole listings the number is the number of their pages. Each counts all keys of its folder, as a single operation
// and in bins.
func TestPaged(t *testing.T) {
	for _, most := range []int{100, 1} {
		p := plan(most, false)
		p.Kinds = append(p.Kinds, Kind{Op: "LIST", Requests: 3, Paged: true, Count: 250})
		k := NewKeeper(p)
		w := k.Worker(0)
		for pages := 1; pages <= 5; pages++ {
			o := Op{Start: int64(pages), Lasted: 10, Kind: 3, Object: pages, Status: 200}
			if pages == 5 {
				o.Class = p.Class("KeyMissing")
			}
			w.Note(&o)
		}
		w.Flush()
		rows, totals := written(t, k)
		requests, count := map[string]int32{}, map[string]int64{}
		for _, r := range rows {
			requests[r.Error], count[r.Error] = requests[r.Error]+r.Requests, count[r.Error]+r.Count
			if r.Object != "" || r.Op != "LIST" {
				t.Errorf("%+v", r)
			}
		}
		if requests[""] != 1+2+3+4 || requests["KeyMissing"] != 5 || count[""] != 1000 || count["KeyMissing"] != 250 {
			t.Errorf("%v pages, %v keys", requests, count)
		}
		if totals.Operations != 1000 || totals.Errors != 250 || totals.Binned != (most == 1) {
			t.Errorf("totals are %+v", totals)
		}
	}
}
