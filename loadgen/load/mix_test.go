package load

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"storelab/loadgen/job"
)

// pantry is a server that stores objects, and lists them with `start-after` and `max-keys`. lie, if given, may change an
// answer.
type pantry struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte
	most    int            // maximum number of objects at a time
	names   map[string]int // number of requests by method and key
	lie     func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool
}

func newPantry(t *testing.T) *pantry {
	s := &pantry{objects: map[string][]byte{}, names: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *pantry) answer(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	_, key, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[q.Method+" "+key]++
	if s.lie != nil && s.lie(w, q, key, s) {
		return
	}
	switch object, there := s.objects[key]; {
	case key == "":
		s.list(w, q)
	case q.Method == "PUT":
		s.objects[key] = body
		s.most = max(s.most, len(s.objects))
	case q.Method == "DELETE":
		delete(s.objects, key)
		w.WriteHeader(204)
	case !there:
		w.WriteHeader(404)
		io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(object))
	}
}

func (s *pantry) list(w io.Writer, q *http.Request) {
	asked := q.URL.Query()
	var most int
	fmt.Sscan(asked.Get("max-keys"), &most)
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, asked.Get("prefix")) && key > asked.Get("start-after") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	page := keys[:min(most, len(keys))]
	fmt.Fprintf(w, "<ListBucketResult><IsTruncated>%t</IsTruncated>", len(page) < len(keys))
	if len(page) < len(keys) {
		fmt.Fprintf(w, "<NextContinuationToken>more</NextContinuationToken>")
	}
	for _, key := range page {
		fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", key, len(s.objects[key]))
	}
	io.WriteString(w, "</ListBucketResult>")
}

// mixed returns a job of a mix at a pantry, with `start` objects of 10 B, 11 B, …, and at most `most` objects.
func mixed(t *testing.T, s *pantry, shares map[string]float64, start, most int, more map[string]any) *lab {
	l := newLab(t, s.URL)
	var operations []any
	for _, op := range []string{"GET", "PUT", "HEAD", "LIST", "DELETE"} {
		if shares[op] > 0 {
			operations = append(operations, map[string]any{"op": op, "share": shares[op]})
		}
	}
	var sizes []int64
	s.mu.Lock() // a request of a run before this one may still be answered
	defer s.mu.Unlock()
	for n := range start {
		sizes = append(sizes, int64(10+n%50))
		s.objects[fmt.Sprintf("put/%08d", n)] = l.bodies[n%2][:10+n%50]
	}
	l.values["operations"] = operations
	l.values["population"] = map[string]any{"start": sizes, "most": most}
	l.values["sizes"] = map[string]any{"size": []int{0, 20, 100}, "count": []int{1, 2, 3}}
	l.values["verify"], l.values["page_size"], l.values["workers"] = 1, 7, 6
	for name, value := range more {
		l.values[name] = value
	}
	return l
}

var every = map[string]float64{"GET": 40, "PUT": 20, "HEAD": 15, "LIST": 10, "DELETE": 15}

func TestAMixAtAnHonestServerHasNoError(t *testing.T) {
	s := newPantry(t)
	rows, out := mixed(t, s, every, 20, 30, map[string]any{"rate": 0}).run(1.0)
	if out.Errors != 0 || len(rows) < 1000 {
		t.Fatalf("%d operations, %d errors: %v", len(rows), out.Errors, out.Messages)
	}
	counts, bytes := map[string]int{}, map[string]int64{}
	for _, r := range rows {
		counts[r.Op]++
		bytes[r.Op] += r.Bytes
		if r.Count != 1 || r.Requests != 1 || (r.Object == "") != (r.Op == "LIST") {
			t.Fatalf("row %+v", r)
		}
	}
	for op, share := range every {
		if got := float64(counts[op]) / float64(len(rows)); math.Abs(got-share/100) > 0.01 {
			t.Errorf("%s: %.4f of the operations instead of %.2f", op, got, share/100)
		}
	}
	if bytes["HEAD"]+bytes["LIST"]+bytes["DELETE"] != 0 || bytes["GET"] == 0 || bytes["PUT"] == 0 {
		t.Errorf("bytes %v", bytes)
	}
	if s.most > 30 {
		t.Errorf("%d objects at a time, at most 30 were asked for", s.most)
	}
	if len(s.objects) != out.Mixed.There || out.Mixed.Left != 0 || out.Mixed.Overwritten == 0 || out.Mixed.New == 0 {
		t.Errorf("%d objects, told %+v", len(s.objects), *out.Mixed)
	}
	if out.Compared < int64(counts["GET"]) || out.Differ != 0 || out.Listed.Pages != int64(counts["LIST"]) {
		t.Errorf("compared %d of %d, %d pages of %d", out.Compared, counts["GET"], out.Listed.Pages, counts["LIST"])
	}
}

