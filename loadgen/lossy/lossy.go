// Package lossy is an S3 proxy with deliberate faults: it acknowledges some writes without storing them. The check of
// acknowledged writes with the ledger must detect this. Requests are forwarded unchanged, with the Host that the client
// signed.
//
// The proxy counts faults that are still visible. A later write of the same key that is forwarded and acknowledged
// repairs a fault.
package lossy

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kinds of faults.
const (
	Drop      = "drop"      // a PUT or DELETE is acknowledged, but not forwarded
	Flip      = "flip"      // one byte of an upload is changed
	Stale     = "stale"     // after an overwrite, the object before it is served
	Resurrect = "resurrect" // a deleted object is served again
)

// All lists all kinds.
var All = []string{Drop, Flip, Stale, Resurrect}

// Proxy forwards requests to Target (host:port). Of the writes with a path that contains Below, one in Every has a fault.
type Proxy struct {
	Target string
	Lies   []string // kinds of faults; empty: no faults
	Every  int
	Seed   uint64
	Below  string

	mu     sync.Mutex
	rng    *rand.Rand
	keys   map[string]*key
	faults map[string]int // faults so far, by kind
	once   sync.Once
	away   *http.Client
}

// content identifies the object of a path by a checksum of its bytes.
type content struct {
	there bool
	sum   uint64
}

// key is the state of one path.
type key struct {
	acked content // content that was acknowledged to the client
	real  content // content that the server stores
	body  []byte  // body of the last acknowledged write, if a fault may need it
	serve []byte  // content that is served instead of the server's object
	lie   string  // kind of the last fault
}

var sums = maphash.MakeSeed()

func holds(body []byte) content { return content{true, maphash.Bytes(sums, body)} }

// wrong returns whether the served object differs from the acknowledged one.
func (k *key) wrong() bool {
	served := k.real
	if k.serve != nil {
		served = holds(k.serve)
	}
	return served != k.acked
}

// Sums counts all faults so far, and those that no later write repaired, by kind.
func (p *Proxy) Sums() (all, unrepaired map[string]int) {
	p.once.Do(p.begin)
	p.mu.Lock()
	defer p.mu.Unlock()
	unrepaired = map[string]int{}
	for _, k := range p.keys {
		if k.wrong() {
			unrepaired[k.lie]++
		}
	}
	return maps.Clone(p.faults), unrepaired
}

func (p *Proxy) begin() {
	p.rng = rand.New(rand.NewPCG(p.Seed, 0))
	p.keys, p.faults = map[string]*key{}, map[string]int{}
	p.away = &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1 << 12, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	p.once.Do(p.begin)
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	plain := q.URL.RawQuery == "" && strings.Contains(q.URL.Path, p.Below) && len(p.Lies) > 0
	switch {
	case plain && (q.Method == "PUT" || q.Method == "DELETE"):
		p.write(w, q, body)
	case plain && q.Method == "GET":
		if instead := p.instead(q.URL.Path); instead != nil {
			http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(instead))
			return
		}
		p.pass(w, q, body)
	default:
		p.pass(w, q, body)
	}
}

func (p *Proxy) instead(path string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.keys[path]; k != nil {
		return k.serve
	}
	return nil
}

// write decides at random whether a write has a fault, and of which kind.
func (p *Proxy) write(w http.ResponseWriter, q *http.Request, body []byte) {
	p.mu.Lock()
	k := p.keys[q.URL.Path]
	if k == nil {
		k = &key{}
		p.keys[q.URL.Path] = k
	}
	before, lie := k.body, ""
	if p.rng.IntN(p.Every) == 0 {
		able := []string{Drop}
		switch {
		case q.Method == "DELETE" && before != nil:
			able = append(able, Resurrect)
		case q.Method == "PUT" && len(body) > 0:
			able = append(able, Flip)
			if before != nil {
				able = append(able, Stale)
			}
		}
		able = slices.DeleteFunc(able, func(kind string) bool { return !slices.Contains(p.Lies, kind) })
		if len(able) > 0 {
			lie = able[p.rng.IntN(len(able))]
		}
	}
	at := 0
	if lie == Flip {
		at = p.rng.IntN(len(body))
	}
	p.mu.Unlock()

	sent := body
	if lie == Flip {
		sent = bytes.Clone(body)
		sent[at] ^= 0x10
	}
	if lie != Drop {
		if !p.pass(w, q, sent) {
			return
		}
	} else if q.Method == "PUT" {
		w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	put := q.Method == "PUT"
	if lie != Drop {
		k.real, k.serve = content{}, nil
		if put {
			k.real = holds(sent)
		}
	}
	if lie == Stale || lie == Resurrect {
		k.serve = before
	}
	k.acked, k.body = content{}, nil
	if put {
		k.acked = holds(body)
		if p.remembers() {
			k.body = body
		}
	}
	if lie != "" {
		k.lie = lie
		p.faults[lie]++
	}
}

// remembers returns whether a kind of fault needs earlier uploads.
func (p *Proxy) remembers() bool {
	return slices.Contains(p.Lies, Stale) || slices.Contains(p.Lies, Resurrect)
}

// pass forwards a request and its answer; false: it was not acknowledged.
func (p *Proxy) pass(w http.ResponseWriter, q *http.Request, body []byte) bool {
	on, err := http.NewRequestWithContext(q.Context(), q.Method, "http://"+p.Target+q.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return false
	}
	on.Header, on.Host, on.ContentLength = q.Header.Clone(), q.Host, int64(len(body))
	on.URL.RawPath = q.URL.RawPath
	answer, err := p.away.Do(on)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return false
	}
	defer answer.Body.Close()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		panic(http.ErrAbortHandler) // so that the client notices the incomplete answer
	}
	return answer.StatusCode/100 == 2
}

// Kinds reads a list of faults, for example `drop,flip`, `none` or `all`.
func Kinds(text string) ([]string, error) {
	switch text {
	case "none":
		return nil, nil
	case "all":
		return All, nil
	}
	kinds := strings.Split(text, ",")
	for _, kind := range kinds {
		if !slices.Contains(All, kind) {
			return nil, fmt.Errorf("%q is not a kind of fault: use none, all, or some of %s", kind, strings.Join(All, ","))
		}
	}
	return kinds, nil
}
