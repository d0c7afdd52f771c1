package lossy

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// memory is a correct store.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	hosts   map[string]bool
}

func (m *memory) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[q.Host] = true
	switch q.Method {
	case "PUT":
		m.objects[q.URL.Path] = body
		w.Header().Set("ETag", `"x"`)
	case "DELETE":
		delete(m.objects, q.URL.Path)
		w.WriteHeader(204)
	default:
		data, ok := m.objects[q.URL.Path]
		if !ok {
			w.WriteHeader(404)
			return
		}
		w.Write(data)
	}
}

func behind(t *testing.T, p *Proxy) (string, *memory) {
	m := &memory{objects: map[string][]byte{}, hosts: map[string]bool{}}
	store := httptest.NewServer(m)
	p.Target, p.Below = strings.TrimPrefix(store.URL, "http://"), "/put/"
	front := httptest.NewServer(p)
	t.Cleanup(func() { front.Close(); store.Close() })
	return front.URL, m
}

func ask(t *testing.T, method, url string, body []byte) (int, []byte) {
	t.Helper()
	q, _ := http.NewRequest(method, url, bytes.NewReader(body))
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, data
}

// rounds writes at random, compares the objects at the end with the acknowledged writes, and returns the differences.
func rounds(t *testing.T, url string, keys, n int) map[string]int {
	rng := rand.New(rand.NewPCG(7, 7))
	acked := map[string][]byte{}
	for i := range n {
		path := fmt.Sprintf("/b/put/%03d", rng.IntN(keys))
		if _, there := acked[path]; there && rng.IntN(3) == 0 {
			if status, _ := ask(t, "DELETE", url+path, nil); status != 204 {
				t.Fatal(status)
			}
			delete(acked, path)
		} else {
			body := []byte(fmt.Sprintf("version %d of %s", i, path))
			if status, _ := ask(t, "PUT", url+path, body); status != 200 {
				t.Fatal(status)
			}
			acked[path] = body
		}
	}
	out := map[string]int{}
	for k := range keys {
		path := fmt.Sprintf("/b/put/%03d", k)
		status, got := ask(t, "GET", url+path, nil)
		want, there := acked[path]
		switch {
		case there && status == 404:
			out["lost"]++
		case there && !bytes.Equal(got, want):
			out["other"]++
		case !there && status == 200:
			out["back"]++
		}
	}
	return out
}

func TestAnHonestProxyChangesNothing(t *testing.T) {
	p := &Proxy{Every: 1}
	url, m := behind(t, p)
	if wrong := rounds(t, url, 40, 600); len(wrong) > 0 {
		t.Error(wrong)
	}
	if all, unrepaired := p.Sums(); len(all)+len(unrepaired) > 0 {
		t.Error(all, unrepaired)
	}
	if len(m.hosts) != 1 || !m.hosts[strings.TrimPrefix(url, "http://")] {
		t.Errorf("Host as the client signed it: %v", m.hosts)
	}
}

func TestTheProxyKnowsWhichLiesStand(t *testing.T) {
	for _, kind := range append(All, "all") {
		lies, _ := Kinds(kind)
		p := &Proxy{Lies: lies, Every: 20, Seed: 3}
		url, _ := behind(t, p)
		wrong := rounds(t, url, 200, 600)
		all, unrepaired := p.Sums()
		sum := func(m map[string]int) (n int) {
			for _, v := range m {
				n += v
			}
			return n
		}
		if sum(wrong) == 0 || sum(wrong) != sum(unrepaired) || sum(all) < sum(unrepaired) || sum(all) < 5 {
			t.Errorf("%s: %v read, %v remain of %v false answers", kind, wrong, unrepaired, all)
		}
		can := map[string][]string{Drop: {"lost", "other", "back"}, Flip: {"other"}, Stale: {"other"}, Resurrect: {"back"}}[kind]
		for name := range wrong {
			if can != nil && !strings.Contains(strings.Join(can, " "), name) {
				t.Errorf("%s: %v", kind, wrong)
			}
		}
	}
}

func TestTheRateOfLies(t *testing.T) {
	p := &Proxy{Lies: []string{Flip}, Every: 10}
	url, _ := behind(t, p)
	for i := range 2000 {
		ask(t, "PUT", fmt.Sprintf("%s/b/put/%d", url, i), []byte("x"))
		ask(t, "PUT", fmt.Sprintf("%s/b/data/%d", url, i%10), []byte("x"))
	}
	if all, _ := p.Sums(); all[Flip] < 140 || all[Flip] > 260 {
		t.Errorf("%v of 2000 at 1 in 10", all)
	}
	for i := range 10 {
		if _, got := ask(t, "GET", fmt.Sprintf("%s/b/data/%d", url, i), nil); string(got) != "x" {
			t.Errorf("a key outside of what is lied about: %q", got)
		}
	}
}

func TestKinds(t *testing.T) {
	if k, err := Kinds("drop,flip"); err != nil || len(k) != 2 {
		t.Error(k, err)
	}
	if _, err := Kinds("drop,white"); err == nil || !strings.Contains(err.Error(), "white") {
		t.Error(err)
	}
}