func TestAMixAsksForNothingThatIsDeleted(t *testing.T) {
	s := newPantry(t)
	_, out := mixed(t, s, map[string]float64{"GET": 30, "HEAD": 10, "PUT": 30, "DELETE": 30}, 12, 12, nil).run(0.7)
	if out.Errors != 0 {
		t.Errorf("%v", out.Messages)
	}
	for name, n := range s.names {
		if strings.HasPrefix(name, "DELETE") && n > 1 {
			t.Errorf("%s: %d times", name, n)
		}
	}
}

func TestAMixTouchesOnlyItsOwnObjects(t *testing.T) {
	s := newPantry(t)
	s.objects["put/mine"], s.objects["other"] = []byte("mine"), []byte("other")
	_, out := mixed(t, s, map[string]float64{"GET": 1, "PUT": 2, "DELETE": 2}, 10, 20, nil).run(0.3)
	if string(s.objects["put/mine"]) != "mine" || string(s.objects["other"]) != "other" || out.Errors != 0 {
		t.Errorf("a foreign object was touched, or an error: %v", out.Messages)
	}
}

func TestLiesInAMixAreErrorsByName(t *testing.T) {
	deleted := ""
	page := func(w http.ResponseWriter, text string) bool {
		io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated>"+text+"</ListBucketResult>")
		return true
	}
	row := func(key string, size int) string {
		return fmt.Sprintf("<Contents><Key>%s</Key><Size>%d</Size></Contents>", key, size)
	}
	for class, lie := range map[string]func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool{
		"KeyMissing": func(w http.ResponseWriter, _ *http.Request, key string, _ *pantry) bool {
			return key == "" && page(w, "")
		},
		"KeyForeign": func(w http.ResponseWriter, _ *http.Request, key string, _ *pantry) bool {
			return key == "" && page(w, row("put/99999999", 1))
		},
		"KeyDoubled": func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool {
			return key == "" && len(s.objects["put/00000019"]) > 0 && page(w, strings.Repeat(row("put/00000019", len(s.objects["put/00000019"])), 2))
		},
		"KeySize": func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool {
			return key == "" && page(w, row("put/00000019", 77))
		},
		"KeyOrder": func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool {
			return key == "" && q.URL.Query().Get("start-after") < "put/00000017" &&
				page(w, row("put/00000019", len(s.objects["put/00000019"]))+row("put/00000018", len(s.objects["put/00000018"])))
		},
		"KeyDeleted": func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool {
			if q.Method == "DELETE" && deleted == "" && s.names["DELETE "+key] > 0 {
				deleted = key
			}
			return key == "" && deleted != "" && q.URL.Query().Get("start-after") < deleted && s.names["GET "]%3 == 0 && page(w, row(deleted, 5))
		},
		"PageTooLong": func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool {
			return key == "" && page(w, strings.Repeat(row("put/00000019", 1), 8))
		},
		"WrongAnswer": func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool {
			if q.Method != "GET" || key == "" || len(s.objects[key]) == 0 {
				return false
			}
			w.Write(bytes.Repeat([]byte{0xee}, len(s.objects[key])))
			return true
		},
		"NoSuchKey": func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool {
			if q.Method == "PUT" { // lost
				s.objects[key] = nil
				delete(s.objects, key)
				return true
			}
			return false
		},
	} {
		t.Run(class, func(t *testing.T) {
			s := newPantry(t)
			s.lie = lie
			shares := map[string]float64{"GET": 5, "PUT": 2, "LIST": 5, "DELETE": 1}
			_, out := mixed(t, s, shares, 20, 20, nil).run(0.5)
			if out.ByClass[class] == 0 {
				t.Errorf("classes %v", out.ByClass)
			}
		})
	}
}

