package load

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"storelab/loadgen/job"
)

// row is the part of the records that the tests check.
type row struct {
	Worker     int16  `parquet:"worker,optional"`
	Op         string `parquet:"op,optional"`
	Object     string `parquet:"object,optional"`
	Count      int64  `parquet:"count,optional"`
	Bytes      int64  `parquet:"bytes,optional"`
	Requests   int32  `parquet:"requests,optional"`
	StartNs    int64  `parquet:"start_ns,optional"`
	FirstNs    int64  `parquet:"first_byte_ns,optional"`
	EndNs      int64  `parquet:"end_ns,optional"`
	Status     int16  `parquet:"status,optional"`
	Error      string `parquet:"error,optional"`
	IntendedNs int64  `parquet:"intended_ns,optional"`
	Endpoint   int16  `parquet:"endpoint,optional"`
}

const (
	size  = 100
	drain = 300 * time.Millisecond
)

// lab has a job for a server, with two bodies of 100 B.
type lab struct {
	*testing.T
	values map[string]any
	bodies [][]byte
	path   string
}

func newLab(t *testing.T, urls ...string) *lab {
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	folder := t.TempDir()
	l := &lab{T: t, path: filepath.Join(folder, "ops.parquet")}
	var names []string
	for i := range 2 {
		body := make([]byte, size)
		for j := range body {
			body[j] = byte(i*size + j)
		}
		l.bodies = append(l.bodies, body)
		names = append(names, filepath.Join(folder, fmt.Sprint("body", i)))
		if err := os.WriteFile(names[i], body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var ends []any
	for _, u := range urls {
		ends = append(ends, map[string]any{"url": u, "region": "us-east-1", "addressing": "path"})
	}
	l.values = map[string]any{
		"schema": 1, "endpoints": ends, "buckets": []string{"b"}, "workers": 2, "records": l.path, "object_size": size, "bodies": names,
		"uploads": []any{map[string]any{"bucket": 0, "prefix": "put/"}}, "timeout_s": 0.4, "drain_s": drain.Seconds(),
	}
	return l
}

func (l *lab) with(op string, more map[string]any) *lab {
	l.values["operations"] = []any{map[string]any{"op": op}}
	for k, v := range more {
		l.values[k] = v
	}
	return l
}

// objects adds n objects below a prefix to the server, and their names to the job.
func (l *lab) objects(s *server, prefix string, n int) *lab {
	var keys []string
	var buckets, bodies []int
	for i := range n {
		keys, buckets, bodies = append(keys, fmt.Sprintf("%s/%d", prefix, i)), append(buckets, 0), append(bodies, i%2)
		s.put(keys[i], l.bodies[i%2])
	}
	l.values["objects"] = map[string]any{"key": keys, "bucket": buckets, "body": bodies}
	return l
}

func (l *lab) job() *job.Job {
	text, err := json.Marshal(l.values)
	if err != nil {
		l.Fatal(err)
	}
	j, err := job.Parse(text)
	if err != nil {
		l.Fatal(err)
	}
	return j
}

func (l *lab) run(seconds float64) ([]row, Summary) {
	j := l.job()
	r, err := New(j)
	if err != nil {
		l.Fatal(err)
	}
	if err := r.Connect(); err != nil {
		l.Fatal(err)
	}
	return l.done(r, j, seconds)
}

func (l *lab) done(r *Run, j *job.Job, seconds float64) ([]row, Summary) {
	j.StartNs = time.Now().UnixNano()
	j.DeadlineNs = j.StartNs + int64(seconds*1e9)
	var last Sums
	out := r.Do(func(s Sums) { last = s })
	took := float64(time.Now().UnixNano()-j.DeadlineNs) / 1e9
	if took > j.DrainS+j.TimeoutS+1 {
		l.Errorf("ended %.1f s after the deadline", took)
	}
	if err := r.Write(&out); err != nil {
		l.Fatal(err)
	}
	rows, err := parquet.ReadFile[row](l.path)
	if err != nil {
		l.Fatal(err)
	}
	if int64(len(rows)) != out.Rows {
		l.Errorf("%d rows, and the summary says %d", len(rows), out.Rows)
	}
	var sums Sums // for comparison with the limits, and shown as progress
	for _, o := range rows {
		switch {
		case o.Error == "":
			sums.Operations += o.Count
			sums.Bytes += o.Bytes
		case o.Error != classHung:
			sums.Errors += o.Count
			fallthrough
		default:
			if o.FirstNs != 0 || o.Bytes != 0 {
				l.Errorf("a failed operation with a first byte, or bytes: %+v", o)
			}
		}
	}
	if last.Operations != sums.Operations || last.Bytes != sums.Bytes || last.Errors != sums.Errors {
		l.Errorf("the last progress %+v, and the records %+v", last, sums)
	}
	for _, r := range rows {
		if r.StartNs < j.StartNs || r.EndNs < r.StartNs || (r.FirstNs != 0 && (r.FirstNs < r.StartNs || r.FirstNs > r.EndNs)) {
			l.Errorf("times out of order: %+v", r)
		}
	}
	return rows, out
}

func TestGet(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("GET", map[string]any{"verify": 1, "workers": 3}).objects(s, "data", 5)
	rows, out := l.run(0.3)
	seen, workers := map[string]int{}, map[int16]int{}
	for _, r := range rows {
		if r.Error != "" || r.Bytes != size || r.Count != 1 || r.Status != 200 || r.FirstNs == 0 || r.Op != "GET" || r.IntendedNs != 0 {
			t.Fatalf("row %+v", r)
		}
		seen[r.Object]++
		workers[r.Worker]++
	}
	if len(seen) != 5 || len(workers) != 3 || out.Compared != int64(len(rows)) || out.Differ != 0 || out.Hung != 0 {
		t.Errorf("objects %v, workers %v, %+v", seen, workers, out)
	}
	if out.Dials != 3 || out.Connections != 3 || len(s.opened) != 3 {
		t.Errorf("%d dials, %d connections, %d at the server, by 3 workers", out.Dials, out.Connections, len(s.opened))
	}
}

func TestTimesAreThoseOfTheCoordinatorsClock(t *testing.T) {
	const off = int64(3600e9)
	t.Setenv(ClockOffset, fmt.Sprint(off))
	s := serve(t, false)
	l := newLab(t, s.URL).with("GET", map[string]any{"workers": 1}).objects(s, "data", 5)
	j := l.job()
	r, err := New(j)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Connect(); err != nil {
		t.Fatal(err)
	}
	j.StartNs = time.Now().UnixNano() + off
	j.DeadlineNs = j.StartNs + int64(3e8)
	out := r.Do(func(Sums) {})
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.ReadFile[row](l.path)
	if err != nil || len(rows) == 0 || rows[0].StartNs < j.StartNs || rows[len(rows)-1].EndNs > j.DeadlineNs+int64(2e9) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	t.Setenv(ClockOffset, "noon")
	if _, err := New(l.job()); err == nil {
		t.Fatal("an offset that is not a number was accepted")
	}
}

func TestAnswersOfOtherForms(t *testing.T) {
	s := serve(t, false)
	for _, kind := range []string{"chunked", "close"} {
		l := newLab(t, s.URL).with("GET", map[string]any{"verify": 1}).objects(s, kind, 4)
		if rows, out := l.run(0.2); len(rows) < 4 || out.Errors != 0 || out.Compared != out.Operations {
			t.Errorf("%s: %d rows, %+v", kind, len(rows), out)
		}
	}
}

func TestPut(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("PUT", map[string]any{"first_put": 1, "uploads": []any{
		map[string]any{"bucket": 0, "prefix": "a/"}, map[string]any{"bucket": 0, "prefix": "b c+ü/"}}})
	rows, out := l.run(0.2)
	if out.Errors != 0 || s.count() != len(rows) || !s.hashes["UNSIGNED-PAYLOAD"] {
		t.Errorf("%d rows, %d objects, %+v", len(rows), s.count(), out)
	}
	for _, r := range rows {
		var n int
		fmt.Sscanf(r.Object[strings.Index(r.Object, "/"):], "/%08d", &n)
		if string(s.objects[r.Object]) != string(l.bodies[n%2]) || (n%2 == 0) != strings.HasPrefix(r.Object, "b c+ü/") || r.FirstNs != 0 {
			t.Fatalf("upload %+v", r)
		}
	}
	sum := sha256.Sum256(l.bodies[0])
	newLab(t, s.URL).with("PUT", map[string]any{"payload": "sha256"}).run(0.1)
	if !s.hashes[hex.EncodeToString(sum[:])] {
		t.Errorf("payload sha256: hashes %v", s.hashes)
	}
}

func TestRanges(t *testing.T) {
	s := serve(t, false)
	for _, c := range []struct{ offset, kind, class string }{
		{"random", "data", ""}, {"sequential", "data", ""}, {"30", "data", ""}, {"30", "whole", "NotPartial"}, {"30", "shifted", "WrongAnswer"},
		{"30", "hanghalf", "NotPartial"}, // the answer is the whole object, whose bytes are not awaited
	} {
		l := newLab(t, s.URL).with("GET_RANGE", map[string]any{"verify": 1, "range": map[string]any{"length": 10, "offset": c.offset}})
		rows, out := l.objects(s, c.kind, 3).run(0.15)
		for _, r := range rows {
			if r.Error != c.class || (c.class == "") != (r.Bytes == 10) {
				t.Fatalf("%s of %s: row %+v", c.offset, c.kind, r)
			}
		}
		if len(rows) < 10 || out.Differ != 0 {
			t.Errorf("%s of %s: %d rows, %+v", c.offset, c.kind, len(rows), out)
		}
	}
}

func TestRandomRangesLieAllOverTheObject(t *testing.T) {
	j := &job.Job{ObjectSize: 1000, Range: job.Range{Length: 10, Offset: "random"}, Objects: job.Objects{Key: []string{"k"}, Bucket: []int{0}}}
	next := ranges(shuffled(j))(j, 0, sourcesRng(1))
	var at task
	least, most := int64(1000), int64(0)
	for range 2000 {
		if next(&at); at.from < 0 || at.to != at.from+10 || at.to > 1000 {
			t.Fatalf("range [%d, %d) of 1000 bytes", at.from, at.to)
		}
		least, most = min(least, at.from), max(most, at.to)
	}
	if least > 20 || most < 980 {
		t.Errorf("2000 ranges are between %d and %d of 1000 bytes", least, most)
	}
}

func TestSequentialRangesCoverTheObject(t *testing.T) {
	for _, c := range []struct {
		size int64
		want []int64
	}{{25, []int64{0, 10, 0, 10}}, {20, []int64{0, 10, 0, 10}}, {10, []int64{0, 0}}} {
		j := &job.Job{ObjectSize: c.size, Range: job.Range{Length: 10, Offset: "sequential"}, Objects: job.Objects{Key: []string{"k"}, Bucket: []int{0}}}
		next := ranges(shuffled(j))(j, 0, sourcesRng(1))
		var at task
		for _, want := range c.want {
			if next(&at); at.from != want || at.to != want+10 {
				t.Errorf("of %d bytes: range [%d, %d) instead of %d", c.size, at.from, at.to, want)
			}
		}
	}
}

func TestOnceEachObjectIsReadByOneWorkerAndTheRunEnds(t *testing.T) {
	for _, c := range []struct{ n, workers int }{{1, 1}, {12, 5}, {3, 8}, {97, 4}} {
		j := &job.Job{Seed: 5, Workers: c.workers, Once: true, ObjectSize: 25, Range: job.Range{Length: 10, Offset: "sequential"}}
		for i := range c.n {
			j.Objects.Key, j.Objects.Bucket = append(j.Objects.Key, fmt.Sprint(i)), append(j.Objects.Bucket, 0)
		}
		whole, parts := map[int]int{}, map[string]int{}
		for w := range c.workers {
			next, ranged := reads(shuffled(j))(j, w, sourcesRng(2)), ranges(shuffled(j))(j, w, sourcesRng(3))
			var at task
			for next(&at) {
				whole[at.number]++
			}
			for ranged(&at) {
				parts[fmt.Sprint(at.number, " ", at.from)]++
			}
			if next(&at) || ranged(&at) {
				t.Error("more than all")
			}
		}
		if len(whole) != c.n || len(parts) != 2*c.n {
			t.Errorf("%d objects and %d ranges of %d objects", len(whole), len(parts), c.n)
		}
		for what, times := range parts {
			if times != 1 {
				t.Errorf("range %s %d times", what, times)
			}
		}
		for what, times := range whole {
			if times != 1 {
				t.Errorf("object %d %d times", what, times)
			}
		}
	}
}

func TestReadsTakeEachObjectOnceATurn(t *testing.T) {
	for _, n := range []int{1, 2, 12, 97} {
		j := &job.Job{Seed: 5}
		for i := range n {
			j.Objects.Key, j.Objects.Bucket = append(j.Objects.Key, fmt.Sprint(i)), append(j.Objects.Bucket, 0)
		}
		next := reads(shuffled(j))(j, 0, sourcesRng(2))
		for range 3 {
			seen := map[int]bool{}
			for range n {
				var at task
				next(&at)
				seen[at.number] = true
			}
			if len(seen) != n {
				t.Errorf("%d of %d objects in a turn", len(seen), n)
			}
		}
	}
}

func TestHeadDeleteList(t *testing.T) {
	s := serve(t, false)
	rows, out := newLab(t, s.URL).with("HEAD", nil).objects(s, "data", 7).run(0.1)
	if len(rows) < 7 || out.Errors != 0 || rows[0].Bytes != 0 {
		t.Errorf("HEAD: %+v", out)
	}
	wrong := serve(t, false)
	for place, want := range map[string]int16{"short": 0, "partial": 0, "slowdown": 503} {
		rows, out = newLab(t, wrong.URL).with("HEAD", nil).objects(wrong, place, 2).run(0.05)
		class := map[int16]string{0: "WrongAnswer", 503: "Http503"}[want]
		if len(rows) == 0 || out.Operations != 0 || rows[0].Error != class || want != 0 && rows[0].Status != want {
			t.Errorf("HEAD of %s/: %+v", place, rows)
		}
	}
	l := newLab(t, s.URL).with("LIST", map[string]any{"list_prefix": "data/", "workers": 1})
	rows, out = l.run(0.1)
	if len(rows) < 3 || rows[0].Count != 3 || rows[1].Count != 3 || rows[2].Count != 1 || out.Errors != 0 {
		t.Errorf("LIST: %+v %+v", rows[:3], out)
	}
	rows, out = newLab(t, s.URL).with("LIST", map[string]any{"list_prefix": "slowdown/", "workers": 1}).run(0.1)
	for _, r := range rows {
		if r.Count != 1 || r.Error != "SlowDown" || r.Status != 503 {
			t.Errorf("a listing that failed is one operation: %+v", r)
		}
	}
	if out.Errors != int64(len(rows)) || len(rows) == 0 {
		t.Errorf("LIST refused: %d rows, %+v", len(rows), out)
	}
	rows, out = newLab(t, s.URL).with("DELETE", nil).objects(s, "data", 7).run(0.5)
	if len(rows) != 7 || out.Operations != 7 || s.count() != 0 || rows[0].Status != 204 {
		t.Errorf("DELETE: %d rows, %d left, %+v", len(rows), s.count(), out)
	}
	rows, out = newLab(t, s.URL).with("DELETE_MULTI", map[string]any{"batch": 3}).objects(s, "data", 7).run(0.5)
	if len(rows) != 3 || out.Operations != 7 || s.count() != 0 || rows[0].Object != "" {
		t.Errorf("DELETE_MULTI: %+v, %d left, %+v", rows, s.count(), out)
	}
	_, out = newLab(t, s.URL).with("DELETE_MULTI", map[string]any{"batch": 3}).objects(s, "kept", 3).run(0.5)
	if out.Errors != 3 || out.ByClass["AccessDenied"] != 3 {
		t.Errorf("DELETE_MULTI of what may not be deleted: %+v", out)
	}
}

func TestParts(t *testing.T) {
	s := serve(t, false)
	parts := map[string]any{"part_size": 30, "parallel_parts": 2, "verify": 1}
	rows, out := newLab(t, s.URL).with("PUT", parts).run(0.2)
	if out.Errors != 0 || s.count() != len(rows) || len(s.objects["put/00000001"]) != size || out.Requests["PUT"] != 6 {
		t.Errorf("PUT: %d objects, %+v", s.count(), out)
	}
	if out.Connections != 4 {
		t.Errorf("%d connections of 2 workers with 2 parts each", out.Connections)
	}
	rows, out = newLab(t, s.URL).with("GET", parts).objects(s, "data", 3).run(0.2)
	if out.Errors != 0 || rows[0].Bytes != size || out.Compared != 4*int64(len(rows)) || rows[0].FirstNs == 0 {
		t.Errorf("GET: %+v", out)
	}
	parts["uploads"] = []any{map[string]any{"bucket": 0, "prefix": "badpart/"}}
	rows, out = newLab(t, s.URL).with("PUT", parts).run(0.1)
	if out.Operations != 0 || out.ByClass["Http500"] != out.Errors || s.aborts != int(out.Errors) {
		t.Errorf("failed parts: %d aborts, %+v", s.aborts, out)
	}
	for _, r := range rows { // time of the part, not of the whole upload
		if r.Status != 500 {
			t.Errorf("a failed part: %+v", r)
		}
	}
}

func TestMix(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).objects(s, "data", 3)
	l.values["operations"] = []any{map[string]any{"op": "GET", "share": 3}, map[string]any{"op": "PUT"}, map[string]any{"op": "DELETE", "share": 0.1}}
	rows, _ := l.run(0.4)
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.Op]++
	}
	if share := float64(counts["GET"]) / float64(len(rows)); share < 0.65 || share > 0.85 || counts["PUT"] == 0 || counts["DELETE"] != 3 {
		t.Errorf("mix of %v", counts)
	}
}

