package load

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"storelab/loadgen/job"
	"storelab/loadgen/ledger"
)

// written is an entry of a ledger, read without the package that writes it.
type written struct {
	Number, Generation uint32
	Worker             uint16
	Kind               byte
	_                  [5]byte
	Begin, Ack         int64
}

// kept adds a ledger to the job, and returns a function that reads the entries of each key, in order.
func (l *lab) kept() func() map[uint32][]written {
	name := filepath.Join(l.TempDir(), "ledger.0")
	if err := os.WriteFile(name, make([]byte, ledger.Page), 0o600); err != nil {
		l.Fatal(err)
	}
	l.values["ledger"] = name
	return func() map[uint32][]written {
		data, err := os.ReadFile(name)
		if err != nil {
			l.Fatal(err)
		}
		out := map[uint32][]written{}
		for at := ledger.Page; at < len(data); at += ledger.Entry {
			var e written
			binary.Decode(data[at:at+ledger.Entry], binary.LittleEndian, &e)
			if e.Begin != 0 {
				out[e.Number] = append(out[e.Number], e)
			}
		}
		return out
	}
}

var twelve = []byte("twelve bytes")

func (l *lab) rewrites(keys int, deletes float64) *lab {
	l.values["operations"] = []any{map[string]any{"op": "PUT"}, map[string]any{"op": "DELETE"}}
	l.values["rewrite"] = map[string]any{"keys": keys, "deletes": deletes, "stamp": twelve}
	return l
}

// expected returns the object after a write.
func (l *lab) expected(e written) []byte {
	out := bytes.Clone(l.bodies[(e.Number+e.Generation)%2])
	copy(out, twelve)
	binary.LittleEndian.PutUint64(out[12:], uint64(e.Number))
	binary.LittleEndian.PutUint32(out[20:], e.Generation)
	return out
}

func TestRewritesLeaveWhatTheLedgerSays(t *testing.T) {
	for _, payload := range []string{"unsigned", "sha256"} {
		s := serve(t, false)
		l := newLab(t, s.URL).rewrites(5, 0.3)
		l.values["workers"], l.values["payload"] = 3, payload
		entries := l.kept()
		rows, out := l.run(0.3)
		if out.Errors != 0 || len(rows) < 100 {
			t.Fatalf("%d rows, %+v", len(rows), out)
		}
		done := map[string]int{}
		for _, r := range rows {
			done[r.Op]++
			if want := map[string]int64{"PUT": size, "DELETE": 0}[r.Op]; r.Bytes != want || !strings.HasPrefix(r.Object, "put/000000") {
				t.Fatalf("%+v", r)
			}
		}
		kinds, noted, there := map[byte]int{}, 0, 0
		for number, history := range entries() {
			for i, e := range history {
				if e.Generation != uint32(i+1) || e.Ack < e.Begin || int(e.Worker) != int(number)%3 {
					t.Fatalf("%+v after %d others", e, i)
				}
				before := i > 0 && history[i-1].Kind != ledger.Delete
				if (e.Kind == ledger.New) == before {
					t.Fatalf("%+v although there is an object: %t", e, before)
				}
				kinds[e.Kind]++
				noted++
			}
			last := history[len(history)-1]
			got, ok := s.objects[fmt.Sprintf("put/%08d", number)]
			if ok != (last.Kind != ledger.Delete) || ok && !bytes.Equal(got, l.expected(last)) {
				t.Fatalf("%d: after %+v there is %q", number, last, got)
			}
			if ok {
				there++
			}
			if number >= 15 {
				t.Errorf("key %d of 3 workers with 5 each", number)
			}
		}
		if noted != len(rows) || there != s.count() || done["DELETE"] != kinds[ledger.Delete] || done["PUT"] != kinds[ledger.New]+kinds[ledger.Overwrite] {
			t.Errorf("%d noted, %d rows, %v, %v", noted, len(rows), kinds, done)
		}
		share := float64(kinds[ledger.Delete]) / float64(kinds[ledger.Delete]+kinds[ledger.Overwrite])
		if share < 0.15 || share > 0.45 {
			t.Errorf("%.2f of the objects that were there were deleted", share)
		}
	}
}