// A failed operation may have taken effect. Its object is not read any more, a DELETE removes it, and no error is reported.
func TestWhatFailedIsNotAskedFor(t *testing.T) {
	s := newPantry(t)
	failing := map[string]bool{}
	s.lie = func(w http.ResponseWriter, q *http.Request, key string, s *pantry) bool {
		if q.Method != "PUT" && q.Method != "DELETE" {
			if failing[key] {
				t.Errorf("%s %s after it had failed", q.Method, key)
			}
			return false
		}
		if s.names[q.Method+" "+key]%2 == 0 || (int(key[len(key)-1])+s.names[q.Method+" "+key])%5 != 0 {
			return false
		}
		if q.Method == "PUT" { // the upload was stored in spite of the error
			s.objects[key] = []byte("late")
		}
		failing[key] = true
		w.WriteHeader(500)
		return true
	}
	rows, out := mixed(t, s, every, 20, 30, nil).run(0.8)
	if out.Errors == 0 || len(failing) < 5 {
		t.Fatalf("nothing failed: %d rows", len(rows))
	}
	if out.ByClass["Http500"] != out.Errors {
		t.Errorf("alarms of an honest server: %v", out.ByClass)
	}
	if s.most > 60 {
		t.Errorf("%d objects at a time", s.most)
	}
}

func TestOperationsComeByTheirShares(t *testing.T) {
	shares := []float64{70.5, 15, 9.3, 5, 0.2}
	d := newDeck(shares, rand.New(rand.NewPCG(7, 7)))
	n := 100_300
	var counts [5]float64
	same, last := 0.0, -1
	for range n {
		kind := d.deal(func(int) bool { return true })
		counts[kind]++
		if kind == last {
			same++
		}
		last = kind
	}
	square, again := 0.0, 0.0
	for i, share := range shares {
		due := share / 100 * float64(n)
		square += (counts[i] - due) * (counts[i] - due) / due
		again += share / 100 * share / 100
		if math.Abs(counts[i]-due) > 100 {
			t.Errorf("operation %d: %v times instead of %v", i, counts[i], due)
		}
	}
	if square > 18.47 { // chi-square of 4 degrees of freedom at 0.001
		t.Errorf("chi-square %.1f", square)
	}
	// In random order: two in a row are alike as often as independent draws would be (within five standard deviations).
	if got := same / float64(n); math.Abs(got-again) > 5*math.Sqrt(again*(1-again)/float64(n)) {
		t.Errorf("%.4f of the neighbours are alike, %.4f were expected", got, again)
	}
}

func TestAnOperationThatIsNotPossibleWaits(t *testing.T) {
	d := newDeck([]float64{1, 1}, rand.New(rand.NewPCG(1, 2)))
	for range 30 {
		if kind := d.deal(func(kind int) bool { return kind == 0 }); kind != 0 {
			t.Fatalf("dealt %d", kind)
		}
	}
	first := 0
	for range 60 {
		if d.deal(func(int) bool { return true }) == 1 {
			first++
		}
	}
	if first < 40 || d.lost[1] != 0 {
		t.Errorf("%d of 60 were those that had waited, %d lost", first, d.lost[1])
	}
	if d.deal(func(int) bool { return false }) != -1 {
		t.Error("dealt what is not possible")
	}
	for range 5000 {
		if d.deal(func(kind int) bool { return kind == 0 }) != 0 {
			t.Fatal("the other operation stopped")
		}
	}
	if d.lost[1] < 4000 || len(d.cards) > 3*round {
		t.Errorf("%d lost, %d cards are kept", d.lost[1], len(d.cards))
	}
}