// Every fault becomes a class in the records, and never ends the run.
func TestFaults(t *testing.T) {
	s := serve(t, false)
	closed := serve(t, false)
	for _, c := range []struct{ kind, class string }{
		{"half", "ConnectionClosed"}, {"nothing", "ConnectionClosed"}, {"reset", "ConnectionReset"}, {"hang", "Timeout"}, {"hanghalf", "Timeout"},
		{"slowdown", "SlowDown"}, {"bare", "Http502"}, {"short", "WrongAnswer"}, {"other", "WrongAnswer"}, {"garbage", "BadAnswer"}, {"", "NoSuchKey"},
	} {
		for _, op := range []string{"GET", "PUT"} {
			if op == "PUT" && (c.kind == "short" || c.kind == "other" || c.kind == "" || c.kind == "hanghalf" || c.kind == "half") {
				continue
			}
			l := newLab(t, s.URL).with(op, map[string]any{"verify": 1, "uploads": []any{map[string]any{"bucket": 0, "prefix": c.kind + "/"}}})
			if l.objects(s, c.kind, 2); c.kind == "" { // objects that do not exist
				l.values["objects"] = map[string]any{"key": []string{"missing"}, "bucket": []int{0}, "body": []int{0}}
			}
			rows, out := l.run(0.6)
			seen := out.ByClass[c.class]
			if c.class == "Timeout" { // the second operation of a worker
				seen += out.ByClass["Hung"]
			}
			if out.Operations != 0 || out.ByClass[c.class] == 0 || seen != out.Errors || len(out.Messages[c.class]) < 5 {
				t.Errorf("%s %s: %+v", op, c.kind, out)
			}
			for _, r := range rows {
				if r.Bytes != 0 || (c.kind == "slowdown") != (r.Status == 503) {
					t.Errorf("%s %s: row %+v", op, c.kind, r)
				}
			}
		}
	}
	closed.Close()
	if _, out := newLab(t, closed.URL).with("PUT", nil).run(0.1); out.ByClass["ConnectionRefused"] == 0 || out.Operations != 0 {
		t.Errorf("no server: %+v", out)
	}
}