func TestLargeRewritesBeginWithTheirStamp(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).rewrites(2, 0.5)
	const large = 3*atOnce + 77
	for i := range l.bodies {
		l.bodies[i] = bytes.Repeat([]byte{byte(7 + i), 2, 3}, large/3+1)[:large]
		os.WriteFile(l.values["bodies"].([]string)[i], l.bodies[i], 0o600)
	}
	l.values["object_size"] = large
	entries := l.kept()
	l.run(0.3)
	for number, history := range entries() {
		if last := history[len(history)-1]; last.Kind != ledger.Delete && !bytes.Equal(s.objects[fmt.Sprintf("put/%08d", number)], l.expected(last)) {
			t.Errorf("%d: not what %+v wrote", number, last)
		}
	}
}

func TestAKeyIsLeftAloneAfterAnUnknownOutcome(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).rewrites(4, 0.5)
	l.values["uploads"] = []any{map[string]any{"bucket": 0, "prefix": "put/"}, map[string]any{"bucket": 0, "prefix": "slowdown/"}}
	entries := l.kept()
	rows, _ := l.run(0.2)
	failed := 0
	for _, r := range rows {
		if r.Error != "" {
			failed++
		}
	}
	unknown := 0
	for number, history := range entries() {
		for i, e := range history {
			if e.Ack == 0 {
				unknown++
				if i != len(history)-1 || number%2 != 1 {
					t.Fatalf("key %d was written again: %+v", number, history)
				}
			} else if number%2 == 1 {
				t.Fatalf("%+v was refused", e)
			}
		}
	}
	if unknown != failed || failed < 10 {
		t.Errorf("%d unknown, %d failed", unknown, failed)
	}
}

func TestPutsKeepALedger(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("PUT", nil)
	entries := l.kept()
	rows, _ := l.run(0.2)
	got := entries()
	if len(got) != len(rows) || len(rows) < 10 {
		t.Fatalf("%d keys, %d rows", len(got), len(rows))
	}
	for number, history := range got {
		e := history[0]
		if len(history) != 1 || e.Generation != 1 || e.Kind != ledger.New || e.Ack == 0 || !bytes.Equal(s.objects[fmt.Sprintf("put/%08d", number)], l.bodies[number%2]) {
			t.Fatalf("%d: %+v", number, history)
		}
	}
}

func TestWhatHangsIsInTheLedgerAsUnknown(t *testing.T) {
	s := serve(t, false)
	l := newLab(t, s.URL).with("PUT", map[string]any{"timeout_s": 5})
	l.values["uploads"] = []any{map[string]any{"bucket": 0, "prefix": "hang/"}}
	entries := l.kept()
	_, out := l.run(0.1)
	got := entries()
	if len(got) != 2 || out.Hung != 2 || got[0][0].Ack != 0 || got[1][0].Ack != 0 {
		t.Errorf("%v, %+v", got, out)
	}
}

// refused returns the error of the job.
func (l *lab) refused() error {
	text, err := json.Marshal(l.values)
	if err != nil {
		l.Fatal(err)
	}
	_, err = job.Parse(text)
	return err
}

func TestWrongRewritesAreRefused(t *testing.T) {
	for what, change := range map[string]map[string]any{
		"PUT and DELETE":  {"operations": []any{map[string]any{"op": "PUT"}}},
		"rewrite.keys":    {"rewrite": map[string]any{"keys": 0, "deletes": 0.5, "stamp": twelve}},
		"rewrite.deletes": {"rewrite": map[string]any{"keys": 1, "deletes": 1.5, "stamp": twelve}},
		"rewrite.stamp":   {"rewrite": map[string]any{"keys": 1, "deletes": 0.5, "stamp": []byte("short")}},
		"object_size":     {"object_size": 23},
		"part_size":       {"part_size": 50},
	} {
		l := newLab(t, "http://127.0.0.1:1").rewrites(1, 0.5)
		for k, v := range change {
			l.values[k] = v
		}
		if what == "object_size" {
			for _, name := range l.values["bodies"].([]string) {
				os.Truncate(name, 23)
			}
		}
		if err := l.refused(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