func TestSizesAreDrawnFromTheirDistribution(t *testing.T) {
	rng, n := rand.New(rand.NewPCG(3, 4)), 200_000
	table := newSizer(job.Sizes{Size: []int64{10, 20, 4000}, Count: []float64{5, 0, 15}})
	counts := map[int64]float64{}
	for range n {
		counts[table.draw(rng)]++
	}
	due := float64(n) / 4
	if d := counts[10] - due; d*d/due+d*d/(3*due) > 10.83 || counts[20] != 0 || counts[10]+counts[4000] != float64(n) { // 0.001 of 1 degree
		t.Errorf("counts %v", counts)
	}
	// Log-normal: shares between the quantiles of the cut distribution, by the error function.
	z := newSizer(job.Sizes{Mean: 10_000, Sigma: 1.2, Least: 100, Most: 200_000})
	below := func(x float64) float64 {
		return 0.5 * math.Erfc(-(math.Log(x)-(math.Log(10_000)-0.72))/(1.2*math.Sqrt2))
	}
	edges := []float64{99.5, 1000.5, 3000.5, 6000.5, 12_000.5, 30_000.5, 80_000.5, 200_000.5}
	seen := make([]float64, len(edges)-1)
	for range n {
		size := z.draw(rng)
		for i := range seen {
			if float64(size) > edges[i] && float64(size) < edges[i+1] {
				seen[i]++
			}
		}
	}
	square, whole, sum := 0.0, below(edges[len(edges)-1])-below(edges[0]), 0.0
	for i := range seen {
		due := float64(n) * (below(edges[i+1]) - below(edges[i])) / whole
		square += (seen[i] - due) * (seen[i] - due) / due
		sum += seen[i]
	}
	if square > 22.46 || sum != float64(n) { // 0.001 of 6 degrees of freedom
		t.Errorf("chi-square %.1f, %v of %d within the bounds", square, sum, n)
	}
	if fixed := newSizer(job.Sizes{Fixed: 7}); fixed.draw(rng) != 7 {
		t.Error("a fixed size")
	}
}

// The largest distance of n sorted values in (0, 1) from the uniform distribution, times sqrt(n); 1.95 at 0.001.
func kolmogorov(values []float64) float64 {
	slices.Sort(values)
	most, n := 0.0, float64(len(values))
	for i, v := range values {
		most = max(most, float64(i+1)/n-v, v-float64(i)/n)
	}
	return most * math.Sqrt(n)
}

func TestPoissonGapsAreExponential(t *testing.T) {
	s := newPantry(t)
	j := mixed(t, s, every, 20, 30, map[string]any{"rate": 8000, "rate_stride": 4, "arrivals": "poisson", "seed": 5}).job()
	j.StartNs, j.DeadlineNs = 1e9, 21e9
	a := newArrivals(&Run{job: j})
	var gaps []float64
	last := j.StartNs
	for {
		due := a.take()
		if due >= j.DeadlineNs {
			break
		}
		gaps = append(gaps, 1-math.Exp(-float64(due-last)/500_000)) // mean: four clients share 8000/s
		last = due
	}
	if d := float64(len(gaps)) - 40_000; math.Abs(d) > 5*200 {
		t.Errorf("%d arrivals instead of 40 000", len(gaps))
	}
	if k := kolmogorov(gaps); k > 1.95 {
		t.Errorf("Kolmogorov-Smirnov %.2f", k)
	}
	b := newArrivals(&Run{job: j}) // no worker takes any, so all are missed
	if n := b.chance.before(20e9); n != int64(len(gaps)) {
		t.Errorf("%d arrivals were missed of %d", n, len(gaps))
	}
}

func TestPoissonArrivalsInARun(t *testing.T) {
	s := newPantry(t)
	rows, out := mixed(t, s, every, 20, 30, map[string]any{"rate": 500, "arrivals": "poisson"}).run(1.0)
	if out.Errors != 0 || math.Abs(float64(len(rows))-500) > 5*math.Sqrt(500) || out.NotBegun > 5 {
		t.Errorf("%d operations, %d errors, %d not begun", len(rows), out.Errors, out.NotBegun)
	}
	for _, r := range rows {
		if r.IntendedNs == 0 || r.StartNs < r.IntendedNs {
			t.Fatalf("row %+v", r)
		}
	}
}

func TestNamedUploadsAreMadeOnce(t *testing.T) {
	s := newPantry(t)
	l := newLab(t, s.URL).with("PUT", map[string]any{"workers": 3})
	delete(l.values, "uploads")
	var keys []string
	var zero, bodies, sizes []int
	for i := range 50 {
		keys, zero, bodies, sizes = append(keys, fmt.Sprint("k/", i)), append(zero, 0), append(bodies, i%2), append(sizes, i)
	}
	l.values["objects"] = map[string]any{"key": keys, "bucket": zero, "body": bodies, "size": sizes}
	rows, out := l.run(20)
	if len(rows) != 50 || out.Errors != 0 || out.Bytes != 49*50/2 {
		t.Fatalf("%d rows, %d errors, %d bytes", len(rows), out.Errors, out.Bytes)
	}
	for i, key := range keys {
		if !bytes.Equal(s.objects[key], l.bodies[i%2][:i]) || s.names["PUT "+key] != 1 {
			t.Errorf("%s: %d B, %d times", key, len(s.objects[key]), s.names["PUT "+key])
		}
	}
}