// If a server dies during a run, earlier operations are kept, the others are errors, and the run ends on time.
func TestServerDies(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("GET", nil).objects(s, "data", 3)
	go func() {
		time.Sleep(200 * time.Millisecond)
		s.Listener.Close()
		s.CloseClientConnections()
	}()
	_, out := l.run(0.6)
	if out.Operations == 0 || out.ByClass["ConnectionRefused"] == 0 {
		t.Errorf("%+v", out)
	}
}

// Operations in flight at the end of `drain_s` hung. Each is a row of a separate class, and lasted until then.
func TestHung(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("GET", map[string]any{"timeout_s": 30}).objects(s, "hang", 3)
	begun := time.Now()
	rows, out := l.run(0.2)
	if len(rows) != 2 || out.Hung != 2 || out.Errors != 2 || out.ByClass["Hung"] != 2 || time.Since(begun) > time.Second {
		t.Fatalf("%d rows, %+v, after %s", len(rows), out, time.Since(begun))
	}
	ends, held := begun.Add(200*time.Millisecond+drain), 0.0
	for _, r := range rows {
		if r.Error != "Hung" || r.Bytes != 0 || r.Status != 0 || r.FirstNs != 0 || r.Count != 1 {
			t.Errorf("%+v", r)
		}
		if off := time.Duration(r.EndNs - ends.UnixNano()); off < 0 || off > 300*time.Millisecond || r.EndNs != rows[0].EndNs {
			t.Errorf("given up %s after the drain", off)
		}
		held += float64(r.EndNs-int64(drain)-r.StartNs) / 1e9
	}
	if math.Abs(out.HungS-held) > 1e-9 || held < 0.2 || held > 0.4 {
		t.Errorf("held %g s, by the rows %g s", out.HungS, held)
	}
	if out.Messages["Hung"] == "" {
		t.Error("no message")
	}
}

// An operation that ends within the drain did not hang.
func TestDrained(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("GET", map[string]any{"drain_s": 5, "workers": 1}).objects(s, "slow", 3)
	rows, out := l.run(0.05)
	if len(rows) != 1 || out.Hung != 0 || out.Errors != 0 || rows[0].Error != "" {
		t.Errorf("%d rows, %+v", len(rows), out)
	}
}

func TestStop(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("GET", nil).objects(s, "slow", 3)
	j := l.job()
	r, err := New(j)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, r.Stop)
	begun := time.Now()
	rows, out := l.done(r, j, 60)
	if len(rows) == 0 || out.Hung != 0 || out.Errors != 0 || time.Since(begun) > 2*time.Second {
		t.Errorf("%d rows, %+v, after %s", len(rows), out, time.Since(begun))
	}
}

// Open loop: operations are due at a constant rate. If one waits for a worker, its latency counts from its due time.
func TestOpenLoop(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("GET", map[string]any{"rate": 200, "rate_first": 1, "rate_stride": 2, "workers": 1}).objects(s, "data", 3)
	rows, out := l.run(0.5)
	if len(rows)+int(out.NotBegun) != 50 || out.NotBegun > 2 {
		t.Errorf("%d begun, %d not, of 50", len(rows), out.NotBegun)
	}
	for i, r := range rows {
		if r.StartNs < r.IntendedNs || (i > 0 && r.IntendedNs-rows[i-1].IntendedNs != 10_000_000) {
			t.Errorf("due at %d, begun %d", r.IntendedNs, r.StartNs)
		}
	}
	l = newLab(t, s.URL).with("GET", map[string]any{"rate": 100, "workers": 1}).objects(s, "slow", 3) // each takes 50 ms, one is due every 10 ms
	rows, out = l.run(0.5)
	if last := rows[len(rows)-1]; last.EndNs-last.IntendedNs < 300_000_000 || out.NotBegun < 30 || len(rows)+int(out.NotBegun) != 50 {
		t.Errorf("late by %d ns, %d begun, %d not", last.EndNs-last.IntendedNs, len(rows), out.NotBegun)
	}
}

func TestBalance(t *testing.T) {
	a, b := serve(t, false), serve(t, false)
	for _, balance := range []string{"worker", "round_robin", "least_load"} {
		l := newLab(t, a.URL, b.URL).with("GET", map[string]any{"balance": balance, "workers": 4}).objects(a, "data", 3).objects(b, "data", 3)
		rows, out := l.run(0.3)
		counts := [2]int{}
		for _, r := range rows {
			counts[r.Endpoint]++
			if balance == "worker" && r.Endpoint != r.Worker%2 {
				t.Fatalf("worker %d at endpoint %d", r.Worker, r.Endpoint)
			}
		}
		want := map[string]int64{"worker": 4, "round_robin": 8, "least_load": 8}[balance]
		if counts[0] < len(rows)/4 || counts[1] < len(rows)/4 || out.Errors != 0 || out.Connections != want {
			t.Errorf("%s: %v, %+v", balance, counts, out)
		}
	}
	// With "least_load", a slow endpoint gets fewer operations.
	slow := serve(t, false)
	slow.pace = 20 * time.Millisecond
	l := newLab(t, a.URL, slow.URL).with("GET", map[string]any{"balance": "least_load", "workers": 4}).objects(a, "data", 3).objects(slow, "data", 3)
	rows, _ := l.run(0.3)
	counts := [2]int{}
	for _, r := range rows {
		counts[r.Endpoint]++
	}
	if counts[1] == 0 || counts[0] < 3*counts[1] {
		t.Errorf("least_load gave %v to a quick and a slow endpoint", counts)
	}
}

func TestTLS(t *testing.T) {
	s := serve(t, true)
	l := newLab(t, s.URL).with("GET", map[string]any{"verify": 1}).objects(s, "data", 3)
	end := l.values["endpoints"].([]any)[0].(map[string]any)
	end["verify"] = true
	r, err := New(l.job())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Connect(); err == nil || !strings.Contains(err.Error(), "is not trusted") || strings.Contains(err.Error(), "\n") {
		t.Errorf("an unknown certificate: %v", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	end["ca_file"] = ca
	if rows, out := l.run(0.2); len(rows) < 3 || out.Errors != 0 {
		t.Errorf("a known certificate: %+v", out)
	}
	end["verify"], end["ca_file"] = false, ""
	if rows, out := l.run(0.2); len(rows) < 3 || out.Errors != 0 {
		t.Errorf("not verified: %+v", out)
	}
	if class, _ := classify(fmt.Errorf("remote error: tls: certificate required")); class != "TlsFailed" {
		t.Errorf("an alert of the server is of class %s", class)
	}
	end["verify"], end["ca_file"] = true, "nowhere"
	if _, err := New(l.job()); err == nil {
		t.Error("a missing CA file passes")
	}
}

// An idle connection that the server closed does not make an operation fail.
func TestClosedAtRest(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("GET", map[string]any{"rate": 1.25, "workers": 1}).objects(s, "data", 1)
	time.AfterFunc(400*time.Millisecond, s.CloseClientConnections)
	rows, out := l.run(1.2)
	if len(rows) != 2 || out.Errors != 0 || out.Dials != 2 {
		t.Errorf("%d rows, %+v", len(rows), out)
	}
}

// A connection that is aborted while it dials ends as soon as it is open.
func TestAbortedWhileDialling(t *testing.T) {
	s := serve(t, false)
	r, err := New(newLab(t, s.URL).with("GET", nil).objects(s, "hang", 1).job())
	if err != nil {
		t.Fatal(err)
	}
	c := r.conns[0]
	c.alive.Store(1)
	c.abort(1)
	begun := time.Now()
	open, err := c.connect()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.Read(make([]byte, 1)); err == nil || time.Since(begun) > time.Second {
		t.Errorf("read %v after %s", err, time.Since(begun))
	}
}

func TestVirtualAddressing(t *testing.T) {
	s := serve(t, false)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	target, err := newTarget(job.Endpoint{URL: "http://localhost:" + port, Addressing: "virtual"})
	if err != nil || !target.virtual || target.address != "localhost:"+port {
		t.Errorf("%+v, %v", target, err)
	}
}

func TestEnoughAnswersAreCompared(t *testing.T) {
	for _, workers := range []int{1, 4, 100} {
		for _, answers := range []int64{1, 99, 300, 500, 1000, 20_000, 200_000} {
			r := &Run{job: &job.Job{Verify: 64}, bodies: [][]byte{{1}}}
			r.workers = make([]*worker, workers)
			for i := range r.workers {
				r.workers[i] = &worker{run: r, number: i}
			}
			compared, late := int64(0), int64(0)
			for n := range answers {
				w := r.workers[n%int64(workers)]
				if w.compares(&task{op: job.Get}) {
					compared++
					if n >= answers/2 {
						late++
					}
				}
				w.begun++
			}
			if compared < min(answers, enough) || 5*late < min(answers, enough) || answers > 100_000 && compared > answers/20 {
				t.Errorf("%d workers: %d of %d answers compared, %d in the second half", workers, compared, answers, late)
			}
			r.full.Store(true)
			w := r.workers[0]
			for w.begun = 6401; w.begun < 6463; w.begun++ {
				if w.compares(&task{op: job.Get}) {
					t.Fatal("an answer is compared without spare CPU")
				}
			}
		}
	}
}

func TestErrorCodesHoldNoKeys(t *testing.T) {
	t.Setenv("AWS_SESSION_TOKEN", "FwoGZXIvYXdzEJrTHISISTHETOKENofthisSESSION")
	for code, wanted := range map[string]string{
		"SlowDown": "SlowDown", "": "Http403", "THISISTHETOKENofthis": "Http403", "a sentence": "Http403", "a/b": "Http403",
	} {
		if class, _ := classify(&refusal{403, code, "no"}); class != wanted {
			t.Errorf("%q is the class %q", code, class)
		}
	}
}

func TestCompletedReadsTheBody(t *testing.T) {
	for body, class := range map[string]string{
		`<CompleteMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><ETag>"a-1"</ETag></CompleteMultipartUploadResult>`: "",
		"<?xml version=\"1.0\"?><CompleteMultipartUploadResult/>":                                                                       "",
		`<Error><Code>InternalError</Code></Error>`:                                                                                         "InternalError",
		`<Error xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Code>InternalError</Code></Error>`:                                         "InternalError",
		"":                               "WrongAnswer",
		"  ":                             "WrongAnswer",
		"<CompleteMultipartUploadResult": "WrongAnswer",
		"<html></html>":                  "WrongAnswer",
	} {
		found := ""
		if err := completed(answer{status: 200, body: []byte(body)}); err != nil {
			found, _ = classify(err)
		}
		if found != class {
			t.Errorf("%q: class %q, expected %q", body, found, class)
		}
	}
}
